//! The rules, from one file, and their findings.

use serde::{Deserialize, Serialize};

use crate::expression::{parse, Node};
use crate::snapshot::{Value, Window};

/// The rules of this release.
pub const RULES: &str = include_str!("rules.toml");

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Users notice the problem now.
    Critical,
    /// Users will notice it.
    Warning,
    /// Something could be better.
    Note,
}

impl Level {
    pub fn name(self) -> &'static str {
        match self {
            Level::Critical => "critical",
            Level::Warning => "warning",
            Level::Note => "note",
        }
    }
}

/// A rule as it is in the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    id: String,
    level: Level,
    /// Servers to which it applies: `mariadb`, `mysql`; all if missing.
    server: Option<String>,
    /// Versions to which it applies, from the first up to but without the second: `10.6`.
    from: Option<String>,
    below: Option<String>,
    when: String,
    /// The texts have expressions in braces: `{rate(status.Connections)}`, `{mem.MemTotal|bytes}`.
    seen: String,
    means: String,
    set: String,
    check: String,
    /// The test that creates the problem on a real server, or `not here:` and the reason why there
    /// is none.
    proven: String,
}

#[derive(Deserialize)]
struct File {
    rule: Vec<Written>,
}

pub struct Rule {
    pub id: String,
    pub level: Level,
    pub proven: String,
    server: Option<String>,
    from: Option<(u32, u32)>,
    below: Option<(u32, u32)>,
    when: Node,
    seen: Template,
    means: Template,
    set: Template,
    check: Template,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    pub rule: String,
    pub level: Level,
    pub seen: String,
    pub means: String,
    pub set: String,
    pub check: String,
}

/// A rule that could not be evaluated, and the value that it lacks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unasked {
    pub rule: String,
    pub missing: String,
}

/// `10.11.18-MariaDB` -> (10, 11)
fn version(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// Reads a file of rules; an error names the rule.
pub fn read(text: &str) -> Result<Vec<Rule>, String> {
    let file: File = toml::from_str(text).map_err(|e| e.to_string())?;
    let mut rules: Vec<Rule> = Vec::new();
    for rule in file.rule {
        let id = rule.id.clone();
        let rule = compile(rule).map_err(|e| format!("rule {id}: {e}"))?;
        if rules.iter().any(|other| other.id == rule.id) {
            return Err(format!("rule {id}: there are two"));
        }
        rules.push(rule);
    }
    Ok(rules)
}

fn compile(rule: Written) -> Result<Rule, String> {
    let bound = |text: Option<String>| match text {
        None => Ok(None),
        Some(text) => version(&text).map(Some).ok_or_else(|| format!("'{text}' is no version")),
    };
    Ok(Rule {
        when: parse(&rule.when)?,
        seen: Template::new(&rule.seen)?,
        means: Template::new(&rule.means)?,
        set: Template::new(&rule.set)?,
        check: Template::new(&rule.check)?,
        from: bound(rule.from)?,
        below: bound(rule.below)?,
        id: rule.id,
        level: rule.level,
        proven: rule.proven,
        server: rule.server,
    })
}

impl Rule {
    /// Whether the rule applies to this server, as far as that is known.
    fn concerns(&self, window: &Window<'_>) -> bool {
        let text = match window.value("var.version") {
            Some(Value::Text(text)) => text.clone(),
            Some(Value::Number(n)) => n.to_string(),
            None => return true,
        };
        let kind = if text.contains("MariaDB") { "mariadb" } else { "mysql" };
        let version = version(&text);
        self.server.as_deref().is_none_or(|server| server == kind)
            && self.from.is_none_or(|from| version >= Some(from))
            && self.below.is_none_or(|below| version < Some(below))
    }

    /// Evaluates the rule. `Err` has the name of a missing value.
    pub fn ask(&self, window: &Window<'_>) -> Result<Option<Finding>, String> {
        if !self.concerns(window) || !self.when.is_true(window)? {
            return Ok(None);
        }
        Ok(Some(Finding {
            rule: self.id.clone(),
            level: self.level,
            seen: self.seen.text(window),
            means: self.means.text(window),
            set: self.set.text(window),
            check: self.check.text(window),
        }))
    }
}

/// Findings of all `rules`, the worst first, and the rules that could not be evaluated.
pub fn ask(rules: &[Rule], window: &Window<'_>) -> (Vec<Finding>, Vec<Unasked>) {
    let (mut found, mut unasked) = (Vec::new(), Vec::new());
    for rule in rules {
        match rule.ask(window) {
            Ok(finding) => found.extend(finding),
            Err(missing) => unasked.push(Unasked { rule: rule.id.clone(), missing }),
        }
    }
    found.sort_by_key(|finding| finding.level);
    (found, unasked)
}

enum Piece {
    Plain(String),
    /// An expression and its unit.
    Value(Node, String),
}

struct Template(Vec<Piece>);

impl Template {
    fn new(text: &str) -> Result<Template, String> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some((plain, more)) = rest.split_once('{') {
            let (inside, more) = more.split_once('}').ok_or("a } is missing")?;
            let (expression, unit) = inside.split_once('|').unwrap_or((inside, ""));
            if !["", "bytes", "seconds"].contains(&unit) {
                return Err(format!("'{unit}' is no unit"));
            }
            pieces.push(Piece::Plain(plain.to_owned()));
            pieces.push(Piece::Value(parse(expression)?, unit.to_owned()));
            rest = more;
        }
        pieces.push(Piece::Plain(rest.to_owned()));
        Ok(Template(pieces))
    }

    fn text(&self, window: &Window<'_>) -> String {
        let piece = |piece: &Piece| match piece {
            Piece::Plain(text) => text.clone(),
            Piece::Value(node, unit) => match node.value(window) {
                Ok(Value::Text(text)) => text,
                Ok(Value::Number(n)) if unit == "bytes" => bytes(n),
                Ok(Value::Number(n)) if unit == "seconds" => frond_event::numbers::duration(n),
                Ok(Value::Number(n)) => frond_event::numbers::count(n),
                Err(_) => "?".into(),
            },
        };
        self.0.iter().map(piece).collect()
    }
}

/// `1.5 GiB`
fn bytes(n: f64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let (mut n, mut unit) = (n, 0);
    while n.abs() >= 1023.5 && unit + 1 < UNITS.len() {
        n /= 1024.0;
        unit += 1;
    }
    let digits = usize::from(unit > 0 && n.abs() < 9.95);
    format!("{n:.digits$} {}", UNITS[unit])
}
