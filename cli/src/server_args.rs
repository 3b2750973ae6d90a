//! Where a server is, with its port, for commands that use no option of these otherwise.

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
    /// Connects; `needs` is what the account needs, as GRANT says it.
    pub fn connect(&self, needs: &'static str) -> Outcome<Server> {
        Server::connect(&self.way, self.port, needs)
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
