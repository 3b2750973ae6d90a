//! The column "Item" of pt-query-digest's profile: verbs, then tables.
//!
//! The rules, like those of `ptqd`, were found by running the installed tool; the experiments are in
//! `docs/rfcs/0005-fingerprint-compat.md` under the numbers used here. "The tool" is pt-query-digest.
//!
//!  1. CALL, LOAD, USE, UNLOCK TABLES, XA and administrator commands have forms of their own.
//!  2. SHOW keeps its first words (`show`); no tables.
//!  3. CREATE, ALTER, DROP, RENAME and TRUNCATE: the verb, TABLE or DATABASE, the tables, and the
//!     object as it is written (`verbs`).
//!  4. Anything else: some verbs count at the start, some anywhere. After a leading SELECT
//!     only UNION counts (`verbs`).
//!  5. Tables are the names behind FROM, JOIN, INTO and UPDATE (`tables`). Digits in them become `?`
//!     (for the tool; not for classes that differ in them), and a table that repeats the one before it is not printed.
//!
//! Verbs are searched for in the text without comments but with its strings, tables in the text with
//! its comments but without strings. So `insert into t values ('please update')` is an INSERT
//! UPDATE, and a table in a comment counts.
//!
//! Tested in `tests/it/`, against the tool where it is installed. The two may differ in white space
//! within lists of tables and in words that can be read in two ways; no statement of the corpus
//! differs.

mod names;
mod show;
mod tables;
mod verbs;

pub(super) use names::Digits;
use names::{find_any_case, name_end, object, starts};

use super::ptqd::{self, after_word, is_space, skip_space};

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

/// LOAD: appends the table as written, up to white space, without its backquotes.
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
