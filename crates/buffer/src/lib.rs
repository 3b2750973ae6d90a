//! The in-memory ordered structures: what a transaction has written, and what was committed but is
//! not yet in a run.
//!
//! Both are the same two-level shape. A *leaf* holds up to 128 entries: an array of 8-byte key
//! heads, an array of 2-byte offsets, and one packed arena with the entries' bytes. A *chunk* holds
//! up to 64 leaves. A *router* finds the chunk. There is no allocation per entry (values over
//! [`INLINE_VALUE`] bytes excepted) and no pointer per entry, so the overhead over key, value and
//! sequence is about 20 bytes, and dropping ten million entries frees some hundred thousand blocks.
//!
//! - [`SortedBuffer`]: one owner, mutable; the write set of a transaction is one per tree.
//! - [`WriteBuffer`]: shared; every chunk sits behind its own latch, and the router is replaced as a
//!   whole when a chunk splits.
//!
//! Invariants, referred to by number in the code:
//!
//! 1. Entries are ordered by key, then by sequence descending (newest first). (key, sequence) is
//!    unique: a second insert of the same pair replaces the first.
//! 2. A fence is a (key, sequence) pair in that same order. A leaf or chunk holds exactly the
//!    entries between its own fence (inclusive) and the next one's (exclusive). Versions of one key
//!    may therefore lie in several leaves.
//! 3. A chunk's low fence never changes; its high fence only moves down, when the chunk splits, and
//!    the router that names the new chunk is published before the old chunk's latch is released.
//!    Whoever finds a key past the high fence holds an old router and starts over.
//! 4. A thread holds one chunk latch at a time, and waits for the router mutex or the retention list
//!    only after it. Readers hold no latch between calls.
//! 5. Every key between two fences begins with the bytes that the fences have in common, so heads
//!    are taken after those bytes and no insert has to check them.
//!
//! Not done here: visibility beyond "newest version at or before a sequence", merging of sources,
//! and anything on disk.
//!
//! Tested by the unit tests of each file and by `tests/model.rs` (against a `BTreeMap`, and with
//! several threads); measured by [`bench`].
#![forbid(unsafe_code)]

mod batch;
pub mod bench;
mod chunk;
mod fence;
mod frozen;
mod leaf;
mod router;
mod segment;
mod shared;
mod shelf;
mod sorted;

pub use batch::{Batch, Scan, Versions};
pub use frozen::FrozenScan;
pub use leaf::INLINE_VALUE;
pub use segment::SegmentScan;
pub use shared::{Weight, WriteBuffer};
pub use sorted::{Cursor, Put, SortedBuffer, SortedIter};

/// The longest key, in bytes.
pub const MAX_KEY: usize = 3500;
