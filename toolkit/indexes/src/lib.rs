//! Finds indexes that repeat others, and indexes that nobody reads.
//!
//! | module | noun |
//! |---|---|
//! | `model` | a table with its keys and foreign keys, from wherever it was read |
//! | `dump` | tables from the statements of a dump: `CREATE TABLE`, `ALTER TABLE`, `CREATE INDEX`, `DROP` |
//! | `duplicates` | which key repeats which |
//! | `duty` | why a key must stay |
//! | `usage` | which keys were read, by servers' counters and logged plans |
//! | `report` | the document: findings with reasons and the statements that follow from them; `document` draws it |
//!
//! This crate has no connection and no terminal: its caller passes in bytes and rows.
//!
//! Invariants:
//!
//! - IX1. A key that a constraint needs is never called superfluous: a primary key, a uniqueness that no other key gives,
//!   an index that a foreign key needs on either side, the index of an AUTO_INCREMENT column.
//! - IX2. If everything that is called superfluous is dropped at once, each dropped key still has its cover, and each
//!   constraint its index.
//! - IX3. The number of different values of a key is shown, but is never a reason.
//!
//! Tested in `tests/it/`.
#![forbid(unsafe_code)]

mod document;
pub mod dump;
pub mod duplicates;
pub mod duty;
pub mod model;
pub mod report;
pub mod usage;
