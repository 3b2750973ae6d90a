//! `frond backup`: a running server is copied, and what was copied is verified and restored (docs/backup.md; the decisions are in
//! docs/rfcs/0011-backup.md).
//!
//! ```text
//! args.rs     options                       manifest.rs  what a backup consists of
//! make.rs     full, incremental             server.rs    the session with the pin, stages, the server's own files
//! chain.rs    a backup put together with those that it is based on
//! verify.rs restore.rs list.rs              copy.rs      bytes, checksums, rate, progress
//! ```
//!
//! Tested by `tests/sql/backup.py`, with servers.

pub mod args;
mod chain;
mod copy;
mod list;
mod make;
pub mod manifest;
mod restore;
mod server;
mod verify;

use std::io::Write;

use crate::out::Outcome;
pub use args::BackupCommand;

/// True if nothing is wrong.
pub fn run(command: &BackupCommand, out: &mut dyn Write) -> Outcome<bool> {
    match command {
        BackupCommand::Full(args) => make::run(&args.dir, None, &args.how, out).map(|()| true),
        BackupCommand::Incremental(args) => {
            make::run(&args.dir, Some(&args.base), &args.how, out).map(|()| true)
        }
        BackupCommand::List(args) => list::run(args, out),
        BackupCommand::Verify(args) => verify::run(args, out),
        BackupCommand::Restore(args) => restore::run(args, out).map(|()| true),
        BackupCommand::Keep(args) => list::keep(args, out).map(|()| true),
    }
}
