//! Captured traffic: simulated clients and servers with known times, samples, a real server.
//!
//! `traffic` makes the packets of simulated connections and writes them as captures.

#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

mod commands;
mod compressed;
mod corpus;
mod formats;
mod fuzz;
#[path = "../../../sqltext/tests/it/fuzzing.rs"]
mod fuzzing;
mod latency;
mod links;
mod live;
mod losses;
mod many;
mod mixed;
mod private;
#[path = "../../../sqltext/tests/it/programs.rs"]
mod programs;
mod protocol;
mod speed;
mod torn;
mod traffic;
