//! Statement digests as in MariaDB's `performance_schema` (`DIGEST_TEXT`).
//!
//! The server writes its parser's tokens, a blank after each: keywords in upper case and by one of
//! their synonyms (`DATABASE` as `SCHEMA`), names in backquotes, literals as `?`. While it writes,
//! it reduces the last tokens: `? , ?` to `?, ...`, `( ? )` to `(?)`, `(?) , (?)` to
//! a list of rows, and the same for rows of several values.
//!
//! Invariant: only the last `KEPT` tokens can be reduced. Each reduction reads three, so only texts
//! made for tests would need more.
//!
//! The words and their synonyms are those of a 10.11 server. Not imitated: the server
//! cuts digests at `performance_schema_max_digest_length`, and makes none for statements that it
//! cannot parse.

use super::keywords::{traits, Traits};
use super::lexer::{Kind, Lexer, Token};
use super::{Folded, SqlMode};

const KEPT: usize = 32;

/// The shape of a token in the output, for reductions.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    Value,
    Values,
    /// `(?)`, and several of them
    Row,
    Rows,
    /// `(...)`, and several of them
    Tuple,
    Tuples,
    Comma,
    Open,
    Sign,
    /// A word or operator after which a sign belongs to the literal that follows.
    Begins,
    /// `IS`, and `NOT` behind it or behind anything that cannot begin an expression
    Is,
    /// An operator behind which NULL is a literal, and a sign is not part of a literal
    Operator,
    Dot,
    Other,
}

struct Writer<'a, 'o> {
    sql: &'a [u8],
    out: &'o mut Vec<u8>,
    /// The last tokens with the places where they begin, the very last at `count - 1`.
    kept: [(Shape, usize); KEPT],
    count: usize,
}

/// Appends to the empty `out` the digest of `sql`.
pub(super) fn fingerprint(sql: &[u8], mode: SqlMode, out: &mut Vec<u8>) {
    let mut lexer = Lexer::new(sql, mode);
    let mut writer = Writer { sql, out, kept: [(Shape::Other, 0); KEPT], count: 0 };
    while let Some(token) = lexer.next() {
        if token.kind == Kind::Semicolon {
            // The server parses statement by statement.
            if writer.out.is_empty() {
                continue;
            }
            break;
        }
        writer.token(token);
    }
}

impl Writer<'_, '_> {
    /// The shape of the token `back` places before the last one.
    fn shape(&self, back: usize) -> Shape {
        self.count.checked_sub(back + 1).map_or(Shape::Other, |at| self.kept[at].0)
    }

    fn push(&mut self, shape: Shape, text: &[u8]) {
        self.place(shape, self.out.len());
        self.out.extend_from_slice(text);
        self.out.push(b' ');
    }

    fn place(&mut self, shape: Shape, at: usize) {
        if self.count == KEPT {
            self.kept.copy_within(KEPT / 2.., 0);
            self.count = KEPT / 2;
        }
        self.kept[self.count] = (shape, at);
        self.count += 1;
    }

    /// Removes the last `tokens` tokens, which must exist.
    fn pop(&mut self, tokens: usize) {
        self.count -= tokens;
        self.out.truncate(self.kept[self.count].1);
    }

    fn token(&mut self, token: Token) {
        let text = &self.sql[token.start..token.end];
        match token.kind {
            Kind::Word => self.word(token, text),
            Kind::Quoted => {
                let inner = text.get(1..text.len() - 1).unwrap_or_default();
                self.name(inner);
            }
            Kind::Text if matches!(text[0], b'x' | b'X') => self.push(Shape::Other, b"(unknown)"),
            Kind::Text | Kind::Number | Kind::Param => self.value(true),
            Kind::Variable => self.variable(text),
            Kind::Open => self.push(Shape::Open, b"("),
            Kind::Close => self.close(),
            Kind::Comma => self.push(Shape::Comma, b","),
            Kind::Dot => self.push(Shape::Dot, b"."),
            Kind::Semicolon => {}
            Kind::Op => match text {
                b"-" | b"+" => self.push(Shape::Sign, text),
                b"<>" => self.push(Shape::Operator, b"!="),
                b"*" | b"/" | b"%" | b"^" | b"|" | b"&" | b"||" | b"&&" | b"<<" | b">>" => {
                    self.push(Shape::Begins, text);
                }
                _ => self.push(Shape::Operator, text),
            },
        }
    }

    /// Writes a literal: takes the signs before it if they belong to it, and joins it to a list.
    fn value(&mut self, signed: bool) {
        let begins =
            |shape| matches!(shape, Shape::Comma | Shape::Open | Shape::Sign | Shape::Begins);
        while signed && self.count > 1 && self.shape(0) == Shape::Sign && begins(self.shape(1)) {
            self.pop(1);
        }
        let list =
            self.shape(0) == Shape::Comma && matches!(self.shape(1), Shape::Value | Shape::Values);
        if list {
            self.pop(2);
            self.push(Shape::Values, b"?, ...");
        } else {
            self.push(Shape::Value, b"?");
        }
    }

    fn close(&mut self) {
        let (one, many, text, texts) = match self.shape(0) {
            Shape::Value => (Shape::Row, Shape::Rows, &b"(?)"[..], &b"(?) /* , ... */"[..]),
            Shape::Values => {
                (Shape::Tuple, Shape::Tuples, &b"(...)"[..], &b"(...) /* , ... */"[..])
            }
            _ => return self.push(Shape::Other, b")"),
        };
        if self.shape(1) != Shape::Open {
            return self.push(Shape::Other, b")");
        }
        self.pop(2);
        let before = self.shape(1);
        if self.shape(0) == Shape::Comma && (before == one || before == many) {
            self.pop(2);
            self.push(many, texts);
        } else {
            self.push(one, text);
        }
    }

    fn name(&mut self, name: &[u8]) {
        self.place(Shape::Other, self.out.len());
        self.out.push(b'`');
        self.out.extend_from_slice(name);
        self.out.extend_from_slice(b"` ");
    }

    fn variable(&mut self, text: &[u8]) {
        if let Some(system) = text.strip_prefix(b"@@") {
            self.place(Shape::Other, self.out.len());
            self.out.extend_from_slice(b"@@");
            let (scope, name) = match system.iter().position(|b| *b == b'.') {
                Some(dot) => (&system[..dot], &system[dot + 1..]),
                None => (&b""[..], system),
            };
            if !scope.is_empty() {
                self.out.extend(scope.iter().map(u8::to_ascii_uppercase));
                self.out.extend_from_slice(b" . ");
            }
            return self.name(name);
        }
        match text.get(1) {
            Some(b'`') => self.push(Shape::Other, text),
            _ => self.push(Shape::Other, b"@?"),
        }
    }

    fn word(&mut self, token: Token, text: &[u8]) {
        let last = self.shape(0);
        if last == Shape::Dot {
            return self.name(text);
        }
        let known = traits(text);
        let called = self.sql.get(token.end) == Some(&b'(');
        if !(known.is_keyword() || called && known.has(Traits::FUNCTION)) {
            let quote = self.sql[token.end..].iter().find(|b| **b > b' ');
            if text[0] == b'_' && matches!(quote, Some(b'\'' | b'"')) {
                return self.push(Shape::Other, b"(_charset)");
            }
            return self.name(text);
        }
        let word = Folded::of(text);
        let word = word.as_bytes();
        if word == b"null" {
            let grammar = matches!(last, Shape::Other | Shape::Is | Shape::Value)
                || matches!(last, Shape::Row | Shape::Tuple);
            return if grammar { self.push(Shape::Other, b"NULL") } else { self.value(false) };
        }
        let shape = match word {
            b"is" => Shape::Is,
            b"not" if matches!(last, Shape::Begins | Shape::Comma | Shape::Open) => Shape::Begins,
            b"not" => Shape::Is,
            b"every" | b"at" | b"starts" | b"ends" | b"default" | b"return" | b"if" | b"elseif"
            | b"case" | b"when" | b"while" | b"until" | b"select" | b"or" | b"xor" | b"and"
            | b"between" | b"like" | b"regexp" | b"rlike" | b"interval" | b"div" | b"mod" => {
                Shape::Begins
            }
            b"then" | b"else" | b"values" | b"value" | b"in" | b"set" | b"by" | b"on"
            | b"where" | b"having" | b"limit" | b"offset" => Shape::Operator,
            _ => Shape::Other,
        };
        let start = self.out.len();
        self.push(shape, canonical(word, called));
        self.out[start..].make_ascii_uppercase();
    }
}

/// The synonym of a word that the server writes, which is the last one in alphabetical order.
fn canonical(word: &[u8], called: bool) -> &[u8] {
    match word {
        b"any" => b"some",
        b"bigint" => b"int8",
        b"char" => b"character",
        b"columns" => b"fields",
        b"current_date" => b"curdate",
        b"current_time" => b"curtime",
        b"current_timestamp" | b"localtime" | b"localtimestamp" => b"now",
        b"database" => b"schema",
        b"databases" => b"schemas",
        b"day" => b"sql_tsi_day",
        b"dec" => b"decimal",
        b"distinct" => b"distinctrow",
        b"double" => b"float8",
        b"float" => b"float4",
        b"hour" => b"sql_tsi_hour",
        b"int" | b"int4" => b"integer",
        b"int1" => b"tinyint",
        b"int2" => b"smallint",
        b"int3" | b"mediumint" => b"middleint",
        b"io_thread" => b"relay_thread",
        b"minute" => b"sql_tsi_minute",
        b"month" => b"sql_tsi_month",
        b"quarter" => b"sql_tsi_quarter",
        b"regexp" => b"rlike",
        b"replica" => b"slave",
        b"replicas" => b"slaves",
        b"replica_pos" => b"slave_pos",
        b"second" => b"sql_tsi_second",
        b"sql_tsi_week" => b"week",
        b"sql_tsi_year" => b"year",
        b"user" => b"system_user",
        b"varchar" => b"varcharacter",
        b"session_user" if called => b"system_user",
        b"substr" | b"mid" if called => b"substring",
        b"std" | b"stddev" if called => b"stddev_pop",
        b"variance" if called => b"var_pop",
        other => other,
    }
}
