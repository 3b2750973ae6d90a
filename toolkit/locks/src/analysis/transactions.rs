//! Transactions, followed from dump to dump.

use std::collections::HashMap;
use std::sync::Arc;

use super::{class, key, Best, Key};
use crate::model::{Dump, Trx};

/// Transactions that are kept: those that were open longest.
const MOST: usize = 2_000;
/// Classes of statements that are kept of one.
const CLASSES: usize = 5;

/// What is known of a transaction.
#[derive(Clone, Debug)]
pub struct Seen {
    pub id: String,
    pub thread: Option<u64>,
    pub user: String,
    pub host: String,
    pub seconds: u64,
    pub first: Option<i64>,
    pub last: Option<i64>,
    pub dumps: u64,
    /// Dumps in which no statement ran and the client had to go on.
    pub idle: u64,
    /// Dumps in which it waited.
    pub waiting: u64,
    /// The most at once.
    pub row_locks: u64,
    pub undo: u64,
    pub lock_structs: u64,
    pub tables_locked: u64,
    pub read_view: bool,
    pub prepared: bool,
    pub rolling_back: bool,
    /// What it did last.
    pub state: String,
    /// The last ones, each once; the newest last.
    pub classes: Vec<Arc<str>>,
    /// Of the statement whose class is the last.
    statement: u64,
    /// The number of the dump it was in last.
    round: u64,
}

pub struct Transactions {
    open: HashMap<Key, Seen>,
    pub ended: Best<Seen>,
    round: u64,
}

impl Default for Transactions {
    fn default() -> Transactions {
        Transactions { open: HashMap::new(), ended: Best::new(MOST), round: 0 }
    }
}

fn hash(bytes: &[u8]) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}

impl Transactions {
    pub fn dump(&mut self, dump: &Dump) {
        self.round += 1;
        for trx in dump.trxs.iter().filter(|trx| trx.active.is_some()) {
            let key = key(trx);
            // The same number that is younger than before is another one.
            let younger = |seen: &Seen| trx.active < Some(seen.seconds.saturating_sub(2));
            if self.open.get(&key).is_some_and(younger) {
                self.end(&key);
            }
            let seen = self.open.entry(key).or_insert_with(|| Seen::new(trx, dump.at));
            seen.add(trx, dump.at, self.round);
        }
        // In a dump that is cut it may only be missing.
        if dump.complete {
            let round = self.round;
            let mut gone: Vec<Key> = self
                .open
                .iter()
                .filter(|(_, seen)| seen.round < round)
                .map(|(key, _)| key.clone())
                .collect();
            // A map has no order of its own, and a report is the same each time.
            gone.sort();
            gone.iter().for_each(|key| self.end(key));
        } else if self.open.len() > 4 * MOST {
            self.end_of_server();
        }
    }

    fn end(&mut self, key: &Key) {
        if let Some(seen) = self.open.remove(key) {
            self.ended.add(seen.seconds, seen);
        }
    }

    pub fn end_of_server(&mut self) {
        let mut rest: Vec<Seen> = self.open.drain().map(|(_, seen)| seen).collect();
        rest.sort_by(|a, b| (a.first, &a.id, a.thread).cmp(&(b.first, &b.id, b.thread)));
        rest.into_iter().for_each(|seen| self.ended.add(seen.seconds, seen));
    }
}

impl Seen {
    fn new(trx: &Trx, at: Option<i64>) -> Seen {
        Seen {
            id: trx.id.clone(),
            thread: trx.thread,
            user: trx.user.clone(),
            host: trx.host.clone(),
            seconds: 0,
            first: at,
            last: at,
            dumps: 0,
            idle: 0,
            waiting: 0,
            row_locks: 0,
            undo: 0,
            lock_structs: 0,
            tables_locked: 0,
            read_view: false,
            prepared: false,
            rolling_back: false,
            state: String::new(),
            classes: Vec::new(),
            statement: 0,
            round: 0,
        }
    }

    fn add(&mut self, trx: &Trx, at: Option<i64>, round: u64) {
        self.seconds = self.seconds.max(trx.active.unwrap_or(0));
        self.last = at.or(self.last);
        self.dumps += 1;
        self.idle += u64::from(trx.idle());
        self.waiting += u64::from(trx.waits);
        self.row_locks = self.row_locks.max(trx.row_locks);
        self.undo = self.undo.max(trx.undo);
        self.lock_structs = self.lock_structs.max(trx.lock_structs);
        self.tables_locked = self.tables_locked.max(trx.tables_locked);
        self.read_view |= trx.read_view;
        self.prepared |= trx.prepared;
        self.rolling_back |= trx.rolling_back;
        self.state.clone_from(&trx.state);
        self.round = round;
        let statement = hash(&trx.statement);
        if !trx.statement.is_empty() && statement != self.statement {
            self.statement = statement;
            let class = class(&trx.statement);
            self.classes.retain(|known| *known != class);
            self.classes.push(class);
            if self.classes.len() > CLASSES {
                self.classes.remove(0);
            }
        }
    }
}
