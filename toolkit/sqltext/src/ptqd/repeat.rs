//! Rule 9: a SELECT that is repeated after UNION is written once, with a remark.
//!
//! Text is repeated: from `select` to the UNION behind which the same text follows, however
//! many other UNIONs are in between. So each SELECT is tried with each UNION after it, the nearest
//! first. That is quadratic in the number of arms. After `COMPARISONS` the rest stays unchanged;
//! only a statement of more than a thousand different arms reaches that limit.

use super::{begins_word, is_space};
use crate::output::Output;
use memchr::memmem;
use std::cell::Cell;

const COMPARISONS: usize = 1 << 21;

/// A buffer for more places of UNIONs than this is freed after use.
const KEPT: usize = 1 << 10;

thread_local! {
    static UNIONS: Cell<Vec<Union>> = const { Cell::new(Vec::new()) };
}

/// A UNION, from the white space before it to where the next arm begins.
struct Union {
    start: usize,
    /// The end of `union` or `union all`.
    words: usize,
    next: usize,
}

/// The UNION whose letters begin at `at`.
fn union_at(text: &[u8], at: usize) -> Option<Union> {
    let space = |at: usize| text.get(at).is_some_and(|b| is_space(*b));
    let start = at.checked_sub(1).filter(|at| space(*at))?;
    let end = at + b"union".len();
    if !space(end) {
        return None;
    }
    let all = end + b" all".len();
    let words = if text[end + 1..].starts_with(b"all") && space(all) { all } else { end };
    Some(Union { start, words, next: words + 1 })
}

/// Collapses repetitions in `out`; `scratch` is overwritten.
pub(super) fn collapse(out: &mut Output, scratch: &mut Vec<u8>) {
    if memmem::find(out.written(), b"union").is_none() {
        return;
    }
    scratch.clear();
    let text = out.written();
    let mut unions = UNIONS.take();
    unions.clear();
    unions.extend(
        memmem::find_iter(text, b"union")
            .filter_map(|at| union_at(text, at))
            .filter(|union| text[union.next..].starts_with(b"select")),
    );
    let mut work = COMPARISONS;
    // The end of the copied part, where the next SELECT is searched for, and the first UNION after
    // it.
    let (mut copied, mut from, mut first) = (0, 0, 0);
    while let Some(select) = memmem::find(&text[from..], b"select").map(|n| from + n) {
        from = select + 1;
        let body = select + b"select ".len();
        if !begins_word(text, select) || !text.get(body - 1).is_some_and(|b| is_space(*b)) {
            continue;
        }
        while unions.get(first).is_some_and(|union| union.start < body) {
            first += 1;
        }
        let Some(repeated) = repetition(text, select, &unions[first..], &mut work) else {
            if work == 0 || first == unions.len() {
                break;
            }
            continue;
        };
        scratch.extend_from_slice(&text[copied..repeated.arm_end]);
        scratch.extend_from_slice(b" /*repeat");
        scratch.extend_from_slice(&text[repeated.last.clone()]);
        scratch.extend_from_slice(b"*/");
        copied = repeated.end;
        from = repeated.end;
    }
    if copied > 0 {
        scratch.extend_from_slice(&text[copied..]);
        out.truncate(0);
        out.extend_from_slice(scratch);
    }
    if unions.capacity() <= KEPT {
        UNIONS.set(unions);
    }
}

struct Repetition {
    /// The end of the arm that stays.
    arm_end: usize,
    /// White space and words of the last UNION that is removed.
    last: std::ops::Range<usize>,
    /// The end of the removed part.
    end: usize,
}

/// The shortest repetition of the text that begins at `select`.
fn repetition(
    text: &[u8],
    select: usize,
    unions: &[Union],
    work: &mut usize,
) -> Option<Repetition> {
    for union in unions {
        let len = union.start - select;
        if union.next + len > text.len() || *work == 0 {
            return None;
        }
        *work -= 1;
        let arm = &text[select..union.start];
        if !repeats(text, union.next, arm, work) {
            continue;
        }
        let mut found = Repetition {
            arm_end: union.start,
            last: union.start..union.words,
            end: union.next + len,
        };
        while let Some(again) = text[found.end..]
            .get(1..6)
            .and_then(|word| (word == b"union").then(|| union_at(text, found.end + 1)).flatten())
        {
            if !text[again.next..].starts_with(arm) {
                break;
            }
            found.last = again.start..again.words;
            found.end = again.next + len;
        }
        return Some(found);
    }
    None
}

/// Whether `arm` is also at `at`. A long comparison that fails costs `work` by its length.
fn repeats(text: &[u8], at: usize, arm: &[u8], work: &mut usize) -> bool {
    let Some(other) = text.get(at..at + arm.len()) else { return false };
    // Most arms differ near the start or the end.
    let ends = arm.len().min(32);
    if other[..ends] != arm[..ends] || other[arm.len() - ends..] != arm[arm.len() - ends..] {
        return false;
    }
    *work = work.saturating_sub(arm.len() / 32);
    other == arm
}
