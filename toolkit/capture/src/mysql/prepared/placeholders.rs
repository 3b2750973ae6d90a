//! Where a statement has its placeholders.

/// Positions of the placeholders of a statement.
pub(super) fn placeholders(text: &[u8]) -> Box<[u32]> {
    let mut marks = Vec::new();
    let mut at = 0;
    let next = |from: usize, what: u8| memchr::memchr(what, text.get(from..)?).map(|i| from + i);
    while let Some(&byte) = text.get(at) {
        at = match byte {
            b'?' => {
                marks.push(at as u32);
                at + 1
            }
            b'\'' | b'"' => end_of_string(text, at),
            b'`' => next(at + 1, b'`').map_or(text.len(), |end| end + 1),
            b'#' => next(at, b'\n').unwrap_or(text.len()),
            b'-' if text[at..].starts_with(b"--")
                && text.get(at + 2).is_none_or(|b| b.is_ascii_whitespace()) =>
            {
                next(at, b'\n').unwrap_or(text.len())
            }
            // What is in a conditional comment is code for the server.
            b'/' if text[at..].starts_with(b"/*")
                && !text[at..].starts_with(b"/*!")
                && !text[at..].starts_with(b"/*M!") =>
            {
                memchr::memmem::find(&text[at + 2..], b"*/").map_or(text.len(), |i| at + i + 4)
            }
            _ => at + 1,
        };
    }
    marks.into()
}

fn end_of_string(text: &[u8], at: usize) -> usize {
    let quote = text[at];
    let mut from = at + 1;
    while let Some(i) = memchr::memchr2(quote, b'\\', &text[from..]) {
        if text[from + i] == quote {
            return from + i + 1;
        }
        from = (from + i + 2).min(text.len());
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_in_strings_names_and_comments_are_none() {
        let text =
            b"select '?\\'?', \"?\"\"?\", `?`, ? /* ? */ -- ?\n, ? # ?\n, --? /*! ? */ /*M! ?*/";
        assert_eq!(placeholders(text).len(), 5);
        assert_eq!(placeholders(b"select '?").len(), 0);
        assert_eq!(placeholders(b"select '\\").len(), 0);
    }
}
