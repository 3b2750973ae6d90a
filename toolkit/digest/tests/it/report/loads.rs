//! Loads whose statements depend on each other in time: differences between two logs of one load are not
//! changes.

use std::f64::consts::TAU;
use std::fmt::Write;

use frond_digest::report::diff::{compare, Diff};
use frond_digest::report::model::Report;

use super::data::report_of;

const CLASSES: usize = 15;
/// Seconds of a log, and seconds of the blocks in which durations drift together.
const SPAN: f64 = 7200.0;
const BLOCK: f64 = 600.0;
/// Pairs of logs of each load.
const PAIRS: u64 = 12;

#[derive(Clone, Copy, Default)]
struct Load {
    /// Standard deviation of the logarithm of the factor on a block's durations.
    drift: f64,
    /// One class in three sends bursts of 10 to 39 similar statements.
    bursts: bool,
    /// Calls per second of every class; `None`: each class has its own rate.
    rate: Option<f64>,
}

struct Random(u64);

impl Random {
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((x ^ (x >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.uniform()
    }

    fn normal(&mut self) -> f64 {
        (-2.0 * self.uniform().max(1e-18).ln()).sqrt() * (TAU * self.uniform()).cos()
    }
}

/// Two logs of one load; in the second the durations of every fifth class are `slower` times as long.
fn pair(load: Load, slower: f64, seed: u64) -> (Report, Report) {
    let mut random = Random(seed);
    let classes: Vec<[f64; 4]> = (0..CLASSES)
        .map(|_| {
            let rate = [0.003, 0.01, 0.05, 0.2][(random.uniform() * 4.0) as usize];
            let rows = [1.0, 100.0, 5000.0][(random.uniform() * 3.0) as usize];
            [load.rate.unwrap_or(rate), random.between(-7.0, -2.0), random.between(0.4, 1.2), rows]
        })
        .collect();
    let mut one = |day: u64, slower: f64| {
        let mut events: Vec<(f64, f64, usize, f64)> = Vec::new();
        for (class, [rate, middle, spread, rows]) in classes.iter().enumerate() {
            let drift: Vec<f64> =
                (0..=(SPAN / BLOCK) as usize).map(|_| random.normal() * load.drift).collect();
            let factor = if class % 5 == 0 { slower } else { 1.0 };
            let mut at = 0.0;
            loop {
                at -= random.uniform().max(1e-18).ln() / rate;
                if at > SPAN {
                    break;
                }
                let burst = load.bursts && class % 3 == 0 && random.uniform() < 0.05;
                let calls = if burst { random.between(10.0, 40.0) as u64 } else { 1 };
                let common = random.normal() * spread;
                for i in 0..calls {
                    let own = if burst { random.normal() * 0.1 } else { 0.0 };
                    let time = (middle + drift[(at / BLOCK) as usize] + common + own).exp();
                    let read = (rows * (random.normal() * 1.5).exp()).floor();
                    events.push((at + i as f64 * 0.01, (time * factor).min(60.0), class, read));
                }
            }
        }
        events.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut log = String::new();
        for (at, time, class, read) in events {
            let stamp = 1_773_144_000 + day * 86_400 + at as u64;
            let name = char::from(b'a' + class as u8);
            writeln!(log, "# User@Host: u[u] @ h [10.0.0.1]\n# Thread_id: 5  Schema: s  QC_hit: No\n# Query_time: {time:.6}  Lock_time: 0.0  Rows_sent: 1  Rows_examined: {read}\nSET timestamp={stamp};\nselect * from t_{name} where a = 1;").unwrap();
        }
        report_of(log.as_bytes())
    };
    (one(0, 1.0), one(1, slower))
}

/// The classes that are called changed, with the names of the tests that say so.
fn loud(diff: &Diff) -> Vec<String> {
    let changed =
        |c: &&frond_digest::report::diff::Change| !matches!(c.verdict.as_str(), "same" | "unsure");
    let tests = |c: &frond_digest::report::diff::Change| -> Vec<String> {
        c.tests.iter().filter(|t| t.significant).map(|t| t.what.clone()).collect()
    };
    let name = |key: &str| key.split(' ').nth(3).unwrap_or_default().to_owned();
    let changes = diff.changes.iter().filter(changed);
    changes.map(|c| format!("{} {} {:?}", name(&c.key), c.verdict, tests(c))).collect()
}

/// Changes that are found between two logs of one load, for each pair.
fn false_alarms(load: Load, seed: u64) -> Vec<Vec<String>> {
    let alarms = (0..PAIRS).map(|i| {
        let (before, after) = pair(load, 1.0, seed + i);
        loud(&compare(&before, &after).unwrap())
    });
    alarms.filter(|found| !found.is_empty()).collect()
}

#[test]
fn drift_and_bursts_are_no_change() {
    let quiet = Load::default();
    for (name, load, seed) in [
        ("independent", quiet, 1000),
        ("drift", Load { drift: 0.15, ..quiet }, 2000),
        ("bursts", Load { bursts: true, ..quiet }, 3000),
    ] {
        let alarms = false_alarms(load, seed);
        assert!(alarms.len() <= 1, "{name}: {} of {PAIRS} pairs: {alarms:?}", alarms.len());
    }
}

/// Seven hundred calls on each side; the smallest slowdown that is found depends on how much the load varies by
/// itself.
#[test]
fn what_is_slower_is_found_all_the_same() {
    let quiet = Load { rate: Some(0.1), ..Load::default() };
    for (name, load, slower, least, seed) in [
        ("independent", quiet, 1.3, 0.6, 4000),
        ("drift", Load { drift: 0.15, ..quiet }, 1.6, 0.8, 5000),
        ("bursts", Load { bursts: true, ..quiet }, 1.6, 0.7, 6000),
    ] {
        let (mut found, mut wrong) = (0, Vec::new());
        for i in 0..PAIRS {
            let (before, after) = pair(load, slower, seed + i);
            let (right, other): (Vec<_>, Vec<_>) = loud(&compare(&before, &after).unwrap())
                .into_iter()
                .partition(|c| ["t_a", "t_f", "t_k"].iter().any(|t| c.starts_with(t)));
            found += right.len();
            wrong.extend(other);
        }
        let share = found as f64 / (3 * PAIRS) as f64;
        println!("{name}: {share:.2} of those {slower} times slower found, wrongly {wrong:?}");
        assert!(share >= least, "{name}: only {share:.2} found");
        assert!(wrong.len() <= 2, "{name}: {wrong:?}");
    }
}
