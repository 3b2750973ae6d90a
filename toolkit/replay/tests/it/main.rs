//! Replays of a log on two simulated servers.
#![allow(clippy::unwrap_used)] // Helpers of tests count as tests.
#![allow(clippy::disallowed_methods)] // Files and sleep of a test.

mod replay;
