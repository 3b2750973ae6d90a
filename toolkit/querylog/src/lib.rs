//! Query logs of MariaDB and MySQL: from files to events.
//!
//! Depends on `frond-event`, whose events the parsers yield, and on `frond-capture` only to recognise a file that
//! is a capture. It knows nothing of classes or statistics.
//!
//! | module | noun |
//! |---|---|
//! | `input` | files: opening, unpacking, recognising, cutting into pieces for threads |
//! | `slowlog`, `genlog`, `rawlog` | parsers of text logs |
#![forbid(unsafe_code)]
// Reading files and clocks is this crate's work; determinism as the engine needs it is not.
#![allow(clippy::disallowed_methods)]

pub mod genlog;
pub mod input;
pub mod rawlog;
pub mod slowlog;
