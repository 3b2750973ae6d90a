//! The fingerprints of pt-query-digest, byte for byte, its errors included.
//!
//! Every rule below was found by running the installed tool (3.2.1); the experiments are in
//! `docs/rfcs/0005-fingerprint-compat.md`, under the numbers used here. The tool works on text, not
//! on tokens, and each rule gets the output of the one before. That is why comments inside
//! strings vanish, `db2.tbl` becomes `d?tbl`, and a minus between two names is a number.
//!
//! Rules, in the order in which they take effect
//!  1. Answers to whole statements, from the text as it came (`whole`): dumps, the toolkit's own
//!     statements, administrator commands, CALL. A multi-row INSERT loses all rows but the first.
//!  2. Block comments are removed, then comments to the end of the line (`erase`); then USE is
//!     answered.
//!  3. Backslashes are removed with a quote after them; `"..."`, then `'...'` become `?`.
//!  4. TRUE and FALSE become `?`. White space at the start and one line feed at the end are removed.
//!  5. Text that looks like a number becomes `?`, wherever it is (`literals`).
//!  6. One `x`, `b` or dot right before a `?` is removed.
//!  7. White space becomes one blank, letters lower case, NULL `?`.
//!  8. Lists after IN, VALUES and VALUE become `(?+)`.
//!  9. Repeated arms of a UNION become a remark (`repeat`).
//! 10. The first LIMIT loses its second number, then everything after the first ORDER BY its ASC
//!     (`tail`).
//!
//! Rules 3 to 8 are applied in one pass, except that the rare statements with comments, backslashes
//! or double quotes are cleaned up in a copy first.
//!
//! Invariants
//!
//! - PT1. "White space" and "word" are those of ASCII; bytes from 0x80 on are neither. Vertical tabs
//!   are white space to some rules and not to others, as the experiments show.
//! - PT2. Time is linear, except for rule 9, which gives up after a fixed number of comparisons.
//!
//! Tested in `tests/it/`: the experiments, each by name, and equality with the installed tool on a
//! corpus and on random text. Release 3.5 was not available: only its treatment of strings is
//! implemented, from the toolkit's release notes.

pub(super) mod erase;
mod literals;
mod repeat;
mod tail;
mod whole;
mod words;

pub(super) use words::{after_word, begins_word, is_space, is_word, skip_space};

use super::output::Output;
use std::cell::Cell;

/// The release that is imitated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Release {
    V3_2,
    V3_5,
}

/// A larger scratch buffer is freed after use.
const KEPT: usize = 1 << 18;

thread_local! {
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Appends to the empty `out` the fingerprint of `sql`.
pub(super) fn fingerprint(sql: &[u8], release: Release, out: &mut Vec<u8>) {
    if whole::answer(sql, out) {
        return;
    }
    let sql = &sql[..whole::first_row(sql)];
    let mut scratch = SCRATCH.take();
    scratch.clear();
    let mut text = sql;
    if erase::needed(sql) {
        scratch.extend_from_slice(sql);
        erase::comments(&mut scratch);
        text = &scratch;
    }
    if whole::is_use(text) {
        out.extend_from_slice(b"use ?");
        if text.ends_with(b"\n") {
            out.push(b'\n');
        }
    } else {
        if !scratch.is_empty() {
            match release {
                Release::V3_2 => erase::quotes(&mut scratch),
                Release::V3_5 => erase::quotes_v3_5(&mut scratch),
            }
            text = &scratch;
        }
        let mut written = Output::take();
        literals::write(text, &mut written);
        repeat::collapse(&mut written, &mut scratch);
        tail::limit(&mut written);
        tail::order_by(&mut written);
        written.give(out);
    }
    if scratch.capacity() <= KEPT {
        SCRATCH.set(scratch);
    }
}

/// The name in a CALL, as written, if `whole::call` finds one.
pub(super) fn called(sql: &[u8]) -> Option<&[u8]> {
    let call = whole::call(sql)?;
    after_word(call, b"call")
}
