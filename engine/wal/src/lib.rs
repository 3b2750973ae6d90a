//! The log: one stream of records for all tables, durable by group commit.
//!
//! ```text
//! append ──> buffer A ──(leader swaps)──> buffer B ──write──> segment file ──sync──> durable
//! ```
//!
//! - W1. Records are in the log in the order in which `append` returned; LSNs ascend without gaps.
//! - W2. `sync_to(lsn)` returning `Ok` means that every record ending at or before `lsn` is found
//!   by every later open, whatever happens to the machine. What open finds is always a prefix of
//!   what was appended.
//! - W3. One thread at a time writes, and one syncs; a write does not wait for a sync, but to enter the next segment. Who
//!   writes takes all that is buffered, and who syncs has that written first, so one sync serves every waiting caller.
//!   Followers wait; when they wake unserved, one of them leads next.
//! - W4. The first write or sync that fails poisons the log for good: nothing later is made durable or
//!   acknowledged, and nothing is retried (V3 of `frond_vfs`); a write that has begun when a sync fails may end. Open after
//!   a restart finds out what is there.
//! - W5. Memory is two buffers of `buffer_bytes`; an append that finds no room writes the buffer
//!   out. Only the small records of [`Wal::append_unwaited`] may make a buffer larger.
//!
//! Does not know what records mean, does not lock the directory, starts no thread.
//!
//! - `format.rs`: the bytes; `record.rs`: cutting records into frames; `segment.rs`: the life of the files.
//! - `log.rs`: append; `group.rs`, `round.rs`, `coordinated.rs`: group commit.
//! - `log_space.rs`, `reserve.rs`: what happens on a full disk.
//! - `open.rs`, `scan.rs`, `recovered.rs`: recovery; `check.rs`: the offline reader.
//!
//! Tested by unit tests in each file and `tests/it/` (crashes, forged tails, threads); every run
//! of the simulator goes through it.
#![forbid(unsafe_code)]

mod check;
mod coordinated;
mod format;
mod group;
mod log;
mod log_space;
mod open;
mod record;
mod recovered;
mod reserve;
mod round;
mod scan;
mod segment;
mod status;

pub use check::{inspect, LogReport, Problem, SegmentReport};
pub use format::MAX_PAYLOAD;
pub use log::{Appended, Wal};
pub use log_space::{Claim, KeptRoom, Reservation};
pub use record::{Prepared, Record};
pub use recovered::Recovered;
pub use status::WalStatus;

use frond_base::{Error, ErrorKind, Result};

/// How a log is opened.
#[derive(Clone, Debug)]
pub struct WalOptions {
    /// Identity of the database: segments of another one are refused.
    pub database: u64,
    /// Size of a segment file, 8 KiB to 1 TiB. May differ from run to run.
    pub segment_bytes: u64,
    /// Size of each of the two buffers; at least room for one frame (128 KiB) is taken.
    pub buffer_bytes: usize,
    /// Trimmed segments kept for reuse. At least one more than are made ahead of need; otherwise
    /// every trimmed segment would be surplus and deleted.
    pub spare_segments: usize,
}

impl WalOptions {
    pub fn new(database: u64) -> WalOptions {
        WalOptions { database, segment_bytes: 64 << 20, buffer_bytes: 8 << 20, spare_segments: 3 }
    }

    fn validate(&self) -> Result<()> {
        if (8 << 10..=1 << 40).contains(&self.segment_bytes) {
            return Ok(());
        }
        let what = format!("log segment size {} is not within 8 KiB..1 TiB", self.segment_bytes);
        Err(Error::new(ErrorKind::InvalidArgument, what))
    }
}
