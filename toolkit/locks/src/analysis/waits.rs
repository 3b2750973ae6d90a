//! Waits, followed from dump to dump: a wait that is in ten dumps counts once, with its longest time.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::{class, key, Best, Key};
use crate::graph::{Unknown, Wait};
use crate::model::{Dump, Lock, Trx};

/// Waits that are kept: the longest.
const MOST: usize = 2_000;
/// Root blockers and records that are kept at a time.
const MAPPED: usize = 20_000;

/// One transaction's wait for one lock.
#[derive(Clone, Debug)]
pub struct SeenWait {
    pub waiter: Key,
    pub user: String,
    pub host: String,
    pub class: Arc<str>,
    /// What it wants.
    pub lock: Option<Lock>,
    pub micros: u64,
    pub first: Option<i64>,
    pub last: Option<i64>,
    /// In the last dump: the transaction in front, and whether it holds the lock.
    pub by: Vec<(Key, bool)>,
    pub more: usize,
    pub roots: Vec<Key>,
    pub unknown: Option<Unknown>,
    round: u64,
}

/// A transaction at the root of waits.
#[derive(Clone, Debug, Default)]
pub struct Root {
    pub user: String,
    pub host: String,
    /// What it ran last while others waited.
    pub class: Arc<str>,
    /// In how many dumps others waited for it, and in how many of them its client had to go on.
    pub dumps: u64,
    pub idle: u64,
    pub seconds: u64,
    pub waits: u64,
    /// The sum of all waits behind it.
    pub micros: u64,
}

/// A record (or a table) that is waited for.
#[derive(Clone, Debug, Default)]
pub struct Hot {
    pub waits: u64,
    pub micros: u64,
    /// The most that wait at once.
    pub at_once: u64,
}

/// Table, index, space, page, heap number, key.
pub type Record = (Arc<str>, Arc<str>, u64, u64, u32, String);

pub struct Waits {
    open: HashMap<(Key, Option<Record>), SeenWait>,
    pub ended: Best<SeenWait>,
    pub roots: HashMap<Key, Root>,
    pub hot: HashMap<Record, Hot>,
    /// Of all waits.
    pub micros: u64,
    /// Waits whose blocker is not known.
    pub unknown: u64,
    round: u64,
}

impl Default for Waits {
    fn default() -> Waits {
        Waits {
            open: HashMap::new(),
            ended: Best::new(MOST),
            roots: HashMap::new(),
            hot: HashMap::new(),
            micros: 0,
            unknown: 0,
            round: 0,
        }
    }
}

pub fn record(lock: &Lock) -> Record {
    let (index, space, page) = match &lock.page {
        Some(page) => (page.index.clone(), page.space, page.page),
        None => ("".into(), 0, 0),
    };
    let heap = lock.heaps.first().copied().unwrap_or(0);
    (lock.table.clone(), index, space, page, heap, lock.key.clone().unwrap_or_default())
}

impl Waits {
    pub fn dump(&mut self, dump: &Dump, waits: &[Wait], roots: &[Vec<usize>]) {
        self.round += 1;
        let mut at_once: HashMap<Record, u64> = HashMap::new();
        let mut blocking = BTreeSet::new();
        for (wait, roots) in waits.iter().zip(roots) {
            let trx = &dump.trxs[wait.waiter];
            let lock = trx.waiting_lock();
            let record = lock.map(record);
            if let Some(record) = &record {
                *at_once.entry(record.clone()).or_default() += 1;
            }
            let key = (key(trx), record);
            let micros = trx.wait_micros.unwrap_or(0);
            // A shorter time for the same: it has got the lock meanwhile and waits again.
            if self.open.get(&key).is_some_and(|seen| micros < seen.micros) {
                self.end(&key);
            }
            let round = self.round;
            let seen =
                self.open.entry(key.clone()).or_insert_with(|| SeenWait::new(key.0, trx, dump.at));
            let name = |at: usize| super::key(&dump.trxs[at]);
            seen.micros = micros;
            seen.last = dump.at.or(seen.last);
            seen.by = wait.by.iter().map(|by| (name(by.trx), by.holds)).collect();
            seen.more = wait.more;
            seen.roots = roots.iter().map(|at| name(*at)).collect();
            seen.unknown = wait.unknown;
            seen.round = round;
            blocking.extend(roots.iter().copied());
        }
        for at in blocking {
            self.root(&dump.trxs[at]);
        }
        for (record, count) in at_once {
            if self.hot.len() < MAPPED || self.hot.contains_key(&record) {
                let hot = self.hot.entry(record).or_default();
                hot.at_once = hot.at_once.max(count);
            }
        }
        let round = self.round;
        let mut gone: Vec<_> =
            self.open.iter().filter(|(_, w)| w.round < round).map(|(key, _)| key.clone()).collect();
        gone.sort();
        gone.iter().for_each(|key| self.end(key));
    }

    fn root(&mut self, trx: &Trx) {
        let key = key(trx);
        if self.roots.len() >= MAPPED && !self.roots.contains_key(&key) {
            return;
        }
        let root = self.roots.entry(key).or_default();
        root.user.clone_from(&trx.user);
        root.host.clone_from(&trx.host);
        root.dumps += 1;
        root.idle += u64::from(trx.idle());
        root.seconds = root.seconds.max(trx.active.unwrap_or(0));
        if !trx.statement.is_empty() {
            root.class = class(&trx.statement);
        }
    }

    fn end(&mut self, key: &(Key, Option<Record>)) {
        let Some(seen) = self.open.remove(key) else { return };
        self.micros += seen.micros;
        self.unknown += u64::from(seen.by.is_empty());
        for root in &seen.roots {
            if let Some(root) = self.roots.get_mut(root) {
                root.waits += 1;
                root.micros += seen.micros;
            }
        }
        if let Some(hot) = key.1.as_ref().and_then(|record| self.hot.get_mut(record)) {
            hot.waits += 1;
            hot.micros += seen.micros;
        }
        self.ended.add(seen.micros, seen);
    }

    pub fn end_of_server(&mut self) {
        let mut rest: Vec<_> = self.open.keys().cloned().collect();
        rest.sort();
        rest.iter().for_each(|key| self.end(key));
    }
}

impl SeenWait {
    fn new(waiter: Key, trx: &Trx, at: Option<i64>) -> SeenWait {
        SeenWait {
            waiter,
            user: trx.user.clone(),
            host: trx.host.clone(),
            class: class(&trx.statement),
            lock: trx.waiting_lock().map(|lock| Lock {
                heaps: lock.heaps[..lock.heaps.len().min(1)].to_vec(),
                ..lock.clone()
            }),
            micros: 0,
            first: at,
            last: at,
            by: Vec::new(),
            more: 0,
            roots: Vec::new(),
            unknown: None,
            round: 0,
        }
    }
}
