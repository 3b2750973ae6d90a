//! The command line. Help texts are written for first-time users.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};

use crate::out::{parse_bytes, parse_count};

#[derive(Parser)]
#[command(
    name = "frond",
    version,
    about = "Checks, measures and reads Frond databases without a server; explains slow servers",
    long_about = "Checks, measures and reads Frond databases without a server, and explains from \
        its logs and traffic what makes a MariaDB or MySQL server slow (frond digest).\n\n\
        DIR is the directory of the database: the one that holds frond.id. A MariaDB server keeps \
        it as #frond inside its data directory (usually /var/lib/mysql/#frond; quote the # for the \
        shell). The server must be stopped; nothing is changed.",
    after_long_help = "Examples:\n  \
        frond check '/var/lib/mysql/#frond'\n  \
        frond stat '/var/lib/mysql/#frond'\n  \
        frond dump '/var/lib/mysql/#frond' shop/orders --limit 10\n  \
        frond bench iibench --rows 5M\n\n\
        Exit status: 0 done and nothing wrong, 1 problems found, 2 could not be done."
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub enum Command {
    Check(CheckArgs),
    Stat(StatArgs),
    Dump(DumpArgs),
    Log(LogArgs),
    Digest(Box<crate::digest::DigestArgs>),
    Indexes(Box<crate::indexes::IndexesArgs>),
    Locks(Box<crate::locks::LocksArgs>),
    Doctor(Box<crate::doctor::DoctorArgs>),
    Top(Box<crate::top::TopArgs>),
    Exporter(Box<crate::exporter::ExporterArgs>),
    Replay(Box<crate::replay::ReplayArgs>),
    #[command(subcommand)]
    Backup(Box<crate::backup::BackupCommand>),
    /// Measure the engine on this machine
    #[command(subcommand)]
    Bench(BenchCommand),
    Man(ManArgs),
    Completions(CompletionsArgs),
}

/// Print the man page of a command, or write all of them
///
/// The pages are made from the same definitions as --help. Without COMMAND: the page frond(1).
#[derive(Args)]
#[command(after_long_help = "Examples:\n  \
    frond man digest | man -l -\n  \
    frond man --all /usr/local/share/man/man1")]
pub struct ManArgs {
    /// The command, with its own command if it has some: digest, bench iibench
    pub command: Vec<String>,
    /// Write the pages of all commands into this directory
    #[arg(long, value_name = "DIR", conflicts_with = "command", value_hint = ValueHint::DirPath)]
    pub all: Option<PathBuf>,
}

/// Print the script that completes commands and options in a shell
#[derive(Args)]
#[command(after_long_help = "Examples:\n  \
    frond completions bash > /etc/bash_completion.d/frond\n  \
    frond completions zsh > /usr/local/share/zsh/site-functions/_frond\n  \
    frond completions fish > ~/.config/fish/completions/frond.fish")]
pub struct CompletionsArgs {
    #[arg(value_enum)]
    pub shell: clap_complete::Shell,
}

/// Verify everything that a database has stored
///
/// Reads every file: the identity, both headers and the image of every table file, every page of
/// every run with its checksum, the order and the number of entries, every row, and for each
/// secondary index that its entries are exactly those that the rows ask for. The log is read record
/// by record. Files that belong to no table are named.
///
/// Each finding names file and place. `problem` means that something stored is wrong; `warning`
/// that something is odd but explained by a crash (a file whose table is gone).
///
/// Exit status: 0 no problem, 1 problems, 2 could not check (wrong directory, in use).
#[derive(Args)]
#[command(after_long_help = "Examples:\n  \
    frond check '/var/lib/mysql/#frond'\n  \
    frond check --no-rows /backup/monday      headers, pages and log only: about twice as fast\n  \
    frond check --json DIR | jq '.findings[]'")]
pub struct CheckArgs {
    /// Directory of the database
    pub dir: PathBuf,
    /// Check this table only (as `frond stat` names it); the log and all headers are checked anyway
    #[arg(long, value_name = "TABLE")]
    pub table: Option<String>,
    /// Do not compare rows with indexes
    #[arg(long)]
    pub no_rows: bool,
    /// Memory for pages
    #[arg(long, value_name = "BYTES", default_value = "128M", value_parser = parse_bytes)]
    pub cache: u64,
    /// No progress on standard error
    #[arg(short, long)]
    pub quiet: bool,
    /// The result as one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Show tables, trees and their sizes
///
/// One line per index: entries (versions, tombstones included), runs, leaves and height of its
/// tree, bytes before encoding (logical) and as stored, stored bytes per entry, and what is in the
/// log but not yet in a run (buffered). Then the table files, with the holes in them, and the log.
#[derive(Args)]
#[command(after_long_help = "Examples:\n  \
    frond stat '/var/lib/mysql/#frond'\n  \
    frond stat DIR shop/orders\n  \
    frond stat --json DIR | jq '.tables[] | {name, rows, file_bytes}'")]
pub struct StatArgs {
    /// Directory of the database
    pub dir: PathBuf,
    /// Only this table, with its columns and indexes
    pub table: Option<String>,
    /// The result as one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Format {
    /// Values between tabs, NULL as \N, special characters behind backslashes: as LOAD DATA reads
    /// them
    Tabs,
    /// One JSON object per line
    Json,
}

/// Print the rows of a table
///
/// Prints the newest committed rows in key order, decoded with the table's own schema: no server is
/// needed. Text is printed as it is stored, in the character set of its column; bytes that are not
/// UTF-8 are printed as 0x and hex digits. With --index, an index is printed instead: the columns
/// it holds, in its order. Tables of plain keys and values (made through the C or Rust API) are
/// printed as key and value.
#[derive(Args)]
#[command(after_long_help = "Examples:\n  \
    frond dump '/var/lib/mysql/#frond' shop/orders > orders.tsv\n  \
    frond dump DIR shop/orders --format json --limit 10\n  \
    frond dump DIR shop/orders --index by_price --limit 10")]
pub struct DumpArgs {
    /// Directory of the database
    pub dir: PathBuf,
    /// Name of the table, as `frond stat` shows it (database/table)
    pub table: String,
    /// Index to print, by name or by number (0 is the primary key)
    #[arg(long, value_name = "N", default_value = "0")]
    pub index: String,
    #[arg(long, value_enum, default_value = "tabs")]
    pub format: Format,
    /// Stop after this many rows
    #[arg(long, value_name = "N", value_parser = parse_count)]
    pub limit: Option<u64>,
    /// No line of column names in front (tabs only)
    #[arg(long)]
    pub no_header: bool,
    /// Memory for pages
    #[arg(long, value_name = "BYTES", default_value = "64M", value_parser = parse_bytes)]
    pub cache: u64,
}

/// List the records of the log
///
/// One line per record: position (LSN), length, kind. The log holds what is not yet in every table
/// file's newest image; older segments are removed by the server.
#[derive(Args)]
#[command(after_long_help = "Examples:\n  \
    frond log DIR | tail\n  \
    frond log --summary DIR")]
pub struct LogArgs {
    /// Directory of the database
    pub dir: PathBuf,
    /// Segments and totals only
    #[arg(long)]
    pub summary: bool,
    /// One JSON object per line (with --summary: one object)
    #[arg(long)]
    pub json: bool,
}

#[derive(Subcommand)]
pub enum BenchCommand {
    Iibench(IibenchArgs),
    Device(DeviceArgs),
    Codec(CodecArgs),
    Allocator(AllocatorArgs),
    Buffer(BufferArgs),
}

/// The insert benchmark on the embedded engine
///
/// Inserts seeded rows into a table with an ascending primary key and three secondary indexes on
/// random values, 1000 rows a transaction: the rows and the table of `make demo`,
/// without a server, so what remains is the engine's own cost. The data directory is made below
/// --dir and removed at the end.
///
/// Bytes written are the kernel's count for this process: log, runs and images.
#[derive(Args)]
#[command(after_long_help = "Examples:\n  \
    frond bench iibench\n  \
    frond bench iibench --rows 20M --cache 256M --durability 2\n  \
    frond bench iibench --rows 1M --queries 10 --json")]
pub struct IibenchArgs {
    /// Rows to insert
    #[arg(long, default_value = "2M", value_parser = parse_count)]
    pub rows: u64,
    /// Rows per transaction
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1_000_000_000))]
    pub batch: u32,
    /// Threads that insert
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub threads: u16,
    /// The engine's memory budget
    #[arg(long, value_name = "BYTES", default_value = "256M", value_parser = parse_bytes)]
    pub cache: u64,
    /// 1 sync at commit, 2 write at commit and sync each second, 0 write and sync each second
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(0..=2))]
    pub durability: u8,
    /// Rounds of three short range reads per second, on a second thread (0: none)
    #[arg(long, value_name = "RATE", default_value_t = 0)]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=10_000))]
    pub queries: u32,
    /// Threads that flush and merge
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub background: u16,
    /// Characters of the column `data`, half of them random
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(0..=4000))]
    pub data: u32,
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Rows between two lines of the report (default: a twentieth)
    #[arg(long, value_name = "ROWS", value_parser = parse_count)]
    pub interval: Option<u64>,
    /// Where the data directory is made
    #[arg(long, value_name = "PATH", default_value = ".")]
    pub dir: PathBuf,
    /// Do not remove the data directory
    #[arg(long)]
    pub keep: bool,
    /// Compare all indexes with the rows at the end
    #[arg(long)]
    pub verify: bool,
    /// Time what CHECK TABLE does, when all rows are in
    #[arg(long)]
    pub check_table: bool,
    /// The result as one JSON object
    #[arg(long)]
    pub json: bool,
}

/// A device as a database uses it, and the settings that follow
///
/// Measures below DIR, with two files that are removed at the end, also when interrupted: random
/// reads of 4, 16 and 64 KiB at depths 1 to 64, random writes, reads and writes in order, fsync and
/// fdatasync of a log that grows or is written again, alone and beside readers. Shows what the
/// system tells of direct I/O and torn writes, and which settings of InnoDB, MyRocks and Frond
/// follow, each with its arithmetic. Run it before the server, or while it is idle: both slow each
/// other down.
///
/// Depth N is N threads with one pread or pwrite each. Where the file system allows it, direct I/O
/// goes past the system's cache; elsewhere the data must be larger than memory, or the result says
/// that it is the cache's.
#[derive(Args)]
#[command(after_long_help = "Examples:\n  \
    frond bench device /var/lib/mysql\n  \
    frond bench device /mnt/new --size 20G --seconds 300\n  \
    frond bench device DIR --json | jq -r '.settings[] | \"\\(.name)=\\(.value)\"'\n\n\
    Exit status: 0 measured, 1 measured but reads may have come from the system's cache, 2 could not \
    be measured or was interrupted.")]
pub struct DeviceArgs {
    /// A directory on the device; it must be writable
    #[arg(value_hint = ValueHint::DirPath)]
    pub dir: PathBuf,
    /// How long to measure, about
    #[arg(long, value_name = "N", default_value_t = 60)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub seconds: u32,
    /// Space to use at most, 32M at least; 5 % of the file system (at most 8 GiB) stay free in any
    /// case (default: 1G, or what is free)
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    pub size: Option<u64>,
    /// No progress on standard error
    #[arg(short, long)]
    pub quiet: bool,
    /// The result as one JSON object (docs/bench-device.md)
    #[arg(long)]
    pub json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum CompressionName {
    None,
    Lz4,
    Zstd,
}

/// Decode, merge and encode index entries: the threshold of the run format
///
/// Merges four runs of index entries of the insert benchmark, one thread, in memory. The threshold is 10
/// million entries per second and 9 stored bytes per entry; exit status 1 when it is missed.
#[derive(Args)]
pub struct CodecArgs {
    /// Rows of the imagined table
    #[arg(long, default_value = "10M", value_parser = parse_count)]
    pub rows: u64,
    /// Entries of each of the four runs
    #[arg(long, default_value = "500k", value_parser = parse_count)]
    pub entries: u64,
    #[arg(long, value_enum, default_value = "none")]
    pub compression: CompressionName,
    /// Uncompressed bytes of a page: 4K to 64K
    #[arg(long, default_value = "16K", value_parser = parse_bytes)]
    pub page: u64,
    #[arg(long, default_value_t = 3)]
    pub repeat: u32,
    #[arg(long)]
    pub json: bool,
}

/// Find holes in a fragmented file: a linear search against the tree
#[derive(Args)]
pub struct AllocatorArgs {
    /// Extents in the file, and about as many holes; several numbers are several runs
    #[arg(long, value_delimiter = ',', default_value = "1k,10k,100k", value_parser = parse_count)]
    pub extents: Vec<u64>,
    #[arg(long)]
    pub json: bool,
}

/// Fill and read the write buffer
#[derive(Args)]
pub struct BufferArgs {
    #[arg(long, default_value = "2M", value_parser = parse_count)]
    pub entries: u64,
    #[arg(long)]
    pub json: bool,
}
