//! Transactions and the path of a commit, on one floor.
//!
//! `core` is what every part shares, and the commit step by step; `transaction` what a session holds; `cursor` how it
//! reads; `spill` what it does when its changes do not fit in memory; `memory` what large commits may take; `readers`
//! who still needs old versions; `prepared` transactions that are to be committed in two steps, and `xid` their names.

pub(crate) mod core;
pub(crate) mod cursor;
pub(crate) mod memory;
pub(crate) mod prepared;
pub(crate) mod readers;
pub(crate) mod spill;
pub(crate) mod transaction;
pub(crate) mod xid;
