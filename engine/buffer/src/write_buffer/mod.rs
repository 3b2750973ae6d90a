//! The write buffer: shared, filled in sorted batches, never undone.
//!
//! ```text
//! buffer         WriteBuffer: batches in, dividing shelves, freezing       directory  its shelves, as a whole
//! shelf          entries between two fences behind one latch               span       which fences
//! backlog        entries in the order in which they came                   part       some of them in order
//! base           entries in order; descent, join, sort make it             record     entries as bytes
//! read, merged   reading a shelf that is in several parts                  frozen     reading all of it, for a flush
//! backlog_limit  when a backlog goes down                                  read_count when reading makes it worth while
//! head_prefix    bytes that heads leave out                               totals     entries and bytes
//! ends           its first and its last key                               fetch    prefetching several buffers
//! ```

mod backlog;
mod backlog_limit;
mod base;
pub(crate) mod buffer;
mod descent;
mod directory;
mod ends;
mod fetch;
pub(crate) mod frozen;
mod head_prefix;
mod join;
mod merged;
mod part;
mod read;
mod read_count;
mod record;
mod shelf;
mod sort;
mod span;
mod totals;
