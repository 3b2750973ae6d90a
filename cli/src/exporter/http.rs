//! The part of HTTP that a scrape needs: one request, one answer, and the connection ends.
//!
//! Invariants:
//!
//! - HX1. A client has `PATIENCE` to send its request and as long again to take its answer. At most
//!   `MOST` clients are served at once; further connections are closed. So clients that connect and
//!   send nothing block others only for a short time.
//! - HX2. A request is at most `LONGEST` bytes; nothing in it but method, path and Accept is read.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::digest::live::stop::now;

pub const MOST: usize = 16;
const PATIENCE: Duration = Duration::from_secs(5);
const LONGEST: usize = 8 << 10;

/// What the client asks for.
#[derive(Debug, PartialEq, Eq)]
pub struct Request {
    pub path: String,
    pub openmetrics: Option<bool>,
    pub head_only: bool,
}

/// Reads a request; `Err` has the status to answer.
pub fn read(stream: &mut TcpStream) -> io::Result<Result<Request, &'static str>> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let until = now() + PATIENCE;
    let mut bytes = Vec::new();
    let mut piece = [0; 1024];
    while !bytes.windows(4).any(|w| w == b"\r\n\r\n") && !bytes.windows(2).any(|w| w == b"\n\n") {
        if bytes.len() > LONGEST {
            return Ok(Err("431 Request Header Fields Too Large"));
        }
        let left = until.saturating_duration_since(now());
        if left.is_zero() {
            return Ok(Err("408 Request Timeout"));
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut piece)? {
            0 => return Ok(Err("400 Bad Request")),
            n => bytes.extend_from_slice(&piece[..n]),
        }
    }
    Ok(parse(&bytes))
}

fn parse(bytes: &[u8]) -> Result<Request, &'static str> {
    let text = String::from_utf8_lossy(bytes);
    let mut lines = text.lines();
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (method, target, version) = (words.next(), words.next(), words.next());
    let (Some(method), Some(target), Some(true)) =
        (method, target, version.map(|v| v.starts_with("HTTP/1.")))
    else {
        return Err("400 Bad Request");
    };
    if !matches!(method, "GET" | "HEAD") {
        return Err("405 Method Not Allowed");
    }
    let accept = lines.find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("accept").then(|| value.to_ascii_lowercase())
    });
    Ok(Request {
        path: target.split('?').next().unwrap_or_default().to_owned(),
        openmetrics: accept.map(|accept| accept.contains("application/openmetrics-text")),
        head_only: method == "HEAD",
    })
}

/// Sends the answer and ends the connection.
pub fn answer(
    stream: &mut TcpStream,
    status: &str,
    kind: &str,
    body: &str,
    head_only: bool,
) -> io::Result<()> {
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    if !head_only {
        stream.write_all(body.as_bytes())?;
    }
    stream.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_and_others_refused() {
        let plain = parse(b"GET /metrics?x=1 HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        assert_eq!(
            (plain.path.as_str(), plain.openmetrics, plain.head_only),
            ("/metrics", None, false)
        );
        let open = b"GET / HTTP/1.0\r\naccept: application/openmetrics-text;version=1.0.0,text/plain\r\n\r\n";
        assert_eq!(parse(open).unwrap().openmetrics, Some(true));
        assert_eq!(
            parse(b"GET / HTTP/1.1\r\nAccept: */*\r\n\r\n").unwrap().openmetrics,
            Some(false)
        );
        for (bytes, status) in [
            (&b"POST / HTTP/1.1\r\n\r\n"[..], "405 Method Not Allowed"),
            (b"GET /\r\n\r\n", "400 Bad Request"),
            (b"\xff\xfe\0\r\n\r\n", "400 Bad Request"),
            (b"", "400 Bad Request"),
        ] {
            assert_eq!(parse(bytes), Err(status));
        }
    }
}
