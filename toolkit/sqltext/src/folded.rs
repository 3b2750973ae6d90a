//! Words in lower case.

/// A word in lower case, without an allocation; empty for a text longer than any keyword.
pub(super) struct Folded {
    bytes: [u8; 32],
    len: usize,
}

impl Folded {
    #[inline]
    pub(super) fn of(text: &[u8]) -> Folded {
        let mut folded = Folded { bytes: [0; 32], len: 0 };
        if text.len() <= folded.bytes.len() {
            folded.len = text.len();
            folded.bytes[..text.len()].copy_from_slice(text);
            folded.bytes[..text.len()].make_ascii_lowercase();
        }
        folded
    }

    #[inline]
    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}
