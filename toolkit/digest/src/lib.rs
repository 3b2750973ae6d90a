//! Digests of query logs and captured traffic: query classes, statistics, reports.
//!
//! The library behind `frond digest`, and the highest crate of the toolkit: `frond-querylog` and `frond-capture` give
//! it events, and `frond-sqltext` classifies them. No crate of the toolkit depends on the storage engine.
//!
//! | module | noun |
//! |---|---|
//! | `run` | the whole pipeline: reads inputs on threads and counts classes; follows a log |
//! | `filter` | the expression language that chooses events |
//! | `live` | a running server's own tables: rows to events or totals (the connection is the caller's) |
//! | `stats` | histograms, per class and attribute; time series; frequent strings; merging |
//! | `report` | `model::Report`, the document; the renderers |
#![forbid(unsafe_code)]
// This crate reads files and clocks by design; it need not be deterministic as the engine is.
#![allow(clippy::disallowed_methods)]

pub mod filter;
pub mod live;
mod nearest;
pub mod report;
pub mod run;
pub mod stats;
