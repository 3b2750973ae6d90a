//! Options of a server and its port, for commands that do not use the port otherwise.

use std::time::Duration;

use clap::Args;

use crate::connection::ConnectionArgs;
use crate::digest::live::connect::Server;
use crate::out::Outcome;

#[derive(Args, Clone)]
#[command(next_help_heading = "A running server")]
pub struct ServerOptions {
    #[command(flatten)]
    pub way: ConnectionArgs,

    /// The server's port
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
}

impl ServerOptions {
    /// Connects. `needs` are the privileges that the account needs, as GRANT names them.
    pub fn connect(&self, needs: &'static str) -> Outcome<Server> {
        Server::connect(&self.way, self.port, needs)
    }

    /// The same for samples: a server that does not answer within seconds counts as away.
    pub fn watch(&self, needs: &'static str) -> Outcome<Server> {
        Server::watched(&self.way, self.port, needs)
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
