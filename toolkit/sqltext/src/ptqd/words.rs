//! White space and words as pt-query-digest defines them (PT1).

/// White space in the widest sense that the tool uses.
#[inline]
pub(crate) fn is_space(b: u8) -> bool {
    matches!(b, b' ' | b'\t'..=b'\r')
}

/// Letters, digits and the underscore.
#[inline]
pub(crate) fn is_word(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_'
}

/// Whether no word extends from before to `at`.
#[inline]
pub(crate) fn begins_word(text: &[u8], at: usize) -> bool {
    at == 0 || !is_word(text[at - 1])
}

/// The end of the white space at `at`.
#[inline]
pub(crate) fn skip_space(text: &[u8], at: usize) -> usize {
    at + text[at..].iter().take_while(|b| is_space(**b)).count()
}

/// `text` past `word` in any case and the white space after it, which must be there; nothing if
/// `text` begins with something else.
pub(crate) fn after_word<'a>(text: &'a [u8], word: &[u8]) -> Option<&'a [u8]> {
    let (head, rest) = text.split_at_checked(word.len())?;
    // Compared first: a caller that tries every position must not scan the same white space each
    // time.
    if !head.eq_ignore_ascii_case(word) {
        return None;
    }
    let space = skip_space(rest, 0);
    (space > 0).then(|| &rest[space..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_word_wants_the_word_and_white_space() {
        assert_eq!(after_word(b"CALL \x0b f", b"call"), Some(&b"f"[..]));
        assert_eq!(after_word(b"calls f", b"call"), None);
        assert_eq!(after_word(b"call", b"call"), None);
        assert_eq!(after_word(b"cal", b"call"), None);
    }
}
