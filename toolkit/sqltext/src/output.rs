//! Where a dialect writes: a buffer that checks its capacity once per token instead of once per byte.
//!
//! It is as long as it has ever been needed; what lies past `len` means nothing. One per thread is
//! kept, so that a call allocates nothing once the longest statement has been seen, but none above
//! `KEPT` bytes.
//!
//! Invariant: between two calls of `reserve` at most `ROOM` bytes are written besides the text that
//! was asked for. The bounds checks of the slices hold the line if a caller breaks this.

use std::cell::Cell;

/// What one token may write besides its own text.
pub(super) const ROOM: usize = 64;

/// A buffer above this is given back after use.
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
    /// An empty one, with this thread's buffer.
    #[inline]
    pub(super) fn take() -> Output {
        Output { bytes: BUFFER.take(), len: 0 }
    }

    /// Appends what was written to `out` and keeps the buffer for the next call.
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

    /// Makes room for `text` bytes and what a token writes besides.
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

    /// Takes `from..to` out of what was written.
    pub(super) fn remove(&mut self, from: usize, to: usize) {
        self.bytes.copy_within(to..self.len, from);
        self.len -= to - from;
    }
}
