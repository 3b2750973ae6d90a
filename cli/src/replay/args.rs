//! The command line of `frond replay`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueHint};

use crate::connection::ConnectionArgs;
use crate::out::parse_count;
use crate::server_args::seconds;

/// Run a log's statements on two servers, and compare answers and times
///
/// Reads statements from slow logs, general logs, files of statements and captures of traffic (plain, gzip or zstd; - is
/// standard input), and runs each on two servers with the same data, for example one with InnoDB and one with Frond. Rows
/// (in any order unless ORDER BY says one), errors and warnings are compared, and times, with their significance.
///
/// Only statements that read are run, in read-only sessions; --writes runs the others as well: only on servers that
/// nobody else needs. A difference is reported if the statement determines its result and the servers still differ when
/// it is run again.
///
/// WHERE is a socket (/run/mysqld/mysqld.sock), HOST, HOST:PORT, or an option file (./b.cnf), each also as USER@WHERE.
///
/// Exit status: 0 no difference, 1 differences, 2 could not be done, or not to the end.
#[derive(Args)]
#[command(after_long_help = "Examples:\n  \
    frond replay slow.log --on /run/mysqld/mysqld.sock --against 10.0.0.7:3306\n  \
    frond replay slow.log.gz --on a.cnf --against b.cnf --threads 16 --json\n  \
    frond replay traffic.pcap --on prod-copy --against frond-copy --speed 2\n  \
    frond replay general.log --on ./a.cnf --against ./b.cnf --writes --run-time 600")]
pub struct ReplayArgs {
    /// Logs and captures, in this order
    #[arg(required = true, value_hint = ValueHint::FilePath)]
    pub files: Vec<PathBuf>,

    /// The server as it is
    #[arg(long, value_name = "WHERE")]
    pub on: String,

    /// The server that is compared with it
    #[arg(long, value_name = "WHERE")]
    pub against: String,

    /// Run statements that write, too: both servers' data change
    #[arg(long)]
    pub writes: bool,

    /// At the log's pace, N times as fast (default: as fast as possible)
    #[arg(long, value_name = "N", value_parser = speed)]
    pub speed: Option<f64>,

    /// Sessions that run at once (default: 1, with --speed 64). With --writes and more than 1, statements of different
    /// sessions may run in another order than in the log, and give different answers for that reason
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,

    /// Connections to each server; beyond, the session that was idle longest is closed
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub connections: u16,

    /// Stop after so many statements
    #[arg(long, value_name = "N", value_parser = parse_count)]
    pub limit: Option<u64>,

    /// Stop after this time; Ctrl-C stops earlier, with the report
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub run_time: Option<Duration>,

    /// Only statements of this database; may be given again
    #[arg(long, value_name = "DB")]
    pub database: Vec<String>,

    /// Differences that are shown, at most 3 of a class
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(0..=10_000))]
    pub shown: u32,

    /// The result as one JSON object (docs/replay.md describes it)
    #[arg(long)]
    pub json: bool,

    /// The result as one HTML file that works offline
    #[arg(long, conflicts_with = "json")]
    pub html: bool,

    /// The user, if WHERE names none
    #[arg(long, value_name = "USER", value_hint = ValueHint::Username)]
    pub user: Option<String>,

    /// The password for both is the first line of this file (else: MYSQL_PWD, or option files)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub password_file: Option<PathBuf>,

    /// No option file but those that WHERE names
    #[arg(long)]
    pub no_defaults: bool,
}

fn speed(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(speed) if (0.001..=1e6).contains(&speed) => Ok(speed),
        _ => Err(format!("'{text}' is no number between 0.001 and 1000000")),
    }
}

impl ReplayArgs {
    /// Options and port of a connection to `place`.
    pub fn way(&self, place: &str) -> Result<(ConnectionArgs, Option<u16>), String> {
        let mut way = ConnectionArgs {
            user: self.user.clone(),
            password_file: self.password_file.clone(),
            no_defaults: self.no_defaults,
            ..ConnectionArgs::default()
        };
        let place = match place.split_once('@') {
            Some((user, rest)) => {
                way.user = Some(user.to_owned());
                rest
            }
            None => place,
        };
        if place.is_empty() {
            return Err("no server is named: a socket, HOST, HOST:PORT or an option file".into());
        }
        if place.ends_with(".cnf") {
            way.defaults_file = Some(place.into());
            way.no_defaults = false;
            return Ok((way, None));
        }
        if place.contains('/') {
            way.socket = Some(place.into());
            return Ok((way, None));
        }
        let (host, port) = match place.rsplit_once(':') {
            // Without brackets, several colons belong to an IPv6 address.
            Some((host, port)) if !host.contains(':') || host.ends_with(']') => {
                let port = port.parse().map_err(|_| format!("'{port}' in '{place}' is no port"))?;
                (host, Some(port))
            }
            _ => (place, None),
        };
        way.host = Some(host.trim_matches(['[', ']']).to_owned());
        Ok((way, port))
    }
}
