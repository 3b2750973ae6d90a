//! Who waits for whom, from the output of InnoDB's monitor and from rows of a running server.
//!
//! | module | noun |
//! |---|---|
//! | `model` | a dump: its transactions and their locks; a deadlock |
//! | `text` | dumps and deadlocks from text: error logs, SHOW ENGINE INNODB STATUS, any mixture |
//! | `conflict` | which lock has to wait for which |
//! | `graph` | the waits of a dump, with blockers and roots |
//! | `rows` | the data of one transaction, wait, record or deadlock, as `--json` has it |
//! | `analysis` | the results of many dumps: transactions, waits, counts, deadlocks, a series |
//! | `report` | the document, its text, page and CSV |
//!
//! This crate has no connection and no terminal: its caller passes in bytes and rows.
//!
//! Invariants:
//!
//! - LK1. A blocker is named only if a printed lock of it conflicts. Where the locks that matter are not
//!   printed, the wait has no blocker and says so.
//! - LK2. Memory is bounded by the largest dump and by constants, not by the number of lines or dumps.
//! - LK3. No bytes make the reader fail: text that is not monitor output is skipped, and output that is cut off is used up to
//!   the cut.
//! - LK4. A deadlock that is printed again and again (every dump has the latest) counts once.
//!
//! Tested in `tests/it/`.
#![forbid(unsafe_code)]

pub mod analysis;
pub mod conflict;
pub mod graph;
pub mod model;
pub mod report;
pub mod rows;
pub mod text;
