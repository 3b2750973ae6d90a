//! Verbs, in a text without comments.

use super::{find_any_case, object, skip_space, starts};
use crate::ptqd::{begins_word, is_word};

/// Verbs of statements about objects; white space may stand before them.
const OBJECT: [&str; 5] = ["CREATE", "ALTER", "DROP", "RENAME", "TRUNCATE"];
/// Verbs that count only if the text begins with them.
const FIRST: [&str; 8] = ["SHOW", "SET", "BEGIN", "COMMIT", "ROLLBACK", "LOCK", "FLUSH", "START"];
/// Verbs that count anywhere.
const ANYWHERE: [&str; 6] = ["SELECT", "INSERT", "UPDATE", "DELETE", "REPLACE", "UNION"];

/// The word of `words` at the start of `text`.
fn word_of<'w>(text: &[u8], words: &[&'w str]) -> Option<&'w str> {
    let word = words.iter().find(|word| starts(text, word.as_bytes()))?;
    (!text.get(word.len()).is_some_and(|b| is_word(*b))).then_some(word)
}

/// Appends the verbs of `sql`. For a statement about a table or database, returns the object's name
/// as well.
pub(super) fn verbs<'a>(sql: &'a [u8], out: &mut Vec<u8>) -> Option<&'a [u8]> {
    let text = &sql[skip_space(sql, 0)..];
    if let Some(verb) = word_of(text, &OBJECT) {
        out.extend_from_slice(verb.as_bytes());
        if let Some(kind) = kind(text, verb.as_bytes()) {
            out.extend_from_slice(kind);
        }
        return object(&text[verb.len()..], &[b"table", b"database"]);
    }
    let mut found = Found { out, last: "", select: false, union: false };
    if let Some(verb) = word_of(sql, &FIRST) {
        found.add(verb);
    }
    for at in 0..sql.len() {
        if !matches!(sql[at] | 0x20, b's' | b'i' | b'u' | b'd' | b'r') || !begins_word(sql, at) {
            continue;
        }
        if let Some(verb) = word_of(&sql[at..], &ANYWHERE) {
            found.add(verb);
        }
    }
    if found.union {
        out.extend_from_slice(b" UNION");
    }
    None
}

struct Found<'o> {
    out: &'o mut Vec<u8>,
    last: &'static str,
    /// SELECT came first, so only UNION still counts.
    select: bool,
    union: bool,
}

impl Found<'_> {
    fn add(&mut self, verb: &'static str) {
        if self.select {
            self.union |= verb == "UNION";
        } else if verb != self.last {
            self.select = self.last.is_empty() && verb == "SELECT";
            if !self.last.is_empty() {
                self.out.push(b' ');
            }
            self.out.extend_from_slice(verb.as_bytes());
            self.last = verb;
        }
    }
}

/// ` TABLE` or ` DATABASE`: the last one that ends a word on a line on which the verb comes before
/// it.
fn kind(text: &[u8], verb: &[u8]) -> Option<&'static [u8]> {
    text.split(|b| *b == b'\n').find_map(|line| {
        let line = &line[find_any_case(line, verb)? + verb.len()..];
        (0..line.len()).rev().find_map(|at| match word_of(&line[at..], &["TABLE", "DATABASE"])? {
            "TABLE" => Some(b" TABLE".as_slice()),
            _ => Some(b" DATABASE"),
        })
    })
}
