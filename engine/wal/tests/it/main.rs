//! Behaviour of the log as its users see it.
// Tests use threads and clocks of their own.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod basic;
mod crash;
mod damage;
mod descriptors;
mod faulty;
mod forged;
mod full;
mod threads;

use std::sync::Arc;

use frond_vfs::Vfs;
use frond_wal::{Recovered, Wal, WalOptions};

pub const DATABASE: u64 = 0xda7a_ba5e;

pub fn small(segment_bytes: u64) -> WalOptions {
    WalOptions { segment_bytes, buffer_bytes: 1 << 20, ..WalOptions::new(DATABASE) }
}

/// (lsn, end, kind, payload) of a record.
pub type Owned = (u64, u64, u8, Vec<u8>);

pub fn drain(recovered: &mut Recovered) -> frond_base::Result<Vec<Owned>> {
    let mut out = Vec::new();
    while let Some(r) = recovered.next()? {
        out.push((r.lsn, r.end, r.kind, r.payload.to_vec()));
    }
    Ok(out)
}

pub fn reopen(vfs: &Arc<dyn Vfs>, opts: &WalOptions) -> (Wal, Vec<Owned>) {
    let (wal, mut recovered) = Wal::open(Arc::clone(vfs), opts.clone()).unwrap();
    let records = drain(&mut recovered).unwrap();
    assert_eq!(recovered.end(), wal.end());
    (wal, records)
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

    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut out = Vec::with_capacity(len + 8);
        while out.len() < len {
            out.extend_from_slice(&self.draw().to_le_bytes());
        }
        out.truncate(len);
        out
    }
}
