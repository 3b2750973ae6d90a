//! The distribution of one attribute's values within one class.
//!
//! Invariants:
//!
//! - DN1. Count, sum, min and max are exact (a sum saturates at 2^64 base units).
//! - DN2. `merge` of parts equals adding all values to one, whatever the order: everything is a sum of integers.
//! - DN3. Zeros are only counted: most attributes of most statements are zero.

use super::bucket::{scale_of, Buckets, Histogram, FINE};
use frond_event::{Metric, Unit};

/// The values of one attribute that are not zero. The owner knows the number of zeros.
#[derive(Clone, Debug)]
pub struct Distribution {
    count: u64,
    sum: u64,
    min: u64,
    max: u64,
    /// Sum of the squares of values in base units, saturating: the low and the high half of a 128-bit number. (A
    /// `u128` would have to be aligned to 16 bytes.)
    squares: [u64; 2],
    /// Filled only once two values differ.
    histogram: Histogram,
}

/// The known parts of a distribution besides its count and sum. Servers' own statistics are totals:
/// from them there are no quantiles, and not always bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// Quantiles, deviation, histogram.
    pub shape: bool,
    pub min: bool,
    pub max: bool,
}

impl Known {
    pub const ALL: Known = Known { shape: true, min: true, max: true };

    pub fn and(self, other: Known) -> Known {
        Known {
            shape: self.shape && other.shape,
            min: self.min && other.min,
            max: self.max && other.max,
        }
    }

    /// The known parts of attributes other than the duration: servers give only sums of them.
    pub fn of_others(self) -> Known {
        if self.shape {
            self
        } else {
            Known { shape: false, min: false, max: false }
        }
    }
}

/// Whether a metric's histogram is fine: those whose quantiles people read.
#[inline]
fn shift_of(metric: Metric) -> u32 {
    if matches!(metric, Metric::QueryTime) {
        0
    } else {
        FINE.trailing_zeros()
    }
}

#[inline]
fn bucket_of(buckets: Buckets, metric: Metric, value: u64) -> u16 {
    buckets.fine(value as f64 * scale_of(metric.unit())) >> shift_of(metric)
}

#[inline]
fn square(value: u64) -> u128 {
    u128::from(value) * u128::from(value)
}

#[inline]
fn halves(number: u128) -> [u64; 2] {
    [number as u64, (number >> 64) as u64]
}

#[inline]
fn whole([low, high]: [u64; 2]) -> u128 {
    u128::from(high) << 64 | u128::from(low)
}

impl Distribution {
    /// A distribution with one value, not zero.
    pub fn new(value: u64) -> Distribution {
        Distribution {
            count: 1,
            sum: value,
            min: value,
            max: value,
            squares: halves(square(value)),
            histogram: Histogram::default(),
        }
    }

    /// A distribution of `count` values, not all zero, of which only the sum and perhaps the
    /// bounds are known. The owner remembers which parts are unknown (`Known`).
    pub fn of_total(count: u64, sum: u64, min: Option<u64>, max: Option<u64>) -> Distribution {
        let (min, max) =
            if count == 1 { (sum, sum) } else { (min.unwrap_or(0), max.unwrap_or(sum)) };
        Distribution { count, sum, min, max, ..Distribution::new(sum) }
    }

    /// Adds a value, not zero.
    #[inline]
    pub fn add(&mut self, buckets: Buckets, metric: Metric, value: u64) {
        if self.min == self.max {
            if value != self.min {
                self.split(buckets, metric);
                self.histogram.add(bucket_of(buckets, metric, value), 1);
            }
        } else {
            self.histogram.add(bucket_of(buckets, metric, value), 1);
        }
        self.count += 1;
        self.sum = self.sum.saturating_add(value);
        self.squares = halves(whole(self.squares).saturating_add(square(value)));
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    /// Puts the only value so far into the histogram.
    #[inline(never)]
    fn split(&mut self, buckets: Buckets, metric: Metric) {
        let bucket = bucket_of(buckets, metric, self.min);
        let mut left = self.count;
        while left > 0 {
            let part = left.min(u64::from(u32::MAX));
            self.histogram.add(bucket, part as u32);
            left -= part;
        }
    }

    pub fn merge(&mut self, buckets: Buckets, metric: Metric, other: &Distribution) {
        let same = self.min == self.max && other.min == other.max && self.min == other.min;
        if !same {
            if self.min == self.max {
                self.split(buckets, metric);
            }
            if other.min == other.max {
                let mut other = other.clone();
                other.split(buckets, metric);
                self.histogram.merge(&other.histogram);
            } else {
                self.histogram.merge(&other.histogram);
            }
        }
        self.count += other.count;
        self.sum = self.sum.saturating_add(other.sum);
        self.squares = halves(whole(self.squares).saturating_add(whole(other.squares)));
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// The variance of `count` values: these, and zeros for the rest.
    fn variance(&self, count: u64) -> f64 {
        let n = count as f64;
        let (squares, square_of_sum) = (whole(self.squares), square(self.sum));
        // Exact where it fits: the two terms are nearly equal where the values are.
        let spread = match squares.checked_mul(u128::from(count)) {
            Some(all) => all.saturating_sub(square_of_sum) as f64 / n,
            None => squares as f64 - square_of_sum as f64 / n,
        };
        (spread / (count - 1) as f64).max(0.0)
    }

    pub fn sum(&self) -> u64 {
        self.sum
    }

    pub fn max(&self) -> u64 {
        self.max
    }

    /// Reads the histogram: see `Table::fetch`.
    #[inline]
    pub(super) fn touch(&self) -> u64 {
        self.histogram.touch()
    }

    pub fn memory(&self) -> usize {
        std::mem::size_of::<Distribution>() + self.histogram.memory()
    }

    /// The summary for a report; `present` is the number of events that had the attribute.
    pub fn summary(&self, metric: Metric, present: u64) -> Summary {
        let zeros = present.saturating_sub(self.count);
        let count = zeros + self.count;
        let mut pairs: Vec<(u16, u64)> = Vec::new();
        if zeros > 0 {
            pairs.push((0, zeros));
        }
        if self.min == self.max {
            pairs.push((bucket_of(Buckets::default(), metric, self.min), self.count));
        } else {
            pairs.extend(self.histogram.sorted().iter().map(|&(b, c)| (b, u64::from(c))));
        }
        let variance = if count > 1 { self.variance(count) } else { 0.0 };
        Summary {
            metric,
            count,
            sum: self.sum,
            min: if zeros > 0 { 0 } else { self.min },
            max: self.max,
            stddev: variance.sqrt(),
            known: Known::ALL,
            fine: shift_of(metric) == 0,
            zeros,
            pairs,
        }
    }
}

/// A finished distribution, for renderers.
#[derive(Clone, Debug)]
pub struct Summary {
    pub metric: Metric,
    pub count: u64,
    pub sum: u64,
    pub min: u64,
    pub max: u64,
    /// Sample standard deviation in base units.
    pub stddev: f64,
    /// Which of these figures are known; the others have no meaning.
    pub known: Known,
    fine: bool,
    /// Number of values that are zero. They are in the first bucket, together with times below 1 us.
    zeros: u64,
    /// (bucket, count), ascending.
    pairs: Vec<(u16, u64)>,
}

impl Summary {
    /// The summary of an attribute that was always zero.
    pub fn zeros(metric: Metric, count: u64) -> Summary {
        Summary {
            metric,
            count,
            sum: 0,
            min: 0,
            max: 0,
            stddev: 0.0,
            known: Known::ALL,
            fine: false,
            zeros: count,
            pairs: vec![(0, count)],
        }
    }

    /// The same with less known, unless everything is known anyway: equal bounds determine all values.
    pub fn knowing(mut self, known: Known) -> Summary {
        let single = self.count == 1 || known.min && known.max && self.min == self.max;
        self.known = if single { Known::ALL } else { known };
        self
    }

    pub fn mean(&self) -> f64 {
        if self.count == 0 {
            0.0
        } else {
            self.sum as f64 / self.count as f64
        }
    }

    /// Variance to mean ratio, in seconds (or pieces).
    pub fn variance_to_mean(&self) -> f64 {
        let unit = base_units(self.metric.unit());
        if self.sum == 0 {
            0.0
        } else {
            self.stddev * self.stddev / self.mean() / unit
        }
    }

    /// The relative error of `quantile`.
    pub fn quantile_error(&self) -> f64 {
        if self.min == self.max || self.count <= 2 {
            0.0
        } else if self.fine {
            0.0062
        } else {
            0.025
        }
    }

    /// The bounds of a bucket in base units.
    fn bounds(&self, bucket: u16) -> (f64, f64) {
        let buckets = Buckets::default();
        let factor = if self.fine { 1 } else { FINE };
        let scale = scale_of(self.metric.unit());
        let low = usize::from(bucket) * factor;
        // The first bucket has no fine parts.
        (buckets.low(low) / scale, buckets.low((low + factor).max(FINE)) / scale)
    }

    /// The value below which a share `q` of all values lies, in base units; exact at the ends.
    pub fn quantile(&self, q: f64) -> u64 {
        let rank = (q * self.count as f64).ceil().clamp(1.0, self.count.max(1) as f64) as u64;
        if rank == 1 {
            return self.min;
        }
        if rank == self.count {
            return self.max;
        }
        if rank <= self.zeros {
            return 0;
        }
        let mut below = self.zeros;
        for &(bucket, count) in self.others() {
            if below + count >= rank {
                let (low, high) = self.bounds(bucket);
                let inside = (rank - below) as f64 - 0.5;
                let value = low + (high - low) * inside / count as f64;
                return (value.round() as u64).clamp(self.min, self.max);
            }
            below += count;
        }
        self.max
    }

    /// For a time: counts of the eight decades from 1 us (index 0) to 10 s and above (index 7).
    /// Values below 1 us count in the first.
    pub fn decades(&self) -> [u64; 8] {
        let mut decades = [0; 8];
        for &(bucket, count) in &self.pairs {
            let (low, high) = self.bounds(bucket);
            // A bucket may straddle a decade: its geometric middle decides.
            let middle =
                (low.max(1.0) * high).sqrt().clamp(self.min as f64, self.max as f64) / 1000.0;
            let decade = if middle < 1.0 { 0 } else { (middle.log10() + 1e-9) as usize };
            decades[decade.min(7)] += count;
        }
        decades
    }

    /// (lower bound, upper bound, count) in base units of each bucket that is not empty, ascending. Zeros have a
    /// bucket of their own, without a width.
    pub fn histogram(&self) -> Vec<(f64, f64, u64)> {
        let bounds = |&(bucket, count): &(u16, u64)| {
            let (low, high) = self.bounds(bucket);
            (low, high, count)
        };
        let zeros = (self.zeros > 0).then_some((0.0, 0.0, self.zeros));
        zeros.into_iter().chain(self.others().iter().map(bounds)).collect()
    }

    /// The buckets of values above zero.
    fn others(&self) -> &[(u16, u64)] {
        &self.pairs[usize::from(self.zeros > 0)..]
    }

    /// (coarse bucket, count), ascending, as in pt-query-digest.
    pub fn coarse(&self) -> Vec<(u16, u64)> {
        let mut coarse: Vec<(u16, u64)> = Vec::new();
        for &(bucket, count) in &self.pairs {
            let bucket = if self.fine { bucket / FINE as u16 } else { bucket };
            match coarse.last_mut() {
                Some(last) if last.0 == bucket => last.1 += count,
                _ => coarse.push((bucket, count)),
            }
        }
        coarse
    }
}

/// Base units per second, byte or piece.
pub fn base_units(unit: Unit) -> f64 {
    match unit {
        Unit::Time => 1e9,
        Unit::Bytes | Unit::Count => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[u64], metric: Metric) -> Summary {
        let buckets = Buckets::default();
        let mut nonzero = values.iter().copied().filter(|v| *v > 0);
        let Some(first) = nonzero.next() else {
            return Summary::zeros(metric, values.len() as u64);
        };
        let mut distribution = Distribution::new(first);
        nonzero.for_each(|v| distribution.add(buckets, metric, v));
        distribution.summary(metric, values.len() as u64)
    }

    #[test]
    fn quantiles_keep_the_stated_error() {
        let mut seed = 7_u64;
        let mut values: Vec<u64> = (0..20_000)
            .map(|_| {
                seed = seed
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                let unit = (seed >> 11) as f64 / (1u64 << 53) as f64;
                (1e5 * (unit * 14.0).exp2()) as u64
            })
            .collect();
        for metric in [Metric::QueryTime, Metric::LockTime] {
            let summary = of(&values, metric);
            values.sort_unstable();
            for q in [0.5, 0.95, 0.99, 0.999] {
                let exact = values[(q * values.len() as f64).ceil() as usize - 1] as f64;
                let error = (summary.quantile(q) as f64 / exact - 1.0).abs();
                assert!(error <= summary.quantile_error() * 2.0 + 0.002, "{metric:?} {q}: {error}");
            }
        }
    }

    #[test]
    fn sums_and_bounds_are_exact() {
        let summary = of(&[0, 5, 0, 9, 9], Metric::RowsSent);
        assert_eq!((summary.count, summary.sum, summary.min, summary.max), (5, 23, 0, 9));
        assert_eq!(summary.quantile(0.2), 0);
        assert_eq!(summary.quantile(1.0), 9);
        assert!((summary.stddev - 4.505_55).abs() < 1e-4, "{}", summary.stddev);
        let constant = of(&[7, 7, 7], Metric::RowsSent);
        assert_eq!((constant.quantile(0.5), constant.stddev), (7, 0.0));
        assert_eq!(of(&[0, 0], Metric::RowsSent).max, 0);
    }

    #[test]
    fn zeros_are_zero_and_not_anything_below_a_microsecond() {
        let mut values = vec![0; 990];
        values.extend([300, 5_000, 2_000_000].repeat(3));
        values.push(9_000_000);
        for metric in [Metric::QueryTime, Metric::LockTime] {
            let summary = of(&values, metric);
            for (q, from, to) in
                [(0.5, 0, 0), (0.95, 0, 0), (0.99, 0, 0), (0.992, 1, 999), (0.995, 4_800, 5_200)]
            {
                let found = summary.quantile(q);
                assert!((from..=to).contains(&found), "{metric:?} {q}: {found}");
            }
            assert_eq!(summary.decades()[0], 996);
            assert_eq!(summary.histogram().iter().map(|b| b.2).sum::<u64>(), 1000);
        }
    }

    #[test]
    fn deviations_do_not_depend_on_the_order_nor_on_the_size_of_values() {
        let buckets = Buckets::default();
        let values: Vec<u64> = (0..3000_u64).map(|i| 1_000_000_007 + i * i % 977).collect();
        let make = |values: &mut dyn Iterator<Item = u64>| {
            let mut d = Distribution::new(values.next().unwrap());
            values.for_each(|v| d.add(buckets, Metric::QueryTime, v));
            d
        };
        let there = make(&mut values.iter().copied());
        let mut back = make(&mut values[..700].iter().rev().copied());
        back.merge(buckets, Metric::QueryTime, &make(&mut values[700..].iter().rev().copied()));
        let deviation = |d: &Distribution| d.summary(Metric::QueryTime, 3000).stddev;
        assert_eq!(deviation(&there).to_bits(), deviation(&back).to_bits());
        let small: Vec<f64> = values.iter().map(|v| (v - 1_000_000_007) as f64).collect();
        let mean = small.iter().sum::<f64>() / 3000.0;
        let exact = (small.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / 2999.0).sqrt();
        assert!((deviation(&there) / exact - 1.0).abs() < 1e-9, "{exact}");
        // Values that are too large saturate.
        let huge = of(&[u64::MAX, 1, u64::MAX], Metric::RowsSent);
        assert!(huge.stddev > 1e18 && huge.stddev.is_finite(), "{}", huge.stddev);
    }

    #[test]
    fn merging_equals_adding() {
        let buckets = Buckets::default();
        let metric = Metric::QueryTime;
        for (a, b) in [
            (vec![5_000, 5_000], vec![5_000]),
            (vec![5_000], vec![9_000]),
            (vec![1_000, 2_000], vec![7, 7]),
        ] {
            let all: Vec<u64> = a.iter().chain(&b).copied().collect();
            let make = |v: &[u64]| {
                let mut d = Distribution::new(v[0]);
                v[1..].iter().for_each(|x| d.add(buckets, metric, *x));
                d
            };
            let mut merged = make(&a);
            merged.merge(buckets, metric, &make(&b));
            let (merged, whole) = (merged.summary(metric, 3), make(&all).summary(metric, 3));
            assert_eq!(merged.histogram(), whole.histogram());
            assert_eq!((merged.sum, merged.min, merged.max), (whole.sum, whole.min, whole.max));
        }
    }

    #[test]
    fn decades_are_those_of_the_values() {
        let summary = of(
            &[1_100, 1_500, 12_000, 1_500_000_000, 8_000_000_000, 99_000_000_000],
            Metric::QueryTime,
        );
        assert_eq!(summary.decades(), [2, 1, 0, 0, 0, 0, 2, 1]);
    }
}
