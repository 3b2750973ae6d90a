//! Buckets of a logarithmic histogram, and the histogram itself.
//!
//! pt-query-digest counts in 1000 buckets, each 1.05 times as wide as the one before, from 1e-6 (of a second, or of
//! one) up. Ours are the same, split into `FINE` parts for metrics that need it, so that one histogram gives both the
//! compatible numbers and ours.
//!
//! Invariants:
//!
//! - BK1. Bucket 0 is everything below 1e-6, zero included.
//! - BK2. A coarse bucket is exactly `FINE` fine ones: coarse = fine / FINE.
//! - BK3. Counts do not depend on the order of `add` and `merge`.
//! - BK4. A histogram takes the lesser of two sizes (apart from slack): 2 bytes for each 15 values of a bucket, or 4 bits
//!   per bucket between its lowest and highest (8 if a count passes 15, 16 if one passes 255, 32 if one passes 65 535).
//!
//! The stated relative error of a quantile is half a bucket: 2.5 % coarse, 0.61 % fine.

use std::sync::LazyLock;

use frond_event::Unit;

/// The width of a coarse bucket.
pub const BASE: f64 = 1.05;
/// Fine buckets per coarse one.
pub const FINE: usize = 4;
/// Coarse buckets.
pub const COARSE_COUNT: usize = 1000;
const FINE_COUNT: usize = COARSE_COUNT * FINE;
/// Mantissa bits that choose a cell of the table. A cell is narrower than a fine bucket.
const CELL_BITS: u32 = 7;
const CELLS: usize = 64 << CELL_BITS;

struct Tables {
    /// The fine bucket of a cell's lower end.
    cells: Box<[u16; CELLS]>,
    /// The lower bound of each fine bucket, in units of 1e-6.
    bounds: Box<[f64; FINE_COUNT + 1]>,
}

static TABLES: LazyLock<Tables> = LazyLock::new(|| {
    let mut bounds = Box::new([0.0; FINE_COUNT + 1]);
    for (fine, bound) in bounds.iter_mut().enumerate().skip(FINE) {
        *bound = BASE.powf((fine - FINE) as f64 / FINE as f64);
    }
    bounds[FINE_COUNT] = f64::INFINITY;
    let mut cells = Box::new([0; CELLS]);
    let mut fine = FINE;
    for (cell, slot) in cells.iter_mut().enumerate() {
        let low = f64::from_bits(((cell as u64) << (52 - CELL_BITS)) + (1023 << 52));
        while bounds[fine + 1] <= low {
            fine += 1;
        }
        *slot = fine as u16;
    }
    Tables { cells, bounds }
});

/// Finds buckets. It holds a reference to the tables, so that the hot path need not check whether they exist.
#[derive(Clone, Copy)]
pub struct Buckets(&'static Tables);

impl Default for Buckets {
    fn default() -> Self {
        Buckets(&TABLES)
    }
}

/// One base unit of a metric in the histogram's unit, 1e-6.
#[inline]
pub fn scale_of(unit: Unit) -> f64 {
    match unit {
        Unit::Time => 1e-3,
        Unit::Bytes | Unit::Count => 1e6,
    }
}

impl Buckets {
    /// The fine bucket of `micros` units of 1e-6.
    #[inline]
    pub fn fine(self, micros: f64) -> u16 {
        if micros < 1.0 {
            return 0;
        }
        let cell = (micros.to_bits() - (1023 << 52)) >> (52 - CELL_BITS);
        let Some(&fine) = self.0.cells.get(cell as usize) else { return (FINE_COUNT - 1) as u16 };
        fine + u16::from(self.0.bounds[usize::from(fine) + 1] <= micros)
    }

    /// The lower bound of a fine bucket in units of 1e-6.
    #[inline]
    pub fn low(self, fine: usize) -> f64 {
        self.0.bounds[fine.min(FINE_COUNT - 1)]
    }
}

/// Buckets of slack when the window of a dense histogram grows: a share of the window, within bounds, so that it grows
/// only a few times.
fn slack(size: u16) -> u16 {
    (size / 4).clamp(4, 48)
}

/// Bits of a list entry that hold a count, and the greatest such count.
const COUNT_BITS: u32 = 4;
const COUNT_MAX: u16 = (1 << COUNT_BITS) - 1;
const _: () = assert!(FINE_COUNT <= 1 << (16 - COUNT_BITS), "a bucket and a count are 16 bits");

/// Bits of a count that shares its byte, and the greatest such count.
const HALF_BITS: u16 = 4;
const HALF_MAX: u32 = (1 << HALF_BITS) - 1;

/// Longer lists would cost more time than they save memory.
const LIST_MAX: usize = 512;

#[derive(Clone, Debug)]
enum Counts {
    /// `bucket << COUNT_BITS | count`, the first `used` entries, ascending. A bucket with more than `COUNT_MAX` values has
    /// several entries; all but the first hold `COUNT_MAX`.
    List {
        used: u16,
        words: Box<[u16]>,
    },
    /// From bucket `low` on, two counts in a byte, the lower bits first.
    Halves {
        low: u16,
        words: Box<[u8]>,
    },
    /// From bucket `low` on, one count per element.
    Bytes {
        low: u16,
        words: Box<[u8]>,
    },
    Narrow {
        low: u16,
        words: Box<[u16]>,
    },
    Wide {
        low: u16,
        words: Box<[u32]>,
    },
}

/// Counts by bucket (BK3 and BK4). The owner knows whether its buckets are fine or coarse.
#[derive(Clone, Debug)]
pub struct Histogram {
    counts: Counts,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram { counts: Counts::List { used: 0, words: Box::default() } }
    }
}

/// Adds to the word at `at`; false if there is no such word, or no room in it.
#[inline]
fn add_to<W: Copy + Into<u32> + TryFrom<u32>>(words: &mut [W], at: u16, count: u32) -> bool {
    let Some(word) = words.get_mut(usize::from(at)) else { return false };
    let Ok(sum) = W::try_from((*word).into().saturating_add(count)) else { return false };
    *word = sum;
    true
}

/// The same for two counts in one byte.
#[inline]
fn add_to_half(words: &mut [u8], at: u16, count: u32) -> bool {
    let Some(word) = words.get_mut(usize::from(at / 2)) else { return false };
    let shift = at % 2 * HALF_BITS;
    let sum = u32::from(*word >> shift) % (HALF_MAX + 1) + count.min(HALF_MAX + 1);
    if sum > HALF_MAX {
        return false;
    }
    *word += (count as u8) << shift;
    true
}

impl Histogram {
    /// Adds `count` to a bucket. Counts saturate at 2^32.
    #[inline]
    pub fn add(&mut self, bucket: u16, count: u32) {
        let added = match &mut self.counts {
            Counts::Halves { low, words } => add_to_half(words, bucket.wrapping_sub(*low), count),
            Counts::Bytes { low, words } => add_to(words, bucket.wrapping_sub(*low), count),
            Counts::Narrow { low, words } => add_to(words, bucket.wrapping_sub(*low), count),
            Counts::Wide { low, words } => add_to(words, bucket.wrapping_sub(*low), count),
            Counts::List { used, words } => add_to_list(words, used, bucket, count),
        };
        if !added {
            self.add_slowly(bucket, count);
        }
    }

    #[inline(never)]
    fn add_slowly(&mut self, bucket: u16, count: u32) {
        let mut pairs = self.sorted();
        let at = pairs.partition_point(|pair| pair.0 < bucket);
        match pairs.get_mut(at).filter(|pair| pair.0 == bucket) {
            Some(pair) => pair.1 = pair.1.saturating_add(count),
            None => pairs.insert(at, (bucket, count)),
        }
        let (Some(&(lowest, _)), Some(&(highest, _))) = (pairs.first(), pairs.last()) else {
            return;
        };
        let most = pairs.iter().map(|pair| pair.1).max().unwrap_or(0);
        let bits: usize = match most {
            0..=HALF_MAX => 4,
            0x10..=0xff => 8,
            0x100..=0xffff => 16,
            _ => 32,
        };
        let entries = |count: u32| count.div_ceil(u32::from(COUNT_MAX)) as usize;
        let entries: usize = pairs.iter().map(|pair| entries(pair.1)).sum();
        let dense = (bits * (usize::from(highest - lowest) + 1)).div_ceil(8);
        if entries <= LIST_MAX && (entries < 4 || entries * 2 < dense) {
            return self.counts = list(&pairs, entries);
        }
        let slack = slack(highest - lowest);
        let low = if bucket == lowest { lowest.saturating_sub(slack) } else { lowest };
        let high = if bucket == highest { highest.saturating_add(slack) } else { highest };
        let mut words = vec![0_u32; usize::from(high - low) + 1];
        for (bucket, count) in &pairs {
            words[usize::from(bucket - low)] = *count;
        }
        let words = words.into_iter();
        self.counts = match bits {
            4 => {
                let pairs = words.as_slice().chunks(2);
                let pair = |pair: &[u32]| pair.iter().rev().fold(0, |byte, w| byte << 4 | *w as u8);
                Counts::Halves { low, words: pairs.map(pair).collect() }
            }
            8 => Counts::Bytes { low, words: words.map(|w| w as u8).collect() },
            16 => Counts::Narrow { low, words: words.map(|w| w as u16).collect() },
            _ => Counts::Wide { low, words: words.collect() },
        };
    }

    /// (bucket, count) of non-empty buckets, ascending.
    pub fn sorted(&self) -> Vec<(u16, u32)> {
        fn dense<W: Copy + Into<u32>>(low: u16, words: &[W]) -> Vec<(u16, u32)> {
            let pairs = words.iter().enumerate().map(|(i, w)| (low + i as u16, (*w).into()));
            pairs.filter(|pair| pair.1 > 0).collect()
        }
        match &self.counts {
            Counts::Halves { low, words } => {
                let words: Vec<u8> = words.iter().flat_map(|w| [w & 0xf, w >> HALF_BITS]).collect();
                dense(*low, &words)
            }
            Counts::Bytes { low, words } => dense(*low, words),
            Counts::Narrow { low, words } => dense(*low, words),
            Counts::Wide { low, words } => dense(*low, words),
            Counts::List { used, words } => {
                let mut pairs: Vec<(u16, u32)> = Vec::with_capacity(usize::from(*used));
                for word in &words[..usize::from(*used)] {
                    let (bucket, count) = (word >> COUNT_BITS, u32::from(word & COUNT_MAX));
                    match pairs.last_mut().filter(|last| last.0 == bucket) {
                        Some(last) => last.1 += count,
                        None => pairs.push((bucket, count)),
                    }
                }
                pairs
            }
        }
    }

    pub fn merge(&mut self, other: &Histogram) {
        for (bucket, count) in other.sorted() {
            self.add(bucket, count);
        }
    }

    /// Reads a word of each of the first few cache lines of its memory: see `Table::fetch`.
    #[inline]
    pub(super) fn touch(&self) -> u64 {
        fn every<W: Copy + Into<u32>>(words: &[W]) -> u64 {
            let lines = words.iter().step_by(64 / std::mem::size_of::<W>());
            lines.take(8).fold(0, |read, word| read ^ u64::from((*word).into()))
        }
        match &self.counts {
            Counts::Halves { words, .. } | Counts::Bytes { words, .. } => every(words),
            Counts::List { words, .. } | Counts::Narrow { words, .. } => every(words),
            Counts::Wide { words, .. } => every(words),
        }
    }

    pub fn memory(&self) -> usize {
        match &self.counts {
            Counts::List { words, .. } => words.len() * 2,
            Counts::Halves { words, .. } | Counts::Bytes { words, .. } => words.len(),
            Counts::Narrow { words, .. } => words.len() * 2,
            Counts::Wide { words, .. } => words.len() * 4,
        }
    }
}

/// Adds a count; false if there was no room for it.
#[inline]
fn add_to_list(words: &mut [u16], used: &mut u16, bucket: u16, count: u32) -> bool {
    let end = usize::from(*used);
    let at = words[..end].partition_point(|w| w >> COUNT_BITS < bucket);
    if at < end && words[at] >> COUNT_BITS == bucket {
        if count <= u32::from(COUNT_MAX - (words[at] & COUNT_MAX)) {
            words[at] += count as u16;
            return true;
        }
        if words[at] & COUNT_MAX != COUNT_MAX {
            return false;
        }
    }
    if end == words.len() || count > u32::from(COUNT_MAX) {
        return false;
    }
    words.copy_within(at..end, at + 1);
    words[at] = bucket << COUNT_BITS | count as u16;
    *used += 1;
    true
}

/// A list with space for `entries` and a few more.
fn list(pairs: &[(u16, u32)], entries: usize) -> Counts {
    let mut words = Vec::with_capacity(entries + (entries / 4).clamp(2, 16));
    for (bucket, count) in pairs {
        let full = *count / u32::from(COUNT_MAX);
        let rest = (*count % u32::from(COUNT_MAX)) as u16;
        words.extend((rest > 0).then_some(bucket << COUNT_BITS | rest));
        words.extend((0..full).map(|_| bucket << COUNT_BITS | COUNT_MAX));
    }
    let used = words.len() as u16;
    words.resize(words.capacity(), u16::MAX);
    Counts::List { used, words: words.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_those_of_the_formula() {
        let buckets = Buckets::default();
        let mut value = 1.0_f64;
        while value < 1e15 {
            let exact = ((value.ln() / BASE.ln()) * FINE as f64).floor() as usize + FINE;
            let found = usize::from(buckets.fine(value));
            assert!(buckets.low(found) <= value && value < buckets.low(found + 1), "{value}");
            assert!(found.abs_diff(exact) <= 1, "{value}: {found} {exact}");
            value *= 1.003;
        }
        assert_eq!(buckets.fine(0.0), 0);
        assert_eq!(buckets.fine(0.999), 0);
        assert_eq!(buckets.fine(1.0), FINE as u16);
        assert_eq!(usize::from(buckets.fine(f64::MAX)), FINE_COUNT - 1);
    }

    #[test]
    fn counts_do_not_depend_on_the_order() {
        let values: Vec<u16> = (0..400).map(|i| (i * 7919 % 977) as u16 % 300 + 100).collect();
        let mut forwards = Histogram::default();
        let mut parts = [Histogram::default(), Histogram::default()];
        for (i, value) in values.iter().enumerate() {
            forwards.add(*value, 1);
            parts[i % 2].add(values[values.len() - 1 - i], 1);
        }
        let [mut merged, other] = parts;
        merged.merge(&other);
        assert_eq!(merged.sorted(), forwards.sorted());
        assert_eq!(merged.sorted().iter().map(|p| p.1).sum::<u32>(), 400);
    }

    #[test]
    fn few_buckets_take_little_memory() {
        let mut histogram = Histogram::default();
        for bucket in [5, 900, 5, 17, 5] {
            histogram.add(bucket, 1);
        }
        assert_eq!(histogram.sorted(), [(5, 3), (17, 1), (900, 1)]);
        assert!(histogram.memory() <= 12);
        histogram.add(5, 70_000);
        assert_eq!(histogram.sorted(), [(5, 70_003), (17, 1), (900, 1)]);
        for bucket in 100..120 {
            histogram.add(bucket, 1);
        }
        histogram.add(100, 65_535);
        histogram.add(3999, 2);
        assert_eq!(
            histogram.sorted().iter().map(|p| u64::from(p.1)).sum::<u64>(),
            70_005 + 20 + 65_535 + 2
        );
    }

    #[test]
    fn counts_are_exact_in_every_form() {
        use std::collections::BTreeMap;
        let mut seed = 1_u64;
        let mut random = |below: u64| {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        // Values spread wide and narrow, few and many, single and repeated.
        for (range, values, most) in [
            (4000, 300, 1),
            (4000, 3000, 1),
            (60, 2000, 1),
            (600, 400, 40),
            (9, 5000, 3),
            (3000, 20, 300_000),
            (30, 30, 70_000),
            (1, 500, 1),
        ] {
            let mut histogram = Histogram::default();
            let mut known: BTreeMap<u16, u32> = BTreeMap::new();
            for _ in 0..values {
                let (bucket, count) = (random(range) as u16, 1 + random(most) as u32);
                histogram.add(bucket, count);
                *known.entry(bucket).or_default() += count;
                assert!(
                    histogram.memory() <= 17_000
                        && (most > 1 || histogram.memory() <= 60 + 4 * values)
                );
            }
            assert!(histogram.sorted().into_iter().eq(known), "{range} {values} {most}");
        }
    }
}
