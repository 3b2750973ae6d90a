//! A growable byte buffer whose start is aligned for direct transfers.
//!
//! Invariant AL1: `ptr` is a mapping of `capacity` bytes of its own when `capacity >= MAPPED`, comes from the global allocator
//! with `layout(capacity)` when it is smaller and not 0, and is dangling (but aligned) otherwise. All `capacity` bytes behind it
//! are initialised (mappings and allocations are zeroed), so that any length up to the capacity may be exposed.
//!
//! Tested by the unit tests below.

use std::alloc::{alloc_zeroed, dealloc, handle_alloc_error, Layout};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use crate::DIRECT_ALIGN;

/// So much memory, and more, is mapped, bytes: it grows without a copy, and returns to the system when it is dropped. A heap keeps it as a
/// hole, and the runs that background threads build are most of what an engine allocates and frees.
const MAPPED: usize = 1 << 20;

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

/// `capacity` zero bytes of the global allocator; `capacity` is a multiple of the alignment and not 0.
fn allocate(capacity: usize) -> NonNull<u8> {
    // SAFETY: the size is not zero, as the caller promises.
    let ptr = unsafe { alloc_zeroed(layout(capacity)) };
    NonNull::new(ptr).unwrap_or_else(|| handle_alloc_error(layout(capacity)))
}

/// `capacity` zero bytes in a mapping of their own.
fn map(capacity: usize) -> NonNull<u8> {
    let (access, kind) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new private mapping at an address that the kernel chooses touches no other memory.
    let at = unsafe { libc::mmap(std::ptr::null_mut(), capacity, access, kind, -1, 0) };
    mapped(at, capacity)
}

/// The mapping of `old` bytes at `ptr` with `capacity` bytes, which are more: wherever it is now, the new bytes zero.
fn remap(ptr: NonNull<u8>, old: usize, capacity: usize) -> NonNull<u8> {
    // SAFETY: AL1: the mapping is the caller's own, who forgets `ptr`.
    let at = unsafe { libc::mremap(ptr.as_ptr().cast(), old, capacity, libc::MREMAP_MAYMOVE) };
    mapped(at, capacity)
}

fn mapped(at: *mut libc::c_void, capacity: usize) -> NonNull<u8> {
    match NonNull::new(at.cast()) {
        Some(ptr) if at != libc::MAP_FAILED => ptr,
        _ => handle_alloc_error(layout(capacity)),
    }
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
        if self.capacity >= MAPPED {
            // A quarter more, as growth is cheap.
            let capacity = need.max(round_up(self.capacity / 4 * 5));
            self.ptr = remap(self.ptr, self.capacity, capacity);
            self.capacity = capacity;
            return;
        }
        let capacity = need.max(self.capacity * 2);
        let ptr = if capacity >= MAPPED { map(capacity) } else { allocate(capacity) };
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
        if self.capacity >= MAPPED {
            // SAFETY: AL1: the mapping is this buffer's own and is given back once.
            unsafe { libc::munmap(self.ptr.as_ptr().cast(), self.capacity) };
        } else if self.capacity > 0 {
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

impl Clone for AlignedBuf {
    fn clone(&self) -> AlignedBuf {
        AlignedBuf::from(&self[..])
    }
}

impl From<&[u8]> for AlignedBuf {
    fn from(bytes: &[u8]) -> AlignedBuf {
        let mut buf = AlignedBuf::with_capacity(bytes.len());
        buf.extend_from_slice(bytes);
        buf
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
    fn mapped_memory_grows_with_its_contents_and_returns_when_dropped() {
        let resident = || {
            let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
            pages.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
        };
        let mut buf = AlignedBuf::new();
        let mut seen = std::collections::BTreeSet::new();
        for n in 0..64u32 << 18 {
            buf.extend_from_slice(&n.to_le_bytes());
            seen.insert(buf.capacity());
        }
        assert!(
            seen.iter().any(|c| *c < MAPPED) && seen.iter().filter(|c| **c > MAPPED).count() > 10
        );
        assert!(
            seen.iter().all(|c| c % DIRECT_ALIGN == 0)
                && (buf.as_ptr() as usize).is_multiple_of(DIRECT_ALIGN)
        );
        assert!(buf.chunks(4).zip(0u32..).all(|(bytes, n)| bytes == n.to_le_bytes()));
        assert!(buf.capacity() <= 80 << 20);
        buf.resize(buf.capacity());
        assert!(buf[64 << 20..].iter().all(|b| *b == 0));
        let held = resident();
        drop(buf);
        let left = resident();
        assert!(left + (48 << 20) < held, "with the buffer {held} bytes, without it {left}");
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
