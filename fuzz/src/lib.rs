//! Fuzz targets for `frond digest`, for people with a nightly compiler and cargo-fuzz:
//!
//! ```sh
//! cargo +nightly fuzz run slow_log -- -max_len=65536
//! ```
//!
//! What they check is what the tests of the toolkit's crates check, in their files `checks.rs`; a finding becomes a
//! case there. CI runs those tests, and only compiles this package.
#![forbid(unsafe_code)]

#[path = "../../toolkit/capture/tests/it/checks.rs"]
pub mod captures;
#[path = "../../toolkit/digest/tests/it/filter/checks.rs"]
pub mod expressions;
#[path = "../../toolkit/querylog/tests/it/checks.rs"]
pub mod logs;
#[path = "../../toolkit/sqltext/tests/it/checks.rs"]
pub mod statements;
