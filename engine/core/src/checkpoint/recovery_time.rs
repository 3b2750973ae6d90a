//! The recovery target: how long a start after a crash would take, and how old changes may get that only the log has.
//!
//! What recovery does with a stretch of log depends on what is in it, so it is not estimated from bytes alone: bytes,
//! records, entries and tables each have a cost ([`Work`]), and the sum is multiplied by how slow recovery was on this
//! machine, measured at each opening and kept in the log with each trim (rfc 0018). As long as nothing was measured it
//! is taken to be [`SLOWNESS_START`] times slower than the machine on which the costs were found.
//!
//! While transactions commit, the log thread marks now and then how much was logged so far. What recovery would need is
//! the difference between now and the mark before the oldest record that some table needs. A tree whose oldest change
//! gets older than its share of the target is frozen, and its table imaged (`Core::shorten_log`). `outlook.rs` asks.
//!
//! - RTM1. A mark counts at most what is below its LSN: the stretch behind it is not underestimated.
//! - RTM2. Marks ascend.
//!
//! Trees have different shares, from [`YOUNGEST`] to [`OLDEST`]: with one share for all, trees that were written to at
//! the same time would be frozen together again and again, and flushed in bursts. Rejected: a quota for each round, which
//! needs to know how much the next rounds bring.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use frond_base::{Lsn, TreeId};
use parking_lot::Mutex;

/// Costs in nanoseconds of one thread (rfc 0018).
const BYTE: u64 = 1;
const RECORD: u64 = 700;
const ENTRY: u64 = 200;
const TABLE: u64 = 60_000;

/// Assumed slowness before it was measured, in thousandths.
const SLOWNESS_START: u64 = 3000;
const SLOWNESS_RANGE: std::ops::RangeInclusive<u64> = 200..=100_000;
/// How much one measurement can raise it.
const RISE: u64 = 4;
/// Less work than this says nothing about the machine.
const MEASURED_MIN: Duration = Duration::from_millis(50);

/// Ages at which trees are frozen, in shares of the target.
const YOUNGEST: f64 = 0.40;
const OLDEST: f64 = 0.75;
/// Different ages in between.
const LEVELS: usize = 16;
/// At least this part of the target is for the log, however long opening the tables takes:
/// otherwise many tables would make every buffer tiny.
const LEAST: f64 = 0.25;

/// Changes that have less log than this behind them are not too old, however slow the machine.
const LEAST_BYTES: u64 = 1 << 20;

/// Marks that are kept; when there are more, every second one goes.
const MARKS: usize = 512;
/// Bytes of log between two marks, at least.
const MARK_STEP: u64 = 128 << 10;

/// What recovery has to do.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Work {
    /// Bytes of log that are read.
    pub bytes: u64,
    pub records: u64,
    /// Entries that go into write buffers.
    pub entries: u64,
    /// Tables that are opened.
    pub tables: u64,
}

impl Work {
    /// On the machine of rfc 0018.
    fn micros(&self) -> u64 {
        let Work { bytes, records, entries, tables } = *self;
        let each = [(bytes, BYTE), (records, RECORD), (entries, ENTRY), (tables, TABLE)];
        each.iter().fold(0, |sum: u64, (n, cost)| sum.saturating_add(n.saturating_mul(*cost)))
            / 1000
    }
}

/// What was logged below an LSN.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Mark {
    pub lsn: Lsn,
    pub records: u64,
    pub entries: u64,
}

impl Mark {
    fn since(&self, before: &Mark) -> Work {
        Work {
            bytes: self.lsn.saturating_sub(before.lsn),
            records: self.records.saturating_sub(before.records),
            entries: self.entries.saturating_sub(before.entries),
            tables: 0,
        }
    }
}

/// The recovery that would be needed now.
#[derive(Clone, Copy, Default, Debug)]
pub struct Outlook {
    /// Log behind the oldest record that is needed.
    pub bytes: u64,
    pub time: Duration,
    /// Replaying the log, as a share of the time that the target leaves for it, in thousandths; 0 without a target.
    used: u64,
}

/// See the module.
#[derive(Default)]
pub struct Target {
    seconds: AtomicU64,
    /// In thousandths; 0: not measured.
    slowness: AtomicU64,
    marks: Mutex<VecDeque<Mark>>,
    /// The `used` of the newest outlook ([`Target::press`]).
    used: AtomicU64,
    /// The last recovery's time, microseconds, and its log bytes per second.
    last_micros: AtomicU64,
    last_rate: AtomicU64,
    /// What recovery has counted before this process logged anything.
    base_records: AtomicU64,
    base_entries: AtomicU64,
}

/// From which LSN on a tree may have changes in the log alone.
pub struct Ages {
    levels: [Lsn; LEVELS],
}

impl Ages {
    /// The same for all trees.
    pub fn all(lsn: Lsn) -> Ages {
        Ages { levels: [lsn; LEVELS] }
    }

    /// Raises all ages to at least `lsn`.
    pub fn at_least(mut self, lsn: Lsn) -> Ages {
        self.levels.iter_mut().for_each(|level| *level = lsn.max(*level));
        self
    }

    /// Spreads the trees of a table, and tables with numbers that follow each other.
    pub fn of(&self, tree: TreeId) -> Lsn {
        let n = tree.table.0.wrapping_mul(5).wrapping_add(u32::from(tree.index));
        let spread = n.wrapping_mul(0x9e37_79b9) >> 28;
        self.levels[spread as usize % LEVELS]
    }

    /// The age of a table's other changes; the oldest of all.
    pub fn oldest(&self) -> Lsn {
        self.levels[LEVELS - 1]
    }

    /// No tree that is younger is frozen.
    pub fn youngest(&self) -> Lsn {
        self.levels[0]
    }
}

impl Target {
    pub fn new(seconds: u64) -> Target {
        Target { seconds: AtomicU64::new(seconds), ..Target::default() }
    }

    /// 0: none.
    pub fn set_seconds(&self, seconds: u64) {
        self.seconds.store(seconds, Relaxed);
    }

    pub fn seconds(&self) -> u64 {
        self.seconds.load(Relaxed)
    }

    // ---- how fast this machine is ----

    /// For a trim record.
    pub fn slowness(&self) -> Option<u64> {
        Some(self.slowness.load(Relaxed)).filter(|n| *n > 0)
    }

    /// Recovery has found it in the log.
    pub fn set_slowness(&self, found: Option<u64>) {
        let (least, most) = (*SLOWNESS_RANGE.start(), *SLOWNESS_RANGE.end());
        self.slowness.store(found.map_or(0, |n| n.clamp(least, most)), Relaxed);
    }

    /// Recovery did `work` in `time`. A slow measurement counts in full, a fast one by half, because the target is a
    /// promise. One opening raises the slowness to at most [`RISE`] times its old value: the machine may just have been
    /// busy with other things.
    pub fn measured(&self, work: &Work, time: Duration) {
        let micros = time.as_micros() as u64;
        self.last_micros.store(micros, Relaxed);
        self.last_rate.store(work.bytes.saturating_mul(1_000_000) / micros.max(1), Relaxed);
        if work.micros() < MEASURED_MIN.as_micros() as u64 {
            return;
        }
        let now = micros.saturating_mul(1000) / work.micros();
        let before = self.slowness();
        let now = now.min(before.unwrap_or(SLOWNESS_START) * RISE);
        self.set_slowness(Some(now.max((now + before.unwrap_or(now)) / 2)));
    }

    fn time(&self, work: &Work) -> Duration {
        let slowness = self.slowness().unwrap_or(SLOWNESS_START);
        Duration::from_micros(work.micros().saturating_mul(slowness) / 1000)
    }

    /// The last recovery: microseconds, and bytes of log per second.
    pub fn last(&self) -> (u64, u64) {
        (self.last_micros.load(Relaxed), self.last_rate.load(Relaxed))
    }

    // ---- how much recovery would have to do ----

    /// Adds a mark. It counts at most what was logged below its LSN (RTM1).
    pub fn mark(&self, mark: Mark) {
        let mut marks = self.marks.lock();
        if marks.back().is_some_and(|last| mark.lsn < last.lsn + MARK_STEP) {
            return; // RTM2
        }
        marks.push_back(mark);
        if marks.len() > MARKS {
            let mut n = 0;
            marks.retain(|_| {
                n += 1;
                n % 2 == 1
            });
        }
    }

    /// Recovery has read this many records and entries.
    pub fn set_base(&self, records: u64, entries: u64) {
        self.base_records.store(records, Relaxed);
        self.base_entries.store(entries, Relaxed);
    }

    /// The mark at `lsn`, when this process has logged `records` and `entries` below.
    pub fn mark_at(&self, lsn: Lsn, records: u64, entries: u64) -> Mark {
        let (before, entries_before) =
            (self.base_records.load(Relaxed), self.base_entries.load(Relaxed));
        Mark { lsn, records: before + records, entries: entries_before + entries }
    }

    /// Log below `lsn` is not needed any more.
    pub fn forget_before(&self, lsn: Lsn) {
        let mut marks = self.marks.lock();
        while marks.get(1).is_some_and(|second| second.lsn <= lsn) {
            marks.pop_front();
        }
    }

    /// What recovery would take: the log is kept from `kept`, needed from `oldest` and ends at `now`; `tables` need it.
    pub fn outlook(&self, kept: Lsn, oldest: Lsn, now: &Mark, tables: u64) -> Outlook {
        let mut work = {
            let marks = self.marks.lock();
            let behind = marks.partition_point(|m| m.lsn <= oldest);
            let before = behind.checked_sub(1).map_or(Mark::default(), |n| marks[n]);
            now.since(&before)
        };
        work.bytes = now.lsn.saturating_sub(kept);
        // Slowing writers does not shorten the opening of tables, so that time does not slow them.
        let room = self.room(&Work { tables, ..Work::default() });
        let used = match room > 0.0 {
            true => (self.time(&work).as_secs_f64() / room * 1000.0) as u64,
            false => 0,
        };
        work.tables = tables;
        let time = self.time(&work);
        Outlook { bytes: now.lsn.saturating_sub(oldest), time, used }
    }

    /// Writers are slowed by this outlook from now on.
    pub fn press(&self, outlook: &Outlook) {
        self.used.store(outlook.used, Relaxed);
    }

    /// Whether some tree may be old enough to be frozen.
    pub fn is_near(&self, outlook: &Outlook) -> bool {
        let seconds = self.seconds();
        seconds > 0 && outlook.time.as_secs_f64() > seconds as f64 * YOUNGEST * LEAST
    }

    /// Seconds of the target that are left for the log when `fixed` has to be done as well; 0 without a target.
    fn room(&self, fixed: &Work) -> f64 {
        let target = self.seconds() as f64;
        (target - self.time(fixed).as_secs_f64()).max(target * LEAST)
    }

    /// See [`Target::press`]; 0 without a target.
    pub fn used(&self) -> f64 {
        match self.seconds() {
            0 => 0.0,
            _ => self.used.load(Relaxed) as f64 / 1000.0,
        }
    }

    /// How old changes may get, when `tables` tables are opened and the log up to the oldest change has `before` bytes.
    pub fn ages(&self, now: &Mark, tables: u64, before: u64) -> Ages {
        let room = self.room(&Work { bytes: before, tables, ..Work::default() });
        let marks = self.marks.lock();
        let mut levels = [0; LEVELS];
        for (n, level) in levels.iter_mut().enumerate() {
            let share = YOUNGEST + (OLDEST - YOUNGEST) * n as f64 / (LEVELS - 1) as f64;
            let too_old = |m: &Mark| {
                let work = now.since(m);
                work.bytes > LEAST_BYTES && self.time(&work).as_secs_f64() > room * share
            };
            // The first mark behind which there is less than the share; RTM2.
            let at = marks.partition_point(too_old);
            *level = match (at, marks.get(at)) {
                (0, _) => 0,
                (_, Some(mark)) => mark.lsn,
                (_, None) => now.lsn,
            };
        }
        Ages { levels }
    }
}

#[cfg(test)]
mod tests {
    use frond_base::TableId;

    use super::*;

    /// Marks of a log of which each MiB has 10 000 entries in 10 records.
    fn filled(target: &Target, mib: u64) -> Mark {
        let mut mark = Mark::default();
        for n in 0..=mib {
            mark = Mark { lsn: n << 20, records: 10 * n, entries: 10_000 * n };
            target.mark(mark);
        }
        mark
    }

    #[test]
    fn outlook_counts_what_is_behind_the_oldest_record_that_is_needed() {
        let target = Target::new(5);
        target.set_slowness(Some(1000));
        let now = filled(&target, 100);
        let whole = target.outlook(0, 0, &now, 0);
        let half = target.outlook(0, 50 << 20, &now, 0);
        let read = (100 << 20) * BYTE / 1000;
        let entries = |mib: u64| mib * (10_000 * ENTRY + 10 * RECORD) / 1000;
        assert_eq!(whole.time, Duration::from_micros(read + entries(100)));
        assert_eq!(half.time, Duration::from_micros(read + entries(50)));
        assert_eq!(half.bytes, 50 << 20);
        let tables = target.outlook(0, 50 << 20, &now, 1000).time - half.time;
        assert_eq!(tables, Duration::from_nanos(1000 * TABLE));
        // Tables that take longer than the target slow no writer by themselves.
        let used = half.used as f64;
        target.press(&target.outlook(0, 50 << 20, &now, 1_000_000));
        assert!(used < 300.0 && target.used() * 1000.0 < used / LEAST + 10.0, "{}", target.used());
    }

    #[test]
    fn slow_recoveries_count_at_once_and_fast_ones_by_half() {
        let target = Target::new(5);
        assert_eq!(target.slowness(), None);
        let work = Work { entries: 1_000_000, ..Work::default() };
        let model = Duration::from_nanos(1_000_000 * ENTRY);
        target.measured(&work, model * 2);
        assert_eq!(target.slowness(), Some(2000));
        target.measured(&work, model);
        assert_eq!(target.slowness(), Some(1500));
        target.measured(&work, model * 4);
        assert_eq!(target.slowness(), Some(4000));
        target.measured(&Work { entries: 10, ..work }, model);
        assert_eq!(target.slowness(), Some(4000), "too little to measure");
        target.measured(&work, model * 90);
        assert_eq!(target.slowness(), Some(16_000), "one busy moment");
    }

    #[test]
    fn ages_are_spread_below_the_target_and_shrink_with_a_slow_machine() {
        let target = Target::new(5);
        target.set_slowness(Some(1000));
        let now = filled(&target, 5000);
        let ages = target.ages(&now, 0, 0);
        let age = |lsn: Lsn| target.outlook(lsn, lsn, &now, 0).time.as_secs_f64();
        assert!((5.0 * 0.7..5.0 * 0.76).contains(&age(ages.oldest())), "{}", age(ages.oldest()));
        assert!(ages.youngest() > ages.oldest());
        let tree = |table, index| TreeId { table: TableId(table), index };
        let mut of_four: Vec<Lsn> = (0..4).map(|n| ages.of(tree(7, n))).collect();
        of_four.sort_unstable();
        of_four.dedup();
        assert_eq!(of_four.len(), 4, "the indexes of a table are not frozen together");
        target.set_slowness(Some(10_000));
        assert!(target.ages(&now, 0, 0).oldest() > ages.youngest());
        // Tables take all of the time: a quarter is left for the log.
        target.set_slowness(Some(1000));
        let tables = target.ages(&now, 1_000_000, 0);
        assert!(age(tables.youngest()) > 5.0 * 0.08, "{}", age(tables.youngest()));
    }

    #[test]
    fn marks_are_thinned_and_still_ascend() {
        let target = Target::new(5);
        let now = filled(&target, 5000);
        let marks: Vec<Mark> = target.marks.lock().iter().copied().collect();
        assert!(marks.len() <= MARKS && marks.windows(2).all(|w| w[0].lsn < w[1].lsn));
        assert_eq!(marks[0].lsn, 0);
        target.forget_before(4000 << 20);
        let kept = target.marks.lock().front().copied().unwrap_or_default();
        assert!(kept.lsn <= 4000 << 20 && kept.lsn > 3900 << 20, "{}", kept.lsn);
        assert!(target.outlook(0, 4100 << 20, &now, 0).time > Duration::ZERO);
    }
}
