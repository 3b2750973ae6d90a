//! Transactions, locks and waits, tables and background work, told to people and to the server.
//!
//! - `places.rs`  a lock's table, index and key as readable text
//! - `watch.rs`   receives lock waits and deadlocks, and passes them on
//! - `lists.rs`   transactions, locks and waits, one after the other
//! - `tables.rs`  tables and trees, one after the other
//! - `storage.rs` indexes, files, what is in the page cache
//! - `jobs.rs`    background work
//!
//! Tested by `tests/it/reports.rs` and by the plugin's tests.

pub(crate) mod jobs;
pub(crate) mod lists;
pub(crate) mod places;
pub(crate) mod storage;
pub(crate) mod tables;
pub(crate) mod watch;
