//! Packed backups: one file or stream that has a whole backup, compressed and encrypted if requested.
//!
//! ```text
//! format.rs  the bytes           writer.rs  from many threads          reader.rs  at any place, or as they arrive
//! ```

mod format;
mod reader;
mod writer;

pub use format::{end, piece, Contents, Frames, Head, Kind};
pub use reader::{look, Next, Pack, Stream};
pub use writer::{Out, Packer};

#[cfg(test)]
mod tests;
