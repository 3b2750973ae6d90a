//! Behaviour of the row codec as its users see it.
//!
//! `support` has a second, independent description of what a row is and how it compares; the tests
//! hold the codec against it over random schemas and rows.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used)]

mod cases;
mod history;
mod hostile;
mod random;
mod support;
mod text;
