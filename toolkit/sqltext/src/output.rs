//! The output of a dialect: a buffer that checks its capacity once per token instead of once per byte.
//!
//! The buffer is as long as was ever needed; bytes past `len` have no meaning. One buffer per thread
//! is kept, so that a call allocates nothing once the longest statement has been seen; a buffer above
//! `KEPT` bytes is not kept.
//!
//! Invariant: between two calls of `reserve` at most `ROOM` bytes are written besides the text for
//! which space was reserved. If a caller breaks this, the slices' bounds checks catch it.

use std::cell::Cell;

/// Bytes that one token may write besides its own text.
pub(super) const ROOM: usize = 64;

/// A larger buffer is freed after use.
const KEPT: usize = 1 << 20;

thread_local! {
    static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

#[derive(Default)]
pub(super) struct Output {
    pub(super) bytes: Vec<u8>,
    pub(super) len: usize,
}

impl Output {
    /// An empty output, with this thread's buffer.
    #[inline]
    pub(super) fn take() -> Output {
        Output { bytes: BUFFER.take(), len: 0 }
    }

    /// Appends the output to `out`, and keeps the buffer for the next call.
    #[inline]
    pub(super) fn give(self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.written());
        if self.bytes.len() <= KEPT {
            BUFFER.set(self.bytes);
        }
    }

    #[inline(always)]
    pub(super) fn written(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Reserves space for `text` bytes, and for the extra bytes of a token.
    #[inline(always)]
    pub(super) fn reserve(&mut self, text: usize) {
        if self.len + text + ROOM > self.bytes.len() {
            self.grow(text);
        }
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, text: usize) {
        self.bytes.resize((2 * self.bytes.len()).max(self.len + text + 16 * ROOM), 0);
    }

    #[inline(always)]
    pub(super) fn push(&mut self, b: u8) {
        self.bytes[self.len] = b;
        self.len += 1;
    }

    #[inline(always)]
    pub(super) fn extend_from_slice(&mut self, text: &[u8]) {
        self.reserve(text.len());
        self.bytes[self.len..self.len + text.len()].copy_from_slice(text);
        self.len += text.len();
    }

    #[inline(always)]
    pub(super) fn last(&self) -> Option<u8> {
        self.len.checked_sub(1).map(|at| self.bytes[at])
    }

    #[inline(always)]
    pub(super) fn truncate(&mut self, len: usize) {
        self.len = len;
    }

    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn lower_from(&mut self, start: usize) {
        self.bytes[start..self.len].make_ascii_lowercase();
    }

    /// Removes `from..to` from the output.
    pub(super) fn remove(&mut self, from: usize, to: usize) {
        self.bytes.copy_within(to..self.len, from);
        self.len -= to - from;
    }
}
