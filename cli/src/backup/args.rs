//! The command line of `frond backup`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum, ValueHint};

use super::private::PrivateArgs;
use super::replay::{until, Until};
use crate::connection::ConnectionArgs;
use crate::out::{parse_bytes, parse_count};

/// Back up a running server, exactly and verifiably
///
/// A backup holds what was committed at one moment, with its binary log position and GTID. It has Frond's tables and everything else:
/// through mariadb-backup or, where no other engine holds data, the files that a server needs to start. It is copied from the server's
/// data directory, so this runs on the server's machine, as a user who can read that directory.
#[derive(Subcommand)]
pub enum BackupCommand {
    Full(FullArgs),
    Incremental(IncrementalArgs),
    List(ListArgs),
    Verify(VerifyArgs),
    Prepare(PrepareArgs),
    Restore(RestoreArgs),
    Extract(ExtractArgs),
    Keep(KeepArgs),
    Receive(ReceiveArgs),
    Key(KeyArgs),
}

/// Back up everything into a new directory
///
/// Without other engines' tables the server's own files are copied under BACKUP STAGE; otherwise mariadb-backup copies them (into
/// DIR/server), and Frond's part has the moment at which that copy is consistent. Commits are blocked for milliseconds in the first
/// case, and as long as mariadb-backup blocks them in the second.
///
/// DIR/manifest.json is written last: a directory without it is no backup. After a failure DIR is emptied. With --compress or --key-file the backup
/// is one file, DIR/backup.frb, which gets this name when it is complete.
///
/// The account needs RELOAD, PROCESS and BINLOG MONITOR, and with mariadb-backup also the privileges that mariadb-backup needs.
///
/// Exit status: 0 done, 2 not done.
#[derive(Args)]
#[command(after_long_help = "Examples:\n  \
    frond backup full /backup/$(date +%F)\n  \
    frond backup full /backup/monday --rate 100M --json\n  \
    frond backup full /backup/monday --compress --key-file /etc/frond-backup.key --threads 2\n  \
    frond backup full --stream --compress | ssh host frond backup receive /backup/monday\n  \
    frond backup full /backup/monday --user backup --password-file /root/.backup-password")]
pub struct FullArgs {
    /// The directory to make; it must not exist, or be empty
    #[arg(value_hint = ValueHint::DirPath, required_unless_present = "stream", conflicts_with = "stream")]
    pub dir: Option<PathBuf>,
    #[command(flatten)]
    pub how: HowArgs,
}

/// Back up what changed since another backup
///
/// Blocks of Frond's tables never change once they are written: blocks that the base has are named in the manifest and not read
/// again. Everything else (log, images, the server's other files) is copied anew. To restore or verify the backup, its base and the
/// backups that the base is based on have to be there, in the same parent directory or named with --chain.
///
/// Exit status: 0 done, 2 not done.
#[derive(Args)]
#[command(after_long_help = "Examples:\n  \
    frond backup incremental --base /backup/monday /backup/monday-12h")]
pub struct IncrementalArgs {
    /// The directory to make; it must not exist, or be empty
    #[arg(value_hint = ValueHint::DirPath, required_unless_present = "stream", conflicts_with = "stream")]
    pub dir: Option<PathBuf>,
    /// The backup that has the remaining blocks: full or incremental
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub base: PathBuf,
    /// With --key-file: take a base without encryption, too
    #[arg(long, requires = "key_file")]
    pub allow_unencrypted: bool,
    #[command(flatten)]
    pub how: HowArgs,
}

/// The key of a chain.
#[derive(Args)]
pub struct KeyOf {
    /// The key of encrypted backups; others are refused then
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub key_file: Option<PathBuf>,
    /// Take backups without encryption, too; anybody who can write there may have made them
    #[arg(long, requires = "key_file")]
    pub allow_unencrypted: bool,
}

/// How to copy, and from where.
#[derive(Args)]
pub struct HowArgs {
    /// Write to standard output, for `frond backup receive` at the other end of a pipe, or for a file NAME.frb
    #[arg(long)]
    pub stream: bool,
    /// Pack the backup into one file, DIR/backup.frb, compressed with zstd
    #[arg(long, value_name = "LEVEL", num_args = 0..=1, require_equals = true, default_missing_value = "3",
          value_parser = clap::value_parser!(i32).range(1..=19))]
    pub compress: Option<i32>,
    /// Pack the backup, encrypted with the key in this file (`frond backup key` makes one)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub key_file: Option<PathBuf>,
    /// Threads that copy, compress and encrypt
    #[arg(long, value_name = "N", default_value = "1", value_parser = parse_threads)]
    pub threads: usize,
    /// Where the server's own and other engines' files are kept while a packed backup or a stream is made (default: DIR,
    /// or the directory for temporary files)
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub work: Option<PathBuf>,
    /// Bytes per second to copy at most (not for mariadb-backup)
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    pub rate: Option<u64>,
    /// Percent of a busy server's work that copying may cost: it pauses as long as that takes, and copies at least this percentage of the
    /// time. 100: no pauses (not for mariadb-backup, which has --throttle)
    #[arg(long, value_name = "PERCENT", default_value = "5", value_parser = clap::value_parser!(u8).range(1..=100))]
    pub max_loss: u8,
    /// The program that backs up other engines
    #[arg(long, value_name = "PROGRAM", default_value = "mariadb-backup", value_hint = ValueHint::CommandName)]
    pub mariadb_backup: PathBuf,
    /// Run mariadb-backup although no other engine holds data
    #[arg(long)]
    pub with_mariadb_backup: bool,
    /// No progress on standard error
    #[arg(short, long)]
    pub quiet: bool,
    /// The result as one JSON object; progress, too, a line each second on standard error
    #[arg(long)]
    pub json: bool,
    /// The server's port
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
    #[command(flatten)]
    pub connection: ConnectionArgs,
}

/// Name the backups in directories
///
/// Directories that hold part of a backup and no manifest are named as incomplete.
///
/// Exit status: 0 all that was found is whole, 1 something is incomplete or damaged, 2 could not be done.
#[derive(Args)]
pub struct ListArgs {
    /// A backup, or a directory of backups
    #[arg(value_hint = ValueHint::AnyPath)]
    pub dir: PathBuf,
    /// Shows the tables of backups that were encrypted with this key
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub key_file: Option<PathBuf>,
    /// One JSON object per line
    #[arg(long)]
    pub json: bool,
}

/// Verify a backup without a server
///
/// Reads everything: the checksums of all files and blocks, then all that `frond check` reads (each page, tree, row and index), and counts
/// each table's rows. An incremental backup is put together with its base in memory. Files of mariadb-backup are compared with their checksums.
///
/// With --against-server the backup is also restored beside itself, the server's binary logs since then are replayed on a private server, and
/// the checksum of every Frond table is compared with that of a snapshot of the running server. This needs the space of the
/// backup, and the rights to SELECT, RELOAD and BINLOG MONITOR.
///
/// Exit status: 0 sound, 1 damaged (the output names the damage), 2 could not be done.
#[derive(Args)]
pub struct VerifyArgs {
    /// The backup: a directory, or a file that a stream was written to
    #[arg(value_hint = ValueHint::AnyPath)]
    pub dir: PathBuf,
    /// Backups that it is based on, if they are elsewhere; may be given again
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub chain: Vec<PathBuf>,
    #[command(flatten)]
    pub key: KeyOf,
    /// Threads that read and copy
    #[arg(long, value_name = "N", default_value = "1", value_parser = parse_threads)]
    pub threads: usize,
    /// Only checksums
    #[arg(long)]
    pub quick: bool,
    /// Also compare with a running server: the one that was backed up, or a replica of it
    #[arg(long)]
    pub against_server: bool,
    /// Where to restore the backup for that (default: beside the backup)
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub work: Option<PathBuf>,
    /// The server's port
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
    #[command(flatten)]
    pub server: PrivateArgs,
    #[command(flatten)]
    pub connection: ConnectionArgs,
    /// No progress on standard error
    #[arg(short, long)]
    pub quiet: bool,
    /// The result as one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Make a data directory from a backup
///
/// Verifies each block as it is copied. Files of mariadb-backup are copied and prepared with mariadb-backup. The server recovers the rest when
/// it starts. The backup is not changed. The command then says what to do next: ownership, start, and the position for a replica.
///
/// With --until the binary logs since the backup are replayed with mariadb-binlog into a private server on the new directory, up to a GTID
/// (included) or a time (not included).
///
/// Exit status: 0 done, 2 not done.
#[derive(Args)]
#[command(after_long_help = "Examples:\n  \
    frond backup restore /backup/monday /var/lib/mysql\n  \
    frond backup restore /backup/monday /var/lib/mysql --until '2026-11-23 10:14:00' --binlogs /old/mysql\n  \
    chown -R mysql:mysql /var/lib/mysql && systemctl start mariadb")]
pub struct RestoreArgs {
    /// The backup: a directory, or a file that a stream was written to
    #[arg(value_hint = ValueHint::AnyPath)]
    pub dir: PathBuf,
    /// The data directory to make; it must not exist, or be empty
    #[arg(value_hint = ValueHint::DirPath)]
    pub datadir: PathBuf,
    /// Backups that it is based on, if they are elsewhere; may be given again
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub chain: Vec<PathBuf>,
    #[command(flatten)]
    pub key: KeyOf,
    /// Threads that read and copy
    #[arg(long, value_name = "N", default_value = "1", value_parser = parse_threads)]
    pub threads: usize,
    /// The program that prepares other engines' files
    #[arg(long, value_name = "PROGRAM", default_value = "mariadb-backup", value_hint = ValueHint::CommandName)]
    pub mariadb_backup: PathBuf,
    /// Replay binary logs up to a GTID (0-1-4711) or a local time ('2026-11-23 10:00:00')
    #[arg(long, value_name = "GTID|TIME", value_parser = until, requires = "binlogs")]
    pub until: Option<Until>,
    /// Binary logs, or a directory that has them; may be given again
    #[arg(long, value_name = "PATH", value_hint = ValueHint::AnyPath, requires = "until")]
    pub binlogs: Vec<PathBuf>,
    #[command(flatten)]
    pub server: PrivateArgs,
    /// Bytes per second to copy at most
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    pub rate: Option<u64>,
    /// No progress on standard error
    #[arg(short, long)]
    pub quiet: bool,
}

/// Make a full backup of an incremental one
///
/// Copies a backup, put together with those that it is based on, to a new directory, verifying each block. The result has the same moment
/// and needs no other backup. The members of the chain are not changed; they may be removed afterwards. No server is needed.
///
/// Exit status: 0 done, 2 not done.
#[derive(Args)]
#[command(after_long_help = "Examples:\n  \
    frond backup prepare /backup/monday-12h /backup/monday-12h-full")]
pub struct PrepareArgs {
    /// The backup: a directory, or a file that a stream was written to
    #[arg(value_hint = ValueHint::AnyPath)]
    pub dir: PathBuf,
    /// The directory to make; it must not exist, or be empty
    #[arg(value_hint = ValueHint::DirPath)]
    pub to: PathBuf,
    /// Backups that it is based on, if they are elsewhere; may be given again
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub chain: Vec<PathBuf>,
    #[command(flatten)]
    pub key: KeyOf,
    /// Threads that read and copy
    #[arg(long, value_name = "N", default_value = "1", value_parser = parse_threads)]
    pub threads: usize,
    /// Bytes per second to copy at most
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    pub rate: Option<u64>,
    /// No progress on standard error
    #[arg(short, long)]
    pub quiet: bool,
}

/// How a table comes into a running server.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Through {
    /// mariadb-dump, and the binary log
    Dump,
    /// Its files: EXPORT, DISCARD and IMPORT TABLESPACE, for Frond's tables without partitions; past the binary log
    Import,
}

/// Put one table of a backup into a running server
///
/// The table's part of the backup is restored beside it, and a private server is started on that. From there the table is moved into the
/// running server, where it must not exist: as a dump, or as its files, which the server imports. Both copies are compared afterwards. For a
/// table of Frond only its own blocks are copied; with --until, and for other engines' tables, the whole backup is copied.
///
/// The account needs CREATE, ALTER, INSERT, SELECT, DROP and TRIGGER in the database.
///
/// Exit status: 0 done, 2 not done; nothing of the table is left then.
#[derive(Args)]
#[command(after_long_help = "Examples:\n  \
    frond backup extract /backup/monday --table shop.orders\n  \
    frond backup extract /backup/monday --table shop.orders --as orders_monday\n  \
    frond backup extract /backup/monday --table shop.orders --until '2026-11-23 10:14:00' --binlogs /var/lib/mysql")]
pub struct ExtractArgs {
    /// The backup: a directory, or a file that a stream was written to
    #[arg(value_hint = ValueHint::AnyPath)]
    pub dir: PathBuf,
    /// The table
    #[arg(long, value_name = "DATABASE.TABLE")]
    pub table: String,
    /// Its new name, in the same database
    #[arg(long = "as", value_name = "TABLE")]
    pub name: Option<String>,
    /// Backups that it is based on, if they are elsewhere; may be given again
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub chain: Vec<PathBuf>,
    #[command(flatten)]
    pub key: KeyOf,
    /// Threads that read and copy
    #[arg(long, value_name = "N", default_value = "1", value_parser = parse_threads)]
    pub threads: usize,
    /// Replay binary logs up to a GTID (0-1-4711) or a local time ('2026-11-23 10:00:00')
    #[arg(long, value_name = "GTID|TIME", value_parser = until, requires = "binlogs")]
    pub until: Option<Until>,
    /// Binary logs, or a directory that has them; may be given again
    #[arg(long, value_name = "PATH", value_hint = ValueHint::AnyPath, requires = "until")]
    pub binlogs: Vec<PathBuf>,
    /// How the table gets into the server (default: import, which is faster, if the server writes no binary log, else dump)
    #[arg(long, value_name = "WAY", value_enum)]
    pub through: Option<Through>,
    /// Where to restore (default: beside the backup)
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub work: Option<PathBuf>,
    /// The program that prepares other engines' files
    #[arg(long, value_name = "PROGRAM", default_value = "mariadb-backup", value_hint = ValueHint::CommandName)]
    pub mariadb_backup: PathBuf,
    /// No progress on standard error
    #[arg(short, long)]
    pub quiet: bool,
    /// The server's port
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
    #[command(flatten)]
    pub server: PrivateArgs,
    #[command(flatten)]
    pub connection: ConnectionArgs,
}

/// Remove backups that are not needed any more
///
/// Keeps the newest backup of each of the last N days and weeks (UTC; weeks begin on Monday) that have one, the newest of all, and the
/// backups that those are based on. Prints what it would remove; --delete removes it.
///
/// Exit status: 0 done, 2 not done.
#[derive(Args)]
#[command(after_long_help = "Examples:\n  \
    frond backup keep --daily 7 --weekly 4 /backup\n  \
    frond backup keep --daily 7 --weekly 4 /backup --delete")]
pub struct KeepArgs {
    /// The directory of backups
    #[arg(value_hint = ValueHint::DirPath)]
    pub dir: PathBuf,
    /// Days of which to keep one
    #[arg(long, value_name = "N", default_value = "7", value_parser = parse_count)]
    pub daily: u64,
    /// Weeks of which to keep one
    #[arg(long, value_name = "N", default_value = "4", value_parser = parse_count)]
    pub weekly: u64,
    /// Remove, instead of saying what would be removed
    #[arg(long)]
    pub delete: bool,
}

/// Receive the stream of a backup
///
/// Reads the output of `frond backup full --stream` or `incremental --stream`, or the file of a packed backup, from standard input,
/// verifies every part of it as it arrives (no key is needed) and keeps it as DIR/backup.frb, which all other commands read. The file gets
/// this name when the end of the stream has come. A stream that was cut off is refused, and what arrived of it is no backup.
///
/// A server's stream cannot be resumed, because the server releases the backup's moment when the pipe breaks. The stream of a file can:
/// --received says how many bytes are here, and --resume takes the bytes that follow.
///
/// Exit status: 0 received whole, 2 not.
#[derive(Args)]
#[command(after_long_help = "Examples:\n  \
    frond backup full --stream | ssh host frond backup receive /backup/monday\n  \
    ssh host frond backup receive /backup/monday < /backup/monday/backup.frb\n  \
    tail -c +$((1 + $(ssh host frond backup receive /backup/monday --received))) /backup/monday/backup.frb |\n    \
        ssh host frond backup receive /backup/monday --resume")]
pub struct ReceiveArgs {
    /// The directory to make; it must not exist, or be empty
    #[arg(value_hint = ValueHint::DirPath)]
    pub dir: PathBuf,
    /// Go on with what was received before: the stream begins with the byte behind it
    #[arg(long)]
    pub resume: bool,
    /// Only say how many bytes were received before
    #[arg(long, conflicts_with = "resume")]
    pub received: bool,
    /// No progress on standard error
    #[arg(short, long)]
    pub quiet: bool,
    /// The result as one JSON object; progress, too, a line each second on standard error
    #[arg(long)]
    pub json: bool,
}

/// Make a key for encrypted backups
///
/// Writes a new random key to a new file that only you may read. Nothing opens a backup without its key: keep a copy of it elsewhere.
///
/// Exit status: 0 done, 2 not done.
#[derive(Args)]
#[command(after_long_help = "Examples:\n  \
    frond backup key /etc/frond-backup.key")]
pub struct KeyArgs {
    /// The file to make; it must not exist
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
}

/// 1 to 64.
fn parse_threads(text: &str) -> Result<usize, String> {
    let n = text.parse::<usize>().ok().filter(|n| (1..=64).contains(n));
    n.ok_or_else(|| "give a number from 1 to 64".into())
}
