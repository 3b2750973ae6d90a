//! Behaviour of runs as other crates see it: round trips, hostile bytes, merges against a model.
#![allow(clippy::unwrap_used)]

mod data;
mod hostile;
mod long_keys;
mod merging;
mod page_sizes;
mod round_trip;
mod searching;
