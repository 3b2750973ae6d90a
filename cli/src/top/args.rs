//! The command line of `frond top`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueHint};

use crate::server_args::{seconds, ServerOptions};

/// Watch a server: throughput, waits, Frond's trees and memory, statements
///
/// One screen of at least 80 by 24 characters: the server's activity per second, Frond's memory and merge debt, who waits
/// for a lock (InnoDB and Frond), which trees grow, and which classes of statements take the time (performance_schema; without
/// it the running statements). Nothing is changed in the server. --record keeps the samples, and --replay shows them again.
///
/// Keys: q end, space pause, 1 everything, 2 waits, 3 trees, 4 statements; in a recording: left and right one sample,
/// page up and down one minute.
///
/// Exit status: 0 ended, 2 could not be done.
#[derive(Args)]
#[command(mut_group("ServerOptions", |group| group.conflicts_with("replay")))]
#[command(after_long_help = "Examples:\n  \
    frond top\n  \
    frond top --every 5 --record tonight.top\n  \
    frond top --replay tonight.top\n  \
    frond top --once --replay tonight.top      the last screen as text\n\n\
    The account needs PROCESS, and SELECT ON performance_schema.* for statements.")]
pub struct TopArgs {
    /// Time between two samples
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = seconds)]
    pub every: Duration,

    /// Write the samples to this file; it must not exist
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "replay")]
    pub record: Option<PathBuf>,

    /// Show a recording instead of a server
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub replay: Option<PathBuf>,

    /// Print one screen as text, from two samples
    #[arg(long)]
    pub once: bool,

    /// End after this time
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub run_time: Option<Duration>,

    #[command(flatten)]
    pub server: ServerOptions,
}
