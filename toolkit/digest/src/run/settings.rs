//! The caller's settings.

use crate::nearest::did_you_mean;
use crate::stats::waiting::Patterns;
use crate::stats::Shared;
use frond_event::Micros;
use frond_event::{Flag, Metric};
use frond_querylog::input::Format;
use frond_querylog::slowlog::{self, Stamped};
use frond_sqltext::Dialect;

/// What makes two statements one class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum GroupBy {
    #[default]
    Fingerprint,
    Db,
    User,
    Host,
    /// The tables of the statement, together, with their databases.
    Tables,
    /// The statement's verb.
    Kind,
    /// Verb and tables.
    Distill,
    Ip,
    ThreadId,
    /// The error's number.
    Error,
    Routine,
    /// Yes or no.
    Flag(Flag),
    /// An attribute that is not well known, given by name.
    Attribute(String),
    /// Several of the others, but not `Fingerprint` and `Distill`, together.
    Several {
        name: String,
        parts: Vec<GroupBy>,
    },
}

/// Groupings that are no attributes of the log.
const WORDS: [&str; 11] = [
    "fingerprint",
    "db",
    "user",
    "host",
    "ip",
    "tables",
    "kind",
    "distill",
    "thread_id",
    "error",
    "routine",
];

impl std::str::FromStr for GroupBy {
    type Err = String;

    fn from_str(text: &str) -> Result<GroupBy, String> {
        if text.contains(',') {
            return several(text);
        }
        Ok(match text.to_ascii_lowercase().as_str() {
            "fingerprint" | "class" => GroupBy::Fingerprint,
            "db" | "database" | "schema" => GroupBy::Db,
            "user" => GroupBy::User,
            "host" => GroupBy::Host,
            "table" | "tables" => GroupBy::Tables,
            "kind" | "verb" => GroupBy::Kind,
            "distill" => GroupBy::Distill,
            "ip" => GroupBy::Ip,
            "thread_id" | "thread" => GroupBy::ThreadId,
            "error" | "last_errno" => GroupBy::Error,
            "routine" | "stored_routine" => GroupBy::Routine,
            "" => return Err(format!("an empty name to group by; there are {}", known())),
            name => match (Metric::from_name(name.as_bytes()), Flag::from_name(name.as_bytes())) {
                (Some(metric), _) => {
                    return Err(format!(
                        "cannot group by {}, a number that differs from statement to statement: --order-by ranks by it, \
                         --filter chooses by it. There are {}",
                        metric.name(),
                        known()
                    ))
                }
                (None, Some(flag)) => GroupBy::Flag(flag),
                (None, None) => GroupBy::Attribute(text.to_owned()),
            },
        })
    }
}

impl GroupBy {
    /// As an operator types it.
    pub fn name(&self) -> &str {
        match self {
            GroupBy::Fingerprint => "fingerprint",
            GroupBy::Db => "db",
            GroupBy::User => "user",
            GroupBy::Host => "host",
            GroupBy::Tables => "tables",
            GroupBy::Kind => "kind",
            GroupBy::Distill => "distill",
            GroupBy::Ip => "ip",
            GroupBy::ThreadId => "thread_id",
            GroupBy::Error => "error",
            GroupBy::Routine => "routine",
            GroupBy::Flag(flag) => flag.name(),
            GroupBy::Attribute(name) | GroupBy::Several { name, .. } => name,
        }
    }

    /// The names that are not well known and may be mistyped.
    pub(super) fn attributes(&self) -> Vec<&str> {
        match self {
            GroupBy::Attribute(name) => vec![name],
            GroupBy::Several { parts, .. } => parts.iter().flat_map(GroupBy::attributes).collect(),
            _ => Vec::new(),
        }
    }
}

/// `db,tables`
fn several(text: &str) -> Result<GroupBy, String> {
    let mut parts: Vec<GroupBy> = Vec::new();
    for part in text.split(',') {
        let part: GroupBy = part.trim().parse()?;
        if matches!(part, GroupBy::Fingerprint | GroupBy::Distill) {
            return Err(format!("cannot group by {} and something else together", part.name()));
        }
        if parts.contains(&part) {
            return Err(format!("cannot group by {} twice", part.name()));
        }
        parts.push(part);
    }
    let names: Vec<&str> = parts.iter().map(GroupBy::name).collect();
    Ok(GroupBy::Several { name: names.join(","), parts })
}

fn known() -> String {
    format!("{}, and yes-or-no attributes such as full_scan", WORDS.join(", "))
}

/// The message when no event had the attribute `name`; `seen` are those that events had.
pub(super) fn no_such_attribute<'a>(
    name: &str,
    seen: impl Iterator<Item = &'a str> + Clone,
) -> String {
    let flags = Flag::ALL.iter().map(|flag| flag.name());
    let hint = did_you_mean(name, WORDS.into_iter().chain(flags).chain(seen.clone()));
    let mut text = format!("no statement has an attribute '{name}'{hint} There are {}", known());
    if hint.is_empty() {
        text = text.replacen(" There", "; there", 1);
    }
    let seen: Vec<&str> = seen.collect();
    match seen.is_empty() {
        true => text + "; these inputs have no other attributes",
        false => text + "; and in these inputs: " + &seen.join(", "),
    }
}

/// See the module's text.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `None`: recognise it from the file.
    pub format: Option<Format>,
    pub dialect: Dialect,
    pub group_by: GroupBy,
    /// Only events that began at or after this; those without a time are left out.
    pub since: Option<Micros>,
    /// Only events that began before this.
    pub until: Option<Micros>,
    /// The number of statements for which each event stands, where the log lacks it
    /// (`log_slow_rate_limit` of MariaDB).
    pub rate: Option<u32>,
    pub threads: usize,
    pub max_classes: usize,
    /// Patterns of the users whose statements people wait for, and of batch users.
    pub users: Patterns,
    /// Bytes of a sample that are kept.
    pub sample_limit: usize,
    pub stamped: Stamped,
    /// Seconds east of UTC of times without a zone; `None`: as the log tells, else UTC.
    pub zone: Option<i32>,
    /// Only events that this wants.
    pub filter: Option<crate::filter::Filter>,
    /// Look for transactions and repeated statements, which costs the use of several threads.
    pub patterns: bool,
    /// How captured traffic is decoded.
    pub traffic: frond_capture::Options,
    /// Ignore events that pt-query-digest does not take for statements: `Execute` of a general log.
    pub compat: bool,
    /// For tests: every event panics.
    #[cfg(test)]
    pub panics: bool,
}

/// Default number of classes. A class takes 2 to 4 kB, so these take less than 64 MB and 2 kB each. The log of one
/// application has hundreds.
pub const MAX_CLASSES: usize = 40_000;

impl Default for Settings {
    fn default() -> Self {
        Settings {
            format: None,
            dialect: Dialect::default(),
            group_by: GroupBy::default(),
            since: None,
            until: None,
            rate: None,
            threads: 1,
            max_classes: MAX_CLASSES,
            users: Patterns::default(),
            sample_limit: crate::stats::class::SAMPLE_LIMIT,
            stamped: Stamped::default(),
            zone: None,
            filter: None,
            patterns: false,
            traffic: frond_capture::Options::default(),
            compat: false,
            #[cfg(test)]
            panics: false,
        }
    }
}

impl Settings {
    pub(super) fn shared(&self, threads: usize) -> Shared {
        Shared::new(threads, self.max_classes, self.sample_limit, &self.users)
    }

    pub fn slow_log(&self) -> slowlog::Options {
        slowlog::Options { stamped: self.stamped, zone: self.zone }
    }
}
