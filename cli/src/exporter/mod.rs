//! `frond exporter`: counters of a running server for Prometheus.
//!
//! | file | noun |
//! |---|---|
//! | `catalog.rs` | names, kinds and helps |
//! | `metrics.rs` | both text formats |
//! | `http.rs` | requests and answers |
//! | `source.rs` | the connection to the server, and the last sample |
//!
//! Tested in the files and in `tests/sql/exporter.py`.

mod args;
mod catalog;
mod http;
mod metrics;
mod source;

use std::io::{ErrorKind, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::Duration;

use crate::digest::live::stop::{now, Stop};
use crate::out::{Failure, Outcome};
pub use args::ExporterArgs;
use source::Source;

const OLD: &str = "text/plain; version=0.0.4; charset=utf-8";
const OPEN: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

const PAGE: &str = "<!doctype html><title>frond exporter</title><a href=\"/metrics\">metrics</a>\n";

/// Serves until it is stopped.
pub fn run(args: &ExporterArgs, out: &mut dyn Write) -> Outcome<bool> {
    let source = Source::new(args.server.clone());
    if args.once {
        let sample = source.ask()?;
        write!(out, "{}", metrics::write(Some(&sample), args.openmetrics))?;
        return Ok(true);
    }
    let cannot =
        |e: std::io::Error| Failure::Request(format!("cannot listen at {}: {e}", args.listen));
    let listener = TcpListener::bind(args.listen).map_err(cannot)?;
    // A signal has to be noticed while nobody connects.
    listener.set_nonblocking(true).map_err(cannot)?;
    let address = listener.local_addr().map_err(cannot)?;
    let stop = Stop::after(args.run_time);
    // Reports a problem of now at once; the server may still come up later.
    if let Err(e) = source.ask() {
        eprintln!("frond: {e}");
    }
    writeln!(out, "http://{address}/metrics")?;
    out.flush()?;
    let (source, serving) = (Arc::new(source), Arc::new(AtomicUsize::new(0)));
    while !stop.is_due() {
        match listener.accept() {
            Ok((stream, _)) => {
                if serving.fetch_add(1, Ordering::Relaxed) >= http::MOST {
                    serving.fetch_sub(1, Ordering::Relaxed);
                    continue;
                }
                let (source, serving, open) = (source.clone(), serving.clone(), args.openmetrics);
                #[allow(clippy::disallowed_methods)]
                // The thread of a scrape is not one of the engine's.
                std::thread::spawn(move || {
                    // If the client has gone away, there is nobody to answer.
                    let _ = serve(stream, &source, open);
                    serving.fetch_sub(1, Ordering::Relaxed);
                });
            }
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                stop.sleep_until(now() + Duration::from_millis(20));
            }
            Err(e) => {
                eprintln!("frond: {e}");
                stop.sleep_until(now() + Duration::from_secs(1));
            }
        }
    }
    Ok(true)
}

fn serve(mut stream: TcpStream, source: &Source, open: bool) -> std::io::Result<()> {
    stream.set_nonblocking(false)?;
    let request = match http::read(&mut stream)? {
        Ok(request) => request,
        Err(status) => return http::answer(&mut stream, status, OLD, "", false),
    };
    match request.path.as_str() {
        "/metrics" => {
            let open = request.openmetrics.unwrap_or(open);
            let sample = source.recent();
            let text = metrics::write(sample.as_deref(), open);
            let kind = if open { OPEN } else { OLD };
            http::answer(&mut stream, "200 OK", kind, &text, request.head_only)
        }
        "/" => http::answer(&mut stream, "200 OK", "text/html", PAGE, request.head_only),
        _ => http::answer(&mut stream, "404 Not Found", OLD, "", request.head_only),
    }
}
