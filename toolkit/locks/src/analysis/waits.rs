//! Follows waits from dump to dump: a wait that is in ten dumps counts once, with its longest time.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::{class, key, Best, Key};
use crate::graph;
use crate::model::{Clock, Dump, Lock, Trx};
use crate::rows::{Blocker, Micros, Place, Record, Totals, Wait};

/// The most root blockers and records that are kept.
const MAPPED: usize = 20_000;

struct Seen {
    row: Wait,
    roots: Vec<Key>,
    /// The number of the last dump that had it.
    round: u64,
}

/// Table, index, space, page, heap number, key.
type What = (Arc<str>, Option<Arc<str>>, u64, u64, u32, Option<String>);

#[derive(Default)]
pub struct Waits {
    /// In order, so that a report is always the same.
    open: BTreeMap<(Key, Option<What>), Seen>,
    pub ended: Best<Wait>,
    pub roots: HashMap<Key, Blocker>,
    pub hot: HashMap<What, Record>,
    pub totals: Totals,
    round: u64,
}

fn what(lock: &Lock) -> What {
    let page = lock.page.as_ref();
    let (space, number) = page.map_or((0, 0), |page| (page.space, page.page));
    let heap = lock.heaps.first().copied().unwrap_or(0);
    (lock.table.clone(), page.map(|p| p.index.clone()), space, number, heap, lock.key.clone())
}

fn never_yet((table, index, space, page, heap, key): &What) -> Record {
    let index = index.as_deref().map(str::to_owned);
    let (table, key) = (table.to_string(), key.clone());
    Record { table, index, key, space: *space, page: *page, heap: *heap, ..Record::default() }
}

impl Waits {
    pub fn dump(&mut self, dump: &Dump, waits: &[graph::Wait], roots: &[Vec<usize>]) {
        self.round += 1;
        let round = self.round;
        let mut at_once: HashMap<What, u64> = HashMap::new();
        let mut blocking = BTreeSet::new();
        for (wait, roots) in waits.iter().zip(roots) {
            let trx = &dump.trxs[wait.waiter];
            let what = trx.waiting_lock().map(what);
            if let Some(what) = &what {
                *at_once.entry(what.clone()).or_default() += 1;
            }
            let key = (key(trx), what);
            let waited = Micros(trx.wait_micros.unwrap_or(0));
            // A shorter time for the same wait: the transaction got the lock meanwhile and waits
            // again.
            if self.open.get(&key).is_some_and(|seen| waited < seen.row.seconds) {
                self.end(&key);
            }
            let seen = self.open.entry(key).or_insert_with(|| Seen::new(trx, dump.at));
            let names = |holds| {
                let by = wait.by.iter().filter(|by| by.holds == holds);
                by.map(|by| dump.trxs[by.trx].id.clone()).collect()
            };
            seen.row.seconds = waited;
            seen.row.last = dump.at.map(Clock).or(seen.row.last);
            (seen.row.held_by, seen.row.queued_behind) = (names(true), names(false));
            seen.row.unknown = wait.unknown;
            seen.roots = roots.iter().map(|at| super::key(&dump.trxs[*at])).collect();
            seen.round = round;
            blocking.extend(roots.iter().copied());
        }
        blocking.iter().for_each(|at| self.root(&dump.trxs[*at]));
        for (what, count) in at_once {
            if self.hot.len() < MAPPED || self.hot.contains_key(&what) {
                let row = never_yet(&what);
                let hot = self.hot.entry(what).or_insert(row);
                hot.at_once = hot.at_once.max(count);
            }
        }
        let gone = self.open.iter().filter(|(_, seen)| seen.round < round);
        let gone: Vec<_> = gone.map(|(key, _)| key.clone()).collect();
        gone.iter().for_each(|key| self.end(key));
    }

    fn root(&mut self, trx: &Trx) {
        let key = key(trx);
        if self.roots.len() >= MAPPED && !self.roots.contains_key(&key) {
            return;
        }
        let root = self.roots.entry(key).or_default();
        root.who = trx.into();
        root.dumps += 1;
        root.idle_dumps += u64::from(trx.idle());
        root.open_seconds = root.open_seconds.max(trx.active.unwrap_or(0));
        if !trx.statement.is_empty() {
            root.statement = class(&trx.statement);
        }
    }

    fn end(&mut self, key: &(Key, Option<What>)) {
        let Some(Seen { mut row, roots, .. }) = self.open.remove(key) else { return };
        self.totals.count += 1;
        self.totals.seconds.add(row.seconds);
        let alone = row.held_by.is_empty() && row.queued_behind.is_empty();
        self.totals.without_blocker += u64::from(alone);
        for root in &roots {
            if let Some(root) = self.roots.get_mut(root) {
                root.waits += 1;
                root.blocked_seconds.add(row.seconds);
            }
        }
        if let Some(hot) = key.1.as_ref().and_then(|what| self.hot.get_mut(what)) {
            hot.waits += 1;
            hot.seconds.add(row.seconds);
        }
        row.roots = roots.into_iter().map(|(id, _)| id).collect();
        self.ended.add(row.seconds.0, row);
    }

    pub fn end_of_server(&mut self) {
        let open: Vec<_> = self.open.keys().cloned().collect();
        open.iter().for_each(|key| self.end(key));
    }
}

impl Seen {
    fn new(trx: &Trx, at: Option<i64>) -> Seen {
        let first = at.map(Clock);
        let row = Wait {
            who: trx.into(),
            statement: class(&trx.statement),
            wants: trx.waiting_lock().map(Place::from),
            first,
            last: first,
            ..Wait::default()
        };
        Seen { row, roots: Vec::new(), round: 0 }
    }
}
