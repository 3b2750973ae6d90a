//! `frond bench`: the engine, three of its parts, and the device below it, measured on this machine.
//!
//! Absolute figures depend on the machine; what they are good for is in docs/benchmarks.md.

mod checked;
pub mod device;
pub mod iibench;
mod inserters;
pub mod micro;
mod process;
pub mod purchases;
mod queries;
