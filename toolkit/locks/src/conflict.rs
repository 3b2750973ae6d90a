//! Which lock has to wait for which: InnoDB's rules, from its manual and its behaviour.
//!
//! InnoDB grants a lock on a gap even while an insert waits for the gap. The text does not distinguish such a later lock
//! from an earlier one, so both count as blocking the insert here; MariaDB lets the insert continue before the later one
//! ends.
//!
//! Invariants:
//!
//! - LKC1. No lock waits for an insert intention, and a lock on a gap waits for nothing unless it is an insert
//!   intention.

use crate::model::{Lock, Mode, Span, SUPREMUM};

/// Whether two transactions can have these modes on one table or record at the same time.
pub fn compatible(a: Mode, b: Mode) -> bool {
    use Mode::{AutoInc, Exclusive, IntentionExclusive, IntentionShared, Shared};
    match (a, b) {
        (Exclusive, _) | (_, Exclusive) => false,
        (IntentionShared, _) | (_, IntentionShared) => true,
        (IntentionExclusive, IntentionExclusive | AutoInc) => true,
        (AutoInc, IntentionExclusive) => true,
        (Shared, Shared) => true,
        _ => false,
    }
}

/// Whether the request `wanted` of another transaction has to wait for `other`, which was granted or requested earlier.
pub fn waits_for(wanted: &Lock, other: &Lock) -> bool {
    if wanted.table != other.table || compatible(wanted.mode, other.mode) {
        return false;
    }
    match (&wanted.page, &other.page) {
        (None, None) => true,
        (Some(a), Some(b)) => {
            let heap = wanted.heaps.first();
            a == b
                && heap.is_some_and(|heap| other.heaps.contains(heap) && on_record(wanted, other))
        }
        _ => false,
    }
}

/// The same for one record, which both locks cover.
fn on_record(wanted: &Lock, other: &Lock) -> bool {
    if other.insert_intention {
        return false;
    }
    let only_gap = wanted.span == Span::Gap || wanted.heaps.first() == Some(&SUPREMUM);
    if wanted.insert_intention {
        // An insert intention wants the gap, which a lock on the record alone leaves free.
        return other.span != Span::Record;
    }
    !only_gap && other.span != Span::Gap
}
