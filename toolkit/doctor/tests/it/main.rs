//! Problems that the tests create, and the findings of the rules.
#![allow(clippy::unwrap_used)] // Helpers of tests count as tests.
#![allow(clippy::disallowed_methods)] // No file here is a database's.

mod checks;
mod machine;
mod ring;
mod rules;
