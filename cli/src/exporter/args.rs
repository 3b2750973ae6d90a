//! The command line of `frond exporter`.

use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;

use crate::server_args::{seconds, ServerOptions};

/// Give a server's counters to Prometheus
///
/// Answers http://127.0.0.1:9360/metrics with the counters of a running MariaDB server and of Frond in it, as Prometheus text
/// or, when asked for, as OpenMetrics. One connection to the server is kept; one SHOW GLOBAL STATUS and one short query on
/// variables are asked at a scrape, at most once a second however many ask. No series has a label whose values come from data.
/// ops/ has alert rules and a dashboard for Grafana.
///
/// The account needs no privilege: CREATE USER frond@localhost IDENTIFIED BY '...'.
///
/// Exit status: 0 ended by a signal, or --once and the server answered; 2 could not listen, or --once and it did not.
#[derive(Args)]
#[command(after_long_help = "Examples:\n  \
    frond exporter --socket /run/mysqld/mysqld.sock --user frond\n  \
    frond exporter --listen 10.0.0.7:9360      whoever reaches this address can read the counters\n  \
    frond exporter --once > /var/lib/node_exporter/frond.prom")]
pub struct ExporterArgs {
    /// Where scrapes come in. Not encrypted and without a password: an address that others reach is a decision
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9360")]
    pub listen: SocketAddr,

    /// Print the metrics once instead of listening
    #[arg(long, conflicts_with_all = ["listen", "run_time"])]
    pub once: bool,

    /// OpenMetrics, where the client does not say what it wants
    #[arg(long)]
    pub openmetrics: bool,

    /// End after this time
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub run_time: Option<Duration>,

    #[command(flatten)]
    pub server: ServerOptions,
}
