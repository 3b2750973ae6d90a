//! Query logs and captured traffic of MariaDB and MySQL: parsers, query classes, statistics, reports.
//!
//! The library behind `frond digest`; it depends on nothing of the storage engine.
//!
//! # Map
//!
//! An input becomes `Event`s, events become classes with statistics, these become a document, and a renderer writes it:
//!
//! | module | noun |
//! |---|---|
//! | `event`, `metric` | `Event`: one statement as logged or as seen on the wire; its typed attributes; `Sink`, `Stream` |
//! | `input` | files: opening, unpacking, recognising, cutting into pieces for threads, following |
//! | `slowlog`, `genlog`, `rawlog` | parsers of text logs |
//! | `live` | a running server's own tables: rows to events or totals (the connection is the caller's) |
//! | `net` | captured traffic: packets, TCP streams, the MySQL protocol |
//! | `fingerprint` | the class of a statement: its text without literals, its id, kind and tables |
//! | `filter` | the expression language that chooses events |
//! | `digest` | all of it together: inputs on threads to classes; following a log |
//! | `stats` | histograms, per class and attribute; time series; frequent strings; merging |
//! | `report` | `model::Report`, the document; the renderers |
//!
//! # How parsers give out events
//!
//! They push: a parser is given bytes and a `Sink`, fills one `Event` again and again, and calls `Sink::event` for
//! each. A pull interface was rejected: an event that borrows from a buffer the parser owns cannot be an `Iterator`'s
//! item, and copying each event would cost more than parsing it. Captured traffic implements `event::Stream` (bytes in
//! order, cut anywhere); text logs are parsed piece by piece, each piece whole events, on several threads.
#![forbid(unsafe_code)]
// Reading files and clocks is this crate's work; determinism as the engine needs it is not.
#![allow(clippy::disallowed_methods)]

pub mod digest;
pub mod event;
pub mod filter;
pub mod fingerprint;
pub mod genlog;
pub mod input;
pub mod live;
pub mod metric;
mod nearest;
pub mod net;
pub mod rawlog;
pub mod report;
pub mod slowlog;
pub mod stats;
pub mod text;
