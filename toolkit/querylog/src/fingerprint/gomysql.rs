//! The fingerprints of percona/go-mysql, which PMM's query analytics show.
//!
//! Like those of pt-query-digest they keep the statement's own spacing, but digits in names stay,
//! NULL is a literal and TRUE is not, LIMIT keeps its commas, and no arm of a UNION is collapsed.
//!
//! What is here is the behaviour of that library on ordinary statements. On text that is no SQL (quotes
//! without a partner, comments inside of words) it differs from it; ids of such statements do not
//! agree. How far they agree on real ones is tested in `tests/fingerprint/` where the library is
//! at hand.

use super::{scan, Folded};
use memchr::memmem;

/// Appends to the empty `out` the fingerprint of `sql`.
pub(super) fn fingerprint(sql: &[u8], out: &mut Vec<u8>) {
    if sql.starts_with(b"administrator command: ") {
        return out.extend_from_slice(sql);
    }
    let start = sql.iter().position(|b| *b > b' ').unwrap_or(sql.len());
    Writer { sql, out, at: start, space: false, ordered: false, unclosed: false }.run();
}

struct Writer<'a, 'o> {
    sql: &'a [u8],
    out: &'o mut Vec<u8>,
    at: usize,
    /// White space or a comment was read since the last byte was written.
    space: bool,
    /// ORDER BY was written: ASC is dropped.
    ordered: bool,
    /// A parenthesis was found that nothing closes: it is not searched for again.
    unclosed: bool,
}

impl Writer<'_, '_> {
    fn run(mut self) {
        while let Some(&b) = self.sql.get(self.at) {
            let next = self.sql.get(self.at + 1).copied().unwrap_or(0);
            match b {
                0..=b' ' => {
                    self.space = true;
                    self.at += 1;
                }
                b'/' if next == b'*' && self.sql.get(self.at + 2) != Some(&b'!') => {
                    let body = self.at + 2;
                    let end = memmem::find(&self.sql[body..], b"*/");
                    self.at = end.map_or(self.sql.len(), |n| body + n + 2);
                    self.space = true;
                }
                b'#' => self.skip_line(),
                b'-' if next == b'-' && self.sql.get(self.at + 2).is_none_or(|b| *b <= b' ') => {
                    self.skip_line();
                }
                b'\'' | b'"' => {
                    self.at = end_of_string(self.sql, self.at);
                    self.mark();
                }
                b'`' => self.quoted_name(),
                b'0'..=b'9' => self.number(),
                b'+' | b'-' if next.is_ascii_digit() => {
                    self.at += 1;
                    self.number();
                }
                b if is_name(b) => {
                    if self.word() {
                        return;
                    }
                }
                b => {
                    self.write(&[b]);
                    self.at += 1;
                }
            }
        }
    }

    fn write(&mut self, text: &[u8]) {
        if self.space && !self.out.is_empty() {
            self.out.push(b' ');
        }
        self.space = false;
        self.out.extend_from_slice(text);
    }

    /// A literal; `x` and `b` before a string belong to it.
    fn mark(&mut self) {
        let marked = !self.space
            && matches!(self.out.last(), Some(b'x' | b'b'))
            && self.out.len().checked_sub(2).is_none_or(|at| !is_name(self.out[at]));
        if marked {
            self.out.pop();
        }
        self.write(b"?");
    }

    fn skip_line(&mut self) {
        let rest = &self.sql[self.at..];
        self.at += memchr::memchr(b'\n', rest).unwrap_or(rest.len());
        self.space = true;
    }

    fn number(&mut self) {
        let start = self.at;
        let mut end = start;
        while let Some(b) = self.sql.get(end) {
            let exponent = matches!(b, b'+' | b'-')
                && matches!(self.sql[end - 1], b'e' | b'E')
                && !self.sql[start..].starts_with(b"0x");
            if !(b.is_ascii_alphanumeric() || *b == b'.' || exponent) {
                break;
            }
            end += 1;
        }
        self.at = end;
        // Right after these the library sees no number.
        if matches!(self.out.last(), Some(b'*' | b':' | b'!' | b'/')) && !self.space {
            let text = &self.sql[start..end];
            self.write(text);
        } else {
            self.write(b"?");
        }
    }

    /// A name in backquotes, copied as it is but for its case.
    fn quoted_name(&mut self) {
        let start = self.at;
        let end = memchr::memchr(b'`', &self.sql[start + 1..]);
        self.at = end.map_or(self.sql.len(), |n| start + n + 2);
        let name = &self.sql[start..self.at];
        let from = self.out.len();
        self.write(name);
        self.out[from..].make_ascii_lowercase();
    }

    /// Whether the NULL just read is a value: not after IS or NOT, and not where a parenthesis
    /// closes or a semicolon follows.
    fn null_is_value(&self) -> bool {
        let next = self.sql.get(self.at).copied().unwrap_or(b' ');
        let grammar = [&b" is"[..], b" not"].iter().any(|word| self.out.ends_with(word));
        (next <= b' ' || next == b',') && !grammar && self.out.last() != Some(&b'.')
    }

    /// A name or keyword. True if the rest of the statement does not matter.
    fn word(&mut self) -> bool {
        let start = self.at;
        let sql = self.sql;
        self.at = scan::name_end(sql, start).max(start + 1);
        let text = &sql[start..self.at];
        let folded = Folded::of(text);
        let first = self.out.is_empty();
        match folded.as_bytes() {
            b"null" if self.null_is_value() => {
                self.write(b"?");
                return false;
            }
            b"asc" if self.ordered && self.space => {
                self.space = false;
                return false;
            }
            b"call" if first => {
                let paren = memchr::memchr(b'(', &sql[self.at..]).map(|n| self.at + n);
                let end = paren.unwrap_or(sql.len());
                self.write(&sql[start..end]);
                self.out.make_ascii_lowercase();
                return true;
            }
            b"use" if first => {
                self.write(b"use ?");
                return true;
            }
            _ => {}
        }
        let from = self.out.len();
        self.write(text);
        self.out[from..].make_ascii_lowercase();
        match folded.as_bytes() {
            b"by" if self.out.ends_with(b"order by") => self.ordered = true,
            b"in" => {
                if let Some(end) = self.list(self.at) {
                    self.out.extend_from_slice(b"(?+)");
                    self.at = end;
                }
            }
            b"values" | b"value" => {
                if let Some(mut end) = self.list(self.at) {
                    self.out.extend_from_slice(b"(?+)");
                    // The white space after the last row is lost.
                    loop {
                        let comma = skip_space(sql, end);
                        self.at = comma;
                        if sql.get(comma) != Some(&b',') {
                            break;
                        }
                        match self.list(comma + 1) {
                            Some(next) => end = next,
                            None => break,
                        }
                    }
                }
            }
            _ => {}
        }
        false
    }

    /// The end of the list in parentheses that begins at or after `at`, if it holds no SELECT.
    fn list(&mut self, at: usize) -> Option<usize> {
        let sql = self.sql;
        let mut at = skip_space(sql, at);
        if sql.get(at) != Some(&b'(') || self.unclosed {
            return None;
        }
        let first = skip_space(sql, at + 1);
        if sql.get(first..first + 6).is_some_and(|s| s.eq_ignore_ascii_case(b"select")) {
            return None;
        }
        let mut depth = 0usize;
        while let Some(b) = sql.get(at) {
            match b {
                b'\'' | b'"' => {
                    at = end_of_string(sql, at);
                    continue;
                }
                b'(' => depth += 1,
                b')' => {
                    depth -= 1;
                    if depth == 0 {
                        return Some(at + 1);
                    }
                }
                _ => {}
            }
            at += 1;
        }
        self.unclosed = true;
        None
    }
}

fn is_name(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'_' | b'$') || b >= 0x80
}

fn skip_space(sql: &[u8], mut at: usize) -> usize {
    while sql.get(at).is_some_and(|b| *b <= b' ') {
        at += 1;
    }
    at
}

/// The place past the string that begins at `at`.
fn end_of_string(sql: &[u8], at: usize) -> usize {
    let quote = sql[at];
    let mut from = at + 1;
    while let Some(found) = scan::find2(sql, from, quote, b'\\') {
        if sql[found] == quote {
            return found + 1;
        }
        from = found + 2;
    }
    sql.len()
}
