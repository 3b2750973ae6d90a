//! How often and how long, over time: one entry per interval in which something happened.
//!
//! Every class has dozens of intervals, so all but the latest two are packed: what differs from the one before, in as
//! few bytes as it needs. Logs are nearly in order, and threads that read one are only a little apart; what is older
//! is put among the packed slowly.
//!
//! Invariants:
//! 1. Intervals begin at multiples of their width since the epoch; the width is `SECOND << level`.
//! 2. At most `limit` entries: when there would be more, pairs of intervals become one (`level` grows).
//! 3. The result does not depend on the order of events.
//! 4. The packed intervals are those before the latest two, ascending by index; none if there are not two.

use crate::event::Micros;

const SECOND: i64 = 1_000_000;

/// Bytes by which the packed intervals grow.
const ROOM: usize = 32;

/// One interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interval {
    /// The interval's number: its begin divided by the width. Seconds since the epoch fit until 2106 and, before 1970,
    /// are taken as 1970.
    index: u32,
    /// Saturates.
    pub count: u32,
    /// Nanoseconds.
    pub time: u64,
}

impl Interval {
    fn add(&mut self, other: &Interval) {
        self.count = self.count.saturating_add(other.count);
        self.time = self.time.saturating_add(other.time);
    }
}

/// See the module's text.
#[derive(Clone, Debug, Default)]
pub struct Series {
    packed: Vec<u8>,
    /// The index of the last packed one, and how many there are.
    before: u32,
    count: u16,
    level: u8,
    /// The latest but one, and the latest. There is none if its count is 0.
    previous: Interval,
    latest: Interval,
}

impl Series {
    /// Adds an event. `limit` must be the same for all calls and at least 2.
    #[inline]
    pub fn add(&mut self, at: Micros, time: u64, limit: usize) {
        let index = at.div_euclid(SECOND).clamp(0, i64::from(u32::MAX)) as u32 >> self.level;
        let new = Interval { index, count: 1, time };
        for recent in [&mut self.latest, &mut self.previous] {
            if recent.index == index && recent.count > 0 {
                recent.add(&new);
                return;
            }
        }
        self.put(new, limit);
    }

    /// Adds an interval that is neither of the latest two.
    #[inline(never)]
    fn put(&mut self, new: Interval, limit: usize) {
        if self.previous.count > 0 && new.index < self.previous.index {
            let mut intervals = self.intervals();
            let at = intervals.partition_point(|i| i.index < new.index);
            match intervals.get_mut(at).filter(|i| i.index == new.index) {
                Some(interval) => interval.add(&new),
                None => intervals.insert(at, new),
            }
            return self.set(intervals, limit);
        }
        if self.previous.count > 0 {
            self.pack(self.previous);
        }
        if new.index > self.latest.index || self.latest.count == 0 {
            self.previous = std::mem::replace(&mut self.latest, new);
        } else {
            self.previous = new;
        }
        if usize::from(self.count) + 2 > limit {
            let intervals = self.intervals();
            self.set(intervals, limit);
        }
    }

    /// Reads its own memory: see `Table::fetch`.
    #[inline]
    pub(super) fn touch(&self) -> u64 {
        self.latest.time ^ u64::from(self.count)
    }

    /// Puts an interval behind the packed ones.
    fn pack(&mut self, interval: Interval) {
        // Most logs have microseconds.
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
        intervals.extend([self.previous, self.latest].into_iter().filter(|i| i.count > 0));
        intervals
    }

    /// Has these, at most `limit` of them, at the level they have or a higher one.
    fn set(&mut self, mut intervals: Vec<Interval>, limit: usize) {
        while intervals.len() > limit {
            coarsen(&mut intervals);
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

    pub fn merge(&mut self, other: &Series, limit: usize) {
        let (mut ours, mut theirs) = (self.intervals(), other.intervals());
        for level in self.level.min(other.level)..self.level.max(other.level) {
            coarsen(if level < self.level { &mut theirs } else { &mut ours });
        }
        self.level = self.level.max(other.level);
        ours.extend(theirs);
        ours.sort_by_key(|interval| interval.index);
        ours.dedup_by(|next, kept| {
            let same = next.index == kept.index;
            if same {
                kept.add(next);
            }
            same
        });
        self.set(ours, limit);
    }

    /// Seconds per interval.
    pub fn width(&self) -> i64 {
        1 << self.level
    }

    /// (begin in seconds since the epoch, interval), ascending, at a width of at least `width` seconds.
    pub fn at_width(&self, width: i64) -> Vec<(i64, Interval)> {
        let (mut intervals, mut level) = (self.intervals(), self.level);
        while 1 << level < width && level < 31 {
            coarsen(&mut intervals);
            level += 1;
        }
        intervals.into_iter().map(|i| (i64::from(i.index) << level, i)).collect()
    }

    pub fn is_empty(&self) -> bool {
        self.latest.count == 0
    }

    pub fn memory(&self) -> usize {
        self.packed.capacity()
    }
}

/// Doubles the width.
fn coarsen(intervals: &mut Vec<Interval>) {
    intervals.iter_mut().for_each(|interval| interval.index >>= 1);
    intervals.dedup_by(|next, kept| {
        let same = next.index == kept.index;
        if same {
            kept.add(next);
        }
        same
    });
}

/// Seven bits in a byte, the low ones first; the eighth says that more follow.
fn put_word(bytes: &mut Vec<u8>, word: u64) {
    let mut word = word;
    while word > 0x7f {
        bytes.push(word as u8 | 0x80);
        word >>= 7;
    }
    bytes.push(word as u8);
}

fn word(bytes: &[u8], at: &mut usize) -> u64 {
    let (mut word, mut shift) = (0, 0);
    while let Some(byte) = bytes.get(*at) {
        *at += 1;
        word |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 0x80 == 0 {
            break;
        }
    }
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_events_does_not_matter() {
        let times: Vec<i64> = (0..500).map(|i| (i * i * 31) % 100_000).collect();
        let (mut a, mut b) = (Series::default(), Series::default());
        let mut parts = [Series::default(), Series::default(), Series::default()];
        for (i, t) in times.iter().enumerate() {
            a.add(t * SECOND + 999_999, 7, 32);
            b.add(times[times.len() - 1 - i] * SECOND, 7, 32);
            parts[i % 3].add(t * SECOND, 7, 32);
        }
        let [mut merged, second, third] = parts;
        merged.merge(&second, 32);
        merged.merge(&third, 32);
        assert_eq!(a.at_width(1), b.at_width(1));
        assert_eq!(a.at_width(1), merged.at_width(1));
        let all = a.at_width(1);
        assert!(all.len() <= 32 && all.len() > 8);
        assert_eq!(all.iter().map(|(_, i)| i.count).sum::<u32>(), 500);
        assert!(all.windows(2).all(|w| w[0].0 < w[1].0));
    }

    #[test]
    fn what_is_packed_is_what_was_added() {
        let mut series = Series::default();
        let mut sums = std::collections::BTreeMap::new();
        for i in 0..2000_u64 {
            // Nanoseconds and microseconds, none and the most there can be.
            let time =
                [0, 1, 999, 5_000, 123_456_789_012, u64::MAX >> 20][i as usize % 6] * (i % 3);
            let second = (i as i64 * 7919) % 30 * 100_000 + 1_700_000_000;
            series.add(second * SECOND, time, 40);
            let sum: &mut (u32, u64) = sums.entry(second).or_default();
            *sum = (sum.0 + 1, sum.1 + time);
        }
        assert_eq!(series.count, 28, "all but two are packed");
        let found = series.at_width(1).into_iter().map(|(at, i)| (at, (i.count, i.time)));
        assert!(found.eq(sums));
        assert!(series.memory() < 30 * 16 + ROOM, "{}", series.memory());
        series.add(1_700_000_000 * SECOND, u64::MAX, 40);
        assert_eq!(series.at_width(1)[0].1.time, u64::MAX, "saturates");
    }

    #[test]
    fn intervals_begin_at_multiples_of_their_width() {
        let mut series = Series::default();
        for second in [100, 101, 163, 5, -5] {
            series.add(second * SECOND, 1, 100);
        }
        assert_eq!(series.width(), 1);
        let at: Vec<_> = series.at_width(60).iter().map(|(t, i)| (*t, i.count)).collect();
        assert_eq!(at, [(0, 2), (64, 2), (128, 1)]);
    }
}
