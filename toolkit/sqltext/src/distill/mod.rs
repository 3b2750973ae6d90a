//! What pt-query-digest's profile prints in its column "Item": verbs, then tables.
//!
//! Found like the rules of `ptqd`, by asking the installed tool; the experiments are in
//! `docs/rfcs/0005-fingerprint-compat.md` under the numbers used here.
//!
//!  1. CALL, LOAD, USE, UNLOCK TABLES, XA and administrator commands have forms of their own.
//!  2. SHOW keeps its first words (`show`); no tables.
//!  3. CREATE, ALTER, DROP, RENAME and TRUNCATE: the verb, TABLE or DATABASE, the tables, and the
//!     object as it is written (`verbs`).
//!  4. Anything else: some verbs at the start, some wherever they stand. After a leading SELECT
//!     only UNION counts (`verbs`).
//!  5. Tables are what follows FROM, JOIN, INTO and UPDATE (`tables`); digits in them become `?`
//!     (for the tool, not for classes that differ in them), and a table that repeats the one before it is not printed.
//!
//! Verbs are looked for in the text without comments but with its strings, tables in the text with
//! its comments but without strings. So `insert into t values ('please update')` is an INSERT
//! UPDATE, and a table in a comment counts.
//!
//! Tested in `tests/it/`, beside the tool where it is installed. White space inside of
//! lists of tables and words that look like two things at once are where the two may differ; no
//! statement of the corpus does.

mod show;
mod tables;
mod verbs;

use super::ptqd::{self, after_word, is_space, is_word, skip_space};

/// What becomes of digits in the names of tables.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Digits {
    /// They are written.
    Kept,
    /// One `?` for digits that touch.
    Marked,
}

/// Appends to the empty `out` the distilled form of `sql`.
pub(super) fn distill(sql: &[u8], digits: Digits, out: &mut Vec<u8>) {
    let start = &sql[skip_space(sql, 0)..];
    if starts(start, b"load") {
        return load(start, out);
    }
    let mut object = None;
    let mut plain = Vec::new();
    if let Some(name) = ptqd::called(sql) {
        out.extend_from_slice(b"CALL ");
        out.extend_from_slice(name);
    } else if let Some(command) = sql.strip_prefix(b"administrator command:") {
        out.extend_from_slice(b"ADMIN");
        out.extend(command.iter().map(u8::to_ascii_uppercase));
    } else if start.starts_with(b"use") && after_word(start, b"use").is_some() {
        out.extend_from_slice(b"USE");
    } else if starts(start, b"unlock tables") {
        out.extend_from_slice(b"UNLOCK");
    } else if let Some(rest) = after_word(start, b"xa").filter(|rest| !rest.is_empty()) {
        out.extend_from_slice(b"XA_");
        out.extend(rest.iter().take_while(|b| !is_space(**b)));
    } else {
        plain.extend_from_slice(sql);
        ptqd::erase::comments(&mut plain);
        if after_word(&plain[skip_space(&plain, 0)..], b"show").is_some() {
            show::show(&plain, out);
        } else {
            object = verbs::verbs(&plain, out);
        }
    }
    if out.starts_with(b"SHOW") {
        return;
    }
    let verbs = out.len();
    tables::tables(sql, digits, out);
    if let Some(object) = object {
        append(object, verbs, out);
    }
}

/// Appends a table, unless it is the last one already. The verbs end at `verbs`.
fn append(name: &[u8], verbs: usize, out: &mut Vec<u8>) {
    let written = &out[verbs..];
    let repeated = written.ends_with(name)
        && written.len() > name.len()
        && written[written.len() - name.len() - 1] == b' ';
    if !repeated {
        out.push(b' ');
        out.extend_from_slice(name);
    }
}

/// LOAD: the table as it is written, up to white space, without its backquotes.
fn load(sql: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"LOAD DATA ");
    let mut rest = sql;
    while let Some(at) = find_any_case(rest, b"into table") {
        rest = &rest[at + b"into table".len()..];
        let name = skip_space(rest, 0);
        if name > 0 && name < rest.len() {
            let name = rest[name..].iter().take_while(|b| !is_space(**b));
            return out.extend(name.filter(|b| **b != b'`'));
        }
    }
}

/// Whether `text` begins with `word` in any case.
fn starts(text: &[u8], word: &[u8]) -> bool {
    text.get(..word.len()).is_some_and(|head| head.eq_ignore_ascii_case(word))
}

/// The first place of `word` in any case.
fn find_any_case(text: &[u8], word: &[u8]) -> Option<usize> {
    let first = word[0];
    memchr::memchr2_iter(first.to_ascii_lowercase(), first.to_ascii_uppercase(), text)
        .find(|at| starts(&text[*at..], word))
}

/// The end of the name at `at`: two parts at most, each a word or anything in backquotes.
fn name_end(text: &[u8], at: usize) -> Option<usize> {
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

/// The name that follows the first of `words`, white space, and IF EXISTS at will.
fn object<'a>(text: &'a [u8], words: &[&[u8]]) -> Option<&'a [u8]> {
    (0..text.len()).find_map(|at| {
        let rest = words.iter().find_map(|word| after_word(&text[at..], word))?;
        let name = after_if_exists(rest).unwrap_or(rest);
        Some(&name[..name_end(name, 0)?])
    })
}
