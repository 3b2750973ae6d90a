//! What is wrong with a server and its machine, by rules.
//!
//! | module | noun |
//! |---|---|
//! | `snapshot` | named values of one moment; two of them and the rates between |
//! | `system` | the values that `/proc` and `/sys` have |
//! | `expression` | a small language of numbers, names and comparisons |
//! | `rules` | the rules, from `rules.toml`, and what they find |
//! | `ring` | a file of bounded size with the last samples |
//! | `report` | the document and its text |
//! | `html` | the same as a page, with what samples had over time |
//!
//! There is no connection here: a caller hands over a server's variables and counters as values.
//!
//! Invariants:
//!
//! - DOC1. A rule that lacks a value finds nothing and is named among those that could not be asked: no value is guessed.
//! - DOC2. Nothing is changed, neither in the machine nor in the server.
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
