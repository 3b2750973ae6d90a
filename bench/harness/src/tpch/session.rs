//! One connection that runs query after query.
//!
//! Purpose: the command-line client as a child that stays, so that a query's time does not include its start and the
//! connect.
//!
//! Invariants
//!
//! - TS1. The child does not outlive `Session`: dropping it kills and reaps.
//! - TS2. A query's answer ends with a row that no query returns; an error ends the session.
//!
//! Tested by the benchmark itself (stage 30).

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

use crate::server::Server;

/// The row that ends an answer (TS2).
const END: &str = "end of this answer";

/// A query's rows, and its cost.
pub struct Answer {
    pub rows: Vec<String>,
    pub seconds: f64,
    pub cpu_seconds: f64,
}

pub struct Session {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    server: u32,
}

impl Session {
    /// `client` is the program; the connection begins in `database`.
    pub fn start(
        client: &std::path::Path,
        server: &Server,
        database: &str,
    ) -> Result<Session, String> {
        let mut child = Command::new(client)
            .args([
                "--no-defaults",
                "--user=root",
                "--batch",
                "--skip-column-names",
                "--unbuffered",
            ])
            .arg(format!("--socket={}", server.socket().display()))
            .arg(format!("--database={database}"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|e| format!("cannot start {}: {e}", client.display()))?;
        let to = child.stdin.take().ok_or("the client has no standard input")?;
        let from = child.stdout.take().ok_or("the client has no standard output")?;
        Ok(Session { child, to, from: BufReader::new(from), server: server.pid() })
    }

    /// One or more statements without their last semicolon; the rows of all.
    pub fn ask(&mut self, sql: &str) -> Result<Answer, String> {
        let cpu = cpu_seconds(self.server)?;
        let began = Instant::now();
        let sent = writeln!(self.to, "{sql};\nSELECT '{END}';").and_then(|()| self.to.flush());
        let mut rows = Vec::new();
        loop {
            let mut line = String::new();
            let read = self.from.read_line(&mut line).map_err(|e| format!("the client: {e}"))?;
            if read == 0 || sent.is_err() {
                let mut why = String::new();
                let _ = self.child.stderr.take().map(|mut from| from.read_to_string(&mut why));
                return Err(format!("a query failed: {}\n{sql}", why.trim()));
            }
            let row = line.trim_end_matches('\n');
            if row == END {
                break;
            }
            rows.push(row.to_string());
        }
        let seconds = began.elapsed().as_secs_f64();
        Ok(Answer { rows, seconds, cpu_seconds: cpu_seconds(self.server)? - cpu })
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // Already gone is the normal case after an error.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// CPU seconds of all threads of a process so far, by the scheduler's clock: /proc/<pid>/stat counts in steps of 10 ms, and
/// many queries take less.
fn cpu_seconds(pid: u32) -> Result<f64, String> {
    let tasks = format!("/proc/{pid}/task");
    let mut nanos = 0;
    for task in fs::read_dir(&tasks).map_err(|e| format!("{tasks}: {e}"))?.flatten() {
        // A thread may end meanwhile.
        let Ok(text) = fs::read_to_string(task.path().join("schedstat")) else { continue };
        nanos += text.split(' ').next().and_then(|n| n.parse::<u64>().ok()).unwrap_or(0);
    }
    Ok(nanos as f64 / 1e9)
}
