//! Lists of literals, rows of VALUES, and the numbers of LIMIT: they are read ahead and written as
//! one mark.

use super::{Last, Writer};
use crate::lexer::{Kind, Token};
use crate::{scan, Folded};

const TUPLES_READ: usize = 16 << 10;
const TAIL_READ: usize = 4 << 10;

impl Writer<'_> {
    /// After `in` or `values`: if a list of literals follows (or of rows of them), writes
    /// its mark and skips it.
    pub(super) fn list(&mut self) -> bool {
        if let Some(end) = self.plain_list(self.lexer.position()) {
            self.lexer.seek(end);
            self.collapsed(false);
            return true;
        }
        let mut ahead = self.lexer.clone();
        if ahead.next().map(|t| t.kind) != Some(Kind::Open) {
            return false;
        }
        let mut row = false;
        let mut rows = false;
        let mut literals = false;
        loop {
            // A list that is cut off by the end of the text counts as one of literals.
            let token = ahead.next();
            let Some(token) = token.filter(|t| t.kind != Kind::Word || t.end < self.sql.len())
            else {
                if literals {
                    self.lexer = ahead;
                    self.collapsed(rows);
                }
                return literals;
            };
            match token.kind {
                Kind::Number | Kind::Text | Kind::Param => literals = true,
                Kind::Comma => {}
                Kind::Op if matches!(self.sql[token.start], b'+' | b'-') => {}
                Kind::Word => match Folded::of(&self.sql[token.start..token.end]).as_bytes() {
                    b"null" | b"true" | b"false" => literals = true,
                    [b'_', ..] | b"date" | b"time" | b"timestamp"
                        if matches!(self.byte_after(token.end), b'\'' | b'"') => {}
                    _ => return false,
                },
                Kind::Open if !row => (row, rows) = (true, true),
                Kind::Close if row => row = false,
                Kind::Close if literals => {
                    self.lexer = ahead;
                    self.collapsed(rows);
                    return true;
                }
                _ => return false,
            }
        }
    }

    /// Writes the mark for a list of literals, or for a list of rows of them.
    #[inline]
    fn collapsed(&mut self, rows: bool) {
        self.out.extend_from_slice(if rows { b"((?+))" } else { b"(?+)" });
        self.last = Last::Value;
        self.clause = false;
    }

    /// The end of the list at `at` if it has only plain numbers and strings; `None` for other lists
    /// and for text that is not a list.
    fn plain_list(&self, at: usize) -> Option<usize> {
        let sql = self.sql;
        let mut at = skip_blank(sql, at);
        if *sql.get(at)? != b'(' {
            return None;
        }
        at += 1;
        loop {
            at = skip_blank(sql, at);
            match sql.get(at)? {
                b'0'..=b'9' => at = scan::digits_end(sql, at + 1),
                b'\'' => {
                    at = scan::find2(sql, at + 1, b'\'', b'\\')?;
                    if sql[at] == b'\\' || sql.get(at + 1) == Some(&b'\'') {
                        return None;
                    }
                    at += 1;
                }
                _ => return None,
            }
            at = skip_blank(sql, at);
            match sql.get(at)? {
                b',' => at += 1,
                b')' => return Some(at + 1),
                _ => return None,
            }
        }
    }

    /// After a tuple of VALUES: skips the tuples that follow (FC3).
    pub(super) fn skip_tuples(&mut self) {
        let start = self.lexer.position();
        loop {
            let mut ahead = self.lexer.clone();
            if ahead.next().map(|t| t.kind) != Some(Kind::Comma) {
                return;
            }
            match ahead.next().map(|t| t.kind) {
                Some(Kind::Open) => {}
                Some(_) => return,
                None => {
                    // The text is cut between two tuples.
                    self.lexer = ahead;
                    return;
                }
            }
            let mut depth = 1;
            while depth > 0 {
                match ahead.next().map(|t| t.kind) {
                    Some(Kind::Open) => depth += 1,
                    Some(Kind::Close) => depth -= 1,
                    Some(_) => {}
                    None => {
                        // The text is cut inside a tuple.
                        self.lexer = ahead;
                        return;
                    }
                }
                if ahead.position() - start > TUPLES_READ {
                    let tail = self.tail(ahead.position());
                    self.lexer.seek(tail);
                    return;
                }
            }
            self.lexer = ahead;
        }
    }

    /// Where the clause after the tuples of a long INSERT begins, or the statement's end if there
    /// is none. It cannot begin before `from`.
    fn tail(&self, from: usize) -> usize {
        let sql = self.sql;
        let from = from.max(sql.len().saturating_sub(TAIL_READ));
        let is_tail = |at: usize| {
            let rest = &sql[at + 1..];
            let skip = rest.iter().position(|b| *b > b' ').unwrap_or(rest.len());
            let has = |word: &[u8]| {
                rest.get(skip..skip + word.len()).is_some_and(|s| s.eq_ignore_ascii_case(word))
            };
            (has(b"on duplicate key") || has(b"returning ")).then_some(at + 1 + skip)
        };
        memchr::memrchr_iter(b')', &sql[from..])
            .find_map(|n| is_tail(from + n))
            .unwrap_or(sql.len())
    }

    /// After `limit`: `?, ?` and `? offset ?` are written as `?`.
    pub(super) fn limit(&mut self) {
        let mut ahead = self.lexer.clone();
        let value = |token: Option<Token>| {
            matches!(token, Some(Token { kind: Kind::Number | Kind::Param | Kind::Text, .. }))
        };
        if !value(ahead.next()) {
            return;
        }
        self.out.extend_from_slice(b" ?");
        self.last = Last::Value;
        self.clause = false;
        self.lexer = ahead.clone();
        let more = match ahead.next() {
            Some(Token { kind: Kind::Comma, .. }) => true,
            Some(Token { kind: Kind::Word, start, end }) => {
                self.sql[start..end].eq_ignore_ascii_case(b"offset")
            }
            _ => false,
        };
        if more && value(ahead.next()) {
            self.lexer = ahead;
        }
    }
}

/// The position behind blanks and line ends at `at`.
#[inline(always)]
fn skip_blank(sql: &[u8], mut at: usize) -> usize {
    while matches!(sql.get(at), Some(b' ' | b'\n' | b'\r' | b'\t')) {
        at += 1;
    }
    at
}
