//! Classes of statements in every dialect, compared with the tools that the dialects imitate.
// Helpers of tests may fail loudly, read files and look at the clock.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod checks;
#[allow(dead_code)] // It is shared.
mod client;
mod clock;
mod dialects;
mod examples;
mod experiments;
mod fuzzing;
mod hostile;
mod peers;
#[allow(dead_code)] // It is shared.
mod programs;
mod statements;
