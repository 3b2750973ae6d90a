//! Who waits for whom, from what InnoDB's monitor prints and from rows of a running server.
//!
//! | module | noun |
//! |---|---|
//! | `model` | a dump: its transactions and their locks; a deadlock |
//! | `text` | dumps and deadlocks from text: error logs, SHOW ENGINE INNODB STATUS, any mixture |
//! | `conflict` | which lock has to wait for which |
//! | `graph` | the waits of a dump, with who is in front and who is at the root |
//! | `rows` | what is known of one transaction, wait, record, deadlock, as `--json` has it |
//! | `analysis` | what many dumps say together: transactions, waits, counts, deadlocks, a series |
//! | `report` | the document, its text, page and CSV |
//!
//! There is no connection and no terminal here: a caller hands over bytes and rows.
//!
//! Invariants:
//!
//! - LK1. A blocker is named only if a lock that is printed has to be waited for. Where the locks that matter are not
//!   printed, the wait has no blocker and says so.
//! - LK2. Memory is bounded by the largest dump and by constants, not by the number of lines or dumps.
//! - LK3. No bytes make the reader fail: what is no monitor output is passed over, what is cut off is used as far as it goes.
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
