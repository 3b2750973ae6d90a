//! Dumps and deadlocks from text.
//!
//! | file | what |
//! |---|---|
//! | `lines` | lines of a stream of bytes |
//! | `reader` | assigns each line to a dump, a section or a deadlock |
//! | `paragraph` | the lines of one transaction |
//! | `lock` | the line of a lock, the name of a table |
//! | `key` | the values of a record |
//! | `clock` | times as servers write them |

pub mod clock;
pub mod key;
pub mod lines;
pub mod lock;
pub mod paragraph;
pub mod reader;

/// The number in the leading digits, and the text behind them.
pub(crate) fn number(text: &[u8]) -> Option<(u64, &[u8])> {
    let digits = text.iter().take_while(|b| b.is_ascii_digit()).count();
    let n = std::str::from_utf8(&text[..digits]).ok()?.parse().ok()?;
    Some((n, &text[digits..]))
}

/// The number behind the first `word`.
pub(crate) fn number_after(text: &[u8], word: &[u8]) -> Option<u64> {
    let at = memchr::memmem::find(text, word)?;
    Some(number(text[at + word.len()..].trim_ascii_start())?.0)
}

/// The number before the first `word`: `12 lock struct(s)`.
pub(crate) fn number_before(text: &[u8], word: &[u8]) -> Option<u64> {
    let at = memchr::memmem::find(text, word)?;
    let digits = text[..at].iter().rev().take_while(|b| b.is_ascii_digit()).count();
    Some(number(&text[at - digits..at])?.0)
}
