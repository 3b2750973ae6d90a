//! Cuts a dump into statements while it is read; rows are skipped.
//!
//! Invariants:
//!
//! - DS1. Memory is bounded: at most `MAX_STATEMENT` bytes of a statement are kept, and only the first bytes of a
//!   statement that does not begin with a word of `KEPT`.
//! - DS2. A `;` in a string, a quoted name or a comment ends nothing.

use frond_sqltext::{tokens, SqlMode, TokenKind};

/// No `CREATE TABLE` is longer.
pub const MAX_STATEMENT: usize = 16 << 20;

/// First words of statements that concern tables.
const KEPT: [&str; 5] = ["CREATE", "ALTER", "DROP", "USE", "RENAME"];
/// This many bytes suffice to see the first word behind the marks of a comment, and a line `DELIMITER x`. No byte
/// is looked at before as many follow it, or the end.
const LOOK: usize = 64;
const DELIMITER: &[u8] = b"DELIMITER ";

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Plain,
    Quoted(u8),
    /// To the end of the line.
    Line,
    Comment,
    /// Between `DELIMITER x` and the next line `DELIMITER`, where bodies of routines are.
    Body,
}

/// See the module's text.
#[derive(Default)]
pub struct Splitter {
    state: State,
    /// Bytes that came too late to be looked at.
    ahead: Vec<u8>,
    /// The statement so far without comments; the marks of executable ones are part of it.
    text: Vec<u8>,
    /// `None` until the first word is complete.
    wanted: Option<bool>,
    inside_line: bool,
    /// Line ends so far.
    lines: u64,
    /// The line in which the statement, or a comment before it, began.
    begun: u64,
}

/// How the input ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    Whole,
    /// Inside the statement that began in this line.
    Cut {
        line: u64,
        first: String,
    },
}

impl Splitter {
    /// Passes each statement that `bytes` complete and that concerns tables to `each`, with its line.
    pub fn feed(&mut self, bytes: &[u8], each: &mut dyn FnMut(&[u8], u64)) {
        self.ahead.extend_from_slice(bytes);
        let all = std::mem::take(&mut self.ahead);
        let mut at = 0;
        while at + LOOK < all.len() {
            at += self.step(&all[at..], each);
        }
        self.ahead.extend_from_slice(&all[at..]);
    }

    /// The last statement needs no `;` if its first word is in `KEPT`; its parser decides whether it
    /// is complete.
    pub fn finish(mut self, each: &mut dyn FnMut(&[u8], u64)) -> End {
        let mut rest = &std::mem::take(&mut self.ahead)[..];
        while !rest.is_empty() {
            rest = &rest[self.step(rest, each)..];
        }
        let (state, open) = (self.state, !self.text.is_empty());
        if state == State::Body || !open && state != State::Comment {
            return End::Whole;
        }
        let wanted = self.wanted.or_else(|| self.is_wanted()) == Some(true);
        if wanted && matches!(state, State::Plain | State::Line) {
            self.end(each);
            return End::Whole;
        }
        let text = String::from_utf8_lossy(&self.text);
        let first: Vec<&str> = text.split_whitespace().take(3).collect();
        End::Cut { line: self.begun, first: first.join(" ") }
    }

    /// Reads the next bytes of `rest`, and returns how many.
    fn step(&mut self, rest: &[u8], each: &mut dyn FnMut(&[u8], u64)) -> usize {
        let b = rest[0];
        let begins = !std::mem::replace(&mut self.inside_line, b != b'\n');
        self.lines += u64::from(b == b'\n');
        let between = self.state == State::Plain && self.text.is_empty();
        if begins && (between || self.state == State::Body) {
            let begin = &rest[..rest.len().min(DELIMITER.len())];
            if begin.eq_ignore_ascii_case(DELIMITER) {
                let line = &rest[DELIMITER.len()..rest.len().min(LOOK)];
                let end = memchr::memchr(b'\n', line).unwrap_or(line.len());
                let ends = line[..end].trim_ascii() == b";";
                self.state = if ends { State::Plain } else { State::Body };
                return DELIMITER.len() + end;
            }
        }
        match self.state {
            State::Plain => return self.plain(rest, each),
            State::Quoted(quote) => return self.quoted(quote, rest),
            State::Comment if rest.starts_with(b"*/") => {
                self.state = State::Plain;
                self.keep(b' ');
                return 2;
            }
            State::Line if b == b'\n' => {
                self.state = State::Plain;
                self.keep(b);
            }
            State::Line | State::Comment | State::Body => {}
        }
        1
    }

    fn plain(&mut self, rest: &[u8], each: &mut dyn FnMut(&[u8], u64)) -> usize {
        let b = rest[0];
        let comment = match rest {
            [b'#', ..] | [b'-', b'-'] | [b'-', b'-', 0..=b' ', ..] => Some(State::Line),
            // The line at which old clients stop: `/*M!999999\- enable the sandbox mode */`.
            _ if rest.starts_with(b"/*M!999999\\") => Some(State::Comment),
            [b'/', b'*', b'!', ..] | [b'/', b'*', b'M', b'!', ..] => None,
            [b'/', b'*', ..] => Some(State::Comment),
            _ => None,
        };
        if let Some(state) = comment {
            if self.text.is_empty() {
                self.begun = self.lines + 1;
            }
            self.state = state;
            return if state == State::Comment { 2 } else { 1 };
        }
        match b {
            b'\'' | b'"' | b'`' => self.state = State::Quoted(b),
            b';' => {
                self.end(each);
                return 1;
            }
            _ => {}
        }
        self.keep(b);
        1
    }

    fn quoted(&mut self, quote: u8, rest: &[u8]) -> usize {
        if self.wanted == Some(false) {
            // Nearly all of a dump is the inside of strings in rows.
            match memchr::memchr3(quote, b'\\', b'\n', rest) {
                None => return rest.len(),
                Some(0) => {}
                Some(skip) => return skip,
            }
        }
        self.keep(rest[0]);
        match rest {
            [b, ..] if *b == quote => self.state = State::Plain,
            [b'\\', next, ..] if quote != b'`' => {
                self.lines += u64::from(*next == b'\n');
                self.keep(*next);
                return 2;
            }
            _ => {}
        }
        1
    }

    fn keep(&mut self, b: u8) {
        if self.text.is_empty() {
            if b <= b' ' {
                return;
            }
            self.begun = self.lines + 1;
        }
        match self.wanted {
            None if self.text.len() >= LOOK => {
                self.wanted = Some(self.is_wanted().unwrap_or(false));
            }
            None if b <= b' ' || b == b'`' => self.wanted = self.is_wanted(),
            _ => {}
        }
        let most = if self.wanted == Some(false) { LOOK } else { MAX_STATEMENT };
        if self.text.len() < most {
            self.text.push(b);
        }
    }

    /// Whether the first word is in `KEPT`; `None` while it is incomplete.
    fn is_wanted(&self) -> Option<bool> {
        let word = tokens(&self.text, SqlMode::default()).find(|t| t.kind == TokenKind::Word)?;
        let word = &self.text[word.start..word.end];
        Some(KEPT.iter().any(|kept| word.eq_ignore_ascii_case(kept.as_bytes())))
    }

    fn end(&mut self, each: &mut dyn FnMut(&[u8], u64)) {
        let wanted = self.wanted.or_else(|| self.is_wanted()) == Some(true);
        if wanted && self.text.len() < MAX_STATEMENT {
            each(&self.text, self.begun);
        }
        self.text.clear();
        self.wanted = None;
    }
}
