//! Properties that hold for any bytes: one check for each on-disk format of the engine, for packed backups, for the C API, and
//! for each input of the tools.
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
//! `make soak`) and measures HB2 and HB3; the targets in `fuzz_targets` are for people with a nightly compiler and cargo-fuzz:
//!
//! ```sh
//! cargo run -p frond-fuzz --bin corpus                     # seeds of the engine's targets
//! cargo +nightly fuzz run --features libfuzzer run_page
//! cargo +nightly fuzz run --features libfuzzer slow_log -- -max_len=65536
//! ```
//!
//! The checks of the tools' inputs are the files `checks.rs` in the tests of the toolkit's crates, whose own tests drive them: a finding
//! becomes a case there.
//!
//! `mutate.rs` changes bytes; `targets/` has the engine's checks, `targets/mod.rs` their list and what they share.

pub mod mutate;
mod targets;

#[path = "../../toolkit/capture/tests/it/checks.rs"]
pub mod captures;
#[path = "../../toolkit/digest/tests/it/filter/checks.rs"]
pub mod expressions;
#[path = "../../toolkit/locks/tests/it/checks.rs"]
pub mod locks;
#[path = "../../toolkit/querylog/tests/it/checks.rs"]
pub mod logs;
#[path = "../../toolkit/doctor/tests/it/checks.rs"]
pub mod samples;
#[path = "../../toolkit/sqltext/tests/it/checks.rs"]
pub mod statements;

pub use targets::{find, Target, TARGETS};

/// The engine's target of this name.
pub fn engine(name: &str, bytes: &[u8]) {
    let target = find(name).unwrap_or_else(|| panic!("no target {name}"));
    (target.check)(bytes);
}
