//! The same rows in tables of one and of many partitions.
//!
//! Statements of [`BATCH`] rows insert into a table with two secondary indexes, so that each statement
//! reaches every partition once there are many; then single rows are updated by primary key. An
//! engine's cost above BLACKHOLE must not grow with the number of partitions.

use std::fmt::Write;

use super::common::{header, line, measured, ratio, seconds, Cost, Options, Subject};
use super::verdicts::Verdicts;
use crate::engines::Engine;
use crate::server::Server;
use crate::units;

const BATCH: u64 = 2000;
/// One of this many inserted rows is updated.
const UPDATE_ONE_IN: u64 = 10;

/// Allowed growth of the cost from the first number of partitions to the last.
const MOST_GROWTH: f64 = 1.1;

struct Measured {
    subject: Subject,
    /// One entry for each number of partitions.
    inserts: Vec<Cost>,
    updates: Vec<Cost>,
}

pub fn run(
    options: &Options,
    server: &Server,
    subjects: &[Subject],
    verdicts: &mut Verdicts,
) -> Result<(), String> {
    let inserts = inserts(options.rows);
    let updates = updates(options.rows);
    let mut all = Vec::new();
    for &subject in subjects {
        let mut one = Measured { subject, inserts: Vec::new(), updates: Vec::new() };
        for &count in &options.partitions {
            server.sql(&create(subject, count))?;
            let used = format!("USE {};\n", subject.database());
            one.inserts.push(measured(server, &format!("{used}{inserts}"))?);
            one.updates.push(measured(server, &format!("{used}{updates}"))?);
            server.sql(&format!("DROP TABLE {}.t", subject.database()))?;
        }
        all.push(one);
    }
    let title = format!("{} rows, CPU", units::short_count(options.rows as f64));
    print(&title, &options.partitions, &all, |m| &m.inserts);
    let title =
        format!("{} updates, CPU", units::short_count((options.rows / UPDATE_ONE_IN) as f64));
    print(&title, &options.partitions, &all, |m| &m.updates);
    judge("inserts", &options.partitions, &all, |m| &m.inserts, verdicts);
    judge("updates", &options.partitions, &all, |m| &m.updates, verdicts);
    Ok(())
}

fn create(subject: Subject, count: u32) -> String {
    let partitions = if count > 1 {
        format!(" PARTITION BY HASH (id) PARTITIONS {count}")
    } else {
        String::new()
    };
    format!(
        "CREATE TABLE {}.t (id BIGINT NOT NULL PRIMARY KEY, a INT NOT NULL, b INT NOT NULL, \
         c VARCHAR(60) NOT NULL, KEY (a), KEY (b)) ENGINE={}{partitions}",
        subject.database(),
        subject.sql_name()
    )
}

/// A number that looks random and is the same in each run (the finaliser of SplitMix64).
fn mixed(n: u64) -> u64 {
    let n = (n.wrapping_add(0x9e37_79b9_7f4a_7c15) ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}

fn inserts(rows: u64) -> String {
    let mut out = String::new();
    for id in 0..rows {
        out.push_str(if id % BATCH == 0 { "INSERT INTO t VALUES " } else { "," });
        let (a, b) = (mixed(id) % 1_000_000, mixed(id ^ 1 << 40) % 1_000_000);
        // Writing to a String does not fail.
        let _ = write!(out, "({id},{a},{b},'{:060x}')", mixed(id ^ 1 << 41));
        if id % BATCH == BATCH - 1 || id + 1 == rows {
            out.push_str(";\n");
        }
    }
    out
}

fn updates(rows: u64) -> String {
    let mut out = String::new();
    for n in 0..rows / UPDATE_ONE_IN {
        let id = mixed(n ^ 1 << 42) % rows;
        let _ = writeln!(out, "UPDATE t SET c='{n:020x}' WHERE id={id};");
    }
    out
}

fn print(title: &str, counts: &[u32], all: &[Measured], of: fn(&Measured) -> &Vec<Cost>) {
    header(title, counts.iter().map(|n| format!("{n} part.")));
    for m in all {
        line(m.subject.label(), of(m).iter().map(|c| seconds(c.cpu_seconds)));
    }
}

fn judge(
    what: &str,
    counts: &[u32],
    all: &[Measured],
    of: fn(&Measured) -> &Vec<Cost>,
    verdicts: &mut Verdicts,
) {
    let find = |s: Subject| all.iter().find(|m| m.subject == s).map(of);
    let Some(frond) = find(Subject::Engine(Engine::Frond)) else { return };
    if let (Some(hole), Some(last)) = (find(Subject::Blackhole), counts.len().checked_sub(1)) {
        let added = |i: usize| frond[i].cpu_seconds - hole[i].cpu_seconds;
        let name = format!("{what}: what Frond adds, {} to {} partitions", counts[0], counts[last]);
        verdicts.ratio_at_most(&name, ratio(added(last), added(0)), MOST_GROWTH);
    }
    if let Some(inno) = find(Subject::Engine(Engine::InnoDb)) {
        for (i, count) in counts.iter().enumerate() {
            let name = format!("{what}: CPU over InnoDB's, {count} partitions");
            verdicts.ratio_at_most(&name, ratio(frond[i].cpu_seconds, inno[i].cpu_seconds), 1.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_whole_at_any_number_of_rows() {
        for rows in [1, BATCH - 1, BATCH, BATCH + 1, 2 * BATCH] {
            let text = inserts(rows);
            assert_eq!(text.matches("INSERT").count() as u64, rows.div_ceil(BATCH));
            assert_eq!(text.matches('(').count() as u64, rows);
            assert!(text.ends_with(");\n"), "{rows}");
        }
    }

    #[test]
    fn updates_name_rows_that_are_there() {
        let text = updates(1000);
        assert_eq!(text.lines().count(), 100);
        for l in text.lines() {
            let id: u64 = l.rsplit_once('=').unwrap().1.trim_end_matches(';').parse().unwrap();
            assert!(id < 1000);
        }
    }
}
