//! Rules 2 and 3: removals before the search for literals, in place. Nothing here makes a
//! text longer.

use memchr::memmem;
use std::ops::Range;

/// Whether this module would change `text`; if not, it need not be copied.
pub(super) fn needed(text: &[u8]) -> bool {
    memchr::memchr3(b'#', b'\\', b'"', text).is_some()
        || memchr::memchr2_iter(b'-', b'/', text).any(|at| match text.get(at + 1) {
            Some(next) => matches!((text[at], next), (b'-', b'-') | (b'/', b'*')),
            None => false,
        })
}

/// Removes comments: first those in `/* */`, then those to the end of a line.
pub(crate) fn comments(text: &mut Vec<u8>) {
    replace(text, None, block_comment);
    replace(text, None, line_comment);
}

/// Removes each backslash together with a quote after it, whatever comes before; then replaces
/// strings in double quotes by `?`. Strings in single quotes are left to the writer.
pub(crate) fn quotes(text: &mut Vec<u8>) {
    replace(text, None, escaped_quote);
    replace(text, Some(b'?'), double_quoted);
}

/// The same for release 3.5, in which a backslash protects the byte after it inside a string:
/// both kinds of strings become `?`.
pub(super) fn quotes_v3_5(text: &mut Vec<u8>) {
    replace(text, Some(b'?'), |text, from| with_escapes(text, from, b'"'));
    replace(text, Some(b'?'), |text, from| with_escapes(text, from, b'\''));
}

/// Replaces each range that `find` returns by `with`, or removes it. `find` returns the
/// first range at or after a position; a range is never empty.
pub(crate) fn replace(
    text: &mut Vec<u8>,
    with: Option<u8>,
    find: impl Fn(&[u8], usize) -> Option<Range<usize>>,
) {
    let (mut from, mut written) = (0, 0);
    while let Some(Range { start, end }) = find(text, from) {
        text.copy_within(from..start, written);
        written += start - from;
        if let Some(b) = with {
            text[written] = b;
            written += 1;
        }
        from = end;
    }
    text.copy_within(from.., written);
    text.truncate(written + text.len() - from);
}

/// `/*`, one byte that is no exclamation mark, and everything to the `*/` after that byte.
fn block_comment(text: &[u8], from: usize) -> Option<Range<usize>> {
    memmem::find_iter(&text[from..], b"/*")
        .map(|n| from + n)
        .find(|start| text.get(start + 2).is_some_and(|b| *b != b'!'))
        .and_then(|start| {
            let body = start + 3;
            // Without an end here, comments that start later have none either.
            memmem::find(&text[body..], b"*/").map(|n| start..body + n + 2)
        })
}

/// `--` or `#` and the rest of the line, unless the line has a quote behind it. The end of the line
/// stays.
fn line_comment(text: &[u8], from: usize) -> Option<Range<usize>> {
    let mut at = from;
    loop {
        at += memchr::memchr2(b'-', b'#', &text[at..])?;
        if text[at] == b'-' && text.get(at + 1) != Some(&b'-') {
            at += 1;
            continue;
        }
        let stop = text[at..].iter().position(|b| matches!(b, b'\n' | b'\r' | b'\'' | b'"'));
        match stop.map(|n| at + n) {
            // The quote follows every comment mark before it, so continue behind the quote.
            Some(quote) if matches!(text[quote], b'\'' | b'"') => at = quote,
            Some(end) => return Some(at..end),
            None => return Some(at..text.len()),
        }
    }
}

fn escaped_quote(text: &[u8], from: usize) -> Option<Range<usize>> {
    memchr::memchr_iter(b'\\', &text[from..])
        .map(|n| from + n)
        .find(|at| matches!(text.get(at + 1), Some(b'"' | b'\'')))
        .map(|at| at..at + 2)
}

fn double_quoted(text: &[u8], from: usize) -> Option<Range<usize>> {
    let open = from + memchr::memchr(b'"', &text[from..])?;
    let close = memchr::memchr(b'"', &text[open + 1..])?;
    Some(open..open + close + 2)
}

fn with_escapes(text: &[u8], from: usize, quote: u8) -> Option<Range<usize>> {
    let open = from + memchr::memchr(quote, &text[from..])?;
    let mut at = open + 1;
    loop {
        at += memchr::memchr2(quote, b'\\', text.get(at..)?)?;
        if text[at] == quote {
            return Some(open..at + 1);
        }
        at += 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(change: impl Fn(&mut Vec<u8>), sql: &str) -> String {
        let mut text = sql.as_bytes().to_vec();
        change(&mut text);
        String::from_utf8(text).unwrap_or_default()
    }

    #[test]
    fn what_needs_nothing_is_not_copied() {
        for sql in ["", "a-b/c*d", "'-' - -", "-", "/"] {
            assert!(!needed(sql.as_bytes()), "{sql}");
        }
        for sql in ["a--b", "a/*", "#", "\\", "\""] {
            assert!(needed(sql.as_bytes()), "{sql}");
        }
    }

    #[test]
    fn ranges_are_replaced_wherever_they_stand() {
        assert_eq!(done(comments, "/*a*/b/*c*/"), "b");
        assert_eq!(done(comments, "a -- b\nc # d"), "a \nc ");
        assert_eq!(done(quotes, r#""a"b"c""#), "?b?");
        assert_eq!(done(quotes_v3_5, r#""a\"b" 'c\\' 'd\'"#), "? ? 'd\\'");
    }
}
