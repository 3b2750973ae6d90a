//! Where a server is, on the command line: the same options for each command that asks one.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueHint};

use crate::digest::args::ServerArgs;
use crate::digest::live::connect::Server;
use crate::out::Outcome;

#[derive(Args, Clone)]
#[command(next_help_heading = "A running server")]
pub struct ConnectionArgs {
    /// The server's host; without it, or localhost: through the socket
    #[arg(long, value_name = "HOST", value_hint = ValueHint::Hostname)]
    pub host: Option<String>,

    /// The server's port
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,

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
    /// Connects; `needs` is what the account needs, as GRANT says it.
    pub fn connect(&self, needs: &'static str) -> Outcome<Server> {
        let server = ServerArgs {
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
        };
        Server::connect(&server, self.port, needs)
    }
}

/// A number of seconds, with a fraction if need be.
pub fn seconds(text: &str) -> Result<Duration, String> {
    let value: f64 = text.parse().map_err(|_| format!("'{text}' is no number of seconds"))?;
    if !(0.01..=1e7).contains(&value) {
        return Err("between 0.01 and 10000000 seconds".into());
    }
    Ok(Duration::from_secs_f64(value))
}
