//! Benchmarks of single parts of the engine, without files. `frond bench codec`, `allocator` and `buffer` run
//! some of them; `cargo run --release -p frond-micro --example NAME` runs the others, which are for developers.
//!
//! None of them reads a clock; the caller passes one.
#![forbid(unsafe_code)]

pub mod allocator;
pub mod buffer;
pub mod codec;
mod linear;
pub mod locks;
mod memory;
mod numbers;
