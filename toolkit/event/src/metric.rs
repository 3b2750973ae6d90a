//! The attributes of a statement that are numbers, and those that are flags (yes or no): names, units and storage.
//!
//! Invariants:
//!
//! - ME1. A value is an integer in the metric's base unit: nanoseconds for times, whatever unit the log used; bytes; or a
//!   plain count. No float is kept, so sums do not depend on the order of events (threads, files).
//! - ME2. `Metrics` and `Flags` distinguish "zero" and "no" from "not logged".
//! - ME3. Clearing costs one store: stale values behind a cleared presence bit are never read.
//!
//! Not here: statistics over them (`stats`), unknown attributes (`Event::extra`).

/// The unit of a metric's integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds.
    Time,
    Bytes,
    Count,
}

macro_rules! metrics {
    ($($variant:ident $unit:ident $log_unit:literal $name:literal $label:literal $doc:literal;)*) => {
        /// A numeric attribute of a statement, from any kind of log or from captured traffic.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Metric { $(#[doc = $doc] $variant,)* }

        impl Metric {
            /// Every metric in the order of the enum.
            pub const ALL: &'static [Metric] = &[$(Metric::$variant,)*];

            /// The number of metrics.
            pub const COUNT: usize = Metric::ALL.len();

            pub const fn unit(self) -> Unit {
                match self { $(Metric::$variant => Unit::$unit,)* }
            }

            /// Base units (nanoseconds, bytes or pieces) per unit in a log: 1e9 for seconds, 1e6 for the two
            /// times that MariaDB writes in milliseconds.
            pub const fn log_scale(self) -> u64 {
                match self { $(Metric::$variant => $log_unit,)* }
            }

            /// The name in a slow log; matching ignores case because the servers differ in it.
            pub const fn name(self) -> &'static str {
                match self { $(Metric::$variant => $name,)* }
            }

            /// The name for a human reader, never cut.
            pub const fn label(self) -> &'static str {
                match self { $(Metric::$variant => $label,)* }
            }

            /// One sentence on what it measures.
            pub const fn describe(self) -> &'static str {
                match self { $(Metric::$variant => $doc,)* }
            }
        }
    };
}

metrics! {
    QueryTime Time 1_000_000_000 "Query_time" "Exec time" "Time from the statement's arrival to the end of its answer.";
    LockTime Time 1_000_000_000 "Lock_time" "Lock time" "Time spent waiting for table locks (and for row locks on some servers).";
    RowsSent Count 1 "Rows_sent" "Rows sent" "Rows sent to the client.";
    RowsExamined Count 1 "Rows_examined" "Rows examined" "Rows the server read to produce the answer.";
    RowsAffected Count 1 "Rows_affected" "Rows affected" "Rows changed.";
    RowsRead Count 1 "Rows_read" "Rows read" "Rows read from tables (Percona Server).";
    BytesSent Bytes 1 "Bytes_sent" "Bytes sent" "Bytes sent to the client.";
    BytesReceived Bytes 1 "Bytes_received" "Bytes received" "Bytes received from the client.";
    QuerySize Bytes 1 "bytes" "Query size" "Length of the statement's text.";
    FirstByteTime Time 1_000_000_000 "First_byte_time" "First byte" "Time from the statement's arrival to the first byte of its answer (captured traffic).";
    TmpTables Count 1 "Tmp_tables" "Tmp tables" "Temporary tables created.";
    TmpDiskTables Count 1 "Tmp_disk_tables" "Tmp disk tables" "Temporary tables created on disk.";
    TmpTableSizes Bytes 1 "Tmp_table_sizes" "Tmp table size" "Bytes in temporary tables.";
    MergePasses Count 1 "Merge_passes" "Merge passes" "Merge passes of file sorts.";
    PagesAccessed Count 1 "Pages_accessed" "Pages accessed" "Pages the storage engine looked at (MariaDB).";
    PagesRead Count 1 "Pages_read" "Pages read" "Pages the storage engine read from storage (MariaDB).";
    PagesPrefetched Count 1 "Pages_prefetched" "Pages prefetched" "Pages read ahead (MariaDB).";
    PagesUpdated Count 1 "Pages_updated" "Pages updated" "Pages changed (MariaDB).";
    OldRowsRead Count 1 "Old_rows_read" "Old rows read" "Old row versions read (MariaDB).";
    PagesReadTime Time 1_000_000 "Pages_read_time" "Pages read time" "Time the storage engine waited for page reads (MariaDB; logged in milliseconds).";
    EngineTime Time 1_000_000 "Engine_time" "Engine time" "Time spent inside the storage engine (MariaDB; logged in milliseconds).";
    InnodbIoROps Count 1 "InnoDB_IO_r_ops" "IO r ops" "Pages InnoDB read (Percona Server).";
    InnodbIoRBytes Bytes 1 "InnoDB_IO_r_bytes" "IO r bytes" "Bytes InnoDB read (Percona Server).";
    InnodbIoRWait Time 1_000_000_000 "InnoDB_IO_r_wait" "IO r wait" "Time InnoDB waited for reads (Percona Server).";
    InnodbRecLockWait Time 1_000_000_000 "InnoDB_rec_lock_wait" "Rec lock wait" "Time InnoDB waited for row locks (Percona Server).";
    InnodbQueueWait Time 1_000_000_000 "InnoDB_queue_wait" "Queue wait" "Time waited to enter InnoDB or in its queue (Percona Server).";
    InnodbPagesDistinct Count 1 "InnoDB_pages_distinct" "Pages distinct" "Different pages InnoDB accessed, estimated (Percona Server).";
    WarningCount Count 1 "Warning_count" "Warning count" "Warnings the statement raised.";
    Killed Count 1 "Killed" "Killed" "Error number if the statement was killed.";
    ReadFirst Count 1 "Read_first" "Read first" "Reads of an index's first entry (MySQL 8).";
    ReadLast Count 1 "Read_last" "Read last" "Reads of an index's last entry (MySQL 8).";
    ReadKey Count 1 "Read_key" "Read key" "Reads of a row by key (MySQL 8).";
    ReadNext Count 1 "Read_next" "Read next" "Reads of the next row in key order (MySQL 8).";
    ReadPrev Count 1 "Read_prev" "Read prev" "Reads of the previous row in key order (MySQL 8).";
    ReadRnd Count 1 "Read_rnd" "Read rnd" "Reads of a row by position (MySQL 8).";
    ReadRndNext Count 1 "Read_rnd_next" "Read rnd next" "Reads of the next row of a table scan (MySQL 8).";
    SortMergePasses Count 1 "Sort_merge_passes" "Sort merge passes" "Merge passes of sorts (MySQL 8).";
    SortRangeCount Count 1 "Sort_range_count" "Sort range count" "Sorts over ranges (MySQL 8).";
    SortRows Count 1 "Sort_rows" "Sort rows" "Rows sorted (MySQL 8).";
    SortScanCount Count 1 "Sort_scan_count" "Sort scan count" "Sorts over a table scan (MySQL 8).";
    CreatedTmpDiskTables Count 1 "Created_tmp_disk_tables" "Created tmp disk tables" "Temporary tables created on disk (MySQL 8).";
    CreatedTmpTables Count 1 "Created_tmp_tables" "Created tmp tables" "Temporary tables created (MySQL 8).";
}

impl Metric {
    /// The metric that a log calls `name`; case does not matter.
    pub fn from_name(name: &[u8]) -> Option<Metric> {
        Metric::ALL.iter().copied().find(|m| m.name().as_bytes().eq_ignore_ascii_case(name))
    }

    pub const fn index(self) -> usize {
        self as usize
    }

    /// The metric at `index` of `ALL`; panics outside it.
    pub fn from_index(index: usize) -> Metric {
        Metric::ALL[index]
    }
}

/// The numeric attributes of one event (ME1 to ME3).
#[derive(Clone, Debug)]
pub struct Metrics {
    present: u64,
    values: [u64; Metric::COUNT],
}

const _: () = assert!(Metric::COUNT <= 64, "the presence bits are one word");

impl Default for Metrics {
    fn default() -> Self {
        Metrics { present: 0, values: [0; Metric::COUNT] }
    }
}

impl Metrics {
    #[inline]
    pub fn clear(&mut self) {
        self.present = 0;
    }

    /// `value` is in the metric's base unit.
    #[inline]
    pub fn set(&mut self, metric: Metric, value: u64) {
        self.present |= 1 << metric.index();
        self.values[metric.index()] = value;
    }

    #[inline]
    pub fn unset(&mut self, metric: Metric) {
        self.present &= !(1 << metric.index());
    }

    /// `None` means not logged (ME2).
    #[inline]
    pub fn get(&self, metric: Metric) -> Option<u64> {
        (self.present >> metric.index() & 1 == 1).then(|| self.values[metric.index()])
    }

    /// The bit of `metric` is `1 << metric.index()`.
    #[inline]
    pub fn present(&self) -> u64 {
        self.present
    }

    /// The metrics that are present, in the order of the enum.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        let mut left = self.present;
        std::iter::from_fn(move || {
            if left == 0 {
                return None;
            }
            let index = left.trailing_zeros() as usize;
            left &= left - 1;
            Some((index, self.values[index]))
        })
    }
}

macro_rules! flags {
    ($($variant:ident $name:literal $label:literal;)*) => {
        /// A yes-or-no attribute of a statement.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Flag { $($variant,)* }

        impl Flag {
            pub const ALL: &'static [Flag] = &[$(Flag::$variant,)*];
            pub const COUNT: usize = Flag::ALL.len();

            /// The name in a slow log; matching ignores case.
            pub const fn name(self) -> &'static str {
                match self { $(Flag::$variant => $name,)* }
            }

            pub const fn label(self) -> &'static str {
                match self { $(Flag::$variant => $label,)* }
            }
        }
    };
}

flags! {
    QcHit "QC_hit" "QC hit";
    FullScan "Full_scan" "Full scan";
    FullJoin "Full_join" "Full join";
    TmpTable "Tmp_table" "Tmp table";
    TmpTableOnDisk "Tmp_table_on_disk" "Tmp table on disk";
    Filesort "Filesort" "Filesort";
    FilesortOnDisk "Filesort_on_disk" "Filesort on disk";
    PriorityQueue "Priority_queue" "Priority queue";
    NoIndexUsed "No_index_used" "No index used";
    NoGoodIndexUsed "No_good_index_used" "No good index used";
}

impl Flag {
    pub fn from_name(name: &[u8]) -> Option<Flag> {
        Flag::ALL.iter().copied().find(|f| f.name().as_bytes().eq_ignore_ascii_case(name))
    }
}

/// The yes-or-no attributes of one event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    present: u16,
    set: u16,
}

impl Flags {
    #[inline]
    pub fn set(&mut self, flag: Flag, yes: bool) {
        let bit = 1 << flag as u8;
        self.present |= bit;
        self.set = if yes { self.set | bit } else { self.set & !bit };
    }

    /// `None` means not logged.
    #[inline]
    pub fn get(self, flag: Flag) -> Option<bool> {
        (self.present >> flag as u8 & 1 == 1).then_some(self.set >> flag as u8 & 1 == 1)
    }

    /// True if logged and yes.
    #[inline]
    pub fn is(self, flag: Flag) -> bool {
        self.set >> flag as u8 & 1 == 1
    }

    /// Bits by `Flag as u8`: (logged, yes).
    #[inline]
    pub fn bits(self) -> (u16, u16) {
        (self.present, self.set)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cleared_metric_is_absent_not_zero() {
        let mut metrics = Metrics::default();
        metrics.set(Metric::RowsSent, 7);
        metrics.set(Metric::EngineTime, 1);
        assert_eq!(metrics.get(Metric::RowsSent), Some(7));
        assert_eq!(metrics.get(Metric::RowsRead), None);
        let all: Vec<_> = metrics.iter().collect();
        assert_eq!(all, [(Metric::RowsSent.index(), 7), (Metric::EngineTime.index(), 1)]);
        metrics.clear();
        assert_eq!(metrics.get(Metric::RowsSent), None);
        assert_eq!(metrics.iter().count(), 0);
    }

    #[test]
    fn mariadb_engine_times_are_milliseconds() {
        assert_eq!(Metric::EngineTime.log_scale(), 1_000_000);
        assert_eq!(Metric::PagesReadTime.log_scale(), 1_000_000);
        assert_eq!(Metric::LockTime.log_scale(), 1_000_000_000);
    }

    #[test]
    fn names_match_whatever_the_case() {
        assert_eq!(Metric::from_name(b"query_TIME"), Some(Metric::QueryTime));
        assert_eq!(Flag::from_name(b"QC_Hit"), Some(Flag::QcHit));
        assert_eq!(Metric::from_name(b"Query_tim"), None);
    }

    #[test]
    fn a_flag_that_says_no_is_present() {
        let mut flags = Flags::default();
        flags.set(Flag::FullJoin, false);
        assert_eq!(flags.get(Flag::FullJoin), Some(false));
        assert_eq!(flags.get(Flag::FullScan), None);
        flags.set(Flag::FullJoin, true);
        assert!(flags.is(Flag::FullJoin));
    }
}
