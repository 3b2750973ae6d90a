//! `frond bench device`: a device as a database uses it, and the settings that follow.
//!
//! ```text
//! error.rs    why there is no result            clock.rs    time, and the flag that stops the work
//! place.rs    what the system reports           latency.rs  distributions
//! buffer.rs   memory and random numbers         files.rs    the two files
//! work.rs     threads that read, write and sync  plan.rs     what is measured, for how long
//! report.rs   the result
//! advice/     settings of InnoDB, MyRocks and Frond with their arithmetic
//! ```
//!
//! Invariants:
//!
//! - DEV1. The files are gone when the measurement ends, however it ends, except by SIGKILL.
//! - DEV2. No more than the requested space is used, and a reserve of the file system stays free.
//! - DEV3. Only the cache of its own files is dropped, and no setting of the system is changed.
//! - DEV4. A percentile is given only if enough operations were measured for it.
//!
//! A queue of depth N is N threads with one `pread` or `pwrite` each: that is what a server's
//! threads do, and it is the same on every kernel. io_uring was rejected: many hosts forbid it, and
//! it would save processor time, not the device's time.
//!
//! It depends on no other crate of the workspace. `frond_vfs` was rejected: it hides what is
//! measured here, `fsync` against `fdatasync` and direct against cached I/O.
//!
//! Tested in the files, by `tests/fio.rs` against fio, and by `cli/tests/cli/device.rs`.
#![forbid(unsafe_code)]

pub mod advice;
mod buffer;
mod clock;
mod error;
mod files;
pub mod latency;
pub mod place;
pub mod plan;
pub mod report;
pub mod work;

pub use clock::Stop;
pub use error::{Error, Result};
pub use files::{Files, LOG_LEAST, PREFIX};
