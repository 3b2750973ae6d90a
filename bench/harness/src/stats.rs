//! Percentiles and rates from samples.
//!
//! What it is for: the few statistics of the report. All of them are computed from every sample, not
//! from buckets, so that a worst case is a worst case.
//!
//! Invariants
//!
//! - SS1. A percentile is a sample that occurred (nearest rank), never an interpolation.
//! - SS2. No sample at all gives `None` or zero counts, never a division by zero.
//!
//! Tested below.

use serde::Serialize;

/// Summary of latencies in microseconds. All zero when there were none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Latency {
    pub count: usize,
    pub p50_us: u32,
    pub p99_us: u32,
    pub max_us: u32,
}

impl Latency {
    /// Sorts `samples` (microseconds) in place and summarises them.
    pub fn of(samples: &mut [u32]) -> Latency {
        samples.sort_unstable();
        Latency {
            count: samples.len(),
            p50_us: percentile(samples, 50.0).unwrap_or(0),
            p99_us: percentile(samples, 99.0).unwrap_or(0),
            max_us: samples.last().copied().unwrap_or(0),
        }
    }
}

/// The nearest-rank percentile of sorted samples: the smallest sample that at least `percent` % of
/// all samples do not exceed. `percent` is in 0..=100.
pub fn percentile(sorted: &[u32], percent: f64) -> Option<u32> {
    assert!((0.0..=100.0).contains(&percent));
    debug_assert!(sorted.windows(2).all(|w| w[0] <= w[1]));
    let rank = (percent / 100.0 * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied()
}

/// Rows per second over the last `share` (0..1) of the rows, from (rows, seconds) of consecutive
/// intervals. At least one interval is used; `None` when there is none or it took no time.
pub fn rate_at_end(intervals: &[(u64, f64)], share: f64) -> Option<f64> {
    let total: u64 = intervals.iter().map(|i| i.0).sum();
    let wanted = total as f64 * share;
    let (mut rows, mut seconds) = (0u64, 0.0);
    for &(r, s) in intervals.iter().rev() {
        rows += r;
        seconds += s;
        if rows as f64 >= wanted {
            break;
        }
    }
    (seconds > 0.0).then(|| rows as f64 / seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentile_is_the_nearest_rank() {
        let samples: Vec<u32> = (1..=100).collect();
        assert_eq!(percentile(&samples, 50.0), Some(50));
        assert_eq!(percentile(&samples, 99.0), Some(99));
        assert_eq!(percentile(&samples, 100.0), Some(100));
        assert_eq!(percentile(&samples, 0.0), Some(1));
        assert_eq!(percentile(&[7], 99.0), Some(7));
        assert_eq!(percentile(&[], 50.0), None);
    }

    #[test]
    fn one_outlier_among_fifty_is_the_p99() {
        let mut samples = vec![10; 49];
        samples.push(9_000);
        let l = Latency::of(&mut samples);
        assert_eq!((l.count, l.p50_us, l.p99_us, l.max_us), (50, 10, 9_000, 9_000));
    }

    #[test]
    fn latency_of_nothing_is_zero() {
        assert_eq!(Latency::of(&mut []), Latency::default());
    }

    #[test]
    fn rate_at_end_uses_only_the_last_share_of_rows() {
        let falling = [(900, 1.0), (50, 1.0), (50, 3.0)];
        assert_eq!(rate_at_end(&falling, 0.10), Some(25.0));
        assert_eq!(rate_at_end(&falling, 0.05), Some(50.0 / 3.0));
        assert_eq!(rate_at_end(&falling, 1.0), Some(200.0));
        assert_eq!(rate_at_end(&[], 0.1), None);
        assert_eq!(rate_at_end(&[(5, 0.0)], 0.1), None);
    }
}
