//! The options that say where a running server is, and which account to use. Each command declares with which of its own
//! options they go together (`mut_group` of the group `ConnectionArgs`).

use std::path::PathBuf;

use clap::{Args, ValueHint};

/// See the module's text. The port is an option of each command, because some commands use it otherwise as well.
#[derive(Args, Clone, Default)]
pub struct ConnectionArgs {
    /// The server's host (--port gives its port); without it, or with localhost, the socket is used
    #[arg(long, value_name = "HOST", value_hint = ValueHint::Hostname)]
    pub host: Option<String>,

    /// The server's socket
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub socket: Option<PathBuf>,

    /// The account; its password comes from MYSQL_PWD, --password-file or an option file
    #[arg(long, value_name = "USER", value_hint = ValueHint::Username)]
    pub user: Option<String>,

    /// The password is the first line of this file; - is standard input
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub password_file: Option<PathBuf>,

    /// Only this option file ([client], [client-mariadb], [frond]) instead of the usual ones
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub defaults_file: Option<PathBuf>,

    /// No option file
    #[arg(long, conflicts_with = "defaults_file")]
    pub no_defaults: bool,
}
