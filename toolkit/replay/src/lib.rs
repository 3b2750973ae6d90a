//! Runs a log's statements on two servers and compares the answers and the times.
//!
//! This crate knows statements, answers and their comparison; its caller has the connections (`run::Target`).
//!
//! | module | noun |
//! |---|---|
//! | `read` | the statements of slow logs, general logs, raw statements and captures, in their order |
//! | `statement` | which statements may be run, and how far SQL determines their results |
//! | `answer` | a server's answer: hashes of rows, a bounded part of them, warnings, error |
//! | `compare` | compares two answers: same, different, or not determined by the statement |
//! | `pace` | times of pairs, by class, with the significance of their ratio |
//! | `run` | sessions on threads, in the log's order or at its pace |
//! | `report` | the document, as text and JSON; `html` draws it |
//!
//! Invariants:
//!
//! - RP1. Unless writing was requested, no statement is sent that may write. Sessions are read-only besides, so that the
//!   server refuses statements that were overlooked.
//! - RP2. The statements of a session run in the order of the log, each on both servers before the next one.
//! - RP3. A difference is reported only where the statement determines its result: a difference of order only if ORDER BY
//!   determines it, different rows of a LIMIT only if the same statement without LIMIT has different rows.
//! - RP4. Memory is bounded: a queue of statements, bounded parts of answers, a bounded number of classes and samples.
//!
//! Tested in `tests/it` with servers of the test's own making, and in `cli/tests/cli/replay.rs` with MariaDB.
#![forbid(unsafe_code)]
// This crate uses clocks and threads by design; it need not be deterministic as the engine is.
#![allow(clippy::disallowed_methods)]

pub mod answer;
pub mod compare;
mod html;
pub mod pace;
pub mod read;
pub mod report;
pub mod run;
pub mod statement;
