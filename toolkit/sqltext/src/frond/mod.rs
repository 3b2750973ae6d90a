//! The native dialect: reads tokens, writes canonical text.
//!
//! The rules:
//!  - a literal becomes `?`, with its sign, introducer and type word; adjoining strings are one;
//!  - NULL, TRUE and FALSE are literals in place of a value (`= null`, a list) and stay where they
//!    are grammar (`is null`, `not null`, `default null`);
//!  - `in (...)` and `values (...)` of nothing but literals become `in(?+)` and `values(?+)`; of
//!    several VALUES tuples the first stands for all; `limit` keeps one `?`;
//!  - keywords and functions become lower case, names keep their case; a name in backquotes that
//!    does not need them loses them; digits in names stay;
//!  - white space and comments between tokens are replaced by one blank or none, depending on the
//!    tokens alone; executable comments are read as the SQL they are;
//!  - adjoining arms of a CASE that are then equal (`when ? then ?`) are written once;
//!  - `asc` and a closing semicolon are dropped, repeated UNION arms become a remark.
//!
//! Invariants
//!
//! - FC1. Equal token sequences give equal text: spacing never depends on the spacing of the input.
//! - FC2. Lookahead (lists, limits) reads each byte at most once more.
//! - FC3. After the first tuple of VALUES at most `TUPLES_READ` bytes are read to find the statement's
//!   tail, then only the last `TAIL_READ` bytes are searched for one (`lists`).

mod arms;
mod cases;
mod lists;
mod names;
mod writer;

use writer::{Arm, Case, Last, Writer, ARMS, CASES};

use super::keywords::{traits_of, Traits};
use super::lexer::{in_word, Kind, Lexer, Token};
use super::output::Output;
use super::{scan, SqlMode};

/// The words of `Traits::SPECIAL`.
const ASC: u64 = scan::word("asc");
const CASE: u64 = scan::word("case");
const DATE: u64 = scan::word("date");
const ELSE: u64 = scan::word("else");
const END: u64 = scan::word("end");
const FALSE: u64 = scan::word("false");
const IN: u64 = scan::word("in");
const LIMIT: u64 = scan::word("limit");
const NULL: u64 = scan::word("null");
const SELECT: u64 = scan::word("select");
const TIME: u64 = scan::word("time");
const TIMESTAMP: u64 = scan::word("timestam");
const TRUE: u64 = scan::word("true");
const UNION: u64 = scan::word("union");
const USE: u64 = scan::word("use");
const VALUE: u64 = scan::word("value");
const VALUES: u64 = scan::word("values");
const WHEN: u64 = scan::word("when");

/// Appends to the empty `out` the fingerprint of `sql`.
pub(super) fn fingerprint(sql: &[u8], mode: SqlMode, out: &mut Vec<u8>) {
    if sql.starts_with(b"administrator command: ") {
        return out.extend_from_slice(sql);
    }
    let mut writer = Writer {
        sql,
        lexer: Lexer::new(sql, mode),
        out: Output::take(),
        last: Last::Start,
        clause: false,
        sign: 0,
        depth: 0,
        tuple: None,
        arms: [Arm::default(); ARMS],
        open_arms: 0,
        cases: [Case::default(); CASES],
        open_cases: 0,
        semicolon: false,
    };
    writer.run();
    writer.end_arms(0);
    writer.out.give(out);
}

impl Writer<'_> {
    /// Reads the statement to its end. Words, blanks, commas and the like, which make up most of any
    /// statement, are recognised here by their first byte; the lexer reads the rest.
    fn run(&mut self) {
        let sql = self.sql;
        loop {
            let at = self.lexer.position();
            let Some(&b) = sql.get(at) else { return };
            self.out.reserve(0);
            if b == b' ' {
                self.lexer.skip_to(at + 1);
                continue;
            }
            if b.is_ascii_alphabetic() || b == b'_' {
                let first = scan::load(sql, at);
                let mut end = at + scan::run(scan::name_bytes(first));
                if end == at + 8 {
                    end = scan::name_end(sql, end);
                }
                // x'1f' and similar texts are literals.
                if end > at + 1 || sql.get(end) != Some(&b'\'') {
                    self.separate();
                    self.lexer.seek(end);
                    let after_dot = self.last == Last::Dot;
                    self.word(Token { kind: Kind::Word, start: at, end }, first, after_dot);
                    continue;
                }
            } else if self.simple(b, at) {
                continue;
            }
            match self.lexer.next() {
                Some(token) => self.token(token),
                None => return,
            }
        }
    }

    /// Reads and writes a token of one byte, if the byte at `at` is certainly one.
    #[inline(always)]
    fn simple(&mut self, b: u8, at: usize) -> bool {
        let next = self.sql.get(at + 1).copied().unwrap_or(0);
        match b {
            b',' => {
                self.separate();
                self.out.push(b',');
                self.last = Last::Comma;
            }
            // A dot between names; the word before it was read here as well.
            b'.' if self.last == Last::Value
                && at > 0
                && (in_word(self.sql[at - 1]) || self.sql[at - 1] == b'`')
                && (next.is_ascii_alphabetic() || matches!(next, b'_' | b'`')) =>
            {
                self.out.push(b'.');
                self.last = Last::Dot;
            }
            b'=' | b'<' | b'>' if next == b' ' || next == b'\'' || in_word(next) => {
                self.separate();
                self.blank();
                self.out.push(b);
                self.last = Last::Op;
                self.clause = false;
            }
            b'(' => {
                self.separate();
                self.open();
            }
            b')' => {
                self.separate();
                // The next token may be read directly at this position.
                self.lexer.seek(at + 1);
                self.close();
                return true;
            }
            // A string without escapes and doubled quotes.
            b'\'' => {
                let Some(close) = scan::find2(self.sql, at + 1, b'\'', b'\\') else { return false };
                if self.sql[close] != b'\'' || self.sql.get(close + 1) == Some(&b'\'') {
                    return false;
                }
                self.separate();
                self.literal(Last::Text);
                self.lexer.seek(close + 1);
                return true;
            }
            // A quoted name that has only bytes of names.
            b'`' => {
                let start = at + 1;
                let first = scan::load(self.sql, start);
                let end = scan::name_end(self.sql, start);
                if end == start
                    || self.sql.get(end) != Some(&b'`')
                    || self.sql.get(end + 1) == Some(&b'`')
                {
                    return false;
                }
                self.separate();
                self.plain_name(start, end, first);
                self.lexer.seek(end + 1);
                return true;
            }
            // Digits only.
            b'0'..=b'9' if self.last != Last::Dot => {
                let end = scan::digits_end(self.sql, at + 1);
                if self.sql.get(end).is_some_and(|b| *b == b'.' || in_word(*b)) {
                    return false;
                }
                self.separate();
                self.literal(Last::Value);
                self.lexer.seek(end);
                return true;
            }
            _ => return false,
        }
        self.lexer.seek(at + 1);
        true
    }

    /// Writes a semicolon that was held back and is not the last token.
    #[inline(always)]
    fn separate(&mut self) {
        if self.semicolon {
            self.out.push(b';');
            self.semicolon = false;
        }
    }

    #[inline]
    fn token(&mut self, token: Token) {
        if token.kind != Kind::Semicolon {
            self.separate();
        }
        match token.kind {
            Kind::Word => {
                let first = scan::load(self.sql, token.start);
                self.word(token, first, self.last == Last::Dot);
            }
            Kind::Quoted => self.quoted(token),
            Kind::Text => self.literal(Last::Text),
            Kind::Number | Kind::Param => self.literal(Last::Value),
            Kind::Variable => self.variable(token),
            Kind::Open => self.open(),
            Kind::Close => self.close(),
            Kind::Comma => {
                self.out.push(b',');
                self.last = Last::Comma;
            }
            Kind::Dot => {
                // `.5` after a blank is a number; this dot joins names.
                self.out.push(b'.');
                self.last = Last::Dot;
            }
            Kind::Semicolon => {
                self.end_arms(0);
                self.open_cases = 0;
                self.semicolon = self.last != Last::Start;
                self.last = if self.semicolon { Last::Semicolon } else { Last::Start };
                self.depth = 0;
                self.tuple = None;
            }
            Kind::Op => self.op(token),
        }
    }

    /// Whether a blank goes before a token that is neither a comma nor a parenthesis nor a dot.
    #[inline(always)]
    fn wants_blank(&self) -> bool {
        !matches!(self.last, Last::Start | Last::Open | Last::Dot | Last::Sign)
    }

    #[inline(always)]
    fn blank(&mut self) {
        if self.wants_blank() {
            self.out.push(b' ');
        }
    }

    /// Whether a value is expected here, so that a sign is part of it.
    fn before_value(&self) -> bool {
        matches!(
            self.last,
            Last::Start | Last::Expression | Last::Op | Last::Sign | Last::Open | Last::Comma
        )
    }

    #[inline]
    fn literal(&mut self, last: Last) {
        if self.last == Last::Text && last == Last::Text {
            return;
        }
        if self.last == Last::Sign {
            // The blank before the sign was written with it.
            self.out.truncate(self.sign);
            self.out.push(b'?');
        } else {
            self.blank();
            self.out.push(b'?');
        }
        self.last = last;
    }

    /// The byte after white space at `at`, 0 at the end.
    #[inline]
    fn byte_after(&self, at: usize) -> u8 {
        self.sql.get(at..).and_then(|s| s.iter().find(|b| **b > b' ')).copied().unwrap_or(0)
    }

    /// A name or keyword; `first` is the eight bytes from its first on.
    #[inline(always)]
    fn word(&mut self, token: Token, first: u64, after_dot: bool) {
        let sql = self.sql;
        let text = &sql[token.start..token.end];
        let known = if after_dot { Traits::NONE } else { traits_of(text, first) };
        if text[0] == b'_' && matches!(self.byte_after(token.end), b'\'' | b'"') {
            return; // the character set of a string
        }
        if known.has(Traits::SPECIAL) {
            return self.special(token, known, scan::first_bytes(scan::lower(first), text.len()));
        }
        let function = !after_dot && sql.get(token.end) == Some(&b'(');
        let fold = known.is_keyword() || function;
        self.blank();
        let len = self.out.len;
        if text.len() <= 8 {
            let group = if fold { scan::lower(first) } else { first };
            scan::store(&mut self.out.bytes, len, group);
            self.out.len += text.len();
        } else {
            self.out.extend_from_slice(text);
            if fold {
                self.out.lower_from(len);
            }
        }
        self.clause = known.has(Traits::CLAUSE);
        self.last = if known.has(Traits::EXPRESSION) && known.is_keyword() {
            Last::Expression
        } else {
            Last::Value
        };
    }

    /// Handles a keyword with a special effect. `word` is its first eight bytes in lower case,
    /// which is the whole word except for `timestamp`.
    #[inline(never)]
    fn special(&mut self, token: Token, known: Traits, word: u64) {
        match word {
            NULL | TRUE | FALSE if self.before_value() => return self.literal(Last::Value),
            DATE | TIME | TIMESTAMP
                if self.before_value() && self.byte_after(token.end) == b'\'' =>
            {
                return;
            }
            ASC if self.last == Last::Value => return,
            CASE => self.case(),
            WHEN if self.open_cases > 0 => self.when(),
            // ELSE or END of a CASE, behind a value; elsewhere it is a column with that name, which is
            // not reserved.
            ELSE | END if self.open_cases > 0 && !self.before_value() => self.end_case(word == END),
            UNION => self.union(),
            SELECT => self.select(),
            USE if self.last == Last::Start => return self.use_db(token.end),
            _ => {}
        }
        self.blank();
        let len = token.end - token.start;
        scan::store(&mut self.out.bytes, self.out.len, word);
        self.out.len += len.min(8);
        if len > 8 {
            let written = self.out.len;
            self.out.extend_from_slice(&self.sql[token.start + 8..token.end]);
            self.out.lower_from(written);
        }
        self.clause = known.has(Traits::CLAUSE);
        self.last = if known.has(Traits::EXPRESSION) { Last::Expression } else { Last::Value };
        match word {
            IN => {
                self.list();
            }
            VALUES | VALUE => {
                if self.byte_after(token.end) == b'(' {
                    if self.list() {
                        self.skip_tuples();
                    } else {
                        self.tuple = Some(self.depth + 1);
                    }
                } else if word == VALUE {
                    self.last = Last::Value;
                }
            }
            LIMIT => self.limit(),
            _ => {}
        }
    }

    fn open(&mut self) {
        let blank = match self.last {
            Last::Value | Last::Expression => self.clause,
            Last::Start | Last::Open | Last::Sign | Last::Dot => false,
            Last::Text | Last::Op | Last::Comma | Last::Semicolon => true,
        };
        if blank {
            self.out.push(b' ');
        }
        self.out.push(b'(');
        self.depth = self.depth.saturating_add(1);
        self.last = Last::Open;
    }

    fn close(&mut self) {
        self.end_arms(self.depth);
        self.out.push(b')');
        self.last = Last::Value;
        self.clause = false;
        if self.tuple == Some(self.depth) {
            self.tuple = None;
            self.skip_tuples();
        }
        self.depth = self.depth.saturating_sub(1);
    }

    fn op(&mut self, token: Token) {
        let text = &self.sql[token.start..token.end];
        if matches!(text, b"-" | b"+") && self.before_value() {
            if self.last != Last::Sign {
                self.sign = self.out.len();
                // A literal writes its blank itself, after the cut.
                self.blank();
                if self.out.len() > self.sign {
                    self.sign += 1;
                }
            }
            self.out.extend_from_slice(text);
            self.last = Last::Sign;
            return;
        }
        let wildcard = text == b"*"
            && matches!(self.last, Last::Expression | Last::Open | Last::Comma | Last::Dot);
        self.blank();
        self.out.extend_from_slice(text);
        self.last = if wildcard { Last::Value } else { Last::Op };
        self.clause = false;
    }
}
