//! The options of inputs that come from a running server.

use std::time::Duration;

use clap::Args;

use crate::connection::ConnectionArgs;

/// The source on a running server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    SlowLogTable,
    Digests,
    Processlist,
}

/// See the module's text. Instead of files.
#[derive(Args)]
#[command(next_help_heading = "A running server", mut_group("ConnectionArgs", |group| group.requires("live")))]
pub struct ServerArgs {
    /// Read the table mysql.slow_log (log_output=TABLE) of a running server
    #[arg(long, group = "live", conflicts_with_all = ["files", "follow", "diff", "diff_at"])]
    pub slow_log_table: bool,

    /// Read the digests of performance_schema: totals since the server started, or with --run-time those of a period
    #[arg(long, group = "live", conflicts_with_all = ["files", "follow", "diff", "diff_at", "filter", "since", "until", "patterns"])]
    pub digests: bool,

    /// Watch the processlist until --run-time or Ctrl-C; times are lower bounds, short statements are missed
    #[arg(long, group = "live", conflicts_with_all = ["files", "follow", "diff", "diff_at"])]
    pub processlist: bool,

    #[command(flatten)]
    pub connection: ConnectionArgs,

    /// How long to watch; Ctrl-C ends it earlier, with the report
    #[arg(long, value_name = "SECONDS", requires = "live", value_parser = seconds, conflicts_with = "slow_log_table")]
    pub run_time: Option<Duration>,

    /// How often the processlist is read
    #[arg(long, value_name = "SECONDS", requires = "processlist", default_value = "0.1", value_parser = seconds)]
    pub every: Duration,
}

impl ServerArgs {
    /// The source that was chosen; `None`: files.
    pub fn source(&self) -> Option<Source> {
        match (self.slow_log_table, self.digests, self.processlist) {
            (true, ..) => Some(Source::SlowLogTable),
            (_, true, _) => Some(Source::Digests),
            (_, _, true) => Some(Source::Processlist),
            _ => None,
        }
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let value: f64 = text.parse().map_err(|_| format!("'{text}' is no number of seconds"))?;
    if !(0.001..=1e7).contains(&value) {
        return Err("between 0.001 and 10000000 seconds".into());
    }
    Ok(Duration::from_secs_f64(value))
}
