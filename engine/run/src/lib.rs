//! Codec of immutable sorted runs, the data that trees keep on disk: reading, merging and writing
//! them.
//!
//! A run is a sequence of pages of entries, followed by its fences (the first key of every page, or
//! the beginning of a long one) and, if asked for, a bloom filter. It is built once
//! ([`RunBuilder`], [`RunCutter`]), read by page ([`RunIndex`], [`Page`], [`RunScan`]) and
//! rewritten by [`MergeJob`], which merges any number of runs and write buffers, drops versions
//! that no snapshot can see and encodes the result.
//!
//! Invariants:
//!
//! - RN1. Entries of a source are ordered by key, and newest first (sequence descending) within a key.
//! - RN2. Between sources the rank decides: each version of a key in a more recent source is newer than all
//!   versions of that key in older sources.
//! - RN3. Of the runs that a cutter makes, one has all versions of a key; they may span pages.
//! - RN4. Bytes that verify their checksum may still be hostile: parsing and scanning return a
//!   corruption error, and nothing panics, reads out of bounds or allocates more than the bytes
//!   can justify.
//!
//! The crate does no I/O (pages come from a [`PageSource`]), starts no thread and keeps no global
//! state. Byte formats: a page is described in `layout.rs`, the tail in `index.rs` and `filter.rs`,
//! run metadata in `meta.rs`. Tests: the unit tests of each file and `tests/`.
#![forbid(unsafe_code)]

mod batch;
mod bits;
mod builder;
mod columns;
mod cutter;
mod encode;
mod filter;
mod format;
mod index;
mod interpolation;
mod job;
mod layout;
mod merge;
mod meta;
mod page;
mod page_size;
mod reduce;
mod scan;
mod source;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use builder::{BuiltRun, RunBuilder};
pub use cutter::{Cut, CutRun, RunCutter};
pub use format::{Compression, KeyShape, RunFormat, RunIdentity, MAX_KEY, MAX_VALUE};
/// What the bytes of a [`BuiltRun`] are in.
pub use frond_vfs::AlignedBuf;
pub use index::RunIndex;
pub use job::{MergeInput, MergeJob, MergeStats};
pub use merge::Merge;
pub use meta::{RunMeta, TailExtent};
pub use page::reader::Reader;
pub use page::Page;
pub use reduce::{reduce, Retention, VersionFilter};
pub use scan::RunScan;
pub use source::{Access, HeldIndex, PageSource, Run};
