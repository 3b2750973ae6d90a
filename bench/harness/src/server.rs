//! Private MariaDB servers: started, asked, stopped.
//!
//! Purpose: one server with its own data directory, socket and configuration file, that leaves
//! nothing behind. `Site` makes the system tables once; each server works on a copy.
//!
//! Invariants
//!
//! - SV1. A server listens on a Unix socket only and reads no configuration but the file written here.
//! - SV2. It does not outlive `Server`: dropping it shuts down by SQL, then kills by process id. If this
//!   process is killed, the kernel ends the server (setpriv --pdeathsig).
//! - SV3. The data directory is removed with the server.
//!
//! Not here: touch any other server on the machine.

use std::fs;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::interrupt;

const START_TIMEOUT: Duration = Duration::from_secs(60);
const STOP_TIMEOUT: Duration = Duration::from_secs(15);
const POLL: Duration = Duration::from_millis(50);

/// The programs of the installed server.
#[derive(Clone, Debug)]
pub struct Programs {
    pub mariadbd: PathBuf,
    pub install_db: PathBuf,
    pub client: PathBuf,
}

/// Where servers live: a data directory with the system tables to copy, and a short path for sockets
/// (a Unix socket's path is limited to 107 bytes, a checkout's is not).
pub struct Site {
    programs: Programs,
    work: PathBuf,
    template: PathBuf,
    sockets: TempDir,
}

impl Site {
    /// Creates the system tables below `work`, which must exist; data, logs and configuration files
    /// of the servers go there too. The caller removes it.
    pub fn create(programs: Programs, work: &Path) -> Result<Site, String> {
        let template = work.join("template");
        let log = work.join("install-db.log");
        let out = fs::File::create(&log).map_err(|e| format!("{}: {e}", log.display()))?;
        let err = out.try_clone().map_err(|e| e.to_string())?;
        let mut command = Command::new(&programs.install_db);
        command
            .arg("--no-defaults")
            .arg(format!("--datadir={}", template.display()))
            .args(["--auth-root-authentication-method=normal", "--skip-test-db"])
            .arg("--innodb-log-file-size=8M")
            // At its start a server deletes its temporary files in its temporary directory, even those of
            // another running server.
            .env("TMPDIR", work)
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(err);
        if is_root() {
            command.arg("--user=root");
        }
        let status = command
            .status()
            .map_err(|e| format!("cannot start {}: {e}", programs.install_db.display()))?;
        if !status.success() {
            return Err(format!("mariadb-install-db failed:\n{}", tail(&log, 12)));
        }
        let sockets = tempfile::tempdir().map_err(|e| format!("no directory for sockets: {e}"))?;
        Ok(Site { programs, work: work.to_path_buf(), template, sockets })
    }
}

pub struct Server {
    child: Child,
    programs: Programs,
    config: PathBuf,
    data: PathBuf,
    socket: PathBuf,
    log: PathBuf,
}

impl Server {
    /// Starts a server named `name` with `settings` in its [mariadbd] section, and waits until it
    /// answers. The configuration stays in `<name>.cnf` of the site's directory, the log in
    /// `<name>.log`.
    pub fn start(site: &Site, name: &str, settings: &[String]) -> Result<Server, String> {
        let programs = &site.programs;
        let data = site.work.join(format!("{name}-data"));
        let socket = site.sockets.path().join(format!("{name}.sock"));
        let log = site.work.join(format!("{name}.log"));
        let config = site.work.join(format!("{name}.cnf"));
        copy_tree(&site.template, &data).map_err(|e| format!("{}: {e}", data.display()))?;
        let tmp = site.work.join(format!("{name}-tmp"));
        fs::create_dir_all(&tmp).map_err(|e| format!("{}: {e}", tmp.display()))?;
        let text = config_text(&data, &tmp, &socket, &log, settings);
        fs::write(&config, text).map_err(|e| format!("{}: {e}", config.display()))?;

        let child = spawn(&programs.mariadbd, &config)?;
        let mut server = Server { child, programs: programs.clone(), config, data, socket, log };
        server.wait_until_it_answers()?;
        Ok(server)
    }

    /// Ends the server at once, as a crash does. Only [`restart`](Self::restart) may follow.
    pub fn kill(&mut self) -> Result<(), String> {
        self.child.kill().map_err(|e| format!("cannot kill the server: {e}"))?;
        self.child.wait().map_err(|e| format!("the killed server does not end: {e}"))?;
        // An old socket would be taken for the new server's.
        let _ = fs::remove_file(&self.socket);
        Ok(())
    }

    /// Starts the server again on its data after [`kill`](Self::kill), and waits until it answers.
    pub fn restart(&mut self) -> Result<(), String> {
        self.child = spawn(&self.programs.mariadbd, &self.config)?;
        self.wait_until_it_answers()
    }

    fn wait_until_it_answers(&mut self) -> Result<(), String> {
        let deadline = Instant::now() + START_TIMEOUT;
        loop {
            if interrupt::requested() {
                return Err(interrupt::MESSAGE.into());
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(format!("the server ended ({status}):\n{}", tail(&self.log, 12)));
            }
            if self.socket.exists() && self.sql("SELECT 1").is_ok() {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(format!(
                    "the server does not answer after {} s:\n{}",
                    START_TIMEOUT.as_secs(),
                    tail(&self.log, 12)
                ));
            }
            thread::sleep(POLL);
        }
    }

    /// Runs SQL through the command-line client; rows come back as lines, columns separated by tabs.
    pub fn sql(&self, text: &str) -> Result<String, String> {
        let out = Command::new(&self.programs.client)
            .args(["--no-defaults", "--user=root", "--batch", "--skip-column-names"])
            .arg(format!("--socket={}", self.socket.display()))
            .args(["--execute", text])
            .stdin(Stdio::null())
            .output()
            .map_err(|e| format!("cannot start {}: {e}", self.programs.client.display()))?;
        if !out.status.success() {
            return Err(String::from_utf8_lossy(&out.stderr).trim().to_string());
        }
        Ok(String::from_utf8_lossy(&out.stdout).into_owned())
    }

    /// Runs a script of any length through the command-line client; its first error ends it.
    pub fn script(&self, text: &str) -> Result<(), String> {
        let mut child = Command::new(&self.programs.client)
            .args(["--no-defaults", "--user=root", "--batch", "--skip-column-names"])
            .arg(format!("--socket={}", self.socket.display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|e| format!("cannot start {}: {e}", self.programs.client.display()))?;
        // A client that ends early closes the pipe; its own message says why.
        let written = child.stdin.take().map_or(Ok(()), |mut to| to.write_all(text.as_bytes()));
        let out = child.wait_with_output().map_err(|e| e.to_string())?;
        if !out.status.success() {
            return Err(String::from_utf8_lossy(&out.stderr).trim().to_string());
        }
        written.map_err(|e| format!("the client does not read its script: {e}"))
    }

    /// Whether `CREATE TABLE ... ENGINE=name` would use that engine.
    pub fn has_engine(&self, name: &str) -> bool {
        let query = format!(
            "SELECT COUNT(*) FROM information_schema.ENGINES \
             WHERE ENGINE = '{name}' AND SUPPORT IN ('YES', 'DEFAULT')"
        );
        self.sql(&query).is_ok_and(|answer| answer.trim() == "1")
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn socket(&self) -> &Path {
        &self.socket
    }

    pub fn data(&self) -> &Path {
        &self.data
    }

    /// Error lines of the server's log, for messages about an engine that did not load.
    pub fn log_errors(&self) -> String {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let errors: Vec<&str> = text.lines().filter(|l| l.contains("[ERROR]")).collect();
        errors[errors.len().saturating_sub(4)..].join("\n")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Nothing in the data directory is needed again, so a slow clean shutdown is not waited for.
        let _ = self.sql("SHUTDOWN");
        let deadline = Instant::now() + STOP_TIMEOUT;
        while matches!(self.child.try_wait(), Ok(None)) {
            if Instant::now() > deadline {
                let _ = self.child.kill();
                break;
            }
            thread::sleep(POLL);
        }
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.data);
    }
}

/// A server with the given configuration, in a process group of its own: Ctrl-C reaches this program
/// alone, which then stops in order.
fn spawn(mariadbd: &Path, config: &Path) -> Result<Child, String> {
    let mut command = base_command(mariadbd);
    command.arg(format!("--defaults-file={}", config.display()));
    if is_root() {
        command.arg("--user=root");
    }
    command.process_group(0).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().map_err(|e| format!("cannot start {}: {e}", mariadbd.display()))
}

/// setpriv, where it exists, so that the server ends with this process whatever happens to it.
fn base_command(mariadbd: &Path) -> Command {
    const SETPRIV: &str = "/usr/bin/setpriv";
    if Path::new(SETPRIV).exists() {
        let mut command = Command::new(SETPRIV);
        command.args(["--pdeathsig", "TERM"]).arg(mariadbd);
        command
    } else {
        Command::new(mariadbd)
    }
}

fn config_text(data: &Path, tmp: &Path, socket: &Path, log: &Path, settings: &[String]) -> String {
    let mut text = format!(
        "[mariadbd]\n\
         datadir={}\n\
         tmpdir={}\n\
         socket={}\n\
         log_error={}\n\
         pid_file={}\n\
         skip_networking\n\
         skip_log_bin\n\
         skip_name_resolve\n\
         performance_schema=OFF\n\
         query_cache_type=OFF\n\
         key_buffer_size=8M\n\
         aria_pagecache_buffer_size=8M\n\
         max_allowed_packet=64M\n\
         plugin_maturity=experimental\n",
        data.display(),
        tmp.display(),
        socket.display(),
        log.display(),
        socket.with_extension("pid").display(),
    );
    for line in settings {
        text.push_str(line);
        text.push('\n');
    }
    text
}

fn copy_tree(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_tree(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), &target)?;
        }
    }
    Ok(())
}

/// The effective user id, from /proc: the server refuses to run as root without being told to.
fn is_root() -> bool {
    fs::read_to_string("/proc/self/status")
        .ok()
        .and_then(|s| {
            let line = s.lines().find_map(|l| l.strip_prefix("Uid:").map(str::to_string))?;
            line.split_ascii_whitespace().nth(1).map(|uid| uid == "0")
        })
        .unwrap_or(false)
}

/// The last `lines` lines of a file; empty when it cannot be read.
fn tail(path: &Path, lines: usize) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configuration_is_private_and_carries_the_settings() {
        let settings = ["plugin_load_add=ha_x.so".to_string()];
        let text = config_text(
            Path::new("/d"),
            Path::new("/t"),
            Path::new("/s.sock"),
            Path::new("/l"),
            &settings,
        );
        assert!(text.starts_with("[mariadbd]\n"));
        assert!(text.contains("\nskip_networking\n"));
        assert!(text.contains("\nskip_log_bin\n"));
        assert!(text.ends_with("plugin_load_add=ha_x.so\n"));
    }

    #[test]
    fn trees_are_copied_with_their_directories() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("a/mysql")).unwrap();
        fs::write(dir.path().join("a/mysql/t.frm"), "x").unwrap();
        copy_tree(&dir.path().join("a"), &dir.path().join("b")).unwrap();
        assert_eq!(fs::read_to_string(dir.path().join("b/mysql/t.frm")).unwrap(), "x");
    }

    #[test]
    fn tail_of_a_missing_file_is_empty() {
        assert_eq!(tail(Path::new("/nowhere/log"), 3), "");
    }
}
