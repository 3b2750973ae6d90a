//! Times, places and reasons as the document has them.

use super::{Options, Place};
use crate::graph::Unknown;
use crate::model::{Clock, Lock};

pub fn time(at: Option<i64>) -> Option<String> {
    at.map(|at| Clock(at).to_string())
}

pub fn place(lock: &Lock, options: &Options) -> Place {
    Place {
        lock: lock.kind(),
        table: lock.table.to_string(),
        index: lock.page.as_ref().map(|page| page.index.to_string()),
        key: lock.key.clone().filter(|_| options.keys),
    }
}

pub fn word(unknown: Unknown) -> &'static str {
    match unknown {
        Unknown::NotPrinted => "not-printed",
        Unknown::Cut => "cut",
        Unknown::Gone => "gone",
    }
}
