//! `frond bench`: measures the engine, three of its parts, and the device below it on this machine.
//!
//! Absolute figures depend on the machine; docs/benchmarks.md says how to use them.

mod checked;
pub mod device;
pub mod iibench;
mod inserters;
pub mod micro;
mod process;
pub mod purchases;
mod queries;
