//! What every input of the toolkit yields: events.
//!
//! The lowest crate of the toolkit; it depends on none. Captured traffic (`frond-capture`) and logs (`frond-querylog`)
//! give out events, and `frond-digest` takes them, so what an event is belongs to neither of them.
//!
//! | module | noun |
//! |---|---|
//! | `event` | `Event`: one statement as logged or as seen on the wire; `Sink`, which takes them; `Stream` |
//! | `metric` | an event's typed attributes |
//! | `text` | numbers and stamps as servers write them, read from bytes |
//! | `numbers` | numbers and times as people read them |
//!
//! # How inputs give out events
//!
//! They push: a parser is given bytes and a `Sink`, fills one `Event` again and again, and calls `Sink::event` for
//! each. A pull interface was rejected: an event that borrows from a buffer the parser owns cannot be an `Iterator`'s
//! item, and copying each event would cost more than parsing it. Captured traffic implements `Stream` (bytes in
//! order, cut anywhere); text logs are parsed piece by piece, each piece whole events, on several threads.
#![forbid(unsafe_code)]

mod event;
mod metric;
pub mod numbers;
pub mod text;

pub use event::*;
pub use metric::{Flag, Flags, Metric, Metrics, Unit};
