//! The results of many dumps together.
//!
//! | file | what |
//! |---|---|
//! | `transactions` | transactions followed from dump to dump |
//! | `waits` | waits followed from dump to dump; root blockers; the records that are waited for |
//! | `counts` | locks by table, index and kind |
//! | `deadlocks` | deadlocks, each once, by signature |
//! | `series` | history list and log over time |
//! | `best` | the largest of many |
//!
//! An `Analysis` reads one server's dumps in order; `end_of_server` starts the next server.

mod best;
mod counts;
mod deadlocks;
mod series;
mod transactions;
mod waits;

pub use best::Best;
pub use counts::Counts;
pub use deadlocks::Deadlocks;
pub use series::Series;
pub use transactions::Transactions;
pub use waits::Waits;

use crate::graph;
use crate::model::{Deadlock, Dump, Trx};
use crate::text::reader::Sink;

/// The class of a statement: its text without literals; nothing where there is none.
pub fn class(statement: &[u8]) -> String {
    if statement.is_empty() {
        return String::new();
    }
    let mut out = Vec::new();
    frond_sqltext::fingerprint(statement, frond_sqltext::Dialect::Frond, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

/// Identifies a transaction across dumps. A number may be reused after a restart, and a transaction without changes
/// has an address in place of a number, but the connection is then hardly the same.
pub type Key = (String, Option<u64>);

pub fn key(trx: &Trx) -> Key {
    (trx.id.clone(), trx.thread)
}

/// All results.
#[derive(Default)]
pub struct Analysis {
    pub dumps: u64,
    /// Dumps that are cut, or in which the server left something out.
    pub incomplete: u64,
    pub first: Option<i64>,
    pub last: Option<i64>,
    pub transactions: Transactions,
    pub waits: Waits,
    pub counts: Counts,
    pub deadlocks: Deadlocks,
    pub series: Series,
    /// The dump whose waits have the largest sum, and its waits.
    pub worst: Option<(u64, Dump, Vec<graph::Wait>)>,
}

impl Sink for Analysis {
    fn dump(&mut self, dump: Dump) {
        let waits = graph::waits(&dump);
        let roots = graph::roots(&waits);
        self.dumps += 1;
        self.incomplete += u64::from(!dump.complete);
        self.at(dump.at);
        self.transactions.dump(&dump);
        self.waits.dump(&dump, &waits, &roots);
        self.counts.dump(&dump);
        self.series.dump(&dump, &waits);
        // A wait without a time counts as a moment, so that a dump with such waits is shown.
        let micros = |w: &graph::Wait| dump.trxs[w.waiter].wait_micros.unwrap_or(0);
        let sum =
            waits.iter().fold(0, |sum: u64, w| sum.saturating_add(micros(w)).saturating_add(1));
        if self.worst.as_ref().is_none_or(|(most, _, _)| sum >= *most) && sum > 0 {
            self.worst = Some((sum, dump, waits));
        }
    }

    fn deadlock(&mut self, deadlock: Deadlock) {
        self.at(deadlock.at);
        self.deadlocks.add(&deadlock);
    }
}

impl Analysis {
    fn at(&mut self, at: Option<i64>) {
        if let Some(at) = at {
            self.first = Some(self.first.map_or(at, |first| first.min(at)));
            self.last = Some(self.last.map_or(at, |last| last.max(at)));
        }
    }

    /// Ends a server's dumps: the following ones are another server's.
    pub fn end_of_server(&mut self) {
        self.transactions.end_of_server();
        self.waits.end_of_server();
        self.deadlocks.end_of_server();
    }
}
