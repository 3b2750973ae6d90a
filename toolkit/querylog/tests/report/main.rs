//! What the renderers write, and the HTML page in a browser.
// Helpers of tests may fail loudly and read files.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod browser;
mod changes;
mod data;
mod formats;
mod loads;
#[path = "../programs/mod.rs"]
#[allow(dead_code)] // It is shared.
mod programs;
mod truth;
