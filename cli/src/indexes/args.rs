//! The command line of `frond indexes`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueHint};

use crate::digest::args::ServerArgs;

/// Find indexes that repeat others
///
/// Reads the table definitions of a running server or, if FILES are named, of dumps (mariadb-dump, mysqldump; plain,
/// gzip or zstd; - is standard input), and names
/// each index that another one makes superfluous: equal ones, prefixes, those that end with the primary key where the
/// engine adds it, and foreign keys that say the same. An index that a constraint needs is never named. For each the
/// statements are printed that hide it, bring it back, and drop it; nothing is executed.
///
/// Exit status: 0 nothing found, 1 something found, 2 could not be done.
#[derive(Args)]
#[command(after_long_help = "Examples:\n  \
    frond indexes --database shop\n  \
    mariadb-dump --no-data --all-databases | frond indexes -\n  \
    frond indexes nightly.sql.gz --database shop --json | jq '.findings[].now'")]
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

    /// The server's host; without it, or localhost: through the socket
    #[arg(long, value_name = "HOST", conflicts_with = "files", value_hint = ValueHint::Hostname)]
    pub host: Option<String>,

    /// The server's port
    #[arg(long, value_name = "PORT", conflicts_with = "files")]
    pub port: Option<u16>,

    /// The server's socket
    #[arg(long, value_name = "PATH", conflicts_with = "files", value_hint = ValueHint::FilePath)]
    pub socket: Option<PathBuf>,

    /// Who asks; the password is that of MYSQL_PWD, --password-file or an option file
    #[arg(long, value_name = "USER", conflicts_with = "files", value_hint = ValueHint::Username)]
    pub user: Option<String>,

    /// The password is the first line of this file; - is standard input
    #[arg(long, value_name = "FILE", conflicts_with = "files", value_hint = ValueHint::FilePath)]
    pub password_file: Option<PathBuf>,

    /// Only this option file ([client], [client-mariadb], [frond]) instead of the usual ones
    #[arg(long, value_name = "FILE", conflicts_with = "files", value_hint = ValueHint::FilePath)]
    pub defaults_file: Option<PathBuf>,

    /// No option file
    #[arg(long, conflicts_with_all = ["files", "defaults_file"])]
    pub no_defaults: bool,
}

impl IndexesArgs {
    /// Whether tables of `db` are wanted.
    pub fn wants(&self, db: &str) -> bool {
        self.database.is_empty() || self.database.iter().any(|name| name == db)
    }

    /// Where the server is, in the words of `frond digest`.
    pub fn server(&self) -> ServerArgs {
        ServerArgs {
            slow_log_table: false,
            digests: false,
            processlist: false,
            host: self.host.clone(),
            socket: self.socket.clone(),
            user: self.user.clone(),
            password_file: self.password_file.clone(),
            defaults_file: self.defaults_file.clone(),
            no_defaults: self.no_defaults,
            run_time: None,
            every: Duration::ZERO,
        }
    }
}
