//! The engine through its public face.

mod concurrency;
mod durability;
mod isolation;
mod support;
mod tables;
