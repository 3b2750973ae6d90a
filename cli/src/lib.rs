//! `frond`: the tool for a database directory without a server.
//!
//! ```text
//! args.rs    what the command line means            main.rs    dispatch, exit status
//! open.rs    directory -> engine, errors that help   out.rs     tables, JSON, units
//! check/     verification of everything stored       stat.rs    figures
//! dump.rs    typed rows as text                      log.rs     the records of the log
//! digest/    query logs and traffic of any MariaDB or MySQL server, through `frond_digest`
//! indexes/   indexes that repeat others, from dumps and servers, through `frond_indexes`
//! locks/     who waits for whom, from logs and servers, through `frond_locks`
//! replay/    a log's statements on two servers, compared, through `frond_replay`
//! exporter/  counters of a running server for Prometheus
//! top/       a server in a terminal, second by second, through `frond_top`
//! doctor/    what is wrong with a server and its machine, through `frond_doctor`
//! backup/    copies of a running server
//! manual.rs  man pages and shell completions
//! connection.rs  where a running server is, and who asks
//! server_args.rs  connection.rs plus a port, for commands that connect to one server
//! bench/     iibench on the embedded engine; codec, allocator and buffer alone; the device
//! ```
//!
//! Invariants:
//!
//! - CLI1. `check`, `stat`, `dump` and `log` change nothing in the directory (but for the lock file
//!   that keeps a server out while they read): recovery runs in memory.
//! - CLI2. Results go to standard output, progress and errors to standard error.
//! - CLI3. Exit status: 0 done, nothing wrong; 1 done, and problems were found (or a threshold was
//!   missed); 2 could not be done.
//! - CLI4. No bytes in a directory make the tool panic, or run for longer than their size explains.
//!
//! A library only so that tests can run the commands in memory, without processes.
//!
//! Tested by `tests/cli`.
#![forbid(unsafe_code)]

pub mod args;
pub mod backup;
pub mod bench;
pub mod check;
pub mod connection;
pub mod digest;
pub mod doctor;
pub mod dump;
pub mod exporter;
pub mod indexes;
pub mod locks;
pub mod log;
pub mod manual;
pub mod open;
pub mod out;
pub mod replay;
pub mod server_args;
pub mod stat;
pub mod top;
