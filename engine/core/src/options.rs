//! Settings of one open database, their ranges and defaults.

use frond_base::{Error, ErrorKind, Result};
pub use frond_cache::RowCaching;

/// When a commit is acknowledged. The numbers are those of `innodb_flush_log_at_trx_commit`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Durability {
    /// Written and synced each second: a crash of the process may lose the last second.
    EachSecond = 0,
    /// Synced at every commit: nothing acknowledged is ever lost.
    Sync = 1,
    /// Written at commit, synced each second: only a crash of the machine may lose the last second.
    Write = 2,
}

impl Durability {
    pub fn from_u8(n: u8) -> Option<Durability> {
        match n {
            0 => Some(Durability::EachSecond),
            1 => Some(Durability::Sync),
            2 => Some(Durability::Write),
            _ => None,
        }
    }
}

/// The smallest budget an engine opens with: less leaves no memory for merges.
pub const CACHE_BYTES_MIN: u64 = 8 << 20;
/// Memory that one transaction's changes take, in bytes, whatever the cache: a commit record holds them.
pub const TRANSACTION_MEMORY_MAX: u64 = 256 << 20;
/// Bounds of the number of open table files that is derived from the process's limit.
pub const OPEN_FILES_DERIVED: std::ops::RangeInclusive<usize> = 16..=8192;
/// Used where no limit of the process is known.
const OPEN_FILES_DEFAULT: usize = 1024;
/// The longest recovery target, in seconds.
pub const RECOVERY_TARGET_MAX: u64 = 3600;
/// The longest key, in bytes, that a tree takes.
pub const KEY_BYTES_MAX: usize = frond_base::MAX_KEY;
/// The longest value (an encoded row), in bytes.
pub const VALUE_BYTES_MAX: usize = 64 << 20;

/// Settings given at open. See the field docs for units; [`Options::validate`] for the ranges.
#[derive(Clone, Debug)]
pub struct Options {
    /// One budget, in bytes, for write sets, write buffers, run indexes, readahead and page cache.
    /// Row locks and the log's buffers are not included.
    pub cache_bytes: u64,
    pub durability: Durability,
    /// Bytes per log segment file.
    pub log_segment_bytes: u64,
    /// Intended limit of the log kept for recovery, in bytes: above half of it the oldest unwritten
    /// changes are flushed, near it writers are slowed. The counter `log_bytes_kept` has the actual
    /// bytes.
    pub log_capacity_bytes: u64,
    /// Seconds that opening may take after a crash, 0: no such aim. The log is kept short enough for it, by the speed of
    /// recovery as measured at earlier openings.
    pub recovery_target: u64,
    /// Threads that flush and merge, and that replay the log when the database is opened. With 0 the owner calls `Engine::background_step`.
    pub background_threads: usize,
    /// Bypass the operating system's cache for table files.
    pub direct_io: bool,
    /// Recover in memory and write nothing: for checking and dumping.
    pub read_only: bool,
    /// Drop damaged tables that recovery needs, instead of refusing to open. For a single opening,
    /// when there is no backup: the tables' files are kept under another name.
    pub discard_damaged_tables: bool,
    /// Uncompressed bytes of a leaf before it splits.
    pub leaf_bytes: u64,
    /// Memory for row locks, in bytes.
    pub lock_bytes: u64,
    /// Memory for one transaction's changes, in bytes; above it changes go to the table files
    /// before the commit. 0: an eighth of the cache, at most [`TRANSACTION_MEMORY_MAX`].
    pub transaction_bytes: u64,
    /// Table files that are open at a time; others are opened on use. 0: a quarter of what the
    /// process may open, within [`OPEN_FILES_DERIVED`].
    pub open_files: usize,
    /// Whether single rows are cached beside pages.
    pub row_caching: RowCaching,
    /// Set by `Engine::open_scratch`: commits are in no log.
    pub scratch: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            cache_bytes: 128 << 20,
            durability: Durability::Sync,
            log_segment_bytes: 64 << 20,
            log_capacity_bytes: 1 << 30,
            recovery_target: 30,
            background_threads: 2,
            direct_io: true,
            read_only: false,
            discard_damaged_tables: false,
            leaf_bytes: 8 << 20,
            lock_bytes: 32 << 20,
            transaction_bytes: 0,
            open_files: 0,
            row_caching: RowCaching::Measured,
            scratch: false,
        }
    }
}

impl Options {
    /// Number of table files that are open at a time in a process that may open `descriptors` files.
    pub(crate) fn open_files(&self, descriptors: Option<u64>) -> usize {
        if self.open_files > 0 {
            return self.open_files;
        }
        let quarter = |n: u64| usize::try_from(n / 4).unwrap_or(usize::MAX);
        let (least, most) = (*OPEN_FILES_DERIVED.start(), *OPEN_FILES_DERIVED.end());
        descriptors.map_or(OPEN_FILES_DEFAULT, quarter).clamp(least, most)
    }

    /// A read-only database drops nothing.
    pub(crate) fn discards_damaged_tables(&self) -> bool {
        self.discard_damaged_tables && !self.read_only
    }

    /// Refuses values outside their ranges, naming the option and the range.
    pub fn validate(&self) -> Result<()> {
        let refuse = |what: String| Err(Error::new(ErrorKind::InvalidArgument, what));
        if self.cache_bytes < CACHE_BYTES_MIN {
            return refuse(format!(
                "cache size {} is below the minimum of {CACHE_BYTES_MIN} bytes",
                self.cache_bytes
            ));
        }
        if !(1 << 16..=4 << 30).contains(&self.log_segment_bytes) {
            return refuse(format!(
                "log segment size {} is outside 64 KiB to 4 GiB",
                self.log_segment_bytes
            ));
        }
        if self.log_capacity_bytes < 2 * self.log_segment_bytes {
            return refuse(format!(
                "log capacity {} is below two segments of {} bytes",
                self.log_capacity_bytes, self.log_segment_bytes
            ));
        }
        if self.recovery_target > RECOVERY_TARGET_MAX {
            return refuse(format!(
                "recovery target {} is above {RECOVERY_TARGET_MAX} seconds",
                self.recovery_target
            ));
        }
        if self.background_threads > 64 {
            return refuse(format!("{} background threads: 64 at most", self.background_threads));
        }
        if !(4096..=1 << 30).contains(&self.leaf_bytes) {
            return refuse(format!("leaf size {} is outside 4 KiB to 1 GiB", self.leaf_bytes));
        }
        if self.transaction_bytes > TRANSACTION_MEMORY_MAX {
            return refuse(format!(
                "transaction memory {} is above {TRANSACTION_MEMORY_MAX} bytes",
                self.transaction_bytes
            ));
        }
        if self.lock_bytes < 64 << 10 {
            return refuse(format!("lock memory {} is below 64 KiB", self.lock_bytes));
        }
        Ok(())
    }
}
