//! The command line.

use std::path::PathBuf;

use clap::Parser;

/// Measures frond digest beside pt-query-digest on one generated slow log.
#[derive(Parser)]
pub struct Args {
    /// The frond program
    #[arg(long)]
    pub frond: PathBuf,
    /// Megabytes of the log
    #[arg(long, default_value_t = 1024)]
    pub size: u64,
    /// Query classes in the log
    #[arg(long, default_value_t = 5000)]
    pub classes: u64,
    /// Query classes in the log of many classes; none of it if 0
    #[arg(long, default_value_t = 39_000)]
    pub many: u64,
    /// Statements of each of these classes, about
    #[arg(long, default_value_t = 80)]
    pub many_events: u64,
    /// Megabytes that pt-query-digest reads; the whole log if it is not given, nothing if 0
    #[arg(long)]
    pub peer_size: Option<u64>,
    /// Seconds after which a command is stopped
    #[arg(long, default_value_t = 1800)]
    pub limit: u32,
    /// How often frond is measured; the best counts
    #[arg(long, default_value_t = 3)]
    pub rounds: u32,
    /// Times the rate of pt-query-digest that one thread must reach
    #[arg(long, default_value_t = 50.0)]
    pub min_ratio: f64,
    /// Times the rate of one thread that two must reach
    #[arg(long, default_value_t = 1.8)]
    pub min_threads: f64,
    /// Times the processor time of one thread that two may take
    #[arg(long, default_value_t = 1.08)]
    pub max_work: f64,
    /// Where the logs and the reports are put; the logs are kept for the next run
    #[arg(long)]
    pub out: PathBuf,
}
