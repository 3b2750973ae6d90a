//! A load of known statements.

use super::{merge, packet, query, rows, Connection, Random, Seen, BEGIN, OK};
use std::collections::HashMap;

/// Statements differ by their tables, whose names have no digits: some fingerprints remove digits.
pub const CLASSES: [&str; 5] = ["alpha", "beta", "gamma", "delta", "epsilon"];

pub struct Load {
    pub packets: Vec<Seen>,
    /// Nanoseconds of each statement, by its text.
    pub truth: HashMap<String, u64>,
}

/// `connections` clients that send `queries` statements each; every class has its own times.
pub fn load(connections: u16, queries: usize, seed: u64) -> Load {
    let mut random = Random(seed);
    let mut truth = HashMap::new();
    let mut all = Vec::new();
    for n in 0..connections {
        let mut c = Connection::new(33_000 + n);
        let mut time = c.login(BEGIN + random.below(50_000_000) as i64, 0);
        for i in 0..queries {
            let class = random.below(CLASSES.len() as u64) as usize;
            let base = [80_000, 400_000, 2_000_000, 7_000_000, 20_000_000][class];
            // Half of the time is fixed, the rest is uniform.
            let after = (base / 2 + random.below(base)) as i64;
            let padding = if random.below(20) == 0 { "x".repeat(4000) } else { String::new() };
            let sql = format!("select {n}, {i} from {} where p = '{padding}'", CLASSES[class]);
            let size = [0, 1, 3, 40, 200][random.below(5) as usize];
            let answer = if size == 0 { packet(1, OK) } else { rows(size, 100) };
            let pause = 10_000 + random.below(3_000_000) as i64;
            truth.insert(sql.clone(), after as u64);
            time = c.ask(time + pause, &query(&sql), after, &answer) + 1000;
        }
        c.close(time + 1_000_000);
        all.push(c);
    }
    Load { packets: merge(all), truth }
}

/// The class of a statement, if it is one of a load's.
pub fn class(sql: &str) -> Option<usize> {
    let (_, rest) = sql.split_once(" from ")?;
    CLASSES.iter().position(|table| rest.starts_with(table))
}

/// Some of the packets, chosen at random.
pub fn thin(packets: &[Seen], percent: u64, seed: u64) -> Vec<Seen> {
    let mut random = Random(seed);
    packets.iter().filter(|_| random.below(100) >= percent).cloned().collect()
}

pub fn p95(mut times: Vec<u64>) -> f64 {
    times.sort_unstable();
    times[times.len() * 95 / 100] as f64
}

impl Load {
    /// The 95th percentile of a class's true times, in nanoseconds.
    pub fn p95(&self, class: usize) -> f64 {
        let times = self.truth.iter().filter(|(sql, _)| self::class(sql) == Some(class));
        p95(times.map(|(_, time)| *time).collect())
    }
}
