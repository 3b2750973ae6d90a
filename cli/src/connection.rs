//! The options that say where a running server is, and who asks. Each command says with which of its own they go together
//! (`mut_group` of the group `ConnectionArgs`).

use std::path::PathBuf;
use std::process::Command;

use clap::{Args, ValueHint};

use crate::out::Outcome;

/// See the module's text. The port is an option of the commands, which use it otherwise as well.
#[derive(Args, Clone, Default)]
pub struct ConnectionArgs {
    /// The server's host (--port tells the port); without it, or localhost: through the socket
    #[arg(long, value_name = "HOST", value_hint = ValueHint::Hostname)]
    pub host: Option<String>,

    /// The server's socket
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub socket: Option<PathBuf>,

    /// Who asks; the password is that of MYSQL_PWD, --password-file or an option file
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

impl ConnectionArgs {
    /// Options of a stock client that connects the same way; option files are named before all others, by the caller.
    ///
    /// # Errors
    /// The password's file cannot be read.
    pub fn client(&self, port: Option<u16>, client: &mut Command) -> Outcome<()> {
        for (name, value) in [
            ("user", self.user.clone()),
            ("host", self.host.clone()),
            ("socket", self.socket.as_ref().map(|path| path.display().to_string())),
            ("port", port.map(|port| port.to_string())),
        ] {
            client.args(value.map(|value| format!("--{name}={value}")));
        }
        // Standard input was read already.
        if let Some(file) = self.password_file.as_ref().filter(|file| file.as_os_str() != "-") {
            client.env("MYSQL_PWD", crate::backup::first_line(file)?);
        }
        Ok(())
    }
}
