//! A connection to a server, and queries on it.
//!
//! Invariants:
//!
//! - LC1. A password is never printed: not in messages, not in `Debug`.
//! - LC2. Rows are passed on as they arrive; a result is never whole in memory.
//! - LC3. The session's time zone is UTC and its results are bytes as the server has them.
//! - LC4. After an error that is not the server's, such as a timeout, the connection takes no further query: the late answer
//!   would be read as the next one's.
//!
//! No TLS: statements and answers are sent over the network unencrypted. For a remote server use an
//! SSH tunnel.

use std::error::Error;
use std::io::{BufRead, ErrorKind};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use frond_digest::live::Row;
use mysql::prelude::Queryable;
use mysql::{Conn, DriverError, OptsBuilder, Value};

use super::super::args::Source;
use super::option_file::{self, Defaults};
use crate::connection::ConnectionArgs;
use crate::out::{Failure, Outcome};

/// Usual paths of servers' sockets.
const SOCKETS: [&str; 4] = [
    "/run/mysqld/mysqld.sock",
    "/var/run/mysqld/mysqld.sock",
    "/var/lib/mysql/mysql.sock",
    "/tmp/mysql.sock",
];

const PORT: u16 = 3306;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout of a query.
const READ_TIMEOUT: Duration = Duration::from_secs(300);
/// The same for programs that take samples, and for connecting as a whole there: they have to say soon that a server hangs. Twice
/// this is less than the usual time limit of a scrape.
const SAMPLE_TIMEOUT: Duration = Duration::from_secs(4);

/// Where the server is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Way {
    Socket(PathBuf),
    Tcp(String, u16),
}

impl std::fmt::Display for Way {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Way::Socket(path) => write!(f, "{}", path.display()),
            Way::Tcp(host, port) => write!(f, "{host}:{port}"),
        }
    }
}

/// The text at `at`, empty if it is NULL or missing.
pub fn text(row: &Row<'_>, at: usize) -> String {
    String::from_utf8_lossy(row.get(at).copied().flatten().unwrap_or_default()).into_owned()
}

/// The number at `at`; `None` for NULL and for other text.
pub fn number<T: FromStr>(row: &Row<'_>, at: usize) -> Option<T> {
    text(row, at).parse().ok()
}

/// A connected session.
pub struct Server {
    conn: Conn,
    /// The privileges that the account needs, as GRANT names them.
    needs: &'static str,
    user: String,
    /// The server's own number of this connection.
    pub own: u64,
    /// The server's name for the report: `10.11.6-MariaDB at /run/mysqld/mysqld.sock`.
    pub name: String,
    pub mariadb: bool,
    /// Statements so far.
    pub asked: u64,
    /// A result was not read to its end: no further query is possible.
    abandoned: bool,
    /// The connection failed (LC4).
    pub lost: bool,
}

/// Settings from the environment.
struct Environment {
    home: Option<PathBuf>,
    user: Option<String>,
    password: Option<String>,
}

impl Environment {
    fn here() -> Environment {
        let var = |name| std::env::var(name).ok().filter(|v| !v.is_empty());
        Environment {
            home: var("HOME").map(PathBuf::from),
            user: var("USER").or_else(|| var("LOGNAME")),
            password: std::env::var("MYSQL_PWD").ok(),
        }
    }
}

impl Server {
    /// Connects as the options, the environment and the option files say; earlier ones take precedence.
    pub fn connect(
        args: &ConnectionArgs,
        port: Option<u16>,
        needs: &'static str,
    ) -> Outcome<Server> {
        Server::open(args, port, needs, Some(READ_TIMEOUT))
    }

    /// As `connect`, for samples.
    pub fn watched(
        args: &ConnectionArgs,
        port: Option<u16>,
        needs: &'static str,
    ) -> Outcome<Server> {
        Server::open(args, port, needs, Some(SAMPLE_TIMEOUT))
    }

    /// As `connect`, for statements that may take hours.
    pub fn patient(
        args: &ConnectionArgs,
        port: Option<u16>,
        needs: &'static str,
    ) -> Outcome<Server> {
        Server::open(args, port, needs, None)
    }

    fn open(
        args: &ConnectionArgs,
        port: Option<u16>,
        needs: &'static str,
        patience: Option<Duration>,
    ) -> Outcome<Server> {
        let here = Environment::here();
        let defaults = if args.no_defaults {
            Defaults::default()
        } else if let Some(file) = &args.defaults_file {
            option_file::read_one(file).map_err(Failure::Request)?
        } else {
            option_file::read_usual(here.home.as_deref())
        };
        let way = way(args, port, &defaults)?;
        let user = args.user.clone().or(defaults.user).or(here.user);
        let user = user.unwrap_or_else(|| "root".into());
        let password = match &args.password_file {
            Some(file) => Some(first_line(file)?),
            None => here.password.or(defaults.password),
        };
        let within = patience.map_or(CONNECT_TIMEOUT, |patience| patience.min(CONNECT_TIMEOUT));
        let opts = OptsBuilder::new()
            .user(Some(&user))
            .pass(password)
            .prefer_socket(false)
            .stmt_cache_size(0)
            .tcp_connect_timeout(Some(within))
            .read_timeout(patience);
        let opts = match &way {
            Way::Socket(path) => opts.socket(Some(path.to_string_lossy())),
            Way::Tcp(host, port) => opts.ip_or_hostname(Some(host)).tcp_port(*port),
        };
        let conn = connect_within(opts, within, patience == Some(SAMPLE_TIMEOUT));
        let conn = conn.map_err(|e| cannot_connect(&e, &way, &user, within))?;
        let mut server = Server {
            conn,
            needs,
            user,
            own: 0,
            name: String::new(),
            mariadb: false,
            asked: 0,
            abandoned: false,
            lost: false,
        };
        server.own = u64::from(server.conn.connection_id());
        server.run("SET time_zone = '+00:00', character_set_results = NULL")?;
        let version = server.value("SELECT VERSION()")?.unwrap_or_default();
        server.mariadb = version.contains("MariaDB");
        server.name = format!("{version} at {way}");
        // The queries of this program must not appear in the slow log that it reads.
        match server.run("SET SESSION slow_query_log = 0") {
            Err(e) if server.lost => Err(e),
            _ => Ok(server),
        }
    }

    /// The client, for statements whose results are compared as they are.
    pub fn client(&mut self) -> &mut Conn {
        &mut self.conn
    }

    /// A statement without a result.
    pub fn run(&mut self, sql: &str) -> Outcome<()> {
        self.rows(sql, &mut |_| true)
    }

    /// The first value of the first row; `None` if there is none or it is NULL.
    pub fn value(&mut self, sql: &str) -> Outcome<Option<String>> {
        let mut found = None;
        self.rows(sql, &mut |row| {
            let text = row.first().copied().flatten();
            found = found.take().or_else(|| text.map(|t| String::from_utf8_lossy(t).into_owned()));
            true
        })?;
        Ok(found)
    }

    /// The rows of a query, one after the other, until `each` returns false.
    pub fn rows(&mut self, sql: &str, each: &mut dyn FnMut(&Row<'_>) -> bool) -> Outcome<()> {
        self.ask(sql, &mut |_, row| each(row))
    }

    /// All rows of a query, one after the other.
    pub fn each_row(&mut self, sql: &str, each: &mut dyn FnMut(&Row<'_>)) -> Outcome<()> {
        self.rows(sql, &mut |row| {
            each(row);
            true
        })
    }

    /// Several statements in one round trip, up to the first that fails. `each` gets the number of the statement: once, without a
    /// row, when it is answered, and then with each row.
    pub fn batch(
        &mut self,
        statements: &[&str],
        each: &mut dyn FnMut(usize, Option<&Row<'_>>),
    ) -> Outcome<()> {
        let mut run = || {
            let mut result = self.conn.query_iter(statements.join("; "))?;
            let mut number = 0;
            while let Some(rows) = result.iter() {
                each(number, None);
                for row in rows {
                    each(number, Some(&raw(&row?.unwrap_raw())));
                }
                number += 1;
            }
            Ok(())
        };
        let result = run();
        self.asked += statements.len() as u64;
        result.map_err(|e| self.failure(&e))
    }

    /// As `rows`; `each` gets the columns' names, too.
    fn ask(&mut self, sql: &str, each: &mut dyn FnMut(&[String], &Row<'_>) -> bool) -> Outcome<()> {
        assert!(!self.abandoned, "a connection is not used after a result was left unread");
        if self.lost {
            return Err(Failure::NoAnswer(format!("the connection to {} failed", self.name)));
        }
        let result = self.rows_or_error(sql, each);
        result.map_err(|e| self.failure(&e))
    }

    /// As `ask`, with the client's error.
    #[allow(clippy::while_let_on_iterator)] // A `for` would own what may have to be left unread.
    fn rows_or_error(
        &mut self,
        sql: &str,
        each: &mut dyn FnMut(&[String], &Row<'_>) -> bool,
    ) -> Result<(), mysql::Error> {
        self.asked += 1;
        let mut result = self.conn.query_iter(sql)?;
        let name = |column: &mysql::Column| column.name_str().into_owned();
        let names: Vec<String> = result.columns().as_ref().iter().map(name).collect();
        while let Some(row) = result.next() {
            let values = row?.unwrap_raw();
            if !each(&names, &raw(&values)) {
                // Dropping it would read the rest of the result, perhaps gigabytes; the connection ends with the
                // program.
                std::mem::forget(result);
                self.abandoned = true;
                return Ok(());
            }
        }
        Ok(())
    }

    /// As `rows`, for statements whose columns differ from server to server: `each` gets their names, too.
    pub fn rows_with_names(
        &mut self,
        sql: &str,
        each: &mut dyn FnMut(&[String], &Row<'_>),
    ) -> Outcome<()> {
        self.ask(sql, &mut |names, row| {
            each(names, row);
            true
        })
    }

    /// Names of a table's columns, in capitals; none if the table is missing or may not be seen.
    pub fn columns(&mut self, schema: &str, table: &str) -> Outcome<Vec<String>> {
        let mut names = Vec::new();
        let sql = format!(
            "SELECT UPPER(COLUMN_NAME) FROM information_schema.COLUMNS \
             WHERE TABLE_SCHEMA = '{schema}' AND TABLE_NAME = '{table}'"
        );
        self.each_row(&sql, &mut |row| names.push(text(row, 0)))?;
        Ok(names)
    }

    /// The message for an error, with advice.
    fn failure(&mut self, error: &mysql::Error) -> Failure {
        let mysql::Error::MySqlError(server) = error else {
            self.lost = true;
            let failed = format!("the connection to {} failed", self.name);
            return match is_late(error) {
                true => Failure::NoAnswer(format!("{failed}: no answer in time")),
                false => Failure::Request(format!("{failed}: {error}")),
            };
        };
        let advice = match server.code {
            // A privilege on a table, on a column or of a kind is missing.
            1142 | 1143 | 1227 | 1044 => {
                format!(": as an administrator, {}", grant(self.needs, &self.user))
            }
            1146 | 1049 => ": the system tables are not all there: run mariadb-upgrade".into(),
            _ => String::new(),
        };
        Failure::Request(format!("{}: {}{advice}", self.name, server.message))
    }
}

/// The values of a row of a text result.
fn raw(values: &[Option<Value>]) -> Vec<Option<&[u8]>> {
    values
        .iter()
        .map(|value| match value {
            Some(Value::Bytes(bytes)) => Some(bytes.as_slice()),
            _ => None,
        })
        .collect()
}

/// The privileges that an account needs to read `source`.
pub fn needs(source: Source) -> &'static str {
    match source {
        Source::SlowLogTable => "SELECT ON mysql.slow_log",
        Source::Digests => "SELECT ON performance_schema.*",
        Source::Processlist => "PROCESS ON *.*",
    }
}

/// The GRANT statement that gives `user` the privileges `what`.
pub fn grant(what: &str, user: &str) -> String {
    format!("GRANT {what} TO '{user}'@...")
}

/// Advice for when no server answers.
const THERE: &str = "; is the server running, and there? See --socket and --host";

/// Connects and logs in within `time`. Connecting to a socket has no limit of its own: it waits while the queue of a stopped server
/// is full, and such a server never greets. So a thread does it. `again`: the caller will try again and again, so two
/// of these never run at once, because each takes a place in the queue.
fn connect_within(opts: OptsBuilder, time: Duration, again: bool) -> Result<Conn, mysql::Error> {
    static CONNECTING: AtomicBool = AtomicBool::new(false);
    let late = || Err(mysql::Error::DriverError(DriverError::ConnectTimeout));
    if again && CONNECTING.swap(true, Ordering::Relaxed) {
        return late();
    }
    let (send, receive) = channel();
    #[allow(clippy::disallowed_methods)] // This thread is none of the engine's.
    std::thread::spawn(move || {
        let made = Conn::new(opts);
        if again {
            CONNECTING.store(false, Ordering::Relaxed);
        }
        // If nobody waits any more, the connection ends here.
        let _ = send.send(made);
    });
    receive.recv_timeout(time).unwrap_or_else(|_| late())
}

/// Whether the server did not answer in time.
fn is_late(error: &mysql::Error) -> bool {
    let io = match error {
        mysql::Error::IoError(e) => Some(e),
        mysql::Error::CodecError(e) => e.source().and_then(|e| e.downcast_ref()),
        mysql::Error::DriverError(DriverError::ConnectTimeout) => return true,
        _ => None,
    };
    io.is_some_and(|e: &std::io::Error| {
        matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
    })
}

fn cannot_connect(error: &mysql::Error, way: &Way, user: &str, within: Duration) -> Failure {
    if is_late(error) {
        let within = within.as_secs();
        let what = format!("cannot connect to {way}: no answer within {within} seconds{THERE}");
        return Failure::NoAnswer(what);
    }
    let advice = match error {
        mysql::Error::MySqlError(e) if matches!(e.code, 1045 | 1698) => {
            format!(
                "{} (give the password in MYSQL_PWD, with --password-file or in an option file; the user is '{user}', or say --user)",
                e.message
            )
        }
        mysql::Error::MySqlError(e) => e.message.clone(),
        mysql::Error::IoError(e) => format!("{e}{THERE}"),
        // For these errors the client's own text is the debug form of a Rust value.
        mysql::Error::DriverError(DriverError::CouldNotConnect(Some((_, what, kind)))) => {
            match kind {
                ErrorKind::NotFound => format!("there is no such socket{THERE}"),
                ErrorKind::ConnectionRefused => format!("nobody listens there{THERE}"),
                ErrorKind::PermissionDenied => "this account may not use the socket".into(),
                _ => format!("{what}{THERE}"),
            }
        }
        other => other.to_string(),
    };
    Failure::Request(format!("cannot connect to {way}: {advice}"))
}

fn way(args: &ConnectionArgs, port: Option<u16>, defaults: &Defaults) -> Outcome<Way> {
    let host =
        args.host.as_ref().or(if args.socket.is_some() { None } else { defaults.host.as_ref() });
    let is_here = host.is_none_or(|host| host == "localhost");
    if let (Some(host), false) = (host, is_here && port.is_none()) {
        // As in the servers' own clients: a port on this host means TCP.
        let host = if is_here { "127.0.0.1" } else { host.as_str() };
        return Ok(Way::Tcp(host.into(), port.or(defaults.port).unwrap_or(PORT)));
    }
    if let Some(socket) = args.socket.as_ref().or(defaults.socket.as_ref()) {
        return Ok(Way::Socket(socket.clone()));
    }
    if let Some(port) = port {
        return Ok(Way::Tcp("127.0.0.1".into(), port));
    }
    let found = SOCKETS.iter().find(|path| Path::new(path).exists());
    found.map(|path| Way::Socket(path.into())).ok_or_else(|| {
        Failure::Request(format!(
            "no server's socket is at {}: name it with --socket, or a host with --host",
            SOCKETS[0]
        ))
    })
}

/// A password from a file, or from standard input.
#[allow(clippy::disallowed_methods)] // It is no file of a database.
fn first_line(file: &Path) -> Outcome<String> {
    let fail = |e: std::io::Error| Failure::Request(format!("{}: {e}", file.display()));
    let mut line = String::new();
    if file == Path::new("-") {
        std::io::stdin().lock().read_line(&mut line).map_err(fail)?;
    } else {
        let open = std::fs::File::open(file).map_err(fail)?;
        std::io::BufReader::new(open).read_line(&mut line).map_err(fail)?;
    }
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::net::{UnixListener, UnixStream};

    /// The content of a packet of the protocol; `None`: the client has gone.
    fn read(from: &mut UnixStream) -> Option<Vec<u8>> {
        let mut head = [0; 4];
        from.read_exact(&mut head).ok()?;
        let mut content = vec![0; usize::from(head[0]) + 256 * usize::from(head[1])];
        from.read_exact(&mut content).ok()?;
        Some(content)
    }

    fn write(to: &mut UnixStream, number: u8, content: &[u8]) {
        let _ = to.write_all(&[&[content.len() as u8, 0, 0, number], content].concat());
    }

    /// A server that has one number, and answers SLOW late.
    #[allow(clippy::disallowed_methods)] // Threads of a test.
    fn serve(listener: UnixListener) {
        const OK: [u8; 7] = [0, 0, 0, 2, 0, 0, 0];
        std::thread::spawn(move || {
            let (mut client, _) = listener.accept().unwrap();
            let greeting: [&[u8]; 4] = [
                b"\x0a10.11.6-MariaDB\0\x07\0\0\0abcdefgh\0\x01\x82\x21\x02\0\x08\0\x15",
                &[0; 10],
                b"abcdefghijkl\0",
                b"mysql_native_password\0",
            ];
            write(&mut client, 0, &greeting.concat());
            read(&mut client);
            write(&mut client, 2, &OK);
            while let Some(command) = read(&mut client) {
                if command.ends_with(b"SLOW") {
                    std::thread::sleep(Duration::from_millis(1500));
                }
                if !command.starts_with(b"\x03SELECT") {
                    write(&mut client, 1, &OK);
                    continue;
                }
                let column = b"\x03def\0\0\0\x01a\0\x0c\x21\0\xff\0\0\0\xfd\0\0\0\0\0";
                let end = [0xfe, 0, 0, 2, 0];
                let packets: [&[u8]; 5] = [b"\x01", column, &end, b"\x0816777216", &end];
                for (number, content) in packets.iter().enumerate() {
                    write(&mut client, number as u8 + 1, content);
                }
            }
        });
    }

    #[test]
    fn a_late_answer_is_not_read_as_that_of_the_next_query() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("s");
        serve(UnixListener::bind(&socket).unwrap());
        let args = ConnectionArgs {
            socket: Some(socket),
            user: Some("me".into()),
            no_defaults: true,
            ..ConnectionArgs::default()
        };
        let patience = Some(Duration::from_secs(1));
        let mut server = Server::open(&args, None, "nothing", patience).unwrap();
        server.run("FINE").unwrap();
        assert!(matches!(server.run("SLOW"), Err(Failure::NoAnswer(_))));
        assert!(server.lost && server.run("FINE").is_err(), "LC4");
    }
}
