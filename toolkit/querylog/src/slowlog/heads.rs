//! Recognises the lines with which events begin.

use memchr::memmem;

/// True if `line` (from its `#`) begins an event.
#[inline]
pub fn is_head(line: &[u8]) -> bool {
    let Some(rest) = line.strip_prefix(b"# ") else { return false };
    match rest.first() {
        Some(b'T') => {
            rest.starts_with(b"Time: ") && rest.get(6).is_some_and(u8::is_ascii_digit)
                || rest.starts_with(b"Thread_id: ")
        }
        Some(b'U') => {
            (rest.starts_with(b"User@Host: ") || rest.starts_with(b"User: "))
                && rest.iter().take(400).take_while(|b| **b != b'\n').any(|b| *b == b'@')
        }
        Some(b'Q') => rest.starts_with(b"Query_time: "),
        Some(b'S') => rest.starts_with(b"Schema: "),
        Some(b'C') => rest.starts_with(b"Client: "),
        _ => false,
    }
}

/// True for heads that are distinctive enough to end an event that was cut before its `;`.
pub(super) fn is_strong_head(line: &[u8]) -> bool {
    line.starts_with(b"# Time: ") && frond_event::text::stamp(&line[8..]).is_some()
        || line.starts_with(b"# User@Host: ")
            && line
                .iter()
                .position(|b| *b == b'\n')
                .is_some_and(|end| memmem::find(&line[..end], b"] @ ").is_some())
        || line.strip_prefix(b"# Query_time: ").is_some_and(|rest| {
            rest.first().is_some_and(u8::is_ascii_digit)
                && memmem::find(first_line(rest), b" Lock_time: ").is_some()
        })
}

/// The first line with its line break.
pub(super) fn first_line(bytes: &[u8]) -> &[u8] {
    match memchr::memchr(b'\n', bytes) {
        Some(end) => &bytes[..=end],
        None => bytes,
    }
}
