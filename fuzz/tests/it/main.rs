//! Every target with its own seeds and mutations of them: HB1 to HB3.
//!
//! `FROND_FUZZ_SECONDS` is how much of a processor each target gets (default 2); `FROND_FUZZ_SEED` repeats a run.
//! Without it the day decides, so that runs add up. A failure prints the input in hexadecimal: make it a test of
//! the crate that reads these bytes.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)] // Reads /proc: no file of a database.

// What the targets of cargo-fuzz name is in this crate.
extern crate self as libfuzzer_sys;

mod libfuzzer;
mod random;

use std::alloc::System;

use stats_alloc::{StatsAlloc, INSTRUMENTED_SYSTEM};

#[global_allocator]
static MEMORY: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;
