//! SQL as MariaDB reads it, token by token, without a copy.
//!
//! Invariants
//!
//! - LX1. Any bytes are a sequence of tokens. A byte that no rule knows is an operator; an unclosed
//!   token (a string, a comment, a quoted name) ends with the statement.
//! - LX2. Every byte is read a bounded number of times.
//! - LX3. Tokens do not overlap and come in the order of the text. Between them are only white
//!   space, comments, and the marks around executable comments. The content of executable comments
//!   is read as SQL, because the server may have executed it.
//!
//! Not here: keywords (`keywords`) and grammar.

use super::{scan, SqlMode};
use memchr::memmem;

/// The kind of a token, as far as its bytes tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A name or keyword without quotes.
    Word,
    /// A name in backquotes, or in double quotes under ANSI_QUOTES.
    Quoted,
    /// A string, with its introducer (`x`, `b`, `n`) if that directly precedes it.
    Text,
    /// Any number, hexadecimal and binary ones included; no sign.
    Number,
    /// `?`, `:name`
    Param,
    /// `@name`, `@@scope.name`, `@'name'`
    Variable,
    Open,
    Close,
    Comma,
    Dot,
    Semicolon,
    /// Anything else. It has several bytes where the grammar has such an operator.
    Op,
}

/// A token and its place: the bytes `start..end` of the statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    pub kind: Kind,
    pub start: usize,
    pub end: usize,
}

/// The kinds of token that a byte can begin.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Space,
    Word,
    Digit,
    Quote,
    Double,
    Back,
    Open,
    Close,
    Comma,
    Dot,
    Semicolon,
    Mark,
    At,
    Colon,
    Dash,
    Hash,
    Slash,
    Star,
    Escape,
    Op,
}

const CLASSES: [Class; 256] = {
    let mut classes = [Class::Op; 256];
    let mut b = 0;
    while b < 256 {
        classes[b] = match b as u8 {
            0..=b' ' => Class::Space,
            b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'$' | 0x80..=0xff => Class::Word,
            b'0'..=b'9' => Class::Digit,
            b'\'' => Class::Quote,
            b'"' => Class::Double,
            b'`' => Class::Back,
            b'(' => Class::Open,
            b')' => Class::Close,
            b',' => Class::Comma,
            b'.' => Class::Dot,
            b';' => Class::Semicolon,
            b'?' => Class::Mark,
            b'@' => Class::At,
            b':' => Class::Colon,
            b'-' => Class::Dash,
            b'#' => Class::Hash,
            b'/' => Class::Slash,
            b'*' => Class::Star,
            b'\\' => Class::Escape,
            _ => Class::Op,
        };
        b += 1;
    }
    classes
};

#[inline]
fn class(b: u8) -> Class {
    CLASSES[usize::from(b)]
}

/// Whether `b` can stand inside a name without quotes.
#[inline]
pub(super) fn in_word(b: u8) -> bool {
    matches!(class(b), Class::Word | Class::Digit)
}

#[derive(Clone)]
pub(super) struct Lexer<'a> {
    sql: &'a [u8],
    at: usize,
    mode: SqlMode,
    /// Executable comments that are open here.
    executable: u32,
    /// The last token was a dot, or a name directly before a dot: the next token may begin with a
    /// digit and still be a name.
    after_dot: bool,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(sql: &'a [u8], mode: SqlMode) -> Self {
        Lexer { sql, at: 0, mode, executable: 0, after_dot: false }
    }

    /// Position of the search for the next token.
    #[inline]
    pub(super) fn position(&self) -> usize {
        self.at
    }

    /// Continues at `at`, which must not be inside a token.
    pub(super) fn seek(&mut self, at: usize) {
        self.at = at;
        self.after_dot = false;
    }

    /// Continues at `at`; between the last token and `at` is only white space.
    #[inline(always)]
    pub(super) fn skip_to(&mut self, at: usize) {
        self.at = at;
    }

    #[inline]
    fn peek(&self, ahead: usize) -> u8 {
        self.sql.get(self.at + ahead).copied().unwrap_or(0)
    }

    /// The next token.
    #[inline]
    pub(super) fn next(&mut self) -> Option<Token> {
        loop {
            let b = *self.sql.get(self.at)?;
            let start = self.at;
            let after_dot = std::mem::take(&mut self.after_dot);
            let kind = match class(b) {
                Class::Space => {
                    self.at += 1;
                    self.after_dot = after_dot;
                    continue;
                }
                Class::Word => self.word(),
                Class::Digit if after_dot => self.word(),
                Class::Digit => self.number(),
                Class::Quote => self.string(b'\'', Kind::Text),
                Class::Double if self.mode.ansi_quotes => self.name(b'"'),
                Class::Double => self.string(b'"', Kind::Text),
                Class::Back => self.name(b'`'),
                Class::Open => self.one(Kind::Open),
                Class::Close => self.one(Kind::Close),
                Class::Comma => self.one(Kind::Comma),
                Class::Semicolon => self.one(Kind::Semicolon),
                Class::Mark => self.one(Kind::Param),
                Class::Dot => {
                    let touches =
                        start > 0 && (in_word(self.sql[start - 1]) || self.sql[start - 1] == b'`');
                    if !touches && self.peek(1).is_ascii_digit() {
                        self.number()
                    } else {
                        self.after_dot = true;
                        self.one(Kind::Dot)
                    }
                }
                Class::At => self.variable(),
                Class::Colon => match self.peek(1) {
                    b'=' => self.many(2),
                    next if class(next) == Class::Word => {
                        self.at += 1;
                        self.word();
                        Kind::Param
                    }
                    _ => self.many(1),
                },
                Class::Dash => match (self.peek(1), self.peek(2)) {
                    (b'-', 0..=b' ') => {
                        self.skip_line();
                        continue;
                    }
                    (b'>', b'>') => self.many(3),
                    (b'>', _) => self.many(2),
                    _ => self.many(1),
                },
                Class::Hash => {
                    self.skip_line();
                    continue;
                }
                Class::Slash => {
                    if self.peek(1) == b'*' {
                        self.comment();
                        continue;
                    }
                    self.many(1)
                }
                Class::Star => {
                    if self.executable > 0 && self.peek(1) == b'/' {
                        self.executable -= 1;
                        self.at += 2;
                        continue;
                    }
                    self.many(1)
                }
                Class::Escape => {
                    if self.peek(1) == b'N' && !in_word(self.peek(2)) {
                        self.many(2);
                        Kind::Text
                    } else {
                        self.many(1)
                    }
                }
                Class::Op => self.operator(b),
            };
            return Some(Token { kind, start, end: self.at });
        }
    }

    #[inline]
    fn one(&mut self, kind: Kind) -> Kind {
        self.at += 1;
        kind
    }

    #[inline]
    fn many(&mut self, bytes: usize) -> Kind {
        self.at += bytes;
        Kind::Op
    }

    fn operator(&mut self, b: u8) -> Kind {
        let len = match (b, self.peek(1), self.peek(2)) {
            (b'<', b'=', b'>') => 3,
            (b'<', b'=' | b'>' | b'<', _)
            | (b'>', b'=' | b'>', _)
            | (b'!', b'=', _)
            | (b'|', b'|', _)
            | (b'&', b'&', _) => 2,
            _ => 1,
        };
        self.many(len)
    }

    /// The end of the run of bytes of names at `at`.
    #[inline(always)]
    fn word_end(&self, at: usize) -> usize {
        scan::name_end(self.sql, at)
    }

    #[inline]
    fn word(&mut self) -> Kind {
        let start = self.at;
        self.at = self.word_end(start);
        // x'1f', b'01', n'text'
        if self.at == start + 1
            && self.peek(0) == b'\''
            && matches!(self.sql[start] | 0x20, b'x' | b'b' | b'n')
        {
            return self.string(b'\'', Kind::Text);
        }
        Kind::Word
    }

    /// A number, or a name that begins with digits.
    fn number(&mut self) -> Kind {
        let start = self.at;
        let sql = self.sql;
        let digits = |mut at: usize| {
            while sql.get(at).is_some_and(u8::is_ascii_digit) {
                at += 1;
            }
            at
        };
        let word_end = self.word_end(start);
        let run = &sql[start..word_end];
        // 0x1F and 0b01: only with a lower-case letter, as in the server
        match run {
            [b'0', b'x', hex @ ..] if !hex.is_empty() && hex.iter().all(u8::is_ascii_hexdigit) => {
                self.at = word_end;
                return Kind::Number;
            }
            [b'0', b'b', bits @ ..] if !bits.is_empty() && bits.iter().all(|b| *b | 1 == b'1') => {
                self.at = word_end;
                return Kind::Number;
            }
            _ => {}
        }
        let mut end = digits(start);
        if end < word_end && !self.exponent(end) {
            // 1st, 2020_log: a name
            self.at = word_end;
            return Kind::Word;
        }
        if sql.get(end) == Some(&b'.') {
            end = digits(end + 1);
        }
        if self.exponent(end) {
            let sign = usize::from(matches!(sql.get(end + 1), Some(b'+' | b'-')));
            end = digits(end + 1 + sign);
        }
        self.at = end;
        Kind::Number
    }

    /// Whether an exponent begins at `at`.
    fn exponent(&self, at: usize) -> bool {
        if !matches!(self.sql.get(at), Some(b'e' | b'E')) {
            return false;
        }
        match self.sql.get(at + 1) {
            Some(b'+' | b'-') => self.sql.get(at + 2).is_some_and(u8::is_ascii_digit),
            Some(b) if b.is_ascii_digit() => {
                // 1e5x is a name
                let end = self.word_end(at + 1);
                self.sql[at + 1..end].iter().all(u8::is_ascii_digit)
            }
            _ => false,
        }
    }

    /// From the opening quote at `self.at` to behind the closing one.
    #[inline]
    fn string(&mut self, quote: u8, kind: Kind) -> Kind {
        let escape = if self.mode.no_backslash_escapes { quote } else { b'\\' };
        let mut at = self.at + 1;
        while let Some(found) = scan::find2(self.sql, at, quote, escape) {
            at = found;
            if self.sql[at] == quote && self.sql.get(at + 1) != Some(&quote) {
                self.at = at + 1;
                return kind;
            }
            // an escaped byte, or a doubled quote
            at += 2;
        }
        self.at = self.sql.len();
        kind
    }

    /// A quoted name: its only escape is the doubled quote.
    fn name(&mut self, quote: u8) -> Kind {
        let mut at = self.at + 1;
        while let Some(n) = self.sql.get(at..).and_then(|s| memchr::memchr(quote, s)) {
            at += n + 1;
            if self.sql.get(at) != Some(&quote) {
                self.at = at;
                return Kind::Quoted;
            }
            at += 1;
        }
        self.at = self.sql.len();
        Kind::Quoted
    }

    fn variable(&mut self) -> Kind {
        self.at += 1;
        if self.peek(0) == b'@' {
            self.at += 1;
        }
        match self.peek(0) {
            b'\'' => self.string(b'\'', Kind::Variable),
            b'"' => self.string(b'"', Kind::Variable),
            b'`' => {
                self.name(b'`');
                Kind::Variable
            }
            _ => {
                while self.sql.get(self.at).is_some_and(|b| in_word(*b) || *b == b'.') {
                    self.at += 1;
                }
                Kind::Variable
            }
        }
    }

    fn skip_line(&mut self) {
        let rest = &self.sql[self.at..];
        self.at += memchr::memchr(b'\n', rest).map_or(rest.len(), |n| n + 1);
    }

    /// Skips a comment, or the mark that opens an executable one with its version number.
    fn comment(&mut self) {
        let mark = match (self.peek(2), self.peek(3)) {
            (b'!', _) => 3,
            (b'M', b'!') => 4,
            _ => {
                let body = self.at + 2;
                let rest = self.sql.get(body..).unwrap_or_default();
                self.at = memmem::find(rest, b"*/").map_or(self.sql.len(), |n| body + n + 2);
                return;
            }
        };
        self.executable = self.executable.saturating_add(1);
        self.at += mark;
        let digits = self.sql[self.at..].iter().take(6).take_while(|b| b.is_ascii_digit()).count();
        if digits >= 5 {
            self.at += digits;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(sql: &[u8], mode: SqlMode) -> Vec<(Kind, String)> {
        let mut lexer = Lexer::new(sql, mode);
        std::iter::from_fn(|| lexer.next())
            .map(|t| (t.kind, String::from_utf8_lossy(&sql[t.start..t.end]).into_owned()))
            .collect()
    }

    fn kinds(sql: &str) -> Vec<Kind> {
        tokens(sql.as_bytes(), SqlMode::default()).into_iter().map(|(kind, _)| kind).collect()
    }

    fn texts(sql: &str) -> Vec<String> {
        tokens(sql.as_bytes(), SqlMode::default()).into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn strings_end_where_the_server_ends_them() {
        assert_eq!(texts(r"'a''b' 'a\'b' 'a\\' x"), ["'a''b'", r"'a\'b'", r"'a\\'", "x"]);
        assert_eq!(texts("'open -- not a comment"), ["'open -- not a comment"]);
        let mode = SqlMode { no_backslash_escapes: true, ..SqlMode::default() };
        assert_eq!(tokens(br"'a\' 'b'", mode).len(), 2);
    }

    #[test]
    fn double_quotes_are_names_under_ansi_quotes() {
        let mode = SqlMode { ansi_quotes: true, ..SqlMode::default() };
        assert_eq!(tokens(br#""a""b""#, mode), [(Kind::Quoted, r#""a""b""#.to_string())]);
        assert_eq!(kinds(r#""a""b""#), [Kind::Text]);
    }

    #[test]
    fn comments_are_skipped_and_executable_ones_are_read() {
        assert_eq!(texts("a/*b*/c -- d\n#e\nf --g"), ["a", "c", "f", "-", "-", "g"]);
        assert_eq!(
            texts("a /*!40001 b /* c */ d */ e /*M!100100f*/ g"),
            ["a", "b", "d", "e", "f", "g"]
        );
        assert_eq!(texts("a /* open"), ["a"]);
        assert_eq!(texts("a */ b"), ["a", "*", "/", "b"]);
    }

    #[test]
    fn numbers_and_names_with_digits_are_told_apart() {
        for number in ["1", "1.5", ".5", "1.", "1e5", "1.5E-7", "0x1F", "0b01", "1e+5"] {
            assert_eq!(kinds(number), [Kind::Number], "{number}");
        }
        for word in ["1st", "0xfg", "0b02", "0X1F", "1e5x", "t1", "$1", "_1", "1e"] {
            assert_eq!(kinds(word), [Kind::Word], "{word}");
        }
        assert_eq!(texts("db2.1tbl"), ["db2", ".", "1tbl"]);
        assert_eq!(texts("t.5"), ["t", ".", "5"]);
        assert_eq!(kinds("t.5"), [Kind::Word, Kind::Dot, Kind::Word]);
    }

    #[test]
    fn variables_and_parameters_are_one_token() {
        assert_eq!(
            texts("@a @@global.b @'c d' :p ? a:=1"),
            ["@a", "@@global.b", "@'c d'", ":p", "?", "a", ":=", "1"]
        );
    }
}
