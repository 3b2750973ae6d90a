//! SHOW: the kind of object that is shown.

use super::{is_space, starts};
use crate::ptqd::{erase, is_word};

/// Appends the distilled form of `sql`, which has no comments and begins with SHOW and white space.
pub(super) fn show(sql: &[u8], out: &mut Vec<u8>) {
    let mut text = sql.to_ascii_uppercase();
    erase::replace(&mut text, None, count);
    erase::replace(&mut text, Some(b' '), filler);
    cut_clause(&mut text);
    let text = collapsed(&text);
    if !text.starts_with(b"SHOW ") {
        // White space comes first: the rest of the rule is then not applied.
        return out.extend_from_slice(&text);
    }
    // SHOW and at most two words are kept.
    let end = memchr::memchr_iter(b' ', &text).nth(2).unwrap_or(text.len());
    let kept = match text[..end].strip_suffix(b" ") {
        Some(kept) if kept != b"SHOW" => kept,
        _ => &text[..end],
    };
    rename(kept, out);
}

/// The start of the white space before `at`.
fn space_before(text: &[u8], at: usize) -> usize {
    at - text[..at].iter().rev().take_while(|b| is_space(**b)).count()
}

/// The length of a word of `words` that follows white space at `at` and ends there.
fn word_at(text: &[u8], at: usize, words: &[&str]) -> Option<usize> {
    if at == 0 || !is_space(text[at - 1]) {
        return None;
    }
    let rest = &text[at..];
    words
        .iter()
        .find(|w| rest.starts_with(w.as_bytes()) && !rest.get(w.len()).is_some_and(|b| is_word(*b)))
        .map(|w| w.len())
}

/// COUNT and everything up to a closing parenthesis, with the white space before it.
fn count(text: &[u8], from: usize) -> Option<std::ops::Range<usize>> {
    let word = b"COUNT";
    let at = memchr::memmem::find_iter(&text[from..], word)
        .map(|n| from + n)
        .find(|at| at.checked_sub(1).is_some_and(|before| is_space(text[before])))?;
    let body = at + word.len();
    let close = body + memchr::memchr(b')', &text[body..])?;
    (close > body).then(|| space_before(text, at).max(from)..close + 1)
}

/// Removes FROM and similar words with everything behind them; at least one byte must follow.
fn cut_clause(text: &mut Vec<u8>) {
    let words = ["FOR", "FROM", "LIKE", "WHERE", "LIMIT", "IN"];
    for at in 1..text.len() {
        if let Some(len) = word_at(text, at, &words) {
            if at + len < text.len() {
                return text.truncate(space_before(text, at));
            }
        }
    }
}

/// A word that does not say what is shown, with the white space before it.
fn filler(text: &[u8], from: usize) -> Option<std::ops::Range<usize>> {
    let words = ["SESSION", "FULL", "STORAGE", "ENGINE"];
    (from.max(1)..text.len()).find_map(|at| {
        let len = word_at(text, at, &words)?;
        Some(space_before(text, at).max(from)..at + len)
    })
}

/// White space becomes one blank.
fn collapsed(text: &[u8]) -> Vec<u8> {
    let mut kept = Vec::with_capacity(text.len());
    for b in text {
        if !is_space(*b) {
            kept.push(*b);
        } else if kept.last() != Some(&b' ') {
            kept.push(b' ');
        }
    }
    kept
}

/// Replaces the first SCHEMA by DATABASE, and the first KEYS or INDEXES by INDEX, even inside
/// words.
fn rename(text: &[u8], out: &mut Vec<u8>) {
    let (mut schema, mut keys) = (false, false);
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        if !schema && starts(rest, b"SCHEMA") {
            schema = true;
            out.extend_from_slice(b"DATABASE");
            at += b"SCHEMA".len();
        } else if !keys && (starts(rest, b"KEYS") || starts(rest, b"INDEXES")) {
            keys = true;
            out.extend_from_slice(b"INDEX");
            at += if rest[0] == b'K' { b"KEYS".len() } else { b"INDEXES".len() };
        } else {
            out.push(text[at]);
            at += 1;
        }
    }
}
