//! The command line of `frond locks`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueHint};
use frond_locks::report::LISTS;

use crate::server_args::{seconds, ServerOptions};

/// Show who waits for whom, long transactions and deadlocks
///
/// Reads monitor output of InnoDB: error logs (innodb_status_output, innodb_status_output_locks,
/// innodb_print_all_deadlocks), saved output of SHOW ENGINE INNODB STATUS, any mixture, plain, gzip or zstd; - is
/// standard input. MariaDB from 10.4, MySQL from 5.0. With --live a running server's tables are asked instead:
/// INNODB_TRX, INNODB_LOCKS and INNODB_LOCK_WAITS, and those of Frond.
///
/// The text does not name blockers: they follow from the printed locks. If not all locks are printed, no
/// blocker is guessed. Statements are shown without literals; keys of records are shown (--no-keys).
///
/// Exit status: 0 nobody waited and there was no deadlock, 1 somebody did or there was, 2 could not be done.
#[derive(Args)]
#[command(after_long_help = "Examples:\n  \
    frond locks /var/log/mysql/error.log\n  \
    mariadb -e 'SHOW ENGINE INNODB STATUS\\G' | frond locks -\n  \
    frond locks --live\n  \
    frond locks --html error.log > locks.html\n  \
    frond locks --live --run-time 60 --follow\n  \
    frond locks error.log*.gz --csv transactions --fields user,open_seconds,row_locks\n  \
    frond locks error.log --json | jq '.deadlock_groups[].hint'")]
pub struct LocksArgs {
    /// Error logs and saved monitor output
    #[arg(value_hint = ValueHint::FilePath, required_unless_present = "live", conflicts_with = "live")]
    pub files: Vec<PathBuf>,

    /// Ask a running server
    #[arg(long)]
    pub live: bool,

    /// Keep reading: show each dump with waits and each deadlock as it comes
    #[arg(long)]
    pub follow: bool,

    /// How long to follow, or to ask a server again and again; Ctrl-C ends it earlier, with the report
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub run_time: Option<Duration>,

    /// Time between two queries of a server
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    pub every: Duration,

    /// Rows of each list: the longest waits, the largest counts
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=2000))]
    pub limit: u32,

    /// Do not show values of keys
    #[arg(long)]
    pub no_keys: bool,

    /// The result as one JSON object (docs/locks.md describes it); with --follow one for each time
    #[arg(long)]
    pub json: bool,

    /// The result as one HTML file that works offline
    #[arg(long, conflicts_with_all = ["json", "csv", "follow"])]
    pub html: bool,

    /// One list of the result as CSV
    #[arg(long, value_name = "LIST", value_parser = LISTS.map(|(name, _)| name), conflicts_with_all = ["json", "follow"])]
    pub csv: Option<String>,

    /// Columns of the CSV, by their names in --json (wants.table: a field in a field); default: all
    #[arg(long, value_name = "NAME,...", requires = "csv", value_delimiter = ',')]
    pub fields: Vec<String>,

    #[command(flatten)]
    pub server: ServerOptions,
}
