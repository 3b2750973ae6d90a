//! Typed rows: `include/frond_rows.h`.

mod alter;
mod bind;
mod compute;
mod counters;
mod scan;
pub(crate) mod spec;
mod statistics;
mod write;
