//! Finds words in any case, and names; verbs and tables are found by these.

use crate::ptqd::{after_word, is_word, skip_space};

/// Treatment of digits in the names of tables.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Digits {
    /// They stay.
    Kept,
    /// Adjoining digits become one `?`.
    Marked,
}

/// Whether `text` begins with `word` in any case.
pub(super) fn starts(text: &[u8], word: &[u8]) -> bool {
    text.get(..word.len()).is_some_and(|head| head.eq_ignore_ascii_case(word))
}

/// The first place of `word` in any case.
pub(super) fn find_any_case(text: &[u8], word: &[u8]) -> Option<usize> {
    let first = word[0];
    memchr::memchr2_iter(first.to_ascii_lowercase(), first.to_ascii_uppercase(), text)
        .find(|at| starts(&text[*at..], word))
}

/// The end of the name at `at`: two parts at most, each a word or anything in backquotes.
pub(super) fn name_end(text: &[u8], at: usize) -> Option<usize> {
    let end = part_end(text, at)?;
    if text.get(end) == Some(&b'.') {
        return Some(part_end(text, end + 1).unwrap_or(end));
    }
    Some(end)
}

fn part_end(text: &[u8], at: usize) -> Option<usize> {
    if text.get(at) == Some(&b'`') {
        let name = memchr::memchr(b'`', &text[at + 1..]).filter(|len| *len > 0)?;
        return Some(at + name + 2);
    }
    let len = text.get(at..)?.iter().take_while(|b| is_word(**b)).count();
    (len > 0).then_some(at + len)
}

/// `text` past `IF EXISTS` or `IF NOT EXISTS` and the white space after it, if there is any.
fn after_if_exists(text: &[u8]) -> Option<&[u8]> {
    let rest = after_word(text, b"if")?;
    let rest = after_word(rest, b"not").unwrap_or(rest);
    let end = b"exists".len();
    starts(rest, b"exists").then(|| &rest[skip_space(rest, end)..])
}

/// The name that follows the first of `words`, white space, and an optional IF EXISTS.
pub(super) fn object<'a>(text: &'a [u8], words: &[&[u8]]) -> Option<&'a [u8]> {
    (0..text.len()).find_map(|at| {
        let rest = words.iter().find_map(|word| after_word(&text[at..], word))?;
        let name = after_if_exists(rest).unwrap_or(rest);
        Some(&name[..name_end(name, 0)?])
    })
}
