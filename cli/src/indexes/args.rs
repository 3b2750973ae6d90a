//! The command line of `frond indexes`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use crate::connection::ConnectionArgs;

/// Find indexes that repeat others or that nothing reads
///
/// Reads the table definitions of a running server or, if FILES are named, of dumps (mariadb-dump, mysqldump; plain,
/// gzip or zstd; - is standard input), and names each index that another one makes superfluous: equal ones, prefixes,
/// those that end with the primary key where the engine adds it, and foreign keys that say the same. With --unused it
/// also names indexes of the server that nothing has read. The evidence is its counters (performance_schema or userstat),
/// those of other servers, and plans in slow logs. An index that a constraint needs is never named. For each index the
/// statements are printed that hide it, bring it back, and drop it; nothing is executed.
///
/// Exit status: 0 nothing found, 1 something found, 2 could not be done.
#[derive(Args)]
#[command(mut_group("ConnectionArgs", |group| group.conflicts_with("files")))]
#[command(after_long_help = "Examples:\n  \
    frond indexes --database shop\n  \
    mariadb-dump --no-data --all-databases | frond indexes -\n  \
    frond indexes nightly.sql.gz --database shop --json | jq '.findings[].now'\n  \
    frond indexes --unused --also replica1 --log /var/log/mysql/slow.log\n  \
    frond indexes --unused --save monday.json; # a week later: frond indexes --unused --since monday.json")]
pub struct IndexesArgs {
    /// Dumps, instead of a server
    #[arg(value_hint = ValueHint::FilePath)]
    pub files: Vec<PathBuf>,

    /// Only tables of this database; may be given again
    #[arg(long, value_name = "DB")]
    pub database: Vec<String>,

    /// The result as one JSON object (docs/indexes.md describes it)
    #[arg(long)]
    pub json: bool,

    /// The result as one HTML file that works offline
    #[arg(long, conflicts_with = "json")]
    pub html: bool,

    /// Also name indexes that nothing reads
    #[arg(long, conflicts_with = "files")]
    pub unused: bool,

    /// Another server with the same tables, such as a replica: indexes read there are used; HOST[:PORT] or a socket's path
    #[arg(long, value_name = "SERVER", requires = "unused")]
    pub also: Vec<String>,

    /// A slow log with plans (log_slow_verbosity=explain): indexes that they name are used; may be given again
    #[arg(long, value_name = "FILE", requires = "unused", value_hint = ValueHint::FilePath)]
    pub log: Vec<PathBuf>,

    /// Write the servers' counters to this file, for --since
    #[arg(long, value_name = "FILE", requires = "unused", value_hint = ValueHint::FilePath)]
    pub save: Option<PathBuf>,

    /// Count only what was read since this file was saved
    #[arg(long, value_name = "FILE", requires = "unused", value_hint = ValueHint::FilePath)]
    pub since: Option<PathBuf>,

    /// The server's port
    #[arg(long, value_name = "PORT", conflicts_with = "files")]
    pub port: Option<u16>,

    #[command(flatten)]
    pub connection: ConnectionArgs,
}

impl IndexesArgs {
    /// Whether tables of `db` are wanted.
    pub fn wants(&self, db: &str) -> bool {
        self.database.is_empty() || self.database.iter().any(|name| name == db)
    }
}
