//! Tests of table files over a file system that crashes, lies about nothing, and insists on alignment.

#![allow(clippy::unwrap_used)] // helpers of tests panic as tests do

mod crash;
mod damage;
mod fault;
mod live;
mod pins;

use frond_base::TableId;
use frond_space::TableFileOptions;

pub const NAME: &str = "17.frd";

pub fn options() -> TableFileOptions {
    TableFileOptions { database: 0xfeed_beef, table: TableId(17), direct: false, read_only: false }
}

/// SplitMix64.
pub struct Rng(pub u64);

impl Rng {
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.draw() % n
    }

    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// Contents of a block that no other block has, of a length that is rarely whole units.
pub fn contents(block: u64, salt: u64) -> Vec<u8> {
    let mut rng = Rng(block.wrapping_mul(0x1234_5678_9abc) ^ salt);
    let large = rng.chance(1);
    let len = if large { 1_300_000 } else { 1 + rng.below(20_000) } as usize;
    (0..len).step_by(8).flat_map(|_| rng.draw().to_le_bytes()).take(len).collect()
}
