//! The command line of `frond doctor`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueHint};

use crate::out::parse_bytes;
use crate::server_args::{seconds, ServerOptions};

/// Say what is wrong with a server and its machine, and what to set
///
/// Takes two samples of the machine (/proc, /sys: queues of listeners, memory, swap, clock, disk) and of the server
/// (variables, counters, replication), and evaluates the rules. Each finding says what is seen, what that means with its
/// arithmetic, what to set, and how to check. Nothing is changed. It runs as any user and names what it could not read.
///
/// With --watch it writes a sample each second into a file of bounded size, until it is stopped; --replay evaluates the
/// rules for any moment of such a file.
///
/// Exit status: 0 nothing found, 1 something found, 2 could not be done.
#[derive(Args)]
#[command(after_long_help = "Examples:\n  \
    frond doctor\n  \
    frond doctor --seconds 60 --json | jq '.findings[].set'\n  \
    frond doctor --watch /var/log/frond-doctor.ring --size 256M\n  \
    frond doctor --replay /var/log/frond-doctor.ring --at '2026-11-23 03:14:00'")]
pub struct DoctorArgs {
    /// Time between the two samples; with --replay: before the examined moment
    #[arg(long, value_name = "N", default_value = "10", value_parser = seconds)]
    pub seconds: Duration,

    /// The machine only
    #[arg(long)]
    pub no_server: bool,

    /// Write a sample each second into FILE until Ctrl-C
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with_all = ["replay", "json", "html"])]
    pub watch: Option<PathBuf>,

    /// The most bytes of FILE
    #[arg(long, value_name = "BYTES", default_value = "64M", requires = "watch", value_parser = parse_bytes)]
    pub size: u64,

    /// How long to watch
    #[arg(long, value_name = "SECONDS", requires = "watch", value_parser = seconds)]
    pub run_time: Option<Duration>,

    /// Use the samples in FILE instead of a server
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub replay: Option<PathBuf>,

    /// The examined moment, UTC (default: the last sample)
    #[arg(long, value_name = "TIME", requires = "replay")]
    pub at: Option<String>,

    /// The result as one JSON object (docs/doctor.md describes it)
    #[arg(long)]
    pub json: bool,

    /// The result as one HTML file that works offline
    #[arg(long, conflicts_with = "json")]
    pub html: bool,

    #[command(flatten)]
    pub server: ServerOptions,
}
