//! Events, which every input of the toolkit yields.
//!
//! The lowest crate of the toolkit; it depends on none. Captured traffic (`frond-capture`) and logs
//! (`frond-querylog`) yield events, and `frond-digest` takes them, so the type belongs to none of
//! them.
//!
//! | module | noun |
//! |---|---|
//! | `event` | `Event`: one statement as logged or as seen on the wire; `Sink`, which takes them; `Stream` |
//! | `metric` | an event's typed attributes |
//! | `text` | numbers and stamps as servers write them, read from bytes |
//! | `numbers` | numbers and times for people |
//!
//! # How inputs yield events
//!
//! They push: a parser gets bytes and a `Sink`, fills one `Event` repeatedly, and calls `Sink::event` for each.
//! A pull interface was rejected: an event that borrows from a buffer the parser owns cannot be an `Iterator`'s
//! item, and copying each event would cost more than parsing it. Captured traffic implements `Stream` (bytes in
//! order, cut anywhere); text logs are parsed piece by piece, each piece whole events, on several threads.
#![forbid(unsafe_code)]

mod event;
mod metric;
pub mod numbers;
pub mod text;

pub use event::*;
pub use metric::{Flag, Flags, Metric, Metrics, Unit};
