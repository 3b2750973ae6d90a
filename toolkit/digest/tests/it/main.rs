//! From inputs to reports: events chosen, counted and written, compared with the tools whose reports we imitate.
//!
//! | module | what |
//! |---|---|
//! | `filter` | the expression language: what it selects, what it refuses, what it never does |
//! | `captures` | reports of captured traffic |
//! | `pipeline` | damaged inputs through everything |
//! | `ptqd` | the same logs through pt-query-digest |
//! | `report` | what the renderers write, and the HTML page in a browser |
// Helpers of tests may fail loudly, read files and look at the clock.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

#[path = "../../../page/tests/it/browser.rs"]
mod browser;
mod captures;
#[path = "../../../sqltext/tests/it/client.rs"]
mod client;
#[path = "../../../sqltext/tests/it/clock.rs"]
mod clock;
mod filter;
#[path = "../../../sqltext/tests/it/fuzzing.rs"]
mod fuzzing;
#[path = "../../../querylog/tests/it/pieces.rs"]
#[allow(dead_code)] // It is shared.
mod pieces;
mod pipeline;
#[path = "../../../sqltext/tests/it/programs.rs"]
mod programs;
mod ptqd;
mod report;
#[path = "../../../capture/tests/it/traffic/mod.rs"]
mod traffic;
