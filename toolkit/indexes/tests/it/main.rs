//! Tables read from dumps, and what is found among their keys.
#![allow(clippy::unwrap_used)] // Helpers of tests count as tests.
#![allow(clippy::disallowed_methods)] // Time is measured.

mod dump;
mod duplicates;
mod samples;
mod usage;

use frond_indexes::dump::{Dump, Reader};

/// A dump, read in pieces of `size` bytes.
fn read_in(sql: &[u8], size: usize) -> Result<Dump, String> {
    let mut reader = Reader::default();
    sql.chunks(size).for_each(|piece| reader.feed(piece));
    reader.finish()
}

fn read(sql: &str) -> Dump {
    let dump = read_in(sql.as_bytes(), 1 << 16).unwrap();
    assert_eq!(dump.problems, [""; 0], "{sql}");
    dump
}
