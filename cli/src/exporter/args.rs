//! The command line of `frond exporter`.

use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;

use crate::server_args::{seconds, ServerOptions};

/// Give a server's counters to Prometheus
///
/// Answers http://127.0.0.1:9360/metrics with the counters of a running MariaDB server and of Frond in it, as Prometheus text
/// or, on request, as OpenMetrics. One connection to the server stays open. A scrape runs one SHOW GLOBAL STATUS and one short
/// query on variables, at most once a second however many scrapes come. No series has a label whose values come from data.
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
    /// Where to listen. There is no encryption and no password: think before you use an address that others reach
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9360")]
    pub listen: SocketAddr,

    /// Print the metrics once instead of listening
    #[arg(long, conflicts_with_all = ["listen", "run_time"])]
    pub once: bool,

    /// OpenMetrics, unless the client asks for another format
    #[arg(long)]
    pub openmetrics: bool,

    /// End after this time
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub run_time: Option<Duration>,

    #[command(flatten)]
    pub server: ServerOptions,
}
