//! `frond top`: shows a server's activity, second by second, in a terminal of 80 by 24 characters.
//!
//! | module | noun |
//! |---|---|
//! | `sample` | the data of a server at one moment |
//! | `recording` | samples in a file, and back |
//! | `view` | two samples: rates, shares, and the rows worth showing |
//! | `draw` | a view on a terminal, or as text |
//!
//! This crate queries no server and owns no terminal: its caller does both (`cli/src/top`).
//!
//! Tested in `tests/it` from a recording, and in a terminal in `tests/sql/top.py`.
#![forbid(unsafe_code)]

pub mod draw;
pub mod recording;
pub mod sample;
pub mod view;
