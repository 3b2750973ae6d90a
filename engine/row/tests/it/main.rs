//! Behaviour of the row codec as its users see it.
//!
//! `support` has a second, independent description of rows and their order; the tests compare the
//! codec with it over random schemas and rows.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used)]

mod cases;
mod history;
mod hostile;
mod random;
mod support;
mod text;
