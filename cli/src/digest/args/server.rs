//! The options of inputs that come from a running server.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueHint};

/// What is asked of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    SlowLogTable,
    Digests,
    Processlist,
}

/// See the module's text. Instead of files.
#[derive(Args)]
#[command(next_help_heading = "A running server")]
pub struct ServerArgs {
    /// Read the table mysql.slow_log (log_output=TABLE) of a running server
    #[arg(long, group = "live", conflicts_with_all = ["files", "follow", "diff", "diff_at"])]
    pub slow_log_table: bool,

    /// Read the digests of performance_schema: totals since the server started, or with --run-time those of a period
    #[arg(long, group = "live", conflicts_with_all = ["files", "follow", "diff", "diff_at", "filter", "since", "until", "patterns"])]
    pub digests: bool,

    /// Watch the processlist until --run-time or Ctrl-C: times are lower bounds, short statements are missed
    #[arg(long, group = "live", conflicts_with_all = ["files", "follow", "diff", "diff_at"])]
    pub processlist: bool,

    /// The server's host (--port tells the port); without it, or localhost: through the socket
    #[arg(long, value_name = "HOST", requires = "live", value_hint = ValueHint::Hostname)]
    pub host: Option<String>,

    /// The server's socket
    #[arg(long, value_name = "PATH", requires = "live", value_hint = ValueHint::FilePath)]
    pub socket: Option<PathBuf>,

    /// Who asks; the password is that of MYSQL_PWD, --password-file or an option file
    #[arg(long, value_name = "USER", requires = "live", value_hint = ValueHint::Username)]
    pub user: Option<String>,

    /// The password is the first line of this file; - is standard input
    #[arg(long, value_name = "FILE", requires = "live", value_hint = ValueHint::FilePath)]
    pub password_file: Option<PathBuf>,

    /// Only this option file ([client], [client-mariadb], [frond]) instead of the usual ones
    #[arg(long, value_name = "FILE", requires = "live", value_hint = ValueHint::FilePath)]
    pub defaults_file: Option<PathBuf>,

    /// No option file
    #[arg(long, requires = "live", conflicts_with = "defaults_file")]
    pub no_defaults: bool,

    /// How long to watch; Ctrl-C ends it earlier, with the report
    #[arg(long, value_name = "SECONDS", requires = "live", value_parser = seconds, conflicts_with = "slow_log_table")]
    pub run_time: Option<Duration>,

    /// How often the processlist is read
    #[arg(long, value_name = "SECONDS", requires = "processlist", default_value = "0.1", value_parser = seconds)]
    pub every: Duration,
}

impl ServerArgs {
    /// What is asked for; `None`: files.
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
