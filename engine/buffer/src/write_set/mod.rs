//! The write set's ordered buffer: one owner, mutable, undone by savepoint.
//!
//! `sorted` is the buffer: few entries, later a list of chunks (`group`: either); `chunk` holds leaves, `leaf` entries; `copy` takes
//! entries out in batches; `segment` is the part that was written between two savepoints.

mod chunk;
mod copy;
mod group;
pub(crate) mod leaf;
pub(crate) mod segment;
pub(crate) mod sorted;
