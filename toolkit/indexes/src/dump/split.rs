//! Cuts a dump into statements while it is read; rows are skipped.
//!
//! Invariants:
//!
//! - DS1. Memory is bounded: at most `MAX_STATEMENT` bytes of a statement are kept, and only the first bytes of a
//!   statement that does not begin with a word of `KEPT`.
//! - DS2. A `;` in a string, a quoted name or a comment ends nothing.

/// No `CREATE TABLE` is longer.
pub const MAX_STATEMENT: usize = 16 << 20;

/// First words of statements that concern tables.
const KEPT: [&str; 5] = ["CREATE", "ALTER", "DROP", "USE", "RENAME"];
/// This many bytes suffice to see the first word behind the marks of a comment.
const LOOK: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Plain,
    Quoted(u8),
    Escaped(u8),
    Line,
    /// True right behind a `*`.
    Comment(bool),
}

/// See the module's text.
pub struct Splitter {
    state: State,
    /// The statement so far, without the part before its first word.
    text: Vec<u8>,
    /// `None` until the first word is complete.
    wanted: Option<bool>,
    /// The last three bytes, the newest at the end.
    last: [u8; 3],
    /// Open executable comments.
    executable: u32,
    /// Between `DELIMITER x` and the next line `DELIMITER`, where bodies of routines are.
    body: bool,
    line_start: Vec<u8>,
    line: u64,
    /// Where the statement began.
    begun: u64,
    too_long: bool,
}

impl Default for Splitter {
    fn default() -> Self {
        Splitter {
            state: State::Plain,
            text: Vec::new(),
            wanted: None,
            last: [0; 3],
            executable: 0,
            body: false,
            line_start: Vec::new(),
            line: 1,
            begun: 1,
            too_long: false,
        }
    }
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
        let mut at = 0;
        while let Some(&b) = bytes.get(at) {
            // Nearly all of a dump is the inside of strings in rows.
            if let (State::Quoted(quote), false) = (self.state, self.keeps()) {
                let rest = &bytes[at..];
                let skip = memchr::memchr3(quote, b'\\', b'\n', rest).unwrap_or(rest.len());
                if skip > 0 {
                    at += skip;
                    self.last = *b"xxx";
                    continue;
                }
            }
            at += 1;
            self.byte(b, each);
        }
    }

    /// The last statement needs no `;` if its first word is in `KEPT`; its parser decides whether it
    /// is complete.
    pub fn finish(mut self, each: &mut dyn FnMut(&[u8], u64)) -> End {
        if self.body || self.text.is_empty() && self.state != State::Comment(false) {
            return End::Whole;
        }
        let text = String::from_utf8_lossy(&self.text);
        let first: Vec<&str> = text.split_whitespace().take(3).collect();
        let first = first.join(" ");
        let wanted = self.wanted.or_else(|| self.is_wanted());
        if wanted == Some(true) && matches!(self.state, State::Plain | State::Line) {
            self.end(each);
            return End::Whole;
        }
        End::Cut { line: self.begun, first }
    }

    fn keeps(&self) -> bool {
        self.wanted != Some(false) && !self.body
    }

    fn byte(&mut self, b: u8, each: &mut dyn FnMut(&[u8], u64)) {
        if b == b'\n' {
            self.line += 1;
        }
        if self.delimiter(b) {
            return;
        }
        let [third, before_that, before] = self.last;
        self.last = [before_that, before, b];
        let mut push = true;
        match self.state {
            State::Plain => match b {
                b'\'' | b'"' | b'`' => self.state = State::Quoted(b),
                b'#' => {
                    self.state = State::Line;
                    push = false;
                }
                0..=b' ' if before == b'-' && before_that == b'-' => {
                    self.text.truncate(self.text.len().saturating_sub(2));
                    self.state = if b == b'\n' { State::Plain } else { State::Line };
                }
                b'*' if before == b'/' => {
                    self.state = State::Comment(false);
                    push = false;
                }
                // The line at which old clients stop: `/*M!999999\- enable the sandbox mode */`.
                b'\\' if self.text == b"/*M!999999" => {
                    self.text.truncate(1);
                    self.executable = 0;
                    self.state = State::Comment(false);
                    push = false;
                }
                b'/' if before == b'*' && self.executable > 0 => self.executable -= 1,
                b';' => {
                    self.end(each);
                    return;
                }
                _ => {}
            },
            State::Quoted(quote) if b == quote => self.state = State::Plain,
            State::Quoted(quote) if b == b'\\' && quote != b'`' => {
                self.state = State::Escaped(quote);
            }
            State::Quoted(_) => {}
            State::Escaped(quote) => self.state = State::Quoted(quote),
            State::Line => {
                push = b == b'\n';
                if b == b'\n' {
                    self.state = State::Plain;
                }
            }
            // `/*!` and `/*M!` open code.
            State::Comment(_) if b == b'!' && (before_that, before) == (b'/', b'*') => {
                self.open_code(b"*");
            }
            State::Comment(_) if b == b'!' && self.last == *b"*M!" && third == b'*' => {
                self.open_code(b"*M");
            }
            State::Comment(true) if b == b'/' => {
                self.state = State::Plain;
                // Removes the `/` of the comment's beginning.
                self.text.pop();
                self.last = *b"   ";
                push = false;
                self.keep(b' ');
            }
            State::Comment(_) => {
                self.state = State::Comment(b == b'*');
                push = false;
            }
        }
        if push {
            self.keep(b);
        }
    }

    fn open_code(&mut self, mark: &[u8]) {
        self.executable += 1;
        self.state = State::Plain;
        mark.iter().for_each(|b| self.keep(*b));
    }

    /// Handles the client's lines `DELIMITER x`. True if the byte belongs to a body or to such a line.
    fn delimiter(&mut self, b: u8) -> bool {
        const WORD: &[u8] = b"DELIMITER ";
        let at_start = self.body || self.text.is_empty();
        if b == b'\n' {
            let line = std::mem::take(&mut self.line_start);
            let said = line.len() > WORD.len() && line[..WORD.len()].eq_ignore_ascii_case(WORD);
            if said && at_start {
                self.body = line[WORD.len()..].trim_ascii() != b";";
                self.text.clear();
                self.wanted = None;
                return true;
            }
        } else if self.line_start.len() < LOOK {
            self.line_start.push(b);
        }
        if self.body {
            return true;
        }
        // The line is not part of a statement.
        let line = &self.line_start;
        let n = line.len().min(WORD.len());
        if n == WORD.len() && line[..n].eq_ignore_ascii_case(WORD) && self.begins(line) {
            self.text.clear();
            return true;
        }
        false
    }

    /// Whether the statement so far consists of nothing but `line`.
    fn begins(&self, line: &[u8]) -> bool {
        self.text.len() <= line.len() && self.state == State::Plain
    }

    fn keep(&mut self, b: u8) {
        if self.text.is_empty() {
            if b <= b' ' {
                return;
            }
            self.begun = self.line;
            self.wanted = None;
        }
        match self.wanted {
            Some(false) if self.text.len() >= LOOK => return,
            None if self.text.len() >= LOOK => {
                self.wanted = Some(self.is_wanted().unwrap_or(false));
            }
            None if b <= b' ' || b == b'`' => self.wanted = self.is_wanted(),
            _ => {}
        }
        if self.text.len() >= MAX_STATEMENT {
            self.too_long = true;
            return;
        }
        self.text.push(b);
    }

    /// Whether the first word is in `KEPT`; `None` while it is incomplete.
    fn is_wanted(&self) -> Option<bool> {
        let text = &self.text;
        let mut words = frond_sqltext::tokens(text, frond_sqltext::SqlMode::default())
            .filter(|t| t.kind == frond_sqltext::TokenKind::Word);
        match words.next() {
            Some(word) => {
                let word = &text[word.start..word.end];
                Some(KEPT.iter().any(|kept| word.eq_ignore_ascii_case(kept.as_bytes())))
            }
            None => None,
        }
    }

    fn end(&mut self, each: &mut dyn FnMut(&[u8], u64)) {
        self.executable = 0;
        let wanted = self.wanted.or_else(|| self.is_wanted());
        if wanted == Some(true) && !self.too_long {
            each(&self.text, self.begun);
        }
        self.text.clear();
        self.wanted = None;
        self.too_long = false;
    }
}
