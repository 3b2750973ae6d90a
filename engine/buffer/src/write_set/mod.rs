//! The write set's ordered buffer: one owner, mutable, undone by savepoint.
//!
//! `sorted` is the buffer, a list of chunks; `chunk` holds leaves, `leaf` entries; `copy` takes entries out in
//! batches; `segment` is the part that was written between two savepoints.

mod chunk;
mod copy;
pub(crate) mod leaf;
pub(crate) mod segment;
pub(crate) mod sorted;
