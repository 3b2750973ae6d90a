//! A growable byte buffer whose start is aligned for direct transfers.
//!
//! Invariant AL1: `ptr` comes from the global allocator with `layout(capacity)` when `capacity > 0`,
//! is dangling (but aligned) otherwise, and all `capacity` bytes behind it are initialised
//! (allocations are zeroed), so that any length up to the capacity may be exposed.
//!
//! Tested by the unit tests below.

use std::alloc::{alloc_zeroed, dealloc, handle_alloc_error, Layout};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use crate::DIRECT_ALIGN;

/// Bytes at an address that is a multiple of [`DIRECT_ALIGN`]; the capacity is one too. The length
/// is free: pad with [`AlignedBuf::pad_to_align`] before a direct write.
pub struct AlignedBuf {
    ptr: NonNull<u8>,
    len: usize,
    capacity: usize,
}

// SAFETY: AL1: the buffer owns its memory exclusively, as a `Vec<u8>` does.
unsafe impl Send for AlignedBuf {}
// SAFETY: as above; shared access only reads.
unsafe impl Sync for AlignedBuf {}

fn layout(capacity: usize) -> Layout {
    Layout::from_size_align(capacity, DIRECT_ALIGN)
        .expect("a buffer smaller than the address space")
}

fn round_up(bytes: usize) -> usize {
    bytes.checked_next_multiple_of(DIRECT_ALIGN).expect("a buffer smaller than the address space")
}

impl AlignedBuf {
    /// An empty buffer without memory.
    pub const fn new() -> AlignedBuf {
        // The alignment itself as address: dangling, aligned and not null.
        let ptr = match NonNull::new(DIRECT_ALIGN as *mut u8) {
            Some(p) => p,
            None => unreachable!(),
        };
        AlignedBuf { ptr, len: 0, capacity: 0 }
    }

    /// An empty buffer with room for at least `bytes`.
    pub fn with_capacity(bytes: usize) -> AlignedBuf {
        let mut buf = AlignedBuf::new();
        buf.reserve(bytes);
        buf
    }

    /// `len` zero bytes.
    pub fn zeroed(len: usize) -> AlignedBuf {
        let mut buf = AlignedBuf::with_capacity(len);
        buf.len = len;
        buf
    }

    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Forgets the contents, keeps the memory.
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Makes room for `additional` more bytes.
    pub fn reserve(&mut self, additional: usize) {
        let need = round_up(self.len.checked_add(additional).expect("a length that fits"));
        if need <= self.capacity {
            return;
        }
        let capacity = need.max(self.capacity.saturating_mul(2));
        // SAFETY: `capacity` is not zero: it is at least `need`, a non-zero multiple of the
        // alignment.
        let Some(ptr) = NonNull::new(unsafe { alloc_zeroed(layout(capacity)) }) else {
            handle_alloc_error(layout(capacity))
        };
        // SAFETY: both regions are valid for `len` bytes (AL1, and `capacity > len`) and distinct.
        unsafe { std::ptr::copy_nonoverlapping(self.ptr.as_ptr(), ptr.as_ptr(), self.len) };
        self.release();
        self.ptr = ptr;
        self.capacity = capacity;
    }

    /// Sets the length; bytes beyond the old length are zero.
    pub fn resize(&mut self, len: usize) {
        if len > self.len {
            self.reserve(len - self.len);
            let old = self.len;
            self.len = len;
            self[old..].fill(0);
        } else {
            self.len = len;
        }
    }

    pub fn extend_from_slice(&mut self, bytes: &[u8]) {
        self.reserve(bytes.len());
        let old = self.len;
        self.len += bytes.len();
        self[old..].copy_from_slice(bytes);
    }

    /// Appends zeros until the length is a multiple of [`DIRECT_ALIGN`].
    pub fn pad_to_align(&mut self) {
        self.resize(round_up(self.len));
    }

    fn release(&mut self) {
        if self.capacity > 0 {
            // SAFETY: AL1: this pointer and layout came from the allocator and are given back once.
            unsafe { dealloc(self.ptr.as_ptr(), layout(self.capacity)) };
        }
    }
}

impl Drop for AlignedBuf {
    fn drop(&mut self) {
        self.release();
    }
}

impl Default for AlignedBuf {
    fn default() -> Self {
        AlignedBuf::new()
    }
}

impl Deref for AlignedBuf {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: AL1: `len <= capacity` initialised bytes.
        unsafe { std::slice::from_raw_parts(self.ptr.as_ptr(), self.len) }
    }
}

impl DerefMut for AlignedBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: AL1, and `&mut self` is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.ptr.as_ptr(), self.len) }
    }
}

impl std::fmt::Debug for AlignedBuf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AlignedBuf({} of {} bytes)", self.len, self.capacity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_keeps_contents_and_alignment() {
        let mut buf = AlignedBuf::new();
        assert_eq!((buf.len(), buf.capacity()), (0, 0));
        let mut want = Vec::new();
        for n in 0..3000u32 {
            buf.extend_from_slice(&n.to_le_bytes());
            want.extend_from_slice(&n.to_le_bytes());
        }
        assert_eq!(&buf[..], &want[..]);
        assert_eq!(buf.as_ptr() as usize % DIRECT_ALIGN, 0);
        assert_eq!(buf.capacity() % DIRECT_ALIGN, 0);
        buf.pad_to_align();
        assert_eq!(buf.len(), 12288);
        assert!(buf[12000..].iter().all(|&b| b == 0));
    }

    #[test]
    fn bytes_exposed_again_are_zero() {
        let mut buf = AlignedBuf::zeroed(100);
        buf.fill(0xff);
        buf.resize(10);
        buf.resize(100);
        assert!(buf[10..].iter().all(|&b| b == 0));
        assert!(buf[..10].iter().all(|&b| b == 0xff));
    }
}
