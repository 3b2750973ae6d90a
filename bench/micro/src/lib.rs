//! Benchmarks of single parts of the engine, without files: `frond bench codec`, `allocator`, `buffer` run them,
//! and `cargo run --release -p frond-micro --example NAME` what nobody but its author needs.
//!
//! None reads a clock; the caller brings one.
#![forbid(unsafe_code)]

pub mod allocator;
pub mod buffer;
pub mod codec;
mod linear;
pub mod locks;
mod memory;
mod numbers;
