//! Transactions and the path of a commit, on one floor.
//!
//! `core` is what every part shares, and the commit step by step; `transaction` what a session holds; `cursor` how it reads; `load` what it does with many rows
//! for an empty table, `loads` the state of such loads; `spill` what it does when its changes do not fit in memory, `private_runs` what that leaves in files;
//! `memory` what large commits may take; `ranges` what serializable transactions lock beside rows; `readers` which old versions are still needed; `prepared`
//! transactions that are committed in two steps, `prepared_set` the set of them, `xid` their names; `write_sets` the memory of ended write sets, for later
//! ones.

pub(crate) mod core;
pub(crate) mod cursor;
pub(crate) mod load;
pub(crate) mod loads;
pub(crate) mod memory;
pub(crate) mod prepared;
pub(crate) mod prepared_set;
pub(crate) mod private_runs;
pub(crate) mod ranges;
pub(crate) mod readers;
pub(crate) mod spill;
pub(crate) mod transaction;
pub(crate) mod write_sets;
pub(crate) mod xid;
