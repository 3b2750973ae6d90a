//! The tests for a class that both reports have. The names are those of `Test::what`.
//!
//! - `mean`: the arithmetic mean, by the spread of blocks of time (`blocks`).
//! - `typical`: the geometric mean, from the histogram's buckets; a bucket's width counts as variance. Durations are
//!   far from normal, their logarithms are close enough. So it sees changes that outliers hide in the arithmetic mean.
//! - `p95`: the shares of statements above the middle between the two 95 % points. The side with the higher
//!   point has the higher share there, so the test has the sign of the shown change. (At the 95 % point of
//!   both sides together it need not: a side may have the lower point and yet more statements above the common
//!   one.)
//! - `rows_examined`: the means as logged.
//! - `load`, `calls`: per second of the period, by the spread of blocks of time.
//!
//! For logarithms, shares and rows only totals are known, not blocks. Their error is that of
//! independent calls, widened as the blocks of the mean duration show: by the same factor
//! (statements of a burst are alike), `typical` at most by the same relative variance (a slow hour
//! multiplies durations).
//!
//! Invariant: a measure without six blocks of time on both sides is not tested.

use super::super::model::{Bucket, Class, Metric, Report};
use super::super::significance::{differ, Estimate, Moments};
use super::blocks::{Blocks, Sum};
use super::model::Test;

/// Calls on both sides below which durations are not compared.
pub const LEAST_CALLS: u64 = 10;
/// Independent statements that must be expected above a quantile, and below it.
const LEAST_HITS: f64 = 5.0;

/// The tests for which the class has enough data.
pub(super) fn tests(reports: [&Report; 2], classes: [&Class; 2]) -> Vec<Test> {
    let sides = [Side::of(reports[0], classes[0]), Side::of(reports[1], classes[1])];
    let mut tests = Vec::new();
    let mut put = |what: &str, ratio: Option<f64>, p: Option<f64>| {
        tests.extend(p.map(|p| Test { what: what.into(), ratio, p, ..Test::default() }));
    };
    let ratio = |a: f64, b: f64| (a > 0.0).then(|| b / a);
    if let [Some(a), Some(b)] = [sides[0].mean, sides[1].mean] {
        put("mean", ratio(a.value, b.value), differ(a, b));
    }
    if let [Some(a), Some(b)] = [sides[0].typical(), sides[1].typical()] {
        put("typical", Some((b.value - a.value).exp()), differ(a, b));
    }
    if let [Some(a), Some(b)] = classes.map(Class::time) {
        put("p95", ratio(a.p95, b.p95), tails(&sides, (a.p95 * b.p95).sqrt()));
    }
    for (what, [a, b]) in [
        ("rows_examined", [sides[0].rows(), sides[1].rows()]),
        ("load", [sides[0].load(), sides[1].load()]),
        ("calls", [sides[0].calls(), sides[1].calls()]),
    ] {
        if let (Some(a), Some(b)) = (a, b) {
            put(what, ratio(a.value, b.value), differ(a, b));
        }
    }
    tests
}

/// A class in one report.
struct Side<'a> {
    class: &'a Class,
    /// Blocks of the report's period.
    blocks: Option<Blocks>,
    /// The mean duration, if there are enough calls and blocks.
    mean: Option<Estimate>,
    /// Its variance if calls were independent.
    independent: f64,
}

impl Side<'_> {
    fn of<'a>(report: &Report, class: &'a Class) -> Side<'a> {
        let blocks = Blocks::of_report(report, class);
        let mut side = Side { class, blocks, mean: None, independent: 0.0 };
        let Some(time) = class.time().filter(|t| t.count >= LEAST_CALLS && t.mean > 0.0) else {
            return side;
        };
        // Totals from a server have no spread.
        let spread = if time.stddev.is_nan() { 0.0 } else { time.stddev };
        side.independent = spread * spread / time.count as f64;
        let over_time = Blocks::of_class(class).and_then(|b| b.ratio(Sum::Time, Sum::Calls));
        side.mean = over_time.filter(|r| r.value > 0.0).map(|r| {
            // The series has the time spent in an interval, which for long statements is not the
            // time of the calls that end in it. So only the error is taken from it.
            let variance = r.variance * (time.mean / r.value).powi(2);
            Estimate { value: time.mean, variance: variance.max(side.independent), ..r }
        });
        side
    }

    /// The ratio of the mean's variance to the variance that independent calls would give, with its
    /// degrees of freedom.
    fn factor(&self) -> Option<(f64, f64)> {
        let mean = self.mean?;
        let factor = if self.independent > 0.0 { mean.variance / self.independent } else { 1.0 };
        Some((factor, mean.freedom))
    }

    /// The mean logarithm of the duration.
    fn typical(&self) -> Option<Estimate> {
        let mean = self.mean?;
        let moments = log_moments(self.class);
        if moments.n < LEAST_CALLS as f64 {
            return None;
        }
        let beyond = (mean.variance - self.independent) / (mean.value * mean.value);
        let calls = moments.estimate();
        // An incident lies far from the other durations, but not so far from their logarithms.
        let (factor, freedom) = self.factor()?;
        Some(calls.widened(beyond.min(calls.variance * (factor - 1.0)), freedom))
    }

    fn rows(&self) -> Option<Estimate> {
        let (factor, freedom) = self.factor()?;
        let of =
            |m: &Metric| Moments { n: m.count as f64, mean: m.mean, variance: m.stddev * m.stddev };
        let rows = self.class.metric("Rows_examined").filter(|m| m.count >= LEAST_CALLS)?;
        let calls = of(rows).estimate();
        Some(calls.widened(calls.variance * (factor - 1.0), freedom))
    }

    fn load(&self) -> Option<Estimate> {
        self.class.time()?;
        self.blocks.as_ref()?.ratio(Sum::Time, Sum::Covered)
    }

    fn calls(&self) -> Option<Estimate> {
        let calls = self.blocks.as_ref()?.ratio(Sum::Calls, Sum::Covered)?;
        // Independent calls have the least error there is: a few calls are never more even than chance makes them.
        let least = calls.value * calls.value / self.class.events.max(1) as f64;
        Some(Estimate { variance: calls.variance.max(least), ..calls })
    }

    /// The share of statements above `limit`, and the number of statements that it is taken from.
    fn above(&self, limit: f64) -> (f64, f64) {
        let part = |b: &Bucket| ((b.high - limit) / (b.high - b.low)).clamp(0.0, 1.0);
        let part = |b: &Bucket| if b.low >= limit { 1.0 } else { part(b).max(0.0) };
        let buckets = &self.class.times.buckets;
        let all: f64 = buckets.iter().map(|b| b.count as f64).sum();
        (buckets.iter().map(|b| part(b) * b.count as f64).sum::<f64>() / all, all)
    }
}

/// Tests the shares of statements above `limit`.
fn tails(sides: &[Side; 2], limit: f64) -> Option<f64> {
    let [(a, of_a), (b, of_b)] = [sides[0].above(limit), sides[1].above(limit)];
    let [(wide_a, free_a), (wide_b, free_b)] = [sides[0].factor()?, sides[1].factor()?];
    let pooled = (a * of_a + b * of_b) / (of_a + of_b);
    let least = (of_a / wide_a).min(of_b / wide_b) * pooled.min(1.0 - pooled);
    // With fewer, the normal approximation would be wrong. Also taken where there are no buckets.
    if least.is_nan() || least < LEAST_HITS {
        return None;
    }
    let share = |value: f64, n: f64, factor: f64, freedom: f64| {
        let variance = pooled * (1.0 - pooled) / n;
        let calls = Estimate { value, variance, freedom: f64::INFINITY };
        calls.widened(variance * (factor - 1.0), freedom)
    };
    differ(share(a, of_a, wide_a, free_a), share(b, of_b, wide_b, free_b))
}

/// The middle of a bucket on a logarithmic scale and the logarithm of its width.
fn log_bucket(bucket: &Bucket) -> (f64, f64) {
    // Nothing is faster than a nanosecond; this gives the bucket of zero a place.
    let (low, high) = (bucket.low.max(1e-9), bucket.high.max(1.000_001e-9));
    ((low.ln() + high.ln()) / 2.0, (high / low).ln().abs())
}

fn log_moments(class: &Class) -> Moments {
    let weighted = class.times.buckets.iter().map(|b| (log_bucket(b).0, b.count as f64));
    let mut moments = Moments::of(weighted);
    let n = moments.n.max(1.0);
    // The position of a value in its bucket is unknown: a twelfth of the width's square.
    moments.variance += class
        .times
        .buckets
        .iter()
        .map(|b| log_bucket(b).1.powi(2) / 12.0 * b.count as f64)
        .sum::<f64>()
        / n;
    moments
}

/// The geometric mean in seconds, within the width of the histogram's buckets.
pub(super) fn typical(class: &Class) -> Option<f64> {
    let moments = log_moments(class);
    (moments.n > 0.0).then(|| moments.mean.exp())
}
