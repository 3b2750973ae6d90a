//! Times of pairs, by class.
//!
//! Both servers ran the same statement one after the other, so pairs are compared by two figures: the mean difference of
//! the logarithms (the typical ratio), and the mean difference (which determines the sum of times). Neighbours in time
//! are alike - a checkpoint slows a hundred of them - so blocks of neighbours count as independent values, as in `frond
//! digest --diff`.
//!
//! Invariant PAC1: a class without `LEAST_BLOCKS` blocks is not tested.

use std::collections::HashMap;

use frond_digest::report::diff::{LEAST_CHANGE, LEVEL};
use frond_digest::report::significance::{adjust, differ, Estimate, Moments};

/// Classes that are counted separately; all others together are one class.
pub const MOST_CLASSES: usize = 10_000;
/// A class with fewer blocks is not tested.
const LEAST_BLOCKS: usize = 6;
/// Blocks of a class: when they are full, neighbours are joined.
const BLOCKS: usize = 64;
/// Buckets of a histogram: 16 to a doubling, from 1 µs.
const BUCKETS: usize = 16 * 40;

/// Times of one class.
#[derive(Clone, Debug)]
pub struct Class {
    pub key: Vec<u8>,
    pub pairs: u64,
    pub nanos: [u64; 2],
    /// For either server: number of statements by time.
    histogram: [Vec<u32>; 2],
    /// Sums of (ln b - ln a, b - a) in blocks of `size` pairs.
    blocks: Vec<(f64, f64)>,
    size: u64,
    open: (u64, f64, f64),
    pub differences: u64,
    pub undetermined: u64,
}

impl Class {
    fn new(key: Vec<u8>) -> Class {
        Class {
            key,
            pairs: 0,
            nanos: [0; 2],
            histogram: [Vec::new(), Vec::new()],
            blocks: Vec::new(),
            size: 1,
            open: (0, 0.0, 0.0),
            differences: 0,
            undetermined: 0,
        }
    }

    fn pair(&mut self, nanos: [u64; 2]) {
        self.pairs += 1;
        for (side, nanos) in nanos.into_iter().enumerate() {
            self.nanos[side] += nanos;
            let histogram = &mut self.histogram[side];
            if histogram.is_empty() {
                histogram.resize(BUCKETS, 0);
            }
            let bucket = ((nanos as f64 / 1000.0).max(1.0).log2() * 16.0) as usize;
            histogram[bucket.min(BUCKETS - 1)] += 1;
        }
        let [a, b] = nanos.map(|n| n.max(1) as f64);
        self.open = (self.open.0 + 1, self.open.1 + (b / a).ln(), self.open.2 + (b - a));
        if self.open.0 == self.size {
            self.blocks.push((self.open.1, self.open.2));
            self.open = (0, 0.0, 0.0);
            if self.blocks.len() == BLOCKS {
                self.blocks = self
                    .blocks
                    .chunks(2)
                    .map(|two| (two[0].0 + two[1].0, two[0].1 + two[1].1))
                    .collect();
                self.size *= 2;
            }
        }
    }

    /// The quantile `q` in seconds, accurate to a bucket's 4 %.
    pub fn quantile(&self, side: usize, q: f64) -> Option<f64> {
        let mut left = (self.pairs as f64 * q).ceil().max(1.0) as u64;
        for (bucket, count) in self.histogram[side].iter().enumerate() {
            match left.checked_sub(u64::from(*count)) {
                Some(rest) if rest > 0 => left = rest,
                _ => return Some((bucket as f64 / 16.0 + 1.0 / 32.0).exp2() * 1e-6),
            }
        }
        None
    }

    /// Estimates of ln(b/a) and of b - a in nanoseconds.
    fn estimates(&self) -> Option<[Estimate; 2]> {
        if self.blocks.len() < LEAST_BLOCKS {
            return None;
        }
        let size = self.size as f64;
        let logs = Moments::of(self.blocks.iter().map(|(log, _)| (log / size, 1.0)));
        let plain = Moments::of(self.blocks.iter().map(|(_, plain)| (plain / size, 1.0)));
        Some([logs.estimate(), plain.estimate()])
    }
}

/// The verdict on a class's times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    Faster,
    Slower,
    /// The typical statement is faster but the sum is higher, or the reverse.
    Mixed,
    Same,
    Unsure,
}

impl Finding {
    pub fn name(self) -> &'static str {
        match self {
            Finding::Faster => "faster",
            Finding::Slower => "slower",
            Finding::Mixed => "mixed",
            Finding::Same => "same",
            Finding::Unsure => "unsure",
        }
    }
}

/// A class with the verdict on its times.
pub struct Judged {
    pub class: Class,
    /// The typical ratio b/a.
    pub typical: Option<f64>,
    pub finding: Finding,
}

/// The classes of a run.
#[derive(Default)]
pub struct Classes {
    of: HashMap<Vec<u8>, Class>,
}

impl Classes {
    /// The class of a key, or the class of the rest if there are too many.
    pub fn class(&mut self, key: &[u8]) -> &mut Class {
        let key = match self.of.contains_key(key) || self.of.len() < MOST_CLASSES {
            true => key,
            false => b"(further classes)",
        };
        self.of.entry(key.to_vec()).or_insert_with(|| Class::new(key.to_vec()))
    }

    pub fn pair(&mut self, key: &[u8], nanos: [u64; 2]) {
        self.class(key).pair(nanos);
    }

    /// All classes with their verdicts, ordered by time, the largest first.
    pub fn judge(self) -> Vec<Judged> {
        let mut classes: Vec<Class> = self.of.into_values().collect();
        classes.sort_by(|x, y| {
            let time = |c: &Class| c.nanos[0].max(c.nanos[1]);
            time(y).cmp(&time(x)).then_with(|| x.key.cmp(&y.key))
        });
        let zero = Estimate { value: 0.0, variance: 0.0, freedom: f64::INFINITY };
        let estimates: Vec<Option<[Estimate; 2]>> = classes.iter().map(Class::estimates).collect();
        let p: Vec<f64> =
            estimates.iter().flatten().flatten().map(|e| differ(*e, zero).unwrap_or(1.0)).collect();
        let mut adjusted = adjust(&p).into_iter();
        let mut judged = Vec::new();
        for (class, estimates) in classes.into_iter().zip(estimates) {
            let Some([log, plain]) = estimates else {
                judged.push(Judged { class, typical: None, finding: Finding::Unsure });
                continue;
            };
            let [p_log, p_plain] = [adjusted.next().unwrap_or(1.0), adjusted.next().unwrap_or(1.0)];
            let base = class.nanos[0] as f64 / class.pairs.max(1) as f64;
            let ratios = [(log.value.exp(), p_log), (1.0 + plain.value / base.max(1.0), p_plain)];
            let certain = |up: bool| {
                ratios.iter().any(|(ratio, p)| {
                    *p < LEVEL
                        && if up {
                            *ratio > 1.0 + LEAST_CHANGE
                        } else {
                            *ratio < 1.0 / (1.0 + LEAST_CHANGE)
                        }
                })
            };
            let finding = match (certain(true), certain(false)) {
                (true, true) => Finding::Mixed,
                (true, false) => Finding::Slower,
                (false, true) => Finding::Faster,
                (false, false) => Finding::Same,
            };
            judged.push(Judged { class, typical: Some(log.value.exp()), finding });
        }
        judged
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pairs whose second is `factor` times the first, with noise.
    fn finding(pairs: u32, factor: f64) -> (Finding, Option<f64>) {
        let mut classes = Classes::default();
        let mut seed = 7u64;
        for _ in 0..pairs {
            let mut noise = || {
                seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                0.5 + (seed >> 40) as f64 / (1u64 << 24) as f64
            };
            let (a, b) = (100_000.0 * noise(), 100_000.0 * factor * noise());
            classes.pair(b"select", [a as u64, b as u64]);
        }
        let judged = classes.judge().remove(0);
        (judged.finding, judged.typical)
    }

    #[test]
    fn a_ratio_is_found_where_chance_does_not_explain_it() {
        assert_eq!(finding(1000, 1.0).0, Finding::Same);
        assert_eq!(finding(1000, 1.05).0, Finding::Same);
        let (slower, typical) = finding(1000, 1.5);
        assert_eq!(slower, Finding::Slower);
        assert!((1.4..1.6).contains(&typical.unwrap()), "{typical:?}");
        assert_eq!(finding(1000, 0.5).0, Finding::Faster);
        assert_eq!(finding(4, 5.0).0, Finding::Unsure);
    }

    #[test]
    fn a_quantile_is_within_its_bucket() {
        let mut classes = Classes::default();
        for i in 1..=1000u64 {
            classes.pair(b"x", [i * 1000, i * 2000]);
        }
        let class = classes.judge().remove(0).class;
        for (side, q, wanted) in [(0, 0.5, 500e-6), (0, 0.95, 950e-6), (1, 0.95, 1900e-6)] {
            let found = class.quantile(side, q).unwrap();
            assert!((found / wanted - 1.0).abs() < 0.05, "{found} {wanted}");
        }
    }

    #[test]
    fn classes_beyond_the_limit_are_one() {
        let mut classes = Classes::default();
        for i in 0..MOST_CLASSES + 5 {
            classes.pair(i.to_string().as_bytes(), [1000, 1000]);
        }
        let judged = classes.judge();
        assert_eq!(judged.len(), MOST_CLASSES + 1);
        assert_eq!(judged.iter().map(|j| j.class.pairs).sum::<u64>(), MOST_CLASSES as u64 + 5);
    }
}
