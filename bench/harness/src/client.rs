//! The lines that the iiBench client prints, and the client as a process.
//!
//! What it is for: starts `iibench` (bench/iibench), reads its JSON lines on a thread and hands them
//! over a channel, so that the driver can watch the server's process meanwhile.
//!
//! Invariants
//!
//! - CL1. The child does not outlive `Client`: dropping it kills and reaps.
//! - CL2. A line that is not understood ends the run with an error that quotes it; nothing is skipped.
//!
//! Tested below (parsing); the process by the demo itself.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Line {
    Interval(Interval),
    End(End),
}

/// What happened since the previous line. Latencies are single samples in microseconds.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct Interval {
    pub rows: u64,
    pub seconds: f64,
    pub interval_rows: u64,
    pub interval_seconds: f64,
    pub statement_us: Vec<u32>,
    pub marketsegment_us: Vec<u32>,
    pub registersegment_us: Vec<u32>,
    pub pdc_us: Vec<u32>,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct End {
    pub rows: u64,
    pub seconds: f64,
    pub stopped: String,
    pub statements: u64,
    pub client_cpu_seconds: f64,
    pub client_text_cpu_seconds: f64,
    pub text_bytes: u64,
    pub query_rounds: u64,
    pub query_rounds_missed: u64,
    pub query_errors: u64,
    pub sums: Sums,
}

/// Sums over all rows sent, to compare with what the table answers.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct Sums {
    pub rows: u64,
    pub cashregisterid: u64,
    pub customerid: u64,
    pub productid: u64,
}

/// Parses one line of the client.
pub fn parse_line(text: &str) -> Result<Line, String> {
    serde_json::from_str(text).map_err(|e| {
        let shown: String = text.chars().take(200).collect();
        format!("the client printed a line that is not understood ({e}): {shown}")
    })
}

pub struct Load<'a> {
    pub socket: &'a Path,
    pub engine: &'a str,
    pub rows: u64,
    pub seed: u64,
    pub interval_ms: u64,
    pub query_rate: u32,
    pub max_seconds: u64,
}

pub struct Client {
    child: Child,
    lines: Receiver<Result<Line, String>>,
}

impl Client {
    /// Starts the client; its errors go to this process's standard error.
    pub fn start(program: &Path, load: &Load) -> Result<Client, String> {
        let mut child = Command::new(program)
            .arg("--socket")
            .arg(load.socket)
            .args(["--engine", load.engine])
            .args(["--rows", &load.rows.to_string()])
            .args(["--seed", &load.seed.to_string()])
            .args(["--interval-ms", &load.interval_ms.to_string()])
            .args(["--query-rate", &load.query_rate.to_string()])
            .args(["--max-seconds", &load.max_seconds.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| format!("cannot start {}: {e}", program.display()))?;
        let out = child.stdout.take().ok_or("the client has no standard output")?;
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            for text in BufReader::new(out).lines() {
                let line = text.map_err(|e| e.to_string()).and_then(|t| parse_line(&t));
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Ok(Client { child, lines })
    }

    /// The next line; `Ok(None)` when none came in time. After the client's end it is an error that
    /// carries the exit status, so callers stop at `Line::End`.
    pub fn next(&mut self, timeout: Duration) -> Result<Option<Line>, String> {
        match self.lines.recv_timeout(timeout) {
            Ok(line) => line.map(Some),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => match self.child.wait() {
                Ok(status) => Err(format!("the client ended early ({status})")),
                Err(e) => Err(format!("the client ended early ({e})")),
            },
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // Already gone is the normal case; nothing can be done about any other error here.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_read() {
        let line = parse_line(
            r#"{"type":"interval","rows":2000,"seconds":1.5,"interval_rows":1000,
                "interval_seconds":0.5,"statement_us":[5000],"marketsegment_us":[80,90],
                "registersegment_us":[],"pdc_us":[70]}"#,
        );
        let Line::Interval(i) = line.unwrap() else { panic!("not an interval") };
        assert_eq!((i.rows, i.interval_rows), (2000, 1000));
        assert_eq!(i.statement_us, [5000]);
        assert_eq!(i.marketsegment_us, [80, 90]);
        assert!(i.registersegment_us.is_empty());
    }

    #[test]
    fn the_end_is_read() {
        let line = parse_line(
            r#"{"type":"end","rows":10,"seconds":0.1,"stopped":"time","statements":1,
                "client_cpu_seconds":0.01,"client_text_cpu_seconds":0.001,"text_bytes":640,
                "query_rounds":1,"query_rounds_missed":0,"query_errors":0,
                "sums":{"rows":10,"cashregisterid":1,"customerid":2,"productid":3}}"#,
        );
        let Line::End(e) = line.unwrap() else { panic!("not the end") };
        assert_eq!(e.stopped, "time");
        assert_eq!(e.sums.customerid, 2);
    }

    #[test]
    fn a_torn_line_is_an_error_that_quotes_it() {
        let error = parse_line(r#"{"type":"interval","rows":20"#).unwrap_err();
        assert!(error.contains(r#""rows":20"#), "{error}");
        assert!(parse_line(r#"{"type":"other"}"#).is_err());
    }
}
