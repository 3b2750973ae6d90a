//! The engine through its public face.
#![allow(clippy::unwrap_used)]

mod concurrency;
mod durability;
mod isolation;
mod support;
mod tables;
