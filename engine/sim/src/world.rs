//! What one run is like: sizes, mix of operations, faults. Drawn from the seed (swarm testing: every
//! run leaves some features out, so that rare combinations are not drowned by common ones).

use frond_engine::{Compression, Durability, Options, RowCaching};

use crate::machine::faults::Faults;
use crate::machine::CapturePolicy;
use crate::rng::Rng;

/// Which family of runs a seed belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// Crashes only: lost, reordered and torn writes, lost names.
    Torn,
    /// Crashes, and reads, writes and syncs that fail.
    Errors,
    /// Crashes and a full disk.
    Space,
    /// Damage at rest.
    Rot,
    /// Any of them, by seed.
    Swarm,
}

impl Profile {
    pub fn parse(name: &str) -> Option<Profile> {
        Some(match name {
            "torn" => Profile::Torn,
            "errors" => Profile::Errors,
            "space" => Profile::Space,
            "rot" => Profile::Rot,
            "swarm" => Profile::Swarm,
            _ => return None,
        })
    }

    pub fn name(self) -> &'static str {
        match self {
            Profile::Torn => "torn",
            Profile::Errors => "errors",
            Profile::Space => "space",
            Profile::Rot => "rot",
            Profile::Swarm => "swarm",
        }
    }
}

/// Operations of the workload, indexes into `World::weights`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    Begin,
    Put,
    Delete,
    Get,
    GetLocked,
    Scan,
    CursorStep,
    Savepoint,
    RollbackTo,
    Commit,
    Rollback,
    Prepare,
    EndPrepared,
    Bulk,
    Background,
    FlushAll,
    Backup,
    Sync,
    Create,
    Drop,
    Rename,
    Truncate,
    Optimize,
    Advance,
    Compare,
    Reopen,
    Kill,
    PowerLoss,
}

pub const OPS: [(Op, u32); 28] = [
    (Op::Begin, 60),
    (Op::Put, 200),
    (Op::Delete, 80),
    (Op::Get, 60),
    (Op::GetLocked, 20),
    (Op::Scan, 25),
    (Op::CursorStep, 40),
    (Op::Savepoint, 15),
    (Op::RollbackTo, 8),
    (Op::Commit, 60),
    (Op::Rollback, 10),
    (Op::Prepare, 20),
    (Op::EndPrepared, 24),
    (Op::Bulk, 30),
    (Op::Background, 90),
    (Op::FlushAll, 3),
    (Op::Backup, 4),
    (Op::Sync, 8),
    (Op::Create, 5),
    (Op::Drop, 3),
    (Op::Rename, 3),
    (Op::Truncate, 3),
    (Op::Optimize, 2),
    (Op::Advance, 10),
    (Op::Compare, 2),
    (Op::Reopen, 2),
    (Op::Kill, 2),
    (Op::PowerLoss, 4),
];

/// How keys of a run are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyStyle {
    /// Text of varying length.
    Text,
    /// Two big-endian fields of 4 bytes.
    Fixed,
}

/// One run's parameters.
#[derive(Clone, Debug)]
pub struct World {
    pub seed: u64,
    pub profile: Profile,
    pub options: Options,
    pub steps: u64,
    pub weights: Vec<u32>,
    pub keys: u64,
    pub key_style: KeyStyle,
    /// Bytes of a value, the largest usual one; now and then one is far larger.
    pub value_bytes: u64,
    pub large_values: bool,
    pub bulk_rows: u64,
    pub transactions: usize,
    pub tables: usize,
    pub compression: Compression,
    pub filter: bool,
    pub page_bytes: u32,
    /// This run looks for what happens seldom: see `Sim::fill_segment`.
    pub seldom: bool,
    /// Bytes of a table's notes in the catalog.
    pub notes: usize,
    pub policy: CapturePolicy,
    /// Crash images made of one capture.
    pub images_per_capture: u64,
    /// Recovered images after which the run ends.
    pub images: u64,
    pub faults: Faults,
}

impl World {
    pub fn draw(seed: u64, profile: Profile) -> World {
        let mut rng = Rng::new(seed);
        let profile = match profile {
            Profile::Swarm => [Profile::Torn, Profile::Errors, Profile::Space, Profile::Rot]
                [rng.weighted(&[60, 15, 15, 10])],
            given => given,
        };
        // By the seed alone, as below. One run of eight looks for what happens seldom: it crashes at most points
        // that it passes for the first time, definitions are so large that they begin log segments, and what
        // begins one seldom finds the present one full.
        let seldom = seed % 8 == 3;
        let weights = draw_weights(&mut rng);
        let large = rng.percent(25);
        let segment = 64 << 10;
        let options = Options {
            cache_bytes: 8 << 20,
            durability: [Durability::Sync, Durability::Write, Durability::EachSecond]
                [rng.weighted(&[6, 2, 2])],
            log_segment_bytes: segment,
            log_capacity_bytes: segment * rng.range(2, 6),
            // Logs are too short for it here.
            recovery_target: 30,
            background_threads: 0,
            direct_io: rng.percent(20),
            read_only: false,
            discard_damaged_tables: false,
            leaf_bytes: [4096, 8192, 16384, 65536][rng.weighted(&[5, 2, 2, 1])],
            lock_bytes: 16 << 20,
            transaction_bytes: [0, 1 << 10, 8 << 10, 32 << 10][rng.weighted(&[4, 1, 3, 2])],
            // By the seed alone: what is drawn after it stays what it was.
            open_files: [0, 1, 2][(seed % 3) as usize],
            row_caching: [RowCaching::Always, RowCaching::Always, RowCaching::Measured]
                [(seed / 3 % 3) as usize],
            scratch: false,
        };
        World {
            seed,
            profile,
            options,
            steps: [300, 1500, 4000][rng.weighted(&[3, 4, 2])],
            weights,
            keys: [20, 200, 1000, 4000][rng.weighted(&[1, 3, 3, 1])],
            key_style: if rng.percent(50) { KeyStyle::Text } else { KeyStyle::Fixed },
            value_bytes: [0, 12, 100, 400, 1500][rng.weighted(&[1, 3, 4, 3, 1])],
            large_values: large,
            bulk_rows: [10, 80, 300][rng.weighted(&[2, 3, 2])],
            transactions: rng.range(1, 5) as usize,
            tables: rng.range(1, 4) as usize,
            compression: [Compression::None, Compression::Lz4, Compression::Zstd(1)]
                [rng.weighted(&[3, 3, 1])],
            filter: rng.percent(50),
            page_bytes: [4096, 8192][rng.weighted(&[3, 1])],
            seldom,
            notes: if seldom { 12 << 10 } else { 5 },
            policy: CapturePolicy {
                at_sync: [5_000, 20_000, 100_000][rng.index(3)],
                at_other: [1_000, 5_000, 20_000][rng.index(3)],
                at_new: if seldom { 600_000 } else { 100_000 },
                most: if seldom { 12 } else { 4 },
            },
            images_per_capture: rng.range(1, 3),
            images: rng.range(50, 400),
            faults: draw_faults(profile, &mut rng),
        }
    }
}

fn draw_weights(rng: &mut Rng) -> Vec<u32> {
    OPS.iter()
        .map(|&(op, weight)| {
            let needed = matches!(op, Op::Begin | Op::Put | Op::Commit | Op::PowerLoss);
            match rng.below(10) {
                0 | 1 if !needed => 0,
                2 => weight * 4,
                3 => weight.div_ceil(4),
                _ => weight,
            }
        })
        .collect()
}

fn draw_faults(profile: Profile, rng: &mut Rng) -> Faults {
    let mut faults = Faults::default();
    if rng.percent(40) {
        faults.short = 100_000;
    }
    if rng.percent(40) {
        faults.interrupted = 50_000;
    }
    if profile == Profile::Errors {
        if rng.percent(50) {
            faults.read_error = [500, 5_000][rng.index(2)];
        }
        if rng.percent(50) {
            faults.write_error = [500, 5_000][rng.index(2)];
        }
        if rng.percent(50) || faults.harmless() {
            faults.sync_error = [3_000, 20_000][rng.index(2)];
        }
    }
    faults
}
