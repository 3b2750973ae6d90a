//! Prefetching what an insert needs of several buffers.
//!
//! A commit may change thousands of small buffers by an entry each, which are in no cache of the processor. Inserting into one after
//! the other waits for memory several times in a row for each. Here the same of all is read before what is behind it, so that these
//! reads wait together. Latches are taken beforehand, since taking one waits for all earlier reads; none is waited for. The values mean
//! nothing.

use std::hint::black_box;

use crate::write_buffer::buffer::WriteBuffer;

impl WriteBuffer {
    /// See the module.
    pub fn fetch<const N: usize>(buffers: [Option<&WriteBuffer>; N]) {
        let buffers = || buffers.iter().flatten();
        black_box(buffers().fold(0, |sum, b| sum ^ b.fetch_own()));
        black_box(buffers().filter(|b| b.leftmost().is_locked()).count());
        // A divided buffer is a large one; where its entries will go is not known here.
        let small = buffers().filter(|b| !b.is_divided());
        let mut latched = small.map(|b| b.leftmost().try_read());
        let shelves: [_; N] = std::array::from_fn(|_| latched.next().flatten());
        let shelves = || shelves.iter().flatten();
        black_box(shelves().fold(0, |sum, shelf| sum ^ shelf.fetch()));
        black_box(shelves().fold(0, |sum, shelf| sum ^ shelf.log().fetch_ends()));
    }
}
