//! Ratios of sums over time with their random error, which is estimated from blocks of time.
//!
//! Statements depend on each other: they come in bursts, and one cause slows neighbours down together. The
//! error of a mean is therefore larger than that of as many independent calls. Long enough blocks of time are
//! independent, so their spread shows the whole error, whatever the dependence within them. The sufficient
//! length is unknown: blocks of one interval of the series, of two, four and so on are tried, and the largest
//! error is taken. Correcting by the correlation of neighbours was rejected: with twenty intervals the correction is
//! uncertain, and too small as often as too large.
//!
//! Invariants:
//!
//! - BL1. Never fewer than `LEAST_BLOCKS` blocks, counted by how evenly they share the denominator: a class whose calls are
//!   all in one interval has one. Changes slower than a block (a sixth of the period) are not seen.
//! - BL2. The degrees of freedom are those blocks less one, not the calls.

use super::super::model::{Class, Point, Report, Series};
use super::super::significance::Estimate;

/// The least number of blocks that share the denominator evenly, or of uneven ones worth as much.
const LEAST_BLOCKS: f64 = 6.0;
/// A hostile report cannot make a series longer than this.
const MOST_INTERVALS: i64 = 10_000;

/// One class over a period, an entry for each interval.
pub(super) struct Blocks {
    /// Per interval: seconds of it that the report covers, calls, and seconds in statements.
    intervals: Vec<[f64; 3]>,
}

#[derive(Clone, Copy)]
pub(super) enum Sum {
    Covered = 0,
    Calls = 1,
    Time = 2,
}

impl Blocks {
    /// Over the whole period of the report. `None` if the report has no clock times.
    pub(super) fn of_report(report: &Report, class: &Class) -> Option<Blocks> {
        Blocks::within(report.overall.first?, report.overall.last?, &class.series)
    }

    /// Over the time in which the class runs, which may be a small part of the report's period.
    pub(super) fn of_class(class: &Class) -> Option<Blocks> {
        Blocks::within(class.first?, class.last?, class.narrow.as_ref().unwrap_or(&class.series))
    }

    fn within(first: i64, last: i64, series: &Series) -> Option<Blocks> {
        let width = series.width.max(1);
        let (first, last) = (first as f64 / 1e6, last as f64 / 1e6);
        let begin = (first as i64).div_euclid(width);
        let end = (last as i64).div_euclid(width);
        let steps = end.checked_sub(begin)?.checked_add(1)?;
        if !(2..=MOST_INTERVALS).contains(&steps) {
            return None;
        }
        let covered = |i: i64| {
            let low = (begin + i) as f64 * width as f64;
            // Stamps of many logs are whole seconds, so it is unknown how much of the last second is covered.
            (low + width as f64).min(last + 1.0) - low.max(first)
        };
        let mut intervals: Vec<[f64; 3]> =
            (0..steps).map(|i| [covered(i).max(0.0), 0.0, 0.0]).collect();
        for Point { at, count, time } in &series.points {
            let at = at.div_euclid(width).saturating_sub(begin);
            if let Some(interval) = usize::try_from(at).ok().and_then(|at| intervals.get_mut(at)) {
                interval[Sum::Calls as usize] += *count as f64;
                interval[Sum::Time as usize] += time;
            }
        }
        Some(Blocks { intervals })
    }

    /// The ratio of two sums, with its error. `None` if too few blocks have any of the denominator.
    pub(super) fn ratio(&self, above: Sum, below: Sum) -> Option<Estimate> {
        let (above, below) = (above as usize, below as usize);
        let mut blocks: Vec<(f64, f64)> =
            self.intervals.iter().map(|i| (i[above], i[below])).collect();
        let total: f64 = blocks.iter().map(|b| b.1).sum();
        let value = blocks.iter().map(|b| b.0).sum::<f64>() / total;
        let mut widest: Option<Estimate> = None;
        loop {
            let worth = total * total / blocks.iter().map(|b| b.1 * b.1).sum::<f64>();
            // This also catches empty blocks, and the NaNs of a hostile report.
            if worth.is_nan() || worth < LEAST_BLOCKS {
                return widest;
            }
            let squares: f64 = blocks.iter().map(|b| (b.0 - value * b.1).powi(2)).sum();
            let variance = squares / (total * total) * worth / (worth - 1.0);
            if widest.is_none_or(|w| variance > w.variance) {
                widest = Some(Estimate { value, variance, freedom: worth - 1.0 });
            }
            blocks = blocks
                .chunks(2)
                .map(|pair| pair.iter().fold((0.0, 0.0), |s, b| (s.0 + b.0, s.1 + b.1)))
                .collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(times: &[f64]) -> Blocks {
        Blocks { intervals: times.iter().map(|t| [1.0, 1.0, *t]).collect() }
    }

    #[test]
    fn what_goes_on_for_several_intervals_widens_the_error() {
        // The same forty values: alternating, and in runs of four.
        let turn: Vec<f64> = (0..40).map(|i| f64::from(i % 2)).collect();
        let runs: Vec<f64> = (0..40).map(|i| f64::from(i / 4 % 2)).collect();
        let [turn, runs] = [turn, runs].map(|v| blocks(&v).ratio(Sum::Time, Sum::Calls).unwrap());
        assert_eq!((turn.value, runs.value), (0.5, 0.5));
        assert!((turn.variance - 0.25 / 39.0).abs() < 1e-12, "{turn:?}");
        assert!((runs.variance - 0.25 / 9.0).abs() < 1e-12, "{runs:?}");
        assert_eq!((turn.freedom, runs.freedom), (39.0, 9.0));
    }

    #[test]
    fn calls_in_few_intervals_are_few_blocks() {
        let mut intervals = vec![[60.0, 0.0, 0.0]; 40];
        for (i, interval) in intervals.iter_mut().enumerate().take(5) {
            (interval[1], interval[2]) = (100.0, i as f64);
        }
        let night = Blocks { intervals };
        assert_eq!(night.ratio(Sum::Time, Sum::Calls), None);
        assert!(night.ratio(Sum::Calls, Sum::Covered).is_some());
        assert_eq!(blocks(&[]).ratio(Sum::Time, Sum::Calls), None);
        assert_eq!(blocks(&[f64::NAN; 9]).ratio(Sum::Calls, Sum::Time), None);
    }
}
