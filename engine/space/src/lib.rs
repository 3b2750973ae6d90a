//! One file per table: runs in blocks, two headers, a checkpoint image, and an allocator that finds
//! holes in O(log n) and returns space to the file system.
//!
//! - `format`: the bytes of headers and images, and nothing else.
//! - [`ExtentTree`]: which bytes are in use; `bench/micro` measures it.
//! - [`TableFile`] (`file.rs`, `checkpoint.rs`, `recovery.rs`, `pin.rs`): blocks, checkpoints,
//!   recovery and pins for backups, with the rules that make them safe in a crash.
//!
//! This crate knows neither the contents of blocks and images nor the trunk nor the log.
//!
//! Tested by the unit tests of each file and by `tests/it` (crash points, damage, races).
#![forbid(unsafe_code)]

mod block_map;
mod checkpoint;
mod extent;
mod extent_tree;
mod file;
mod format;
mod held;
mod io;
mod pin;
mod recovery;
mod space_map;
#[cfg(test)]
mod testing;

pub use block_map::BlockChange;
pub use checkpoint::CheckpointPin;
pub use extent::{aligned, Extent, EXTENT_ALIGN};
pub use extent_tree::ExtentTree;
pub use file::{Checkpoint, Fallback, FileStats, TableFile, TableFileOptions};
pub use pin::PinnedFile;
