//! A private server on a data directory that `restore` made, for work on rows that only a server can do; and the stock clients that
//! run with it.
//!
//! - BX1. It listens on one socket in a new directory of mode 0700, so nobody else gets in. It therefore checks no accounts.
//! - BX2. It ends with this program, whatever the outcome; after kill -9 of this program it ends if `setpriv` is installed.
//! - BX3. It writes no binary log, runs no events and replicates nothing.

use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use clap::{Args, ValueHint};
use frond_vfs::{OpenHow, OsVfs, Vfs};
use rustix::fs::{Mode, OFlags};

use super::copy::{self, failed};
use crate::connection::ConnectionArgs;
use crate::digest::live::connect::Server;
use crate::out::{Failure, Outcome};

/// Options of the private server.
#[derive(Args, Clone)]
pub struct PrivateArgs {
    /// The server program that is run on restored files
    #[arg(long, value_name = "PROGRAM", default_value = "mariadbd", value_hint = ValueHint::CommandName)]
    pub mariadbd: PathBuf,
    /// An option for it, such as --plugin-dir=/opt/plugins; may be given again
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true)]
    pub server_option: Vec<String>,
    /// Seconds that it may take until it answers, recovery included
    #[arg(long, value_name = "SECONDS", default_value = "3600")]
    pub start_timeout: u64,
}

/// A running private server.
pub struct Private {
    child: Child,
    /// The directory of the socket and of files with messages.
    place: PathBuf,
    /// A connection with all rights, made before any other.
    pub server: Server,
}

impl Private {
    /// Starts a server on `datadir`, with more options, and waits until it answers.
    pub fn start(datadir: &Path, how: &PrivateArgs, more: &[&str]) -> Outcome<Private> {
        let clock = OsVfs::new(datadir).map_err(failed("open", datadir))?;
        let datadir = std::fs::canonicalize(datadir).map_err(failed("look for", datadir))?;
        let place = std::env::temp_dir().join(format!("frond-{:016x}", clock.random_u64()));
        std::fs::DirBuilder::new().mode(0o700).create(&place).map_err(failed("make", &place))?;
        let (socket, log) = (place.join("s"), place.join("log"));
        let mut command = ended_with_us(&how.mariadbd);
        command.arg("--no-defaults");
        for (name, path) in [
            ("datadir", &datadir),
            ("socket", &socket),
            ("log-error", &log),
            ("pid-file", &place.join("pid")),
        ] {
            command.arg(format!("--{name}={}", path.display()));
        }
        command.args([
            "--skip-networking",
            "--skip-grant-tables",
            "--skip-log-bin",
            "--skip-slave-start",
            "--max-allowed-packet=1G",
            "--plugin-load-add=ha_frond.so",
            "--plugin-maturity=experimental",
        ]);
        // The server refuses to run as root unless it is told to.
        if std::fs::metadata("/proc/self").is_ok_and(|is| is.uid() == 0) {
            command.arg("--user=root");
        }
        command.args(more).args(&how.server_option);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(|e| {
            let _ = std::fs::remove_dir_all(&place);
            Failure::Request(format!("{}: {e}", how.mariadbd.display()))
        })?;
        let way = ConnectionArgs {
            socket: Some(socket.clone()),
            user: Some("root".into()),
            no_defaults: true,
            ..ConnectionArgs::default()
        };
        let until = clock.now() + std::time::Duration::from_secs(how.start_timeout);
        let why = loop {
            if socket.exists() {
                if let Ok(server) = Server::patient(&way, None, "everything") {
                    return Ok(Private { child, place, server });
                }
            }
            match child.try_wait() {
                Ok(Some(status)) => break format!("it ended ({status})"),
                Err(e) => break e.to_string(),
                Ok(None) if clock.now() > until => {
                    break format!("no answer within {} s (--start-timeout)", how.start_timeout)
                }
                Ok(None) => copy::pause(50),
            }
        };
        let told = last_lines(&log);
        end(&mut child, &place);
        Err(Failure::Request(format!("a server on {}: {why}\n{told}", datadir.display())))
    }

    /// A stock client that connects to it.
    pub fn client(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.arg("--no-defaults").arg("--user=root").env_remove("MYSQL_PWD");
        command.arg(format!("--socket={}", self.place.join("s").display()));
        command
    }

    /// Shuts it down in order, so that the next start has nothing to recover.
    pub fn stop(mut self) -> Outcome<()> {
        self.server.run("SHUTDOWN")?;
        let ended = self.child.wait().map_err(|e| Failure::Request(e.to_string()))?;
        match ended.success() {
            true => Ok(()),
            false => Err(Failure::Request(format!(
                "the server on the restored files failed when it ended ({ended})\n{}",
                last_lines(&self.place.join("log"))
            ))),
        }
    }

    /// The directory for messages of clients.
    pub fn place(&self) -> &Path {
        &self.place
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        end(&mut self.child, &self.place);
    }
}

fn end(child: &mut Child, place: &Path) {
    if matches!(child.try_wait(), Ok(None)) {
        let _ = child.kill();
    }
    let _ = child.wait();
    let _ = std::fs::remove_dir_all(place);
}

/// The command for the server, ended with this program where possible (BX2).
fn ended_with_us(program: &Path) -> Command {
    let path = std::env::var_os("PATH").unwrap_or_default();
    if std::env::split_paths(&path).any(|dir| dir.join("setpriv").is_file()) {
        let mut command = Command::new("setpriv");
        command.arg("--pdeathsig").arg("TERM").arg("--").arg(program);
        return command;
    }
    Command::new(program)
}

/// Errors of a log, or else its last lines.
fn last_lines(log: &Path) -> String {
    let Ok(text) = copy::text(log) else { return String::new() };
    let errors: Vec<&str> = text.lines().filter(|line| line.contains("[ERROR]")).collect();
    let lines = if errors.is_empty() { text.lines().collect() } else { errors };
    lines[lines.len().saturating_sub(8)..].join("\n")
}

/// Copies the output of one command to the input of another, with changes.
pub type Filter<'a> = &'a dyn Fn(ChildStdout, ChildStdin) -> io::Result<()>;

/// Runs `from | to`; messages go to files in `place`. Both have to succeed.
pub fn pipe(from: Command, to: Command, place: &Path) -> Outcome<()> {
    pipe_through(from, None, to, place).map(drop)
}

/// Runs `from | filter | to`, as [`pipe`]. Returns the messages of `from`.
pub fn pipe_through(
    mut from: Command,
    filter: Option<Filter<'_>>,
    mut to: Command,
    place: &Path,
) -> Outcome<String> {
    let told = |command: &Command, what: String| {
        Failure::Request(format!("{}: {what}", command.get_program().to_string_lossy()))
    };
    let messages = |name: &str| {
        let path = place.join(name);
        let how = OFlags::CREATE | OFlags::TRUNC | OFlags::WRONLY | OFlags::CLOEXEC;
        let file = rustix::fs::open(&path, how, Mode::RUSR | Mode::WUSR);
        let file = file.map_err(|e| failed("write", &path)(e.into()))?;
        Ok::<_, Failure>((Stdio::from(file), path))
    };
    let (from_out, from_path) = messages("from.messages")?;
    let (to_out, to_path) = messages("to.messages")?;
    from.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(from_out);
    let mut source = from.spawn().map_err(|e| told(&from, e.to_string()))?;
    let mut out = source.stdout.take();
    let direct = out.take_if(|_| filter.is_none()).map_or_else(Stdio::piped, Stdio::from);
    to.stdin(direct).stdout(Stdio::null()).stderr(to_out);
    let mut sink = to.spawn();
    // The sink holds the other end of the pipe. While it is open here, too, the source would not notice that the sink ended.
    to.stdin(Stdio::null());
    let into = sink.as_mut().ok().and_then(|sink| sink.stdin.take());
    let filtered = match (filter, out, into) {
        (Some(filter), Some(out), Some(into)) => filter(out, into),
        _ => Ok(()),
    };
    let sunk = sink.and_then(|mut sink| sink.wait());
    let sourced = source.wait();
    // The sink first: if the sink fails, the source fails as a consequence.
    for (command, status, path) in [(&to, sunk, &to_path), (&from, sourced, &from_path)] {
        let status = status.map_err(|e| told(command, e.to_string()))?;
        if !status.success() {
            return Err(told(command, format!("failed ({status})\n{}", last_lines(path))));
        }
    }
    filtered.map_err(|e| told(&from, e.to_string()))?;
    copy::text(&from_path)
}

/// A command as one would type it.
pub fn shown(command: &Command) -> String {
    let quoted = |text: &std::ffi::OsStr| {
        let text = text.to_string_lossy().into_owned();
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./:,@+".contains(c);
        match !text.is_empty() && text.chars().all(plain) {
            true => text,
            false => format!("'{}'", text.replace('\'', r"'\''")),
        }
    };
    let all = std::iter::once(command.get_program()).chain(command.get_args());
    all.map(quoted).collect::<Vec<_>>().join(" ")
}

/// A new directory for restored files. Dropping this removes it.
pub struct Work(pub PathBuf);

impl Work {
    /// Makes the directory in `given`, or beside `backup`.
    pub fn beside(given: Option<&Path>, backup: &Path) -> Outcome<Work> {
        let full = std::fs::canonicalize(backup).map_err(failed("look for", backup))?;
        Work::new(given.or(full.parent()).unwrap_or(Path::new("/")))
    }

    pub fn new(place: &Path) -> Outcome<Work> {
        let vfs = OsVfs::new(place).map_err(failed("open", place))?;
        let dir = place.join(format!(".frond-work-{:016x}", vfs.random_u64()));
        std::fs::DirBuilder::new().mode(0o700).create(&dir).map_err(failed("make", &dir))?;
        Ok(Work(dir))
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Checks that a file can be opened, so that a mistake is reported before the work begins.
pub fn readable(path: &Path) -> Outcome<()> {
    copy::open(path, OpenHow::READ).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_fails_when_either_side_does() {
        let dir = tempfile::tempdir().unwrap();
        let of = |script: &str| {
            let mut command = Command::new("sh");
            command.arg("-c").arg(script);
            command
        };
        let run = |a: &str, b: &str| pipe(of(a), of(b), dir.path());
        assert!(run("echo x", "cat").is_ok());
        let e = run("echo why >&2; exit 3", "cat").unwrap_err().to_string();
        assert!(e.contains("why"), "{e}");
        let e = run("yes", "echo other >&2; exit 1").unwrap_err().to_string();
        assert!(e.contains("other"), "{e}");
        assert!(pipe(of("true"), Command::new("/nowhere/x"), dir.path()).is_err());
        let filter: Filter<'_> = &|mut from, mut to| io::copy(&mut from, &mut to).map(drop);
        let run = |a: &str, b: &str| pipe_through(of(a), Some(filter), of(b), dir.path());
        let told = run("echo x; echo doubt >&2", r#"test "$(cat)" = x"#).unwrap();
        assert_eq!(told, "doubt\n");
        let e = run("echo why >&2; exit 3", "cat").unwrap_err().to_string();
        assert!(e.contains("why"), "{e}");
        let e = run("yes", "echo other >&2; exit 1").unwrap_err().to_string();
        assert!(e.contains("other"), "{e}");
        let missing = Command::new("/nowhere/x");
        assert!(pipe_through(of("yes"), Some(filter), missing, dir.path()).is_err());
    }

    #[test]
    fn commands_are_shown_as_one_types_them() {
        let mut command = Command::new("mariadb-binlog");
        command.arg("--stop-datetime=2026-11-23 10:00:00").arg("bin.000001");
        assert_eq!(
            shown(&command),
            "mariadb-binlog '--stop-datetime=2026-11-23 10:00:00' bin.000001"
        );
    }
}
