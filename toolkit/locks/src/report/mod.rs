//! The findings as one document, which `--json` writes. `document` shows it, `csv` has one list of it, `tree` the worst moment.

mod csv;
mod document;
mod tree;

use std::cmp::Reverse;
use std::io::{self, Write};

use serde::Serialize;

pub use csv::{csv, LISTS};

use crate::analysis::Analysis;
use crate::model::Clock;
use crate::rows::{
    Blocker, Deadlocks, Locks, Place, Point, Record, Totals, Transaction, Tree, Wait,
};

/// Version of the document; it grows when a field changes its meaning or is removed.
pub const VERSION: u32 = 1;

#[derive(Debug, Default, Serialize)]
pub struct Report {
    pub version: u32,
    /// What was read: files, servers.
    pub sources: Vec<String>,
    pub dumps: u64,
    /// Dumps that are cut, or in which the server left something out.
    pub incomplete: u64,
    pub first: Option<Clock>,
    pub last: Option<Clock>,
    /// The dump whose waits are longest.
    pub tree: Option<Tree>,
    pub blockers: Vec<Blocker>,
    pub waits: Totals,
    pub longest_waits: Vec<Wait>,
    pub records: Vec<Record>,
    pub transactions: u64,
    pub longest_transactions: Vec<Transaction>,
    pub locks: Vec<Locks>,
    pub deadlocks: u64,
    pub deadlock_groups: Vec<Deadlocks>,
    pub series: Vec<Point>,
    /// What a reader has to know about the evidence.
    pub notes: Vec<String>,
    /// Inputs that could not be read; then the rest is incomplete.
    pub problems: Vec<String>,
}

/// Options of a report.
#[derive(Clone, Debug)]
pub struct Options {
    /// Rows per list: the longest waits, the largest counts.
    pub limit: usize,
    /// Show values of keys, which are data of users.
    pub keys: bool,
}

/// The `limit` rows with the largest weights; of equal ones those with the lesser keys.
fn largest<K: Ord, T: Clone, W: Ord>(
    rows: impl IntoIterator<Item = (K, T)>,
    limit: usize,
    weight: impl Fn(&T) -> W,
) -> Vec<T> {
    let mut all: Vec<(K, T)> = rows.into_iter().collect();
    all.sort_by(|(a, x), (b, y)| (weight(y), a).cmp(&(weight(x), b)));
    all.into_iter().take(limit).map(|(_, row)| row).collect()
}

impl Report {
    pub fn of(analysis: &mut Analysis, sources: Vec<String>, options: &Options) -> Report {
        analysis.end_of_server();
        let limit = options.limit;
        let (waits, deadlocks) = (&mut analysis.waits, &analysis.deadlocks);
        let mut report = Report {
            version: VERSION,
            sources,
            dumps: analysis.dumps,
            incomplete: analysis.incomplete,
            first: analysis.first.map(Clock),
            last: analysis.last.map(Clock),
            tree: analysis.worst.as_ref().map(|(_, dump, waits)| tree::tree(dump, waits)),
            blockers: largest(waits.roots.clone(), limit, |row| (row.blocked_seconds, row.waits)),
            waits: waits.totals,
            longest_waits: waits.ended.first(limit),
            records: largest(waits.hot.clone(), limit, |row| (row.seconds, row.waits)),
            transactions: analysis.transactions.ended.count,
            longest_transactions: analysis.transactions.ended.first(limit),
            locks: largest(analysis.counts.kinds.clone(), limit, |row| row.records.max(row.locks)),
            deadlocks: deadlocks.count,
            deadlock_groups: largest(
                deadlocks.groups.values().map(|row| (Reverse(row.last), row.clone())),
                limit,
                |row| row.count,
            ),
            series: analysis.series.points.clone(),
            notes: notes(analysis),
            problems: Vec::new(),
        };
        if !options.keys {
            report.hide_keys();
        }
        report
    }

    fn hide_keys(&mut self) {
        let hide = |place: &mut Place| place.key = None;
        let nodes = self.tree.iter_mut().flat_map(|tree| &mut tree.nodes);
        nodes.filter_map(|node| node.wants.as_mut()).for_each(hide);
        self.longest_waits.iter_mut().filter_map(|wait| wait.wants.as_mut()).for_each(hide);
        self.records.iter_mut().for_each(|record| record.key = None);
        let members = self.deadlock_groups.iter_mut().flat_map(|group| &mut group.members);
        members.for_each(|member| hide(&mut member.wants));
    }

    /// True if nobody waited and there was no deadlock.
    pub fn is_quiet(&self) -> bool {
        self.waits.count == 0 && self.deadlocks == 0
    }

    /// All of it as one JSON object.
    pub fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut *out, self)?;
        writeln!(out)
    }
}

fn notes(analysis: &Analysis) -> Vec<String> {
    let mut notes = Vec::new();
    if analysis.counts.hidden > 0 {
        notes.push(format!(
            "Of {} transactions (counted in each dump) not all locks are printed: the lock monitor is off \
             (innodb_status_output_locks), or it stopped at ten locks of a transaction. Blockers among them cannot be named.",
            analysis.counts.hidden
        ));
    }
    if analysis.incomplete > 0 {
        notes.push(format!(
            "{} of {} dumps are cut, or the server left something out.",
            analysis.incomplete, analysis.dumps
        ));
    }
    notes
}
