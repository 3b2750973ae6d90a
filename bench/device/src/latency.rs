//! Distributions of latencies.
//!
//! A histogram of fixed size (30 KB) per thread, so that a minute at a million operations a second
//! takes no more memory than one operation. Buckets are 1/64 of their power of two wide: a
//! percentile is off by 0.8 % at most. Count, sum, least and most are exact.
//!
//! Rejected: keeping every sample (exact, but memory grows with the device's speed).

use std::time::Duration;

use serde::Serialize;

/// Buckets per power of two, as a power of two itself.
const BITS: u32 = 6;
const PER_POWER: u64 = 1 << BITS;
const BUCKETS: usize = ((64 - BITS + 1) as usize) << BITS;

/// Latencies of one kind of operation, in nanoseconds.
pub struct Histogram {
    counts: Vec<u64>,
    count: u64,
    sum: u128,
    least: u64,
    most: u64,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { counts: vec![0; BUCKETS], count: 0, sum: 0, least: u64::MAX, most: 0 }
    }
}

fn bucket(ns: u64) -> usize {
    if ns < PER_POWER {
        return ns as usize;
    }
    let shift = 63 - ns.leading_zeros() - BITS;
    (u64::from(shift) * PER_POWER + (ns >> shift)) as usize
}

/// The middle of a bucket.
fn middle(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < PER_POWER {
        return bucket;
    }
    let shift = bucket / PER_POWER - 1;
    let low = (bucket - shift * PER_POWER) << shift;
    low + ((1 << shift) >> 1)
}

impl Histogram {
    pub fn add(&mut self, latency: Duration) {
        let ns = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        self.counts[bucket(ns)] += 1;
        self.count += 1;
        self.sum += u128::from(ns);
        self.least = self.least.min(ns);
        self.most = self.most.max(ns);
    }

    pub fn merge(&mut self, other: &Histogram) {
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.count += other.count;
        self.sum += other.sum;
        self.least = self.least.min(other.least);
        self.most = self.most.max(other.most);
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    /// The nearest rank: the smallest value that `share` (0 to 1) of all do not exceed. `None` if
    /// there were too few operations for at least one beyond that share (DEV4): 100 for 99 %, 1000
    /// for 99.9 %.
    pub fn percentile(&self, share: f64) -> Option<u64> {
        debug_assert!((0.0..1.0).contains(&share));
        if self.count == 0 || (self.count as f64 * (1.0 - share)) < 1.0 - 1e-9 {
            return None;
        }
        let rank = ((self.count as f64 * share - 1e-9).ceil() as u64).max(1);
        let mut seen = 0;
        for (i, n) in self.counts.iter().enumerate() {
            seen += n;
            if seen >= rank {
                return Some(middle(i).clamp(self.least, self.most));
            }
        }
        Some(self.most)
    }

    pub fn summary(&self) -> Latency {
        let us = |ns: u64| ns as f64 / 1000.0;
        let percentile = |share| self.percentile(share).map(us);
        let some = self.count > 0;
        Latency {
            mean: some.then(|| (self.sum / u128::from(self.count.max(1))) as u64).map(us),
            min: some.then(|| us(self.least)),
            p50: percentile(0.5),
            p90: percentile(0.9),
            p99: percentile(0.99),
            p999: percentile(0.999),
            max: some.then(|| us(self.most)),
        }
    }
}

/// A distribution in microseconds; `None`: there were too few operations to tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Latency {
    pub mean: Option<f64>,
    pub min: Option<f64>,
    pub p50: Option<f64>,
    pub p90: Option<f64>,
    pub p99: Option<f64>,
    pub p999: Option<f64>,
    pub max: Option<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: impl IntoIterator<Item = u64>) -> Histogram {
        let mut h = Histogram::default();
        values.into_iter().for_each(|ns| h.add(Duration::from_nanos(ns)));
        h
    }

    #[test]
    fn a_bucket_is_at_most_a_64th_of_its_value_wide() {
        for power in 0..63 {
            for step in [0, 1, 7, 63, 100] {
                let ns = (1u64 << power) + ((1u64 << power) / 101) * step;
                let off = middle(bucket(ns)).abs_diff(ns);
                assert!(off as f64 <= ns as f64 / 128.0 + 1.0, "{ns}: off by {off}");
            }
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
        let mut last = 0;
        for ns in 0..100_000 {
            assert!(bucket(ns) == last || bucket(ns) == last + 1);
            last = bucket(ns);
        }
    }

    #[test]
    fn percentiles_are_nearest_ranks() {
        let h = of((1..=1000).map(|i| i * 1000));
        for (share, wanted) in [(0.5, 500e3), (0.9, 900e3), (0.99, 990e3), (0.999, 999e3)] {
            let got = h.percentile(share).unwrap() as f64;
            assert!((got / wanted - 1.0).abs() < 0.009, "{share}: {got}");
        }
        let l = h.summary();
        assert_eq!((l.min, l.max, l.mean), (Some(1.0), Some(1000.0), Some(500.5)));
    }

    #[test]
    fn few_operations_tell_no_high_percentile() {
        let l = of(std::iter::repeat_n(5000, 99)).summary();
        assert_eq!((l.p50, l.p90, l.p99, l.p999), (Some(5.0), Some(5.0), None, None));
        assert!(of(std::iter::repeat_n(5000, 100)).summary().p99.is_some());
        assert_eq!(of([]).summary(), Latency::default());
        assert_eq!(of([7000]).summary().p50, None);
        assert_eq!(of([7000]).summary().max, Some(7.0));
    }

    #[test]
    fn merged_histograms_are_one() {
        let mut a = of((1..=500).map(|i| i * 1000));
        a.merge(&of((501..=1000).map(|i| i * 1000)));
        a.merge(&of([]));
        assert_eq!(a.summary(), of((1..=1000).map(|i| i * 1000)).summary());
    }
}
