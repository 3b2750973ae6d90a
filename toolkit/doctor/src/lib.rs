//! Finds problems of a server and its machine by rules.
//!
//! | module | noun |
//! |---|---|
//! | `snapshot` | named values of one moment; two of them and the rates between |
//! | `system` | the values from `/proc` and `/sys` |
//! | `expression` | a small language of numbers, names and comparisons |
//! | `rules` | the rules, from `rules.toml`, and their findings |
//! | `ring` | a file of bounded size with the last samples |
//! | `report` | the document and its text |
//! | `html` | the same as a page, with the samples' values over time |
//!
//! This crate has no connection: its caller passes in a server's variables and counters as values.
//!
//! Invariants:
//!
//! - DOC1. A rule that lacks a value finds nothing, and it is named among the rules that could not be evaluated: no value
//!   is guessed.
//! - DOC2. Nothing is changed, neither on the machine nor in the server.
//!
//! Tested in `tests/it/`.
#![forbid(unsafe_code)]

pub mod expression;
pub mod html;
pub mod report;
pub mod ring;
pub mod rules;
pub mod snapshot;
pub mod system;
