//! Expressions of rules: `rate(status.Connections) * 2 > min(var.back_log, net.somaxconn)`.
//!
//! Numbers, 'words', names of values; `or`, `and`, `not`, comparisons, `+ - * /`, `min(a, b)`, `max(a, b)`, `rate(name)` and
//! `delta(name)` over the window, `first(name)` at its begin, `or_zero(name)` for a value that a server need not have. A missing value makes the whole
//! expression unknown, and the result names the missing value (DOC1).

use crate::snapshot::{Value, Window};

#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    Number(f64),
    Word(String),
    Name(String),
    Call(String, Vec<Node>),
    Not(Box<Node>),
    Both(&'static str, Box<Node>, Box<Node>),
}

/// Operators, the weakest first; those on one line have the same precedence.
const LEVELS: [&[&str]; 5] =
    [&["or"], &["and"], &["==", "!=", "<=", ">=", "<", ">"], &["+", "-"], &["*", "/"]];

/// Deeper expressions are refused, because the parser is recursive.
const DEPTH: usize = 40;

struct Parser<'a> {
    rest: &'a str,
    depth: usize,
}

/// Parses an expression.
pub fn parse(text: &str) -> Result<Node, String> {
    let mut parser = Parser { rest: text.trim(), depth: 0 };
    let node = parser.level(0)?;
    match parser.rest {
        "" => Ok(node),
        rest => Err(format!("'{text}': what is '{rest}'?")),
    }
}

impl Parser<'_> {
    fn level(&mut self, level: usize) -> Result<Node, String> {
        let Some(operators) = LEVELS.get(level) else { return self.single() };
        let mut left = self.level(level + 1)?;
        while let Some(operator) = operators.iter().find(|op| self.takes(op)) {
            let right = self.level(level + 1)?;
            left = Node::Both(operator, Box::new(left), Box::new(right));
        }
        Ok(left)
    }

    /// Consumes `token` if it comes next; a word only as a whole.
    fn takes(&mut self, token: &str) -> bool {
        let Some(rest) = self.rest.strip_prefix(token) else { return false };
        let word = token.ends_with(|c: char| c.is_ascii_alphabetic());
        if word && rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.') {
            return false;
        }
        self.rest = rest.trim_start();
        true
    }

    fn single(&mut self) -> Result<Node, String> {
        self.depth += 1;
        if self.depth > DEPTH {
            return Err("too deep".into());
        }
        let node = self.single_inside();
        self.depth -= 1;
        node
    }

    fn single_inside(&mut self) -> Result<Node, String> {
        if self.takes("not") {
            // Comparisons bind more strongly.
            return Ok(Node::Not(Box::new(self.level(2)?)));
        }
        if self.takes("(") {
            let node = self.level(0)?;
            return if self.takes(")") { Ok(node) } else { Err("a ) is missing".into()) };
        }
        if let Some(rest) = self.rest.strip_prefix('\'') {
            let (word, rest) = rest.split_once('\'').ok_or("a ' is missing")?;
            self.rest = rest.trim_start();
            return Ok(Node::Word(word.to_owned()));
        }
        let part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
        let end = self.rest.find(|c| !part(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest.trim_start();
        if word.is_empty() {
            return Err(format!("a value is missing before '{rest}'"));
        }
        if word.starts_with(|c: char| c.is_ascii_digit()) {
            return word.parse().map(Node::Number).map_err(|_| format!("'{word}' is no number"));
        }
        if !self.takes("(") {
            return Ok(Node::Name(word.to_owned()));
        }
        let mut given = vec![self.level(0)?];
        while self.takes(",") {
            given.push(self.level(0)?);
        }
        if !self.takes(")") {
            return Err("a ) is missing".into());
        }
        let name = |node: &Node| matches!(node, Node::Name(_));
        match (word, given.as_slice()) {
            ("min" | "max", [_, _]) => {}
            ("rate" | "delta" | "first" | "or_zero", [one]) if name(one) => {}
            _ => return Err(format!("'{word}' is no function of these")),
        }
        Ok(Node::Call(word.to_owned(), given))
    }
}

impl Node {
    /// The value in `window`, or the name of a missing value.
    pub fn value(&self, window: &Window<'_>) -> Result<Value, String> {
        let number = |n: f64| Ok(Value::Number(n));
        match self {
            Node::Number(n) => number(*n),
            Node::Word(word) => Ok(Value::Text(word.clone())),
            Node::Name(name) => window.value(name).cloned().ok_or_else(|| name.clone()),
            Node::Not(node) => number(f64::from(node.number(window)? == 0.0)),
            Node::Call(function, given) => match (function.as_str(), given.as_slice()) {
                ("rate", [Node::Name(name)]) => number(window.rate(name).ok_or(name.clone())?),
                ("delta", [Node::Name(name)]) => number(window.delta(name).ok_or(name.clone())?),
                ("first", [Node::Name(name)]) => {
                    window.first.values.get(name).cloned().ok_or_else(|| name.clone())
                }
                ("or_zero", [node]) => Ok(node.value(window).unwrap_or(Value::Number(0.0))),
                ("min", [a, b]) => number(a.number(window)?.min(b.number(window)?)),
                (_, [a, b]) => number(a.number(window)?.max(b.number(window)?)),
                _ => Err(function.clone()),
            },
            Node::Both(operator, a, b) => both(operator, a, b, window),
        }
    }

    fn number(&self, window: &Window<'_>) -> Result<f64, String> {
        match self.value(window)? {
            Value::Number(n) => Ok(n),
            // A word in place of a number: the server uses it with a special meaning.
            Value::Text(text) => Err(format!("a number for '{text}'")),
        }
    }

    pub fn is_true(&self, window: &Window<'_>) -> Result<bool, String> {
        Ok(self.number(window)? != 0.0)
    }
}

fn both(operator: &str, a: &Node, b: &Node, window: &Window<'_>) -> Result<Value, String> {
    let truth = |yes: bool| Ok(Value::Number(f64::from(yes)));
    match operator {
        // If one side alone decides the result, the other side may be missing.
        "and" => match (a.is_true(window), b.is_true(window)) {
            (Ok(false), _) | (_, Ok(false)) => truth(false),
            (a, b) => truth(a? && b?),
        },
        "or" => match (a.is_true(window), b.is_true(window)) {
            (Ok(true), _) | (_, Ok(true)) => truth(true),
            (a, b) => truth(a? || b?),
        },
        "==" => truth(a.value(window)? == b.value(window)?),
        "!=" => truth(a.value(window)? != b.value(window)?),
        _ => {
            let (a, b) = (a.number(window)?, b.number(window)?);
            match operator {
                "<" => truth(a < b),
                ">" => truth(a > b),
                "<=" => truth(a <= b),
                ">=" => truth(a >= b),
                "+" => Ok(Value::Number(a + b)),
                "-" => Ok(Value::Number(a - b)),
                "*" => Ok(Value::Number(a * b)),
                _ if b == 0.0 => Err("a divisor that is not zero".into()),
                _ => Ok(Value::Number(a / b)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::Snapshot;

    fn value(text: &str) -> Result<Value, String> {
        let mut first = Snapshot::at(10.0);
        first.set_text("status.n", "100");
        let mut last = Snapshot::at(20.0);
        last.set_text("status.n", "150");
        last.set_text("var.mode", "ON");
        last.set_text("var.size", "8");
        parse(text)?.value(&Window { first: &first, last: &last })
    }

    #[test]
    fn operators_bind_as_they_do_elsewhere() {
        for (text, wanted) in [
            ("1 + 2 * 3", 7.0),
            ("(1 + 2) * 3", 9.0),
            ("10 - 2 - 3", 5.0),
            ("rate(status.n) * 2", 10.0),
            ("delta(status.n)", 50.0),
            ("status.n - first(status.n)", 50.0),
            ("min(var.size, 3) + max(1, 2)", 5.0),
            ("var.mode == 'ON' and not var.size > 9", 1.0),
            ("or_zero(var.none) + 1", 1.0),
            ("1 < 2 or var.none > 1", 1.0),
            ("1 > 2 and var.none > 1", 0.0),
        ] {
            assert_eq!(value(text), Ok(Value::Number(wanted)), "{text}");
        }
    }

    #[test]
    fn what_is_missing_is_named_and_what_is_wrong_is_refused() {
        assert_eq!(value("var.none + 1"), Err("var.none".into()));
        assert_eq!(value("rate(status.none) > 1"), Err("status.none".into()));
        assert!(value("var.mode > 1").is_err() && value("1 / (1 - 1)").is_err());
        let deep = "(".repeat(10_000);
        for bad in
            ["", "1 +", "1 2", "(1", "f(1)", "rate(1)", "'x", "min(1)", "1..2 + ", deep.as_str()]
        {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
