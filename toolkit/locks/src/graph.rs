//! The waits of a dump: which transactions block each waiter, and which are at the root.
//!
//! A monitor does not name blockers. They are derived from the printed locks on the same record or table: granted
//! locks that conflict with the request (`conflict`), and conflicting requests that have been waiting longer.
//!
//! Invariants:
//!
//! - GR1. Work is bounded: a waiter has at most `MOST` blockers.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;

use crate::conflict::waits_for;
use crate::model::{Dump, Lock};

/// Blockers of one waiter that are kept, and requests before it that are examined.
pub const MOST: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocker {
    /// Index into the dump's transactions.
    pub trx: usize,
    /// True: it has the lock. False: it waits itself, and was earlier.
    pub holds: bool,
}

/// Why a wait has no blocker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unknown {
    /// Not all locks are printed: the lock monitor is off (`innodb_status_output_locks`), or it printed only ten
    /// locks. Or a running server does not say which of several transactions blocks.
    NotPrinted,
    /// The dump is cut.
    Cut,
    /// All locks are printed, and none conflicts: the blocker has released it meanwhile.
    Gone,
}

/// One waiting transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// Index into the dump's transactions.
    pub waiter: usize,
    pub by: Vec<Blocker>,
    /// Why `by` is empty.
    pub unknown: Option<Unknown>,
}

/// A table; for a record also its tablespace and page.
type Place<'a> = (&'a str, Option<(u64, u64)>);

/// The waits of `dump`, in the order of the dump.
pub fn waits(dump: &Dump) -> Vec<Wait> {
    if let Some(given) = &dump.given {
        return told(dump, given);
    }
    let mut on: HashMap<Place<'_>, Vec<(usize, &Lock)>> = HashMap::new();
    let place = |lock: &Lock| lock.page.as_ref().map(|page| (page.space, page.page));
    for (at, trx) in dump.trxs.iter().enumerate() {
        for lock in &trx.locks {
            on.entry((&lock.table, place(lock))).or_default().push((at, lock));
        }
    }
    // Those that wait longest come first, since only earlier requests can block.
    for locks in on.values_mut() {
        let waited = |at: usize| std::cmp::Reverse(dump.trxs[at].wait_micros.unwrap_or(u64::MAX));
        locks.sort_by_key(|(at, lock)| (lock.waiting, waited(*at), *at));
    }
    let mut found = Vec::new();
    for mut wait in waiting(dump) {
        let waiter = wait.waiter;
        let trx = &dump.trxs[waiter];
        let wanted = trx.waiting_lock();
        if let Some(wanted) = wanted {
            let near = on.get(&(&wanted.table, place(wanted))).map_or(&[][..], Vec::as_slice);
            let mut looked = 0;
            for &(other, lock) in near {
                if other == waiter {
                    continue;
                }
                if wait.by.len() == MOST {
                    break;
                }
                looked += usize::from(lock.waiting);
                if looked > MOST || !waits_for(wanted, lock) {
                    continue;
                }
                if lock.waiting {
                    match (dump.trxs[other].wait_micros, trx.wait_micros) {
                        (Some(theirs), Some(ours)) if theirs > ours => {}
                        (Some(theirs), Some(ours)) if theirs < ours => break,
                        // With whole seconds it is unknown which of two requests was earlier.
                        _ => continue,
                    }
                }
                wait.add(Blocker { trx: other, holds: !lock.waiting });
            }
        }
        if !wait.by.iter().any(|by| by.holds) {
            wait.unknown = if dump.trxs.iter().any(|trx| trx.has_hidden_locks()) {
                Some(Unknown::NotPrinted)
            } else if !dump.complete || wanted.is_none() {
                Some(Unknown::Cut)
            } else {
                // A request before it explains the wait as well.
                wait.by.is_empty().then_some(Unknown::Gone)
            };
        }
        found.push(wait);
    }
    found
}

/// The waits without their blockers.
fn waiting(dump: &Dump) -> impl Iterator<Item = Wait> + '_ {
    let waiting = dump.trxs.iter().enumerate().filter(|(_, trx)| trx.waits);
    waiting.map(|(waiter, _)| Wait { waiter, by: Vec::new(), unknown: None })
}

impl Wait {
    fn add(&mut self, blocker: Blocker) {
        if self.by.len() < MOST && !self.by.iter().any(|by| by.trx == blocker.trx) {
            self.by.push(blocker);
        }
    }
}

/// The waits as the server itself reports them.
fn told(dump: &Dump, given: &[crate::model::Given]) -> Vec<Wait> {
    let mut found: Vec<Wait> = waiting(dump).collect();
    let of = places(&found);
    for edge in given {
        let Some(at) = of.get(&edge.waiter) else { continue };
        match edge.blocker {
            Some(trx) => found[*at].add(Blocker { trx, holds: true }),
            None => found[*at].unknown = Some(Unknown::NotPrinted),
        }
    }
    for wait in &mut found {
        for by in &mut wait.by {
            // The server's tables do not say which blocker holds the lock: a blocker that waits for the
            // same record was earlier, but does not hold it.
            let trx = |at: usize| dump.trxs[at].waiting_lock();
            let (theirs, ours) = (trx(by.trx), trx(wait.waiter));
            by.holds = !matches!((theirs, ours), (Some(a), Some(b)) if same_record(a, b));
        }
        wait.unknown = wait.by.is_empty().then_some(wait.unknown.unwrap_or(Unknown::Gone));
    }
    found
}

fn same_record(a: &Lock, b: &Lock) -> bool {
    // Rows of Frond's tables have no record numbers.
    a.table == b.table
        && a.page == b.page
        && a.heaps.first() == b.heaps.first()
        && (!a.heaps.is_empty() || a.key == b.key)
}

/// The index in `waits` of each waiting transaction.
pub fn places(waits: &[Wait]) -> HashMap<usize, usize> {
    waits.iter().enumerate().map(|(at, wait)| (wait.waiter, at)).collect()
}

/// The roots of each wait: transactions that it waits for, directly or through others, and that do not wait; at most
/// `MOST`. Empty where they are unknown or wait in a circle. The result has the order of `waits`.
pub fn roots(waits: &[Wait]) -> Vec<Vec<usize>> {
    let of = places(waits);
    // Blocker -> the waits that it blocks directly.
    let mut behind: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (at, wait) in waits.iter().enumerate() {
        wait.by.iter().for_each(|by| behind.entry(by.trx).or_default().push(at));
    }
    let mut found: Vec<Vec<usize>> = vec![Vec::new(); waits.len()];
    for root in behind.keys().filter(|trx| !of.contains_key(trx)) {
        let mut stack = vec![root];
        while let Some(trx) = stack.pop() {
            for &at in behind.get(trx).into_iter().flatten() {
                // GR1: those behind a wait with `MOST` roots have as many.
                if found[at].last() != Some(root) && found[at].len() < MOST {
                    found[at].push(*root);
                    stack.push(&waits[at].waiter);
                }
            }
        }
    }
    found
}
