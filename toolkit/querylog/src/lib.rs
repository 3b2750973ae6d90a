//! Query logs of MariaDB and MySQL: from files to events.
//!
//! Depends on `frond-event`, whose events the parsers yield, and on `frond-capture`, only to recognise a file
//! that is a capture. It does not know classes or statistics.
//!
//! | module | noun |
//! |---|---|
//! | `input` | files: opens, unpacks, recognises them, and cuts them into pieces for threads |
//! | `slowlog`, `genlog`, `rawlog` | parsers of text logs |
#![forbid(unsafe_code)]
// This crate reads files and clocks by design; it need not be deterministic as the engine is.
#![allow(clippy::disallowed_methods)]

pub mod genlog;
pub mod input;
pub mod rawlog;
pub mod slowlog;
