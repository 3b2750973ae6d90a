//! Rules 3 to 8 in one pass: strings in single quotes, truth values, numbers, NULL, white space,
//! letter case, and lists, on a text without comments, backslashed quotes and double quotes.
//!
//! The tool applies one rule after the other to the whole text. One pass gives the same result
//! because each rule depends only on the following:
//!  - truth values and numbers are recognised by the bytes of the text alone, and a number ends
//!    before a truth value, since those are replaced first;
//!  - the `x`, `b` or dot before a `?` is searched for in the text (an `X` does not count, though
//!    it is written like an `x`), and is missing from the output only if it was part of something
//!    else;
//!  - NULL is searched for in the output when the byte after it is about to be written: by then a
//!    digit after it has become `?`, and an `x` between the two has been removed;
//!  - a list is complete when its parenthesis closes, and all its elements have been written.

use super::{begins_word, is_space, is_word, skip_space};
use crate::output::Output;
use crate::scan;

/// The kind of text that a byte begins.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Letter,
    Number,
    /// White space that is collapsed; a vertical tab is not collapsed.
    Space,
    Quote,
    Mark,
    Open,
    Close,
    Other,
}

const CLASSES: [Class; 256] = {
    let mut classes = [Class::Other; 256];
    let mut b = 0;
    while b < 256 {
        classes[b] = match b as u8 {
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => Class::Letter,
            b'0'..=b'9' | b'+' | b'-' => Class::Number,
            b' ' | b'\n' | b'\t' | b'\r' | b'\x0c' => Class::Space,
            b'\'' => Class::Quote,
            b'?' => Class::Mark,
            b'(' => Class::Open,
            b')' => Class::Close,
            _ => Class::Other,
        };
        b += 1;
    }
    classes
};

#[inline(always)]
fn class(b: u8) -> Class {
    CLASSES[usize::from(b)]
}

struct Writer<'t, 'o> {
    text: &'t [u8],
    at: usize,
    out: &'o mut Output,
    /// A parenthesis that may hold a list: the end of the output if it does, and where its elements
    /// begin.
    list: Option<(usize, usize)>,
    /// The end of the last `(?+)`; lists that follow it belong to it.
    collapsed: usize,
}

/// Writes `text` to the empty `out`.
pub(super) fn write(text: &[u8], out: &mut Output) {
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    Writer { text, at: skip_space(text, 0), out, list: None, collapsed: 0 }.run();
}

impl Writer<'_, '_> {
    fn run(&mut self) {
        let text = self.text;
        while let Some(&b) = text.get(self.at) {
            self.out.reserve(0);
            let start = self.at;
            match class(b) {
                Class::Letter => self.word(),
                Class::Number => self.number(),
                Class::Space => {
                    self.at += 1;
                    while text.get(self.at).is_some_and(|b| class(*b) == Class::Space) {
                        self.at += 1;
                    }
                    self.write(b' ');
                }
                Class::Quote => match scan::find(text, start + 1, b'\'') {
                    Some(close) => {
                        self.at = close + 1;
                        self.mark(start);
                    }
                    None => {
                        self.at += 1;
                        self.write(b);
                    }
                },
                Class::Mark => {
                    self.at += 1;
                    self.mark(start);
                }
                Class::Open => {
                    self.at += 1;
                    self.open();
                }
                Class::Close => {
                    self.at += 1;
                    self.close();
                }
                Class::Other => {
                    self.at += 1;
                    self.write(b);
                }
            }
        }
        self.end_word();
    }

    /// Writes a byte that belongs to no word.
    #[inline(always)]
    fn write(&mut self, b: u8) {
        self.end_word();
        self.out.push(b);
    }

    /// A word ends here, if one has been written: NULL becomes `?`.
    #[inline(always)]
    fn end_word(&mut self) {
        if self.out.last() == Some(b'l') {
            self.null();
        }
    }

    #[inline(never)]
    fn null(&mut self) {
        let Some(start) = self.out.len().checked_sub(4) else { return };
        if self.out.written().ends_with(b"null") && begins_word(&self.out.bytes, start) {
            self.out.truncate(start);
            self.out.push(b'?');
        }
    }

    /// Writes `?` for the text from `start` on.
    #[inline(always)]
    fn mark(&mut self, start: usize) {
        if let Some(before) = start.checked_sub(1).map(|at| self.text[at]) {
            if matches!(before, b'x' | b'b' | b'.') && self.out.last() == Some(before) {
                self.out.truncate(self.out.len() - 1);
            }
        }
        self.write(b'?');
    }

    /// Reads letters up to the first other byte. If that is a digit, the word continues in the
    /// text, though not in the output.
    #[inline(always)]
    fn word(&mut self) {
        let (text, start) = (self.text, self.at);
        let first = scan::load(text, start);
        let len = scan::run(scan::letters(first));
        if len == 8 {
            return self.long_word();
        }
        self.at += len;
        let group = scan::lower(first);
        if (len == 4 || len == 5) && self.truth(start, scan::first_bytes(group, len)) {
            return self.mark(start);
        }
        scan::store(&mut self.out.bytes, self.out.len, group);
        self.out.len += len;
    }

    /// Whether the word from `start` to here, given as by `scan::first_bytes`, is TRUE or FALSE.
    #[inline(always)]
    fn truth(&self, start: usize, group: u64) -> bool {
        (group == scan::word("true") || group == scan::word("false"))
            && begins_word(self.text, start)
            && !self.text.get(self.at).is_some_and(u8::is_ascii_digit)
    }

    #[inline(never)]
    fn long_word(&mut self) {
        let start = self.at;
        loop {
            let len = scan::run(scan::letters(scan::load(self.text, self.at)));
            self.at += len;
            if len < 8 {
                break;
            }
        }
        let written = self.out.len();
        self.out.extend_from_slice(&self.text[start..self.at]);
        self.out.lower_from(written);
    }

    /// Reads a digit or a sign, and everything after it that can be part of a number.
    #[inline(always)]
    fn number(&mut self) {
        let (text, start) = (self.text, self.at);
        self.at += 1;
        while let Some(&b) = text.get(self.at) {
            match b {
                b'0'..=b'9' | b'.' | b'x' | b'+' | b'-' | b'a'..=b'e' => self.at += 1,
                b'f' if !self.at_false() => self.at += 1,
                _ => break,
            }
        }
        self.mark(start);
    }

    /// Whether FALSE stands here as a word of its own.
    fn at_false(&self) -> bool {
        let word = &self.text[self.at..];
        let end = b"false".len();
        begins_word(self.text, self.at)
            && word.len() >= end
            && word[..end].eq_ignore_ascii_case(b"false")
            && !word.get(end).is_some_and(|b| is_word(*b))
    }

    fn open(&mut self) {
        self.end_word();
        let base = self.before_list();
        self.out.push(b'(');
        self.list = base.map(|base| (base, self.out.len()));
    }

    /// The end of the keyword or list that a list may follow here; white space and commas may come
    /// in between.
    fn before_list(&self) -> Option<usize> {
        let written = self.out.written();
        let between = written.iter().rev().take_while(|b| is_space(**b) || **b == b',').count();
        let end = written.len() - between;
        let head = &written[..end];
        let word = match head.last()? {
            b')' => return (end == self.collapsed).then_some(end),
            b'n' => b"in".as_slice(),
            b's' => b"values",
            b'e' => b"value",
            _ => return None,
        };
        (head.ends_with(word) && begins_word(head, end - word.len())).then_some(end)
    }

    fn close(&mut self) {
        self.end_word();
        if let Some((base, elements)) = self.list.take() {
            let elements = &self.out.written()[elements..];
            if elements.iter().all(|b| matches!(b, b'?' | b',') || is_space(*b)) {
                self.out.truncate(base);
                if base != self.collapsed {
                    self.out.extend_from_slice(b"(?+)");
                    self.collapsed = self.out.len();
                }
                return;
            }
        }
        self.out.push(b')');
    }
}
