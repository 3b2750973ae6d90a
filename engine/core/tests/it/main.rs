//! The engine through its public face.
#![allow(clippy::unwrap_used)]

mod alter;
mod alter_columns;
mod alter_foreign;
mod background;
mod backup;
mod concurrency;
mod counters;
mod descriptors;
mod durability;
mod entries;
mod foreign;
mod full_disk;
mod isolation;
mod load;
mod locking_scans;
mod memory;
mod moved_rows;
mod moving;
mod panics;
mod prepared;
mod ranges;
mod relatives;
mod replay;
mod reports;
mod rows;
mod scratch;
mod spill;
mod spill_beside_others;
mod stale;
mod statistics;
mod storage_lists;
mod support;
mod tables;
mod typed;
mod undecided;
