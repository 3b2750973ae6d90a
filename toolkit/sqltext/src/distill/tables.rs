//! Finds tables: names after FROM, JOIN, INTO and UPDATE, wherever these are.

use super::{after_word, is_space, name_end, object, skip_space, starts, Digits};
use crate::ptqd::erase;
use crate::ptqd::{begins_word, is_word};

/// Prints names.
struct Names<'o> {
    out: &'o mut Vec<u8>,
    /// Where the verbs end.
    verbs: usize,
    digits: Digits,
}

/// Appends the tables of `sql` to the verbs.
pub(super) fn tables(sql: &[u8], digits: Digits, out: &mut Vec<u8>) {
    let mut names = Names { verbs: out.len(), out, digits };
    let mut text = sql;
    let start = &sql[skip_space(sql, 0)..];
    let about = ["create", "alter", "drop", "rename", "truncate"];
    if let Some(verb) = about.iter().find(|verb| whole(start, verb.as_bytes())) {
        let rest = &start[verb.len()..];
        if rest.first() == Some(&b' ') && whole(&rest[1..], b"database") {
            return;
        }
        // CREATE ... SELECT is recognised only if both are on one line.
        let line = match *verb {
            "create" => memchr::memchr(b'\n', rest).unwrap_or(rest.len()),
            _ => 0,
        };
        let select = (0..line).find(|at| begins_word(rest, *at) && whole(&rest[*at..], b"select"));
        match select {
            Some(at) => text = &rest[at..],
            None => {
                if let Some(name) = object(rest, &[b"table"]) {
                    names.show(name);
                }
                return;
            }
        }
    }
    let mut text = text.to_vec();
    erase::replace(&mut text, None, modifier);
    if starts(&text[skip_space(&text, 0)..], b"load data") {
        if let Some(name) = object(&text, &[b"into table"]) {
            names.show(name);
        }
        return;
    }
    erase::quotes(&mut text);
    erase::replace(&mut text, Some(b'?'), single_quoted);
    // INTO may be missing, and a LOCK names its tables directly.
    let start = &text[skip_space(&text, 0)..];
    let locked = after_word(start, b"lock tables").map(|rest| text.len() - rest.len());
    let inserted = after_word(start, b"insert").or_else(|| after_word(start, b"replace"));
    let mut first =
        inserted.filter(|rest| !starts(rest, b"into")).map(|rest| text.len() - rest.len());
    if let Some(names) = locked {
        text.drain(..names);
        erase::replace(&mut text, None, lock);
        first = Some(0);
    }
    let mut from = 0;
    if let Some(end) = first.and_then(|at| list(&text, at, &mut names)) {
        from = end;
    }
    while let Some(at) = keyword(&text, from) {
        from = at;
        if let Some(end) = list(&text, at, &mut names) {
            from = end;
        }
    }
}

/// Whether `text` begins with `word` and the word ends there.
fn whole(text: &[u8], word: &[u8]) -> bool {
    starts(text, word) && !text.get(word.len()).is_some_and(|b| is_word(*b))
}

type Range = Option<std::ops::Range<usize>>;

/// A modifier, followed by other white space and something else that need not be a word.
fn modifier(text: &[u8], from: usize) -> Range {
    (from..text.len()).find_map(|at| {
        let rest = &text[at..];
        let words: [&[u8]; 3] = [b"low_priority", b"ignore", b"delayed"];
        let word = words.iter().find(|word| starts(rest, word))?;
        rest.get(word.len()).is_some_and(|b| is_space(*b)).then(|| at..at + word.len())
    })
}

/// The lock type behind a table, with the white space around it.
fn lock(text: &[u8], from: usize) -> Range {
    (from + 1..text.len()).find_map(|at| {
        let rest = &text[at..];
        if !is_space(text[at - 1]) {
            return None;
        }
        let mut len = if starts(rest, b"write") {
            b"write".len()
        } else if starts(rest, b"read") {
            let read = b"read".len();
            let local = skip_space(rest, read);
            match starts(&rest[local..], b"local") && local > read {
                true => local + b"local".len(),
                false => read,
            }
        } else {
            return None;
        };
        len = skip_space(rest, len);
        let before = text[from..at].iter().rev().take_while(|b| is_space(**b)).count();
        Some(at - before..at + len)
    })
}

fn single_quoted(text: &[u8], from: usize) -> Range {
    let open = from + memchr::memchr(b'\'', &text[from..])?;
    let close = memchr::memchr(b'\'', &text[open + 1..])?;
    Some(open..open + close + 2)
}

/// The end of the next word that is followed by tables.
fn keyword(text: &[u8], from: usize) -> Option<usize> {
    (from..text.len()).find_map(|at| {
        if !matches!(text[at] | 0x20, b'f' | b'j' | b'i' | b'u') || !begins_word(text, at) {
            return None;
        }
        let rest = &text[at..];
        let word = ["from", "join", "into", "update"].iter().find(|w| whole(rest, w.as_bytes()))?;
        // ON DUPLICATE KEY UPDATE
        let key = *word == "update"
            && at >= 4
            && text[at - 4..at - 1].eq_ignore_ascii_case(b"key")
            && is_space(text[at - 1]);
        (!key).then(|| at + word.len())
    })
}

/// Adds the tables that begin at `at`, or after white space and one parenthesis there; returns where they end.
fn list(text: &[u8], at: usize, names: &mut Names<'_>) -> Option<usize> {
    let mut at = skip_space(text, at);
    if text.get(at) == Some(&b'(') {
        at += 1;
    }
    if whole(text.get(at..)?, b"select") {
        return None;
    }
    let mut end = name_end(text, at)?;
    while let Some(next) = after_alias(text, end) {
        let Some(next_end) = name_end(text, next) else { break };
        end = next_end;
    }
    for piece in text[at..end].split(|b| *b == b',') {
        let name = &piece[skip_space(piece, 0)..];
        if name_end(name, 0) == Some(name.len()) {
            names.add(name);
        } else {
            names.add(&table_of(piece));
        }
    }
    Some(end)
}

/// The position behind an alias, a comma and white space.
fn after_alias(text: &[u8], end: usize) -> Option<usize> {
    let word_end = |at: usize| {
        let start = skip_space(text, at);
        let len = text[start..].iter().take_while(|b| is_word(**b)).count();
        (start > at && len > 0).then_some(start + len)
    };
    let comma = |at: usize| (text.get(at) == Some(&b',')).then(|| skip_space(text, at + 1));
    if let Some(next) = comma(end) {
        return Some(next);
    }
    let word = word_end(end)?;
    if let Some(next) = comma(word) {
        return Some(next);
    }
    let is_as = text[skip_space(text, end)..word].eq_ignore_ascii_case(b"as");
    comma(word_end(word).filter(|_| is_as)?)
}

/// The table of an element of a list: for each name in it, text that follows after white space on the same
/// line is an alias and is removed. There is more than one name if backquotes hold a comma, or if an alias
/// is on several lines.
fn table_of(piece: &[u8]) -> Vec<u8> {
    let mut table = Vec::with_capacity(piece.len());
    let mut at = 0;
    while at < piece.len() {
        let name = skip_space(piece, at);
        let Some(end) = name_end(piece, name) else {
            let end = (name + 1).min(piece.len());
            table.extend_from_slice(&piece[at..end]);
            at = end;
            continue;
        };
        table.extend_from_slice(&piece[name..end]);
        at = end;
        let alias = skip_space(piece, end);
        if alias > end {
            // The line may end inside the white space; then the alias is on the next line.
            let line = memchr::memchr(b'\n', &piece[alias..]);
            at = line.map_or(piece.len(), |n| alias + n);
        }
    }
    table
}

impl Names<'_> {
    /// Adds a table, if it has a letter.
    fn add(&mut self, name: &[u8]) {
        if name.iter().any(u8::is_ascii_alphabetic) {
            self.show(name);
        }
    }

    /// Adds a name as it is printed: without backquotes, with one `?` for adjoining digits if requested, and not at all
    /// if it repeats the name before it.
    fn show(&mut self, name: &[u8]) {
        let start = self.out.len();
        self.out.push(b' ');
        let mut marked = false;
        for b in name.iter().filter(|b| **b != b'`') {
            let mark = b.is_ascii_digit() && self.digits == Digits::Marked;
            match (mark, marked) {
                (false, _) => self.out.push(*b),
                (true, false) => self.out.push(b'?'),
                (true, true) => {}
            }
            marked = mark;
        }
        let (before, new) = self.out.split_at(start);
        if before[self.verbs..].ends_with(new) {
            self.out.truncate(start);
        }
    }
}
