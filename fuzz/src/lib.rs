//! Fuzz targets for `frond digest`, for people with a nightly compiler and cargo-fuzz:
//!
//! ```sh
//! cargo +nightly fuzz run slow_log -- -max_len=65536
//! ```
//!
//! What they check is what the tests check, `toolkit/querylog/tests/hostile/checks.rs`; a finding
//! becomes a case there. CI runs those tests, and only compiles this package.
#![forbid(unsafe_code)]

#[path = "../../toolkit/querylog/tests/hostile/checks.rs"]
pub mod checks;
