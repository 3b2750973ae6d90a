//! Prints the codec benchmark: `cargo run --release -p frond-run --example codec_bench [lz4|zstd]
//! [page bytes]`. Times are processor time of the thread where the system tells it (Linux), so that
//! other load on the machine does not count.
#![allow(clippy::disallowed_methods)]

use std::time::{Duration, Instant};

use frond_run::bench::{codec, CodecBenchOptions};
use frond_run::Compression;

/// Processor time of this thread.
fn thread_time() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split(' ').next()?.parse().ok().map(Duration::from_nanos)
}

fn main() -> frond_base::Result<()> {
    let mut options = CodecBenchOptions::default();
    for arg in std::env::args().skip(1) {
        match arg.as_str() {
            "lz4" => options.compression = Compression::Lz4,
            "zstd" => options.compression = Compression::Zstd(1),
            other => options.page_bytes = other.parse().unwrap_or(options.page_bytes),
        }
    }
    let start = Instant::now();
    println!("{}", codec(&options, &|| thread_time().unwrap_or_else(|| start.elapsed()))?);
    Ok(())
}
