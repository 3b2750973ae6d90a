//! Seeded defects that test the simulator: each breaks an invariant, and the simulator must find it
//! within a bounded number of crash images. Compiled in with feature `canary` only; otherwise
//! [`active`] is a constant and the compiler removes the branches.

/// Skip the log's sync before a checkpoint header (K1).
pub const IMAGE_WITHOUT_LOG: u8 = 1;
/// Trim the log to its end, whatever tables need (K2).
pub const TRIM_TOO_FAR: u8 = 2;
/// Let freed blocks be reused before the edit that freed them is durable (ST2).
pub const REUSE_AT_ONCE: u8 = 3;
/// Log and publish an edit before its runs are synced.
pub const PUBLISH_BEFORE_SYNC: u8 = 4;
/// Merges and write buffers keep only the versions of the newest snapshot.
pub const FORGET_SNAPSHOTS: u8 = 5;
/// Recovery drops tombstones.
pub const DROP_TOMBSTONES: u8 = 6;
/// Every eighth entry that recovery replays is lost.
pub const LOSE_REPLAYED_ENTRY: u8 = 7;
/// A write does not look for versions newer than the snapshot (X3).
pub const SKIP_CONFLICTS: u8 = 8;
/// A commit that names private runs is logged before they are synced (P3).
pub const COMMIT_BEFORE_SYNC: u8 = 9;
/// A trim lists no images (I2).
pub const LIST_NO_IMAGES: u8 = 10;
/// Recovery takes the blocks of undecided transactions for free.
pub const FREE_PREPARED_BLOCKS: u8 = 11;
/// Prepared transactions do not hold the log (PX1).
pub const HOLD_NO_PREPARED: u8 = 12;
/// Packs are given back before the image that does not name them is durable (K6).
pub const FREE_PACKS_EARLY: u8 = 13;
/// Serializable reads lock no ranges (RX1).
pub const LOCK_NO_RANGES: u8 = 14;

#[cfg(feature = "canary")]
std::thread_local! {
    static ACTIVE: std::cell::Cell<u8> = const { std::cell::Cell::new(0) };
}

/// Activates defect `n` on this thread; 0: none.
#[cfg(feature = "canary")]
pub fn activate(n: u8) {
    ACTIVE.set(n);
}

/// Whether defect `n` is active.
#[cfg(feature = "canary")]
pub(crate) fn active(n: u8) -> bool {
    ACTIVE.get() == n
}

/// Never: the feature is off.
#[cfg(not(feature = "canary"))]
#[inline(always)]
pub(crate) const fn active(_: u8) -> bool {
    false
}
