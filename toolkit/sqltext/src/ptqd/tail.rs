//! Rule 10: LIMIT and ORDER BY in the output. Both look only at the first place.

use super::{begins_word, is_space};
use crate::output::Output;
use memchr::memmem;

/// The first place of `words` where a word begins.
fn find(text: &[u8], words: &[u8]) -> Option<usize> {
    memmem::find_iter(text, words).find(|at| begins_word(text, *at))
}

/// `limit ?, ?` and `limit ? offset ?` become `limit ?`.
pub(super) fn limit(out: &mut Output) {
    let words = b"limit ?";
    let Some(at) = find(out.written(), words) else { return };
    let end = at + words.len();
    let rest = &out.written()[end..];
    let more = [b",?".as_slice(), b", ?", b" offset ?"].into_iter().find(|m| rest.starts_with(m));
    if let Some(more) = more {
        out.remove(end, end + more.len());
    }
}

/// Removes ` asc` wherever it follows `order by `, even from the front of a longer word; but one
/// byte always stays between two removals.
pub(super) fn order_by(out: &mut Output) {
    let words = b"order by ";
    let Some(at) = find(out.written(), words) else { return };
    let text = &mut out.bytes[..out.len];
    // Bytes before `kept` stay in place; the rest begins at `read`.
    let mut kept = at + words.len();
    let mut read = kept;
    let mut from = read;
    while let Some(asc) = memmem::find(&text[from..], b"asc").map(|n| from + n) {
        let least = read + 1;
        let space = text[least.min(asc)..asc].iter().rev().take_while(|b| is_space(**b)).count();
        from = asc + 1;
        if space > 0 {
            let end = asc - space;
            text.copy_within(read..end, kept);
            kept += end - read;
            read = asc + b"asc".len();
            from = read;
        }
    }
    out.remove(kept, read);
}
