//! Locks by table, index and kind.

use std::collections::HashMap;
use std::sync::Arc;

use crate::model::{Dump, Lock, Mode, Span};
use crate::rows::{Locks, Place};

/// Number of kinds that are kept.
const MOST: usize = 20_000;

/// Table, index, mode, span, insert intention, waiting.
type Kind = (Arc<str>, Option<Arc<str>>, Mode, Span, bool, bool);

#[derive(Default)]
pub struct Counts {
    pub kinds: HashMap<Kind, Locks>,
    /// Transactions (per dump) with locks that are not printed.
    pub hidden: u64,
}

fn kind(lock: &Lock) -> Kind {
    let index = lock.page.as_ref().map(|page| page.index.clone());
    (lock.table.clone(), index, lock.mode, lock.span, lock.insert_intention, lock.waiting)
}

fn none_yet(lock: &Lock) -> Locks {
    let Place { lock: kind, table, index, .. } = Place::from(lock);
    Locks { table, index, lock: kind, waiting: lock.waiting, ..Locks::default() }
}

impl Counts {
    pub fn dump(&mut self, dump: &Dump) {
        // (an example, locks, records, transactions, the last transaction that was counted)
        let mut here: HashMap<Kind, (&Lock, [u64; 3], usize)> = HashMap::new();
        for (at, trx) in dump.trxs.iter().enumerate() {
            self.hidden += u64::from(dump.given.is_none() && trx.has_hidden_locks());
            for lock in &trx.locks {
                let (_, [locks, records, transactions], last) =
                    here.entry(kind(lock)).or_insert((lock, [0; 3], usize::MAX));
                *locks += 1;
                *records += lock.heaps.len() as u64;
                *transactions += u64::from(*last != at);
                *last = at;
            }
        }
        for (kind, (lock, [locks, records, transactions], _)) in here {
            if self.kinds.len() >= MOST && !self.kinds.contains_key(&kind) {
                continue;
            }
            let most = self.kinds.entry(kind).or_insert_with(|| none_yet(lock));
            most.dumps += 1;
            most.locks = most.locks.max(locks);
            most.records = most.records.max(records);
            most.transactions = most.transactions.max(transactions);
        }
    }
}
