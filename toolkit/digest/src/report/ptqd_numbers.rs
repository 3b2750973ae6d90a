//! The three statistics that pt-query-digest derives from its buckets instead of the values: 95 %, median, stddev.
//!
//! All its other numbers (count, sum, min, max, average) are exact, as they are here. The buckets are the same 1000,
//! so these statistics are identical too, not merely close.

use crate::stats::bucket::{scale_of, Buckets, FINE};
use crate::stats::Summary;

/// In base units.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bucketed {
    pub p95: f64,
    pub median: f64,
    pub stddev: f64,
}

/// The figures that pt-query-digest 3.2 prints for a distribution.
pub fn bucketed(summary: &Summary) -> Bucketed {
    let (count, min, max) = (summary.count, summary.min as f64, summary.max as f64);
    if count == 0 {
        return Bucketed::default();
    }
    if count == 1 || summary.min == summary.max {
        return Bucketed { p95: max, median: max, stddev: 0.0 };
    }
    if count == 2 {
        let mean = (min + max) / 2.0;
        let stddev = ((min - mean).powi(2) + (max - mean).powi(2)).sqrt();
        return Bucketed { p95: max, median: mean, stddev };
    }
    let buckets = Buckets::default();
    let scale = scale_of(summary.metric.unit());
    let value = |bucket: u16| buckets.low(usize::from(bucket) * FINE) / scale;
    let pairs = summary.coarse();
    let at_rank = |rank: u64| {
        let mut below = 0;
        let found = pairs.iter().position(|(_, n)| {
            below += n;
            below >= rank
        });
        found.unwrap_or(pairs.len() - 1)
    };
    let cut = if count >= 10 { (count as f64 * 0.95) as u64 } else { count };
    let (mut sum, mut squares) = (0.0, 0.0);
    for &(bucket, n) in &pairs {
        sum += value(bucket) * n as f64;
        squares += value(bucket).powi(2) * n as f64;
    }
    let n = count as f64;
    // pt-query-digest takes the upper one of two middle values, unless that is alone in its bucket and the number of
    // values up to the cut is even: then it takes the mean of that value and the next one above.
    let middle = at_rank(count / 2 + 1);
    let mut median = value(pairs[middle].0);
    if let (0, 1, Some(next)) = (cut % 2, pairs[middle].1, pairs.get(middle + 1)) {
        median = (median + value(next.0)) / 2.0;
    }
    let stddev = ((squares - sum * sum / n) / n).max(0.0).sqrt();
    Bucketed { p95: value(pairs[at_rank(cut)].0), median, stddev: stddev.min((max - min) / 2.0) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::distribution::Distribution;
    use frond_event::Metric;

    /// The output of version 3.2.1 for these seconds.
    #[test]
    fn medians_are_those_of_its_buckets() {
        for (values, median) in [
            (&[1, 10, 10, 10][..], 9.828080),
            (&[1, 1, 1, 10], 0.992137),
            (&[1, 2, 3, 4], 3.395782),
            (&[1, 3, 3, 4], 2.902259),
            (&[1, 2, 4, 8, 16, 32], 11.473568),
            (&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13], 7.342596),
            (&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12], 6.984633),
            (&[1, 2, 2, 2, 5, 6, 7, 8], 5.355062),
            (&[1, 2, 3, 4, 5, 5, 5, 8], 4.963848),
            (&[1, 2, 3], 1.964363),
        ] {
            let nanos = |s: &u64| s * 1_000_000_000;
            let mut all = Distribution::new(nanos(&values[0]));
            for value in &values[1..] {
                all.add(Buckets::default(), Metric::QueryTime, nanos(value));
            }
            let said = bucketed(&all.summary(Metric::QueryTime, values.len() as u64));
            assert!((said.median / 1e9 - median).abs() < 2e-6, "{values:?}: {}", said.median);
        }
    }
}
