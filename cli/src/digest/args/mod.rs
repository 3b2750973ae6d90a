//! The options of `frond digest`.

mod server;

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};
use frond_digest::run::MAX_CLASSES;
use frond_querylog::input::Format as LibraryFormat;
use frond_querylog::slowlog::Stamped;
use frond_sqltext::Dialect as LibraryDialect;

pub use server::{ServerArgs, Source};

/// Explain a slow server from its logs or its traffic
///
/// Reads slow logs, general logs, statements (one on each line) and captured traffic (pcap, pcapng,
/// tcpdump's text) of MariaDB, MySQL and Percona Server, plain or packed with gzip or zstd, several
/// files together in any order. The format of a file is recognised.
///
/// Statements that differ only in their literals are one class. The report shows which classes take
/// the server's time: first the profile, one line for each class, then a page for each, with its
/// numbers, who sends it, its slowest statement and, where it was logged, the plan. Start at rank 1.
///
/// Three recipes to copy (last night's slow log, a capture from a busy host, what changed since the
/// deploy): docs/digest.md.
///
/// Nothing is sent anywhere. No server is queried, except with --slow-log-table, --digests or --processlist: then the
/// input comes from a running server, and nothing is written to it.
#[derive(Args)]
#[command(after_long_help = "Examples:\n  \
    frond digest /var/log/mysql/slow.log\n  \
    frond digest --since 2h --order-by p95 /var/log/mysql/slow.log*\n  \
    frond digest --filter 'db == \"shop\" && full_scan' slow.log.1.gz\n  \
    frond digest --batch-user backup --batch-user 'report*' slow.log\n  \
    frond digest --group-by user --order-by rows slow.log\n  \
    tcpdump -i any -s 0 -B 65536 -w - port 3306 | frond digest -\n  \
    frond digest --diff monday.log tuesday.log\n  \
    frond digest --diff-at '2026-01-31 14:00' slow.log\n  \
    frond digest --processlist --run-time 60 --user monitor\n  \
    frond digest --html -o report.html slow.log\n  \
    frond digest --compat ptqd-3.2 slow.log        the report as pt-query-digest prints it\n\n\
    Exit status: 0 everything was read, 1 something could not be read (the report says what and \
    where; an encrypted connection is such a thing, packets that the capture lost are not), 2 \
    nothing could be read or an option is wrong.")]
pub struct DigestArgs {
    /// Logs or captures; - is standard input
    #[arg(value_hint = ValueHint::FilePath)]
    pub files: Vec<PathBuf>,

    /// The format of the files, if it is not recognised
    #[arg(long = "type", value_enum, value_name = "TYPE", help_heading = "Input")]
    pub format: Option<Format>,

    /// The server that wrote the slow log, if it is not recognised
    ///
    /// MariaDB stamps when a statement began, MySQL when it ended.
    #[arg(long, value_enum, help_heading = "Input")]
    pub server: Option<Server>,

    /// Seconds east of UTC of the server's clock; slow logs usually tell
    #[arg(long, value_name = "SECONDS", allow_hyphen_values = true, help_heading = "Input")]
    pub zone: Option<i32>,

    /// The log holds one of N statements: log_slow_rate_limit=N
    ///
    /// Percona Server writes the limit into the log, MariaDB does not. Calls, sums, shares and ranks then cover all statements.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Input")]
    pub rate: Option<u32>,

    /// Ports of servers in captured traffic: 3306,3307 (default: 3306, and where a server's greeting is seen); with
    /// --host, its port
    #[arg(long, value_delimiter = ',', help_heading = "Input")]
    pub port: Vec<u16>,

    /// Of captured traffic read only one connection in N, whole ones: 1/2, 1/4, 1/8 ...
    ///
    /// The report has the totals over all connections with their error, and the filter with which
    /// tcpdump captures only these connections.
    #[arg(long, value_name = "1/N", help_heading = "Input")]
    pub sample_connections: Option<String>,

    /// Print the filter for tcpdump that goes with --port and --sample-connections, and end
    #[arg(long, conflicts_with = "files", help_heading = "Input")]
    pub tcpdump_filter: bool,

    /// In captured traffic a statement's time ends with the last byte of its answer, not the first
    #[arg(long, help_heading = "Input")]
    pub to_last_byte: bool,

    /// Only statements that began at or after this: 2h (ago), 'yesterday 22:00', '2026-01-31 18:00'
    ///
    /// 30m, 2h, 7d are ago. Times are UTC unless they name a zone: 2026-01-31T18:00:00+01:00.
    #[arg(long, value_name = "TIME", help_heading = "Choosing")]
    pub since: Option<String>,

    /// Only statements that began before this
    #[arg(long, value_name = "TIME", help_heading = "Choosing")]
    pub until: Option<String>,

    /// Only statements for which this holds: 'db == "shop" && query_time > 500ms'
    ///
    /// Fields are the attributes by their names in a slow log (query_time, lock_time, rows_examined,
    /// bytes_sent, full_scan, filesort ...), and sql, db, user, host, ip, tables, kind, class,
    /// thread_id, error, start, end, measured; others as attribute("name"). Operators: == != < > <=
    /// and >=, =~ and !~ (regular expressions), in (...), && || !, known(field). Values: "text", 12,
    /// 500ms, 10MB, true.
    #[arg(long, value_name = "EXPRESSION", help_heading = "Choosing")]
    pub filter: Option<String>,

    /// What makes a class: fingerprint, db, user, host, tables, kind, distill, or an attribute
    ///
    /// kind is the statement's verb, distill the verb with its tables. Also ip, thread_id, error,
    /// routine, what is yes or no (full_scan), any other attribute of the log, or one the client named
    /// at connect (_client_name, program_name). Several make one class together: db,tables
    #[arg(long, default_value = "fingerprint", value_name = "WHAT", help_heading = "Classes")]
    pub group_by: String,

    /// How fingerprints are made, and with them the ids of classes
    #[arg(long, value_enum, help_heading = "Classes")]
    pub dialect: Option<Dialect>,

    /// What ranks: time, mean, p50, p95, p99, max, count, rows, lock, variance, or ATTRIBUTE:HOW
    ///
    /// Without it: time, the sum of the durations; of inputs without durations: count. rows and lock
    /// are the sums of rows examined and of lock time; variance finds what is sometimes slow. HOW is
    /// sum, mean, min, max, p50, p95, p99, count or vm: Bytes_sent:sum.
    #[arg(long, value_name = "WHAT", help_heading = "Classes")]
    pub order_by: Option<String>,

    /// How many classes are shown: 20, 95% (of the total), or both: 95%:20
    #[arg(long, default_value = "95%:20", value_name = "LIMIT", help_heading = "Classes")]
    pub limit: String,

    /// Do not add slow classes below the limit (p95 of 1 s or more, 10 calls or more; 100 classes at most)
    #[arg(long, help_heading = "Classes")]
    pub no_outliers: bool,

    /// Users (with *) whose statements people wait for: their classes come first
    ///
    /// Each group has --limit for itself. A class is theirs if one of them sends it.
    #[arg(long, value_name = "USER", help_heading = "Classes")]
    pub interactive_user: Vec<String>,

    /// Users (with *) of nightly jobs and the like: their classes come last
    #[arg(long, value_name = "USER", help_heading = "Classes")]
    pub batch_user: Vec<String>,

    /// Bound of the memory: rarer classes are folded together; at least 16 per thread are kept
    #[arg(long, default_value_t = MAX_CLASSES, value_name = "N", help_heading = "Classes")]
    pub max_classes: usize,

    /// Look for transactions and for loops of the application (N+1); reads on one thread
    #[arg(long, help_heading = "Classes")]
    pub patterns: bool,

    /// The report as pt-query-digest prints it, with its fingerprints and statistics
    #[arg(long, value_enum, group = "form", help_heading = "Output")]
    pub compat: Option<Compat>,

    /// The whole report as one JSON object (docs/digest-json.md)
    #[arg(long, group = "form", help_heading = "Output")]
    pub json: bool,

    /// The report as lines of JSON, one for each class
    #[arg(long, group = "form", help_heading = "Output")]
    pub ndjson: bool,

    /// A row of values for each class, for spreadsheets
    #[arg(long, group = "form", help_heading = "Output")]
    pub csv: bool,

    /// One page for a browser with charts, search and sorting; complete in itself, works offline
    #[arg(long, group = "form", help_heading = "Output")]
    pub html: bool,

    /// Into this file and not to standard output
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Output")]
    pub output: Option<PathBuf>,

    /// What changed from one log to another; each may also be a report written with --json
    #[arg(long, num_args = 2, value_names = ["BEFORE", "AFTER"], conflicts_with_all = ["files", "compat", "follow", "diff_at"], help_heading = "Comparing")]
    pub diff: Option<Vec<PathBuf>>,

    /// What changed at this time, as of --since: the logs before it against the logs after it
    #[arg(long, value_name = "TIME", conflicts_with_all = ["compat", "follow"], help_heading = "Comparing")]
    pub diff_at: Option<String>,

    /// Mask every literal, for reports that others will see
    ///
    /// Also in plans and fingerprints; warnings and texts of errors are left out. Names of users,
    /// hosts, databases and tables stay.
    #[arg(long, help_heading = "Output")]
    pub redact: bool,

    /// Shorten sample statements to about this; 0: do not (64 KiB are kept)
    #[arg(long, default_value_t = 4096, value_name = "BYTES", help_heading = "Output")]
    pub sample_bytes: usize,

    /// Leave out when the report was made, so that equal inputs give equal reports
    #[arg(long, help_heading = "Output")]
    pub reproducible: bool,

    /// Go on with what is appended to the log, also after its rotation; a report for each interval
    #[arg(long, short = 'F', help_heading = "Following")]
    pub follow: bool,

    /// Seconds between reports
    #[arg(long, default_value_t = 60, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..), help_heading = "Following")]
    pub interval: u64,

    /// The first report is of what the log holds already
    #[arg(long, help_heading = "Following")]
    pub from_begin: bool,

    /// End after this many reports
    #[arg(long, value_name = "N", help_heading = "Following")]
    pub reports: Option<u64>,

    /// Threads that parse (default: one per processor)
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,

    /// No progress
    #[arg(long, short)]
    pub quiet: bool,

    #[command(flatten)]
    pub running: ServerArgs,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A slow log of MariaDB, MySQL or Percona Server
    Slow,
    /// A general log
    General,
    /// One statement on each line
    Raw,
    Pcap,
    Pcapng,
    /// What tcpdump prints with -x or -X, and -tttt
    Tcpdump,
}

impl From<Format> for LibraryFormat {
    fn from(format: Format) -> LibraryFormat {
        match format {
            Format::Slow => LibraryFormat::SlowLog,
            Format::General => LibraryFormat::GeneralLog,
            Format::Raw => LibraryFormat::Raw,
            Format::Pcap => LibraryFormat::Pcap,
            Format::Pcapng => LibraryFormat::PcapNg,
            Format::Tcpdump => LibraryFormat::TcpdumpText,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Server {
    Mariadb,
    Mysql,
    Percona,
}

impl From<Server> for Stamped {
    fn from(server: Server) -> Stamped {
        match server {
            Server::Mariadb => Stamped::Start,
            Server::Mysql | Server::Percona => Stamped::End,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Dialect {
    /// Reads SQL as the server does
    Frond,
    /// As pt-query-digest 3.2, byte for byte
    #[value(name = "ptqd-3.2")]
    Ptqd32,
    /// As pt-query-digest 3.5
    #[value(name = "ptqd-3.5")]
    Ptqd35,
    /// As DIGEST_TEXT of MariaDB's performance_schema
    MariadbDigest,
}

impl From<Dialect> for LibraryDialect {
    fn from(dialect: Dialect) -> LibraryDialect {
        match dialect {
            Dialect::Frond => LibraryDialect::Frond,
            Dialect::Ptqd32 => LibraryDialect::Ptqd32,
            Dialect::Ptqd35 => LibraryDialect::Ptqd35,
            Dialect::MariadbDigest => LibraryDialect::MariadbDigest,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Compat {
    #[value(name = "ptqd-3.2")]
    Ptqd32,
}
