//! Prints the statements of a capture (pcap, pcapng, text of tcpdump), or only how fast it was read.
//!
//!     cargo run --release -p frond-capture --example capture -- FILE... [--quiet|--tsv] [--port N]
#![allow(clippy::disallowed_methods)]

use frond_capture::{Options, Traffic};
use frond_event::{Event, ForEach, Metric, Stream};
use std::io::Read;
use std::time::Instant;

fn main() -> Result<(), String> {
    let mut options = Options::default();
    let mut files = Vec::new();
    let (mut quiet, mut table) = (false, false);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--quiet" => quiet = true,
            "--tsv" => table = true,
            "--last-byte" => options.to_last_byte = true,
            "--port" => {
                let port = arguments.next().and_then(|p| p.parse().ok());
                options.ports.push(port.ok_or("--port needs a number")?);
            }
            _ => files.push(argument),
        }
    }
    let mut traffic = Traffic::new(options);
    let mut sink = ForEach::new(|event: &Event<'_>| match (quiet, table) {
        (true, _) => {}
        (false, true) => row(event),
        (false, false) => print(event),
    });
    let begun = Instant::now();
    let mut buffer = vec![0; 1 << 20];
    for (number, name) in files.iter().enumerate() {
        if number > 0 {
            traffic.next_file(number as u32, &mut sink)?;
        }
        let mut file = std::fs::File::open(name).map_err(|e| format!("{name}: {e}"))?;
        loop {
            let count = file.read(&mut buffer).map_err(|e| format!("{name}: {e}"))?;
            if count == 0 {
                break;
            }
            if let Err(what) = traffic.feed(&buffer[..count], &mut sink) {
                eprintln!("{name}: {what}");
                break;
            }
        }
    }
    traffic.finish(&mut sink);
    let seconds = begun.elapsed().as_secs_f64();
    for skip in &sink.skips {
        eprintln!("skipped: {skip:?}");
    }
    let summary = traffic.summary();
    eprintln!("{summary}");
    eprintln!("{:.0} packets/s", summary.packets as f64 / seconds);
    Ok(())
}

/// Time, kind and whole text; texts may hold line ends, so rows end with a record separator.
fn row(event: &Event<'_>) {
    let time = event.query_time().map_or(String::new(), |t| format!("{:.6}", t as f64 / 1e9));
    println!("{time}\t{:?}\t{}\x1e", event.kind, String::from_utf8_lossy(event.sql));
}

fn print(event: &Event<'_>) {
    let time = match event.query_time() {
        Some(time) => format!("{:.6}", time as f64 / 1e9),
        None => event.unmeasured.map_or("?", |u| u.describe()).to_string(),
    };
    let text = String::from_utf8_lossy;
    println!(
        "{} {time} {:?} user={} db={} host={} id={:?} error={:?} {:?} rows={:?} affected={:?} \
         warnings={:?} bytes={:?}",
        event.start.unwrap_or(0),
        event.kind,
        text(event.user),
        text(event.db),
        text(event.host),
        event.thread_id,
        event.error,
        text(&event.sql[..event.sql.len().min(200)]),
        event.metrics.get(Metric::RowsSent),
        event.metrics.get(Metric::RowsAffected),
        event.metrics.get(Metric::WarningCount),
        event.metrics.get(Metric::BytesSent),
    );
}
