//! Locks by table, index and kind.

use std::collections::HashMap;
use std::sync::Arc;

use crate::model::{Dump, Lock, Mode, Span};

/// Kinds that are kept.
const MOST: usize = 20_000;

/// Table, index (empty: the table's lock), mode, span, insert intention, waiting.
pub type Kind = (Arc<str>, Arc<str>, Mode, Span, bool, bool);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Dumps that have some.
    pub dumps: u64,
    /// The most in one dump: locks, records of these, transactions.
    pub locks: u64,
    pub records: u64,
    pub transactions: u64,
}

#[derive(Default)]
pub struct Counts {
    pub kinds: HashMap<Kind, Count>,
    /// Transactions (per dump) that have locks that are not printed.
    pub hidden: u64,
}

fn kind(lock: &Lock) -> Kind {
    let index = lock.page.as_ref().map_or_else(|| "".into(), |page| page.index.clone());
    (lock.table.clone(), index, lock.mode, lock.span, lock.insert_intention, lock.waiting)
}

impl Counts {
    pub fn dump(&mut self, dump: &Dump) {
        // (count, the last transaction that was counted)
        let mut here: HashMap<Kind, (Count, usize)> = HashMap::new();
        for (at, trx) in dump.trxs.iter().enumerate() {
            self.hidden += u64::from(dump.given.is_none() && trx.has_hidden_locks());
            for lock in &trx.locks {
                let (count, last) =
                    here.entry(kind(lock)).or_insert((Count::default(), usize::MAX));
                count.locks += 1;
                count.records += lock.heaps.len() as u64;
                count.transactions += u64::from(*last != at);
                *last = at;
            }
        }
        for (kind, (count, _)) in here {
            if self.kinds.len() >= MOST && !self.kinds.contains_key(&kind) {
                continue;
            }
            let most = self.kinds.entry(kind).or_default();
            most.dumps += 1;
            most.locks = most.locks.max(count.locks);
            most.records = most.records.max(count.records);
            most.transactions = most.transactions.max(count.transactions);
        }
    }
}
