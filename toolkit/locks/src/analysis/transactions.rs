//! Follows transactions from dump to dump.

use std::collections::BTreeMap;

use frond_sqltext::class_hash;

use super::best::MOST;
use super::{class, key, Best, Key};
use crate::model::{Clock, Dump, Trx};
use crate::rows::Transaction;

/// The number of statement classes that are kept for a transaction.
const CLASSES: usize = 5;

struct Seen {
    row: Transaction,
    /// Checksum of the statement whose class is the first.
    statement: u64,
    /// The number of the last dump that had it.
    round: u64,
}

#[derive(Default)]
pub struct Transactions {
    /// In order, so that a report is always the same.
    open: BTreeMap<Key, Seen>,
    pub ended: Best<Transaction>,
    round: u64,
}

impl Transactions {
    pub fn dump(&mut self, dump: &Dump) {
        self.round += 1;
        for trx in dump.trxs.iter().filter(|trx| trx.active.is_some()) {
            let key = key(trx);
            // If a transaction is younger than before, it is another one with the same number.
            let younger = |seen: &Seen| trx.active < Some(seen.row.open_seconds.saturating_sub(2));
            if self.open.get(&key).is_some_and(younger) {
                self.end(&key);
            }
            let seen = self.open.entry(key).or_insert_with(|| Seen::new(trx, dump.at));
            seen.add(trx, dump.at, self.round);
        }
        // In a dump that is cut, the transaction may only be missing.
        if dump.complete {
            let gone = self.open.iter().filter(|(_, seen)| seen.round < self.round);
            let gone: Vec<Key> = gone.map(|(key, _)| key.clone()).collect();
            gone.iter().for_each(|key| self.end(key));
        } else if self.open.len() > 4 * MOST {
            self.end_of_server();
        }
    }

    fn end(&mut self, key: &Key) {
        if let Some(Seen { row, .. }) = self.open.remove(key) {
            self.ended.add(row.open_seconds, row);
        }
    }

    pub fn end_of_server(&mut self) {
        let mut rest: Vec<Transaction> =
            std::mem::take(&mut self.open).into_values().map(|seen| seen.row).collect();
        rest.sort_by_key(|row| row.first);
        rest.into_iter().for_each(|row| self.ended.add(row.open_seconds, row));
    }
}

impl Seen {
    fn new(trx: &Trx, at: Option<i64>) -> Seen {
        let first = at.map(Clock);
        let row = Transaction { who: trx.into(), first, last: first, ..Transaction::default() };
        Seen { row, statement: 0, round: 0 }
    }

    fn add(&mut self, trx: &Trx, at: Option<i64>, round: u64) {
        let row = &mut self.row;
        row.open_seconds = row.open_seconds.max(trx.active.unwrap_or(0));
        row.last = at.map(Clock).or(row.last);
        row.dumps += 1;
        row.idle_dumps += u64::from(trx.idle());
        row.row_locks = row.row_locks.max(trx.row_locks);
        row.undo_entries = row.undo_entries.max(trx.undo);
        row.lock_structs = row.lock_structs.max(trx.lock_structs);
        row.state.clone_from(&trx.state);
        for (on, flag) in [
            (trx.idle(), "idle in transaction"),
            (trx.waits, "waits for a lock"),
            (trx.read_view, "read view"),
            (trx.prepared, "prepared"),
            (trx.rolling_back, "rolling back"),
        ] {
            if on && !row.flags.contains(&flag) {
                row.flags.push(flag);
            }
        }
        self.round = round;
        let statement = class_hash(&trx.statement);
        if !trx.statement.is_empty() && statement != self.statement {
            self.statement = statement;
            let class = class(&trx.statement);
            row.statements.retain(|known| *known != class);
            row.statements.insert(0, class);
            row.statements.truncate(CLASSES);
        }
    }
}
