//! A log's statements run on two servers: do both answer the same, and which is faster?
//!
//! It knows statements, answers and their comparison; connections are its caller's (`run::Target`).
//!
//! | module | noun |
//! |---|---|
//! | `read` | the statements of slow logs, general logs, raw statements and captures, in their order |
//! | `statement` | what may be run, and how far SQL determines its result |
//! | `answer` | what a server answered: hashes of rows, a bounded part of them, warnings, error |
//! | `compare` | two answers: the same, different, or not determined by the statement |
//! | `pace` | times of pairs, by class, with the significance of their ratio |
//! | `run` | sessions on threads, in the log's order or at its pace |
//! | `report` | the document, as text and JSON; `html` draws it |
//!
//! Invariants:
//!
//! - RP1. Unless writing was asked for, nothing is sent that may write; sessions are read-only besides, so that the server
//!   refuses what was overlooked.
//! - RP2. The statements of a session are run in the order of the log, each on both servers before the next.
//! - RP3. A difference is reported only where the statement determines its result: an order only where ORDER BY says one, rows
//!   of a LIMIT only where the same statement without it has other rows.
//! - RP4. Memory is bounded: a queue of statements, bounded parts of answers, a bounded number of classes and samples.
//!
//! Tested in `tests/it` with servers of the test's own making, and in `cli/tests/cli/replay.rs` with MariaDB.
#![forbid(unsafe_code)]
// Clocks and threads are this crate's work; determinism as the engine needs it is not.
#![allow(clippy::disallowed_methods)]

pub mod answer;
pub mod compare;
mod html;
pub mod pace;
pub mod read;
pub mod report;
pub mod run;
pub mod statement;
