//! Times and places as every part of the report has them.

use super::{Options, Place};
use crate::model::{Clock, Lock};

pub(super) fn time(at: Option<i64>) -> Option<String> {
    at.map(|at| Clock(at).to_string())
}

pub(super) fn place(lock: &Lock, options: &Options) -> Place {
    Place {
        lock: lock.kind(),
        table: lock.table.to_string(),
        index: lock.page.as_ref().map(|page| page.index.to_string()),
        key: lock.key.clone().filter(|_| options.keys),
    }
}
