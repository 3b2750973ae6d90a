//! Totals of each class, with their error, estimated from a sample of the connections.
//!
//! As for all queries together (`sample`), the sample draws connections. So the error depends on
//! how much connections differ in their number of queries of a class. Sums per connection and
//! class would need unbounded memory. Instead each connection is put into a random group, and the
//! sums T_1 ... T_G of the groups are kept:
//!
//! ```text
//!     estimate = (T_1 + ... + T_G) / p
//!     variance = (1 - p) / p^2 * G / (G - 1) * sum of (T_g - mean T)^2
//! ```
//!
//! The product of the last two factors has the expectation t_1^2 + ... + t_n^2 over the connections
//! of the sample: two different connections share a group with probability 1 / G, so their products
//! cancel. So the error is that of `sample`, itself known to about one part in sqrt(2 G).
//!
//! Invariants
//!
//! - ES1. Memory is [`GROUPS`] pairs of numbers per class, for as many classes as the caller allows; further
//!   classes have no estimate of their own.
//! - ES2. The group of a connection does not depend on its queries.

use super::sample::{Estimate, Sampling};
use std::collections::HashMap;

/// Groups of connections per class, and for everything together.
const GROUPS: usize = 32;
const GROUPS_OVERALL: usize = 512;

#[derive(Clone, Copy, Debug, Default)]
struct Group {
    queries: u64,
    nanoseconds: u64,
}

/// Adds up the queries of sampled connections. See the module's head.
#[derive(Clone, Debug)]
pub struct Estimator {
    sampling: Sampling,
    most_classes: usize,
    overall: Box<[Group; GROUPS_OVERALL]>,
    classes: HashMap<u64, Box<[Group; GROUPS]>>,
}

/// Totals of a class over all connections: number of queries, and seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Totals {
    pub queries: Estimate,
    pub seconds: Estimate,
    /// Fewer than eight groups have queries of the class: the error itself is uncertain, and the
    /// true value may be further away.
    pub few_connections: bool,
}

/// Mixes all bits (Stafford's variant 13, the finalizer of SplitMix64). Connections are numbered one after the other.
/// A multiplication alone spreads such numbers evenly over the groups, which then differ less than random groups
/// would: the error came out at a fifth of the true one.
fn mixed(connection: u64) -> u64 {
    let x = (connection ^ (connection >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

impl Estimator {
    pub fn new(sampling: Sampling, most_classes: usize) -> Self {
        Estimator {
            sampling,
            most_classes,
            overall: Box::new([Group::default(); GROUPS_OVERALL]),
            classes: HashMap::new(),
        }
    }

    /// Adds one query of the class with this hash on a connection (`Event::connection`), with its time
    /// in nanoseconds, if it was measured.
    #[inline]
    pub fn add(&mut self, class: u64, connection: u64, time: Option<u64>) {
        let place = mixed(connection) as usize;
        let add = |group: &mut Group| {
            group.queries += 1;
            group.nanoseconds = group.nanoseconds.saturating_add(time.unwrap_or(0));
        };
        add(&mut self.overall[place % GROUPS_OVERALL]);
        if let Some(groups) = self.classes.get_mut(&class) {
            add(&mut groups[place % GROUPS]);
        } else if self.classes.len() < self.most_classes {
            let mut groups = Box::new([Group::default(); GROUPS]);
            add(&mut groups[place % GROUPS]);
            self.classes.insert(class, groups);
        }
    }

    pub fn sampling(&self) -> Sampling {
        self.sampling
    }

    /// Totals of everything that was added.
    pub fn overall(&self) -> Totals {
        self.totals(&self.overall[..])
    }

    /// `None`: nothing of this class was added, or there was no room for it.
    pub fn class(&self, class: u64) -> Option<Totals> {
        self.classes.get(&class).map(|groups| self.totals(&groups[..]))
    }

    fn totals(&self, groups: &[Group]) -> Totals {
        let n = f64::from(self.sampling.one_in());
        let make = |of: &dyn Fn(&Group) -> f64| {
            let sum: f64 = groups.iter().map(of).sum();
            let mean = sum / groups.len() as f64;
            let squares: f64 = groups.iter().map(|g| (of(g) - mean).powi(2)).sum();
            let squares = squares * groups.len() as f64 / (groups.len() - 1) as f64;
            Estimate { total: sum * n, error: ((1.0 - 1.0 / n) * n * n * squares).sqrt() }
        };
        Totals {
            queries: make(&|g| g.queries as f64),
            seconds: make(&|g| g.nanoseconds as f64 / 1e9),
            few_connections: groups.iter().filter(|g| g.queries > 0).count() < 8,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn random(seed: u64) -> impl FnMut() -> u64 {
        let mut seed = seed;
        move || {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            seed >> 33
        }
    }

    /// Connections send one class seldom and another in bursts. The intervals contain the true
    /// value about as often as two standard errors should.
    #[test]
    fn the_error_of_a_class_covers_the_truth_as_often_as_it_says() {
        let mut random = random(3);
        let sampling = Sampling::parse("1/8").unwrap();
        let asked: Vec<[u64; 2]> = (0..1500)
            .map(|_| [1 + random() % 4, if random().is_multiple_of(3) { random() % 30 } else { 0 }])
            .collect();
        let truth = [0, 1].map(|c| asked.iter().map(|a| a[c]).sum::<u64>() as f64);
        const ROUNDS: u64 = 400;
        let mut covered = [0; 3];
        for round in 0..ROUNDS {
            let mut estimator = Estimator::new(sampling, 10);
            for (number, asked) in asked.iter().enumerate() {
                if random() % 8 == 5 {
                    for (class, count) in asked.iter().enumerate() {
                        for _ in 0..*count {
                            let connection = round * 10_000 + number as u64;
                            estimator.add(class as u64, connection, Some(2_000_000));
                        }
                    }
                }
            }
            for class in 0..2 {
                let totals = estimator.class(class as u64).unwrap();
                let off = (totals.queries.total - truth[class]).abs();
                covered[class] += u64::from(off <= 2.0 * totals.queries.error);
                let per_query = totals.seconds.error / totals.queries.error;
                assert!((per_query - 0.002).abs() < 1e-9 && !totals.few_connections);
            }
            let totals = estimator.overall();
            let off = (totals.queries.total - truth[0] - truth[1]).abs();
            covered[2] += u64::from(off <= 2.0 * totals.queries.error);
        }
        for count in covered {
            assert!((366..=394).contains(&count), "{covered:?} of {ROUNDS} within two errors");
        }
    }

    /// Connections are numbered in sequence; connections with equal loads must still spread over the groups at
    /// random.
    #[test]
    fn the_error_of_connections_numbered_in_sequence_is_not_stated_too_small() {
        let sampling = Sampling::parse("1/8").unwrap();
        const CONNECTIONS: u64 = 400;
        // The expectation of the formula: (1 - p) / p^2 * (t_1^2 + ... + t_n^2), with t = 1.
        let expected = ((1.0 - 1.0 / 8.0) * 64.0 * CONNECTIONS as f64).sqrt();
        let mut squares = 0.0;
        const ROUNDS: u64 = 200;
        for round in 0..ROUNDS {
            let mut estimator = Estimator::new(sampling, 1);
            (0..CONNECTIONS).for_each(|n| estimator.add(1, round * 5000 + n, None));
            squares += estimator.class(1).unwrap().queries.error.powi(2);
        }
        let stated = (squares / ROUNDS as f64).sqrt();
        assert!((0.93..1.07).contains(&(stated / expected)), "{stated} instead of {expected}");
    }

    #[test]
    fn few_connections_are_told_and_classes_are_bounded() {
        let mut estimator = Estimator::new(Sampling::parse("1/8").unwrap(), 2);
        for query in 0..1000 {
            estimator.add(query % 3, 77, None);
        }
        let totals = estimator.class(0).unwrap();
        assert!(totals.few_connections && totals.seconds.total == 0.0);
        // One connection in the sample: there may be no other, or many.
        assert_eq!(totals.queries.total, 8.0 * 334.0);
        assert!(totals.queries.error > 7.0 * 334.0);
        assert_eq!(estimator.class(2), None);
        assert_eq!(estimator.overall().queries.total, 8000.0);
    }
}
