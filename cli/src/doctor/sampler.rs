//! Samples of the machine and of the server.

use std::path::Path;
use std::time::UNIX_EPOCH;

use frond_doctor::snapshot::{Snapshot, Value};
use frond_doctor::system::Machine;

use super::DoctorArgs;
use crate::digest::live::connect::{text, Server};
use crate::out::Outcome;
use crate::server_args::ServerOptions;

/// The privilege that the account needs. Variables and counters are visible to everybody.
const NEEDS: &str = "REPLICA MONITOR ON *.*";

const VARIABLES: &str = "SHOW GLOBAL VARIABLES";
const STATUS: &str = "SHOW GLOBAL STATUS";

pub struct Sampler {
    machine: Machine,
    /// The server is on this machine. If not, its machine is unknown, and this machine's values would mislead.
    here: bool,
    server: Option<Server>,
    connection: Option<ServerOptions>,
    pub name: String,
}

/// Whether a server with this name (`10.11.6-MariaDB at /run/mysqld/mysqld.sock`) is on this machine.
fn is_here(name: &str) -> bool {
    let way = name.rsplit_once(" at ").map_or("", |(_, way)| way);
    ["/", "127.", "localhost:", "::1:", "[::1]"].iter().any(|begin| way.starts_with(begin))
}

/// Seconds since 1970.
#[allow(clippy::disallowed_methods)] // A clock of samples, not the engine's.
fn clock() -> f64 {
    std::time::SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |t| t.as_secs_f64())
}

impl Sampler {
    pub fn new(args: &DoctorArgs) -> Outcome<Sampler> {
        let mut sampler = Sampler {
            machine: Machine::new(Path::new("/")),
            here: true,
            server: None,
            connection: (!args.no_server).then(|| args.server.clone()),
            name: "this machine, no server".into(),
        };
        if let Some(connection) = &sampler.connection {
            let server = connection.watch(NEEDS)?;
            sampler.take(server)?;
        }
        Ok(sampler)
    }

    fn take(&mut self, mut server: Server) -> Outcome<()> {
        self.name.clone_from(&server.name);
        self.here = is_here(&server.name);
        if self.here {
            let file = server.value("SELECT @@pid_file")?.unwrap_or_default();
            let data = server.value("SELECT @@datadir")?.unwrap_or_default();
            let path = Path::new(&data).join(file);
            #[allow(clippy::disallowed_methods)] // It is no file of a database.
            let process = std::fs::read_to_string(path).ok().and_then(|id| id.trim().parse().ok());
            self.machine.process = process;
            self.machine.data = Some(data.into());
        }
        self.server = Some(server);
        Ok(())
    }

    /// Tries to connect; if no server answers, there is no connection for now.
    pub fn connect_again(&mut self) {
        self.server = None;
        if let Some(Ok(server)) = self.connection.as_ref().map(|c| c.watch(NEEDS)) {
            if self.take(server).is_err() {
                self.server = None;
            }
        }
    }

    /// A sample of the machine alone, for when the server does not answer.
    pub fn machine_only(&self) -> Snapshot {
        let (mut sample, _) = self.machine();
        sample.set("server.answers", Value::Number(0.0));
        sample
    }

    /// The machine's values, and what could not be read.
    fn machine(&self) -> (Snapshot, Vec<String>) {
        let mut sample = Snapshot::at(clock());
        if !self.here {
            return (sample, vec!["the machine: the server is on another one".into()]);
        }
        let mut unseen = self.machine.sample(&mut sample);
        if self.connection.is_some() && self.machine.process.is_none() {
            unseen.push("the server's process: its pid_file cannot be read".into());
        }
        self.space(&mut sample);
        (sample, unseen)
    }

    /// A sample of both, and what could not be read.
    pub fn sample(&mut self) -> Outcome<(Snapshot, Vec<String>)> {
        let (mut sample, mut unseen) = self.machine();
        if self.connection.is_some() && self.server.is_none() {
            self.connect_again();
            if self.server.is_none() {
                return Ok((self.machine_only(), unseen));
            }
        }
        let Some(server) = &mut self.server else { return Ok((sample, unseen)) };
        for (prefix, sql) in [("var.", VARIABLES), ("status.", STATUS)] {
            server.each_row(sql, &mut |row| {
                sample.set_text(format!("{prefix}{}", text(row, 0)), &text(row, 1));
            })?;
        }
        sample.set("server.answers", Value::Number(1.0));
        replica(server, &mut sample, &mut unseen)?;
        Ok((sample, unseen))
    }

    /// Space of the file system that has the data.
    fn space(&self, sample: &mut Snapshot) {
        let Some(Ok(stat)) = self.machine.data.as_ref().map(rustix::fs::statvfs) else { return };
        sample.set("fs.size", Value::Number(stat.f_blocks as f64 * stat.f_frsize as f64));
        sample.set("fs.free", Value::Number(stat.f_bavail as f64 * stat.f_frsize as f64));
    }
}

/// The worst values of all replication connections; if the server is no replica, values that say that all is well.
fn replica(server: &mut Server, sample: &mut Snapshot, unseen: &mut Vec<String>) -> Outcome<()> {
    let sql = if server.mariadb { "SHOW ALL SLAVES STATUS" } else { "SHOW SLAVE STATUS" };
    let (mut behind, mut receiver, mut applier) = (0.0_f64, "Yes".to_owned(), "Yes".to_owned());
    let result = server.rows_with_names(sql, &mut |names, row| {
        let column = |name: &str| names.iter().position(|n| n == name).map(|at| text(row, at));
        // The worst is kept: `No`, else what else it is (`Connecting`, `Preparing`).
        let worse = |name: &str, known: &mut String| match column(name) {
            Some(state) if state != "Yes" && known != "No" => *known = state,
            _ => {}
        };
        worse("Slave_IO_Running", &mut receiver);
        worse("Slave_SQL_Running", &mut applier);
        let seconds = |name: &str| column(name).and_then(|n| n.parse().ok()).unwrap_or(0.0);
        // A delay that is configured is no lag.
        behind = behind.max(seconds("Seconds_Behind_Master") - seconds("SQL_Delay"));
    });
    match result {
        Err(e) if server.lost => return Err(e),
        Err(e) => {
            unseen.push(format!("replication: {e}"));
            return Ok(());
        }
        Ok(()) => {}
    }
    sample.set("replica.Seconds_Behind_Master", Value::Number(behind));
    sample.set("replica.Slave_IO_Running", Value::Text(receiver));
    sample.set("replica.Slave_SQL_Running", Value::Text(applier));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_this_machine_are_not_taken_for_another_ones() {
        assert!(is_here("10.11.6-MariaDB at /run/mysqld/mysqld.sock"));
        assert!(is_here("10.11.6-MariaDB at 127.0.0.1:3306"));
        assert!(
            !is_here("10.11.6-MariaDB at db1.example:3306") && !is_here("8.0 at 10.0.0.127.:3306")
        );
    }
}
