//! The ordered structures in memory: a transaction's changes, and committed entries that are not
//! yet in a run.
//!
//! - [`SortedBuffer`] (`write_set/`): one owner, mutable; the write set of a transaction is one per tree.
//!   A *leaf* holds up to 128 entries: an array of 8-byte key heads, an array of 2-byte offsets, and one packed
//!   arena with the entries' bytes. A *chunk* holds up to 64 leaves. No allocation per entry (values
//!   over [`INLINE_VALUE`] bytes excepted) and no pointer per entry.
//! - [`WriteBuffer`] (`write_buffer/`): shared, filled in sorted batches and never undone. A *shelf* holds
//!   the entries between two fences behind its own latch; entries are appended to its *backlog* and sorted
//!   in bulk. Only arrays of 8-byte heads and 4-byte places are sorted; records are copied in the order of
//!   their keys when a backlog is merged into the base, so the overhead over key, value and sequence is
//!   about 13 bytes.
//!
//! Both use batches of entries (`batch`), fences between entries (`fence`), and the *router*, which
//! finds the chunk or shelf; the router of a shared buffer is replaced as a whole when a shelf is
//! divided.
//!
//! Invariants, referred to by id in the code:
//!
//! - BU1. Entries are ordered by key, then by sequence descending (newest first). (key, sequence) is
//!   unique: a second insert of the same pair replaces the first.
//! - BU2. A fence is a (key, sequence) pair in that same order. A leaf, chunk or shelf holds exactly the
//!   entries between its own fence (inclusive) and the next one's (exclusive). Versions of one key
//!   may therefore lie in several of them.
//! - BU3. A shelf's low fence never changes; its high fence only moves down, when the shelf is divided, and
//!   the router that names the new shelf is published before the old shelf's latch is released.
//!   A thread that finds its key past the high fence has an old router and starts over.
//! - BU4. A thread holds one shelf's latch at a time, and takes the router mutex only after it; it
//!   waits for a shelf's joiner without any latch. Readers hold no latch between calls.
//! - BU5. Every key between two fences begins with the bytes that the fences have in common, so heads in a
//!   `SortedBuffer` are taken after those bytes and no insert has to check them. A shelf chooses those
//!   bytes from its entries (`head_prefix`), and keys that begin otherwise have an extreme head.
//! - BU6. Data that threads share without a latch never change: the base of a shelf, its descent, their
//!   records.
//!
//! Not here: visibility beyond "newest version at or before a sequence", merging of sources, the
//! disk.
//!
//! Tested by the unit tests of each file, by `tests/it` (against a `BTreeMap`, and with
//! several threads) and by `tests/memory.rs` (reported against allocated memory);
//! measured by `bench/micro`; the reasons: `docs/rfcs/0003-write-buffer.md`.
#![forbid(unsafe_code)]

mod batch;
mod fence;
mod router;
mod seq_width;
mod weight;
mod write_buffer;
mod write_set;

pub use batch::{Batch, Scan, Versions};
pub use weight::Weight;
pub use write_buffer::buffer::WriteBuffer;
pub use write_buffer::frozen::FrozenScan;
pub use write_set::leaf::{FEW_BYTES, INLINE_VALUE};
pub use write_set::segment::SegmentScan;
pub use write_set::sorted::{Cursor, Put, SortedBuffer, SortedIter};

pub use frond_base::MAX_KEY;
