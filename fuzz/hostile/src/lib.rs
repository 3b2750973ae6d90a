//! Properties that hold for any bytes: one check for each on-disk format of the engine, for packed backups, and for the
//! C API.
//!
//! A [`Target`] has a check, which takes any bytes and panics when the code that reads them misbehaves,
//! and seeds: sound inputs, made by the real encoders each time, so that no binary file is kept and none
//! can be out of date. Checksums are no obstacle: where a format has one, the check makes it right first
//! (*seals* the input), because an attacker can compute hashes.
//!
//! - HB1. A check never panics, whatever the input: the input is used, or refused with an error of
//!   a kind that foreign bytes may cause.
//! - HB2. A check allocates at most [`Target::per_byte`] bytes per byte of input, and [`Target::base`].
//! - HB3. A check ends soon: it bounds what it walks, and the code under test bounds the rest.
//!
//! The checks have two drivers: `tests/it` mutates seeds for some seconds (`make test`, with more seconds
//! `make soak`) and measures HB2 and HB3; the targets in `fuzz/fuzz_targets` are for libFuzzer, which needs a
//! nightly compiler. The checks of `frond digest`'s inputs are beside the tests of the toolkit's crates
//! (`checks.rs`).
//!
//! `mutate.rs` changes bytes; `targets/` has the checks, `targets/mod.rs` the list and what they share.

pub mod mutate;
mod targets;

pub use targets::{find, Target, TARGETS};
