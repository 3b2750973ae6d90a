//! `frond bench`: the engine and three of its parts, measured on this machine.
//!
//! Absolute figures depend on the machine; docs/benchmarks.md says how to use them.

mod checked;
pub mod iibench;
mod inserters;
pub mod micro;
mod process;
pub mod purchases;
mod queries;
