//! Monitor output made from a known state, and bytes that are not monitor output.
#![allow(clippy::unwrap_used)] // Helpers of tests count as tests.
#![allow(clippy::disallowed_methods)] // No file here is a database's, and no clock the engine's.

mod checks;
mod deadlocks;
#[path = "../../../sqltext/tests/it/fuzzing.rs"]
mod fuzzing;
mod hostile;
mod print;
mod samples;
mod speed;
mod world;
mod worlds;

use frond_locks::model::{Deadlock, Dump};
use frond_locks::text::reader::{Reader, Sink};

/// Random numbers from a seed.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n
    }

    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    pub fn of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len() as u64) as usize]
    }
}

#[derive(Default)]
pub struct Found {
    pub dumps: Vec<Dump>,
    pub deadlocks: Vec<Deadlock>,
}

impl Sink for Found {
    fn dump(&mut self, dump: Dump) {
        self.dumps.push(dump);
    }

    fn deadlock(&mut self, deadlock: Deadlock) {
        self.deadlocks.push(deadlock);
    }
}

pub fn read(text: &[u8]) -> Found {
    let (mut reader, mut found) = (Reader::default(), Found::default());
    reader.feed(text, &mut found);
    reader.finish(&mut found);
    found
}
