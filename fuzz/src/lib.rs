//! Fuzz targets, for people with a nightly compiler and cargo-fuzz:
//!
//! ```sh
//! cargo +nightly run --manifest-path fuzz/Cargo.toml --bin corpus     # seeds of the engine's targets
//! cargo +nightly fuzz run run_page
//! cargo +nightly fuzz run slow_log -- -max_len=65536
//! ```
//!
//! The targets run the same checks as the tests, so that a finding becomes a case there: `hostile/` has the checks of
//! the engine's formats, of packed backups and of the C API; the files `checks.rs` in the tests of the toolkit's crates
//! have the others. CI runs those tests, and only compiles this package.
#![forbid(unsafe_code)]

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

/// The engine's target of this name.
pub fn engine(name: &str, bytes: &[u8]) {
    frond_hostile::find(name).map(|target| (target.check)(bytes));
}
