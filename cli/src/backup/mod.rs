//! `frond backup`: copies a running server, and verifies and restores the copies (docs/backup.md; the decisions are in
//! docs/rfcs/0011-backup.md).
//!
//! ```text
//! args.rs     options                       manifest.rs  what a backup consists of
//! make.rs     full, incremental             server.rs    the session with the pin, mariadb-backup
//! into.rs     where a new backup's files go  stages.rs    the server's own files, where no other engine has data
//! log.rs      the log's segments, and which of their bytes are new
//! chain.rs    a backup put together with those that it is based on
//! prepare.rs  a full backup from a chain    private.rs   a server on restored files, and clients of it
//! extract.rs  one table into a server       import.rs    the table as files; names.rs  names in SQL and of files
//!                                           replay.rs    binary logs, up to a moment; torn.rs  XA transactions that a crash tore off
//! against.rs  comparison with a running server  clients.rs   options of stock clients
//! verify.rs restore.rs list.rs              copy.rs      bytes, checksums; parallel.rs  by threads
//! meter.rs   rate, pauses, progress        pace.rs      how long to pause, so that a busy server keeps most of its work
//! store.rs   a directory or a pack          pack/        one file or stream with all of a backup
//! read_only.rs  files of a backup in the form in which the engine reads them
//! receive.rs a stream into a directory      key.rs       keys of encrypted packs
//! ```
//!
//! Tested by `tests/sql/backup.py`, with servers.

mod against;
pub mod args;
mod chain;
mod clients;
mod copy;
mod extract;
mod import;
mod into;
mod key;
mod list;
mod log;
mod make;
pub mod manifest;
mod meter;
mod names;
mod pace;
pub mod pack;
mod parallel;
mod prepare;
pub mod private;
mod read_only;
mod receive;
mod replay;
mod restore;
mod server;
mod stages;
mod store;
mod torn;
mod verify;

use std::io::Write;

use crate::out::Outcome;
pub use args::BackupCommand;

/// True if nothing is wrong.
pub fn run(command: &BackupCommand, out: &mut dyn Write) -> Outcome<bool> {
    match command {
        BackupCommand::Full(args) => {
            make::run(args.dir.as_deref(), None, false, &args.how, out).map(|()| true)
        }
        BackupCommand::Incremental(args) => {
            let base = Some(args.base.as_path());
            make::run(args.dir.as_deref(), base, args.allow_unencrypted, &args.how, out)
                .map(|()| true)
        }
        BackupCommand::List(args) => list::run(args, out),
        BackupCommand::Verify(args) => verify::run(args, out),
        BackupCommand::Restore(args) => restore::run(args, out).map(|()| true),
        BackupCommand::Prepare(args) => prepare::run(args, out).map(|()| true),
        BackupCommand::Extract(args) => extract::run(args, out).map(|()| true),
        BackupCommand::Keep(args) => list::keep(args, out).map(|()| true),
        BackupCommand::Receive(args) => receive::run(args, out).map(|()| true),
        BackupCommand::Key(args) => key::run(args, out).map(|()| true),
    }
}
