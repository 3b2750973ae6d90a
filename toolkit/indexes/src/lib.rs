//! Indexes that repeat others, and indexes that nobody reads.
//!
//! | module | noun |
//! |---|---|
//! | `model` | a table with its keys and foreign keys, from wherever it was read |
//! | `dump` | tables from the statements of a dump: `CREATE TABLE`, `ALTER TABLE`, `CREATE INDEX`, `DROP` |
//! | `duplicates` | which key repeats which |
//! | `duty` | what a key must stay for |
//! | `usage` | which keys were read, as servers counted it and plans say |
//! | `report` | the document: findings with reasons and the statements that follow from them; `html` draws it |
//!
//! There is no connection and no terminal here: a caller hands over bytes and rows.
//!
//! Invariants:
//!
//! - IX1. Nothing is called superfluous that a constraint needs: a primary key, a uniqueness that no other key gives, an
//!   index that a foreign key needs on either side, the index of an AUTO_INCREMENT column.
//! - IX2. If all that is called superfluous is dropped at once, each dropped key still has its cover, and each constraint
//!   its index.
//! - IX3. How many different values a key has is shown, and never a reason.
//!
//! Tested in `tests/it/`.
#![forbid(unsafe_code)]

pub mod dump;
pub mod duplicates;
pub mod duty;
mod html;
pub mod model;
pub mod report;
pub mod usage;
