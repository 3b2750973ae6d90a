//! Counts and times over time: one entry per interval in which something happened.
//!
//! A statement counts in the interval in which it ended, and its time is divided among all intervals in which it ran: the
//! time in an interval divided by the width is the number of statements that ran at the same time.
//!
//! Every class has dozens of intervals, so all but the latest two are packed: as the difference from the interval before, in
//! as few bytes as it needs. Logs are nearly in order, and threads that read one are only a little apart; older values
//! are inserted among the packed ones, slowly.
//!
//! Invariants:
//!
//! - SER1. Intervals begin at multiples of their width since the epoch; the width is one of `Widths`, each of which
//!   divides the next.
//! - SER2. At most `limit` entries: when there would be more, neighbours become one (`level` grows). So a statement longer
//!   than `limit` intervals makes them wider before it is split, and no statement takes more than `limit` steps.
//! - SER3. The result does not depend on the order of events. Times are split in whole nanoseconds, so that splitting and then
//!   widening gives the same as widening and then splitting; and the level is the least that SER2 permits.
//! - SER4. The packed intervals are those before the latest two, ascending by index; none if there are not two.

mod width;
mod words;

#[cfg(test)]
mod tests;

use frond_event::Micros;
use std::marker::PhantomData;
use words::{put_word, word};

pub use width::{covering, Clock, Doubled, Widths};

const SECOND: i64 = 1_000_000;
/// Later times count as this one: the seconds since the epoch have 32 bits.
const LAST: i64 = (u32::MAX as i64 + 1) * SECOND - 1;

/// Bytes by which the packed intervals grow.
const ROOM: usize = 32;

/// One interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interval {
    /// The interval's number: its begin divided by the width. Seconds since the epoch fit until 2106; times before 1970
    /// count as 1970.
    index: u32,
    /// Statements that ended in it. Saturates.
    pub count: u32,
    /// Nanoseconds in it, of all statements.
    pub time: u64,
}

impl Interval {
    fn add(&mut self, other: &Interval) {
        self.count = self.count.saturating_add(other.count);
        self.time = self.time.saturating_add(other.time);
    }

    fn is_none(&self) -> bool {
        self.count == 0 && self.time == 0
    }
}

/// See the module's text.
#[derive(Clone, Debug, Default)]
pub struct Series<W = Doubled> {
    packed: Vec<u8>,
    /// The index of the last packed interval, and their number.
    before: u32,
    count: u16,
    level: u8,
    /// The latest but one, and the latest.
    previous: Interval,
    latest: Interval,
    widths: PhantomData<W>,
}

impl<W: Widths> Series<W> {
    /// An empty series to be merged into this one later: it need not be finer.
    pub fn beside(&self) -> Series<W> {
        Series { level: self.level, ..Series::default() }
    }

    /// Adds a statement that ended at `end` and took `time` nanoseconds. `limit` must be the same for all calls and at
    /// least 2.
    #[inline]
    pub fn add(&mut self, end: Micros, time: u64, limit: usize) {
        let end = end.clamp(0, LAST) as u64;
        let width = self.width() as u64 * SECOND as u64;
        for recent in [&mut self.latest, &mut self.previous] {
            // Compares begins of intervals, because a division by the width would take longer than everything else here.
            let ran = end.wrapping_sub(u64::from(recent.index) * width);
            if ran < width && time <= ran * 1000 && !recent.is_none() {
                recent.add(&Interval { index: recent.index, count: 1, time });
                return;
            }
        }
        self.split(end * 1000, time, limit);
    }

    /// Adds a statement that began before the interval in which it ended, or is the first in it. All times in nanoseconds.
    #[inline(never)]
    fn split(&mut self, end: u64, time: u64, limit: usize) {
        let nanos = |level: u8| W::SECONDS[usize::from(level)] * 1_000_000_000;
        let begin = end.saturating_sub(time);
        let mut level = self.level;
        while end / nanos(level) - begin / nanos(level) >= limit as u64 {
            level += 1;
        }
        self.raise(level);
        let mut at = begin;
        let mut step = |level: u8| {
            let width = nanos(level);
            let next = (at / width + 1) * width;
            let before_1970 = if at == begin { time - (end - begin) } else { 0 };
            let interval = Interval {
                index: (at / width) as u32,
                count: u32::from(end < next),
                time: end.min(next) - at + before_1970,
            };
            at = next;
            interval
        };
        let first = (begin / nanos(level)) as u32;
        if first < self.previous.index {
            let mut steps = Vec::new();
            while steps.last().is_none_or(|last: &Interval| last.count == 0) {
                steps.push(step(level));
            }
            return self.unite(steps, limit);
        }
        loop {
            // The parts that are added may widen the intervals.
            let interval = step(self.level);
            self.put(interval, limit);
            if interval.count > 0 {
                return;
            }
        }
    }

    fn put(&mut self, new: Interval, limit: usize) {
        for recent in [&mut self.latest, &mut self.previous] {
            if recent.index == new.index && !recent.is_none() {
                return recent.add(&new);
            }
        }
        if new.index < self.previous.index {
            return self.unite(vec![new], limit);
        }
        if !self.previous.is_none() {
            self.pack(self.previous);
        }
        if new.index > self.latest.index || self.latest.is_none() {
            self.previous = std::mem::replace(&mut self.latest, new);
        } else {
            self.previous = new;
        }
        if usize::from(self.count) + 2 > limit {
            let intervals = self.intervals();
            self.set(intervals, limit);
        }
    }

    /// Adds intervals of the same width, in ascending order.
    fn unite(&mut self, others: Vec<Interval>, limit: usize) {
        let mut intervals = self.intervals();
        intervals.extend(others);
        // There are two ascending runs, which this sort merges.
        intervals.sort_by_key(|interval| interval.index);
        join(&mut intervals);
        self.set(intervals, limit);
    }

    /// Raises the level to at least this one.
    fn raise(&mut self, level: u8) {
        if level > self.level {
            let intervals = self.at_level(level);
            self.level = level;
            self.set(intervals, usize::MAX);
        }
    }

    /// Makes each statement count as `n`.
    pub fn multiply(&mut self, n: u32) {
        if n == 1 {
            return;
        }
        let mut intervals = self.intervals();
        for interval in &mut intervals {
            interval.count = interval.count.saturating_mul(n);
            interval.time = interval.time.saturating_mul(n.into());
        }
        self.set(intervals, usize::MAX);
    }

    /// Reads its own memory: see `Table::fetch`.
    #[inline]
    pub(super) fn touch(&self) -> u64 {
        self.latest.time ^ u64::from(self.count)
    }

    /// Puts an interval behind the packed ones.
    fn pack(&mut self, interval: Interval) {
        // The times of most logs are whole microseconds.
        let (time, exact) = match interval.time % 1000 {
            0 => (interval.time / 1000, 0),
            _ => (interval.time, 1),
        };
        if self.packed.len() + 20 > self.packed.capacity() {
            self.packed.reserve_exact(ROOM);
        }
        for word in
            [u64::from(interval.index - self.before), u64::from(interval.count) << 1 | exact, time]
        {
            put_word(&mut self.packed, word);
        }
        self.before = interval.index;
        self.count += 1;
    }

    /// All intervals.
    fn intervals(&self) -> Vec<Interval> {
        let mut intervals = Vec::with_capacity(usize::from(self.count) + 3);
        let (mut at, mut index) = (0, 0);
        while at < self.packed.len() {
            let [step, count, time] = [(); 3].map(|()| word(&self.packed, &mut at));
            index += step as u32;
            let scale = if count & 1 == 0 { 1000 } else { 1 };
            intervals.push(Interval { index, count: (count >> 1) as u32, time: time * scale });
        }
        intervals.extend([self.previous, self.latest].into_iter().filter(|i| !i.is_none()));
        intervals
    }

    /// All intervals at a level that is at least its own.
    fn at_level(&self, level: u8) -> Vec<Interval> {
        let mut intervals = self.intervals();
        (self.level..level).for_each(|level| coarsen::<W>(&mut intervals, level));
        intervals
    }

    /// Replaces the intervals by these, at most `limit` of them, at their level or a higher one.
    fn set(&mut self, mut intervals: Vec<Interval>, limit: usize) {
        while intervals.len() > limit {
            coarsen::<W>(&mut intervals, self.level);
            self.level += 1;
        }
        self.packed.clear();
        (self.before, self.count) = (0, 0);
        self.latest = intervals.pop().unwrap_or_default();
        self.previous = intervals.pop().unwrap_or_default();
        for interval in intervals {
            self.pack(interval);
        }
    }

    pub fn merge(&mut self, other: &Series<W>, limit: usize) {
        self.raise(other.level);
        self.unite(other.at_level(self.level), limit);
    }

    /// Seconds per interval.
    #[inline]
    pub fn width(&self) -> i64 {
        W::SECONDS[usize::from(self.level)] as i64
    }

    /// Seconds per interval of `at_width`.
    pub fn width_from(&self, width: i64) -> i64 {
        W::SECONDS[usize::from(self.level_from(width))] as i64
    }

    fn level_from(&self, width: i64) -> u8 {
        let enough = W::SECONDS.partition_point(|w| (*w as i64) < width);
        self.level.max(enough.min(W::SECONDS.len() - 1) as u8)
    }

    /// (begin in seconds since the epoch, interval), ascending, at a width of at least `width` seconds.
    pub fn at_width(&self, width: i64) -> Vec<(i64, Interval)> {
        let intervals = self.at_level(self.level_from(width)).into_iter();
        let width = self.width_from(width);
        intervals.map(|i| (i64::from(i.index) * width, i)).collect()
    }

    pub fn is_empty(&self) -> bool {
        self.latest.is_none()
    }

    pub fn memory(&self) -> usize {
        self.packed.capacity()
    }
}

/// Converts intervals from a level to the next.
fn coarsen<W: Widths>(intervals: &mut Vec<Interval>, level: u8) {
    let level = usize::from(level);
    let factor = (W::SECONDS[level + 1] / W::SECONDS[level]) as u32;
    intervals.iter_mut().for_each(|interval| interval.index /= factor);
    join(intervals);
}

/// Joins neighbours that have the same index.
fn join(intervals: &mut Vec<Interval>) {
    intervals.dedup_by(|next, kept| {
        let same = next.index == kept.index;
        if same {
            kept.add(next);
        }
        same
    });
}
