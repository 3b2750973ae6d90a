//! `frond top`: what a server does, second by second, in a terminal of 80 by 24 characters.
//!
//! | module | noun |
//! |---|---|
//! | `sample` | what is known of a server at one moment |
//! | `recording` | samples in a file, and back |
//! | `view` | two samples: rates, shares, what is worth a line |
//! | `draw` | a view on a terminal, or as text |
//!
//! It asks no server and owns no terminal: its caller does (`cli/src/top`).
//!
//! Tested in `tests/it` from a recording, and in a terminal in `tests/sql/top.py`.
#![forbid(unsafe_code)]

pub mod draw;
pub mod recording;
pub mod sample;
pub mod view;
