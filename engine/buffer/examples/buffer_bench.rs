//! `cargo run --release -p frond-buffer --example buffer_bench [entries] [cpu]`
//!
//! With `cpu` the times are the thread's processor time (Linux), for a machine that is busy.

// A stand-alone measuring program: there is no simulated clock to go through.
#![allow(clippy::disallowed_methods)]

use std::time::Instant;

/// Nanoseconds this thread has run.
fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0)
}

fn main() {
    let mut args = std::env::args().skip(1);
    let entries = args.next().and_then(|a| a.parse().ok()).unwrap_or(10_000_000);
    let zero = Instant::now();
    let f = match args.next().as_deref() {
        Some("cpu") => frond_buffer::bench::run(entries, &cpu_ns),
        _ => frond_buffer::bench::run(entries, &|| zero.elapsed().as_nanos() as u64),
    };
    println!("entries                        {}", f.entries);
    println!("random batch insert, last 10%  {:.1} ns/entry", f.random_insert_ns);
    println!("random batch insert, mean      {:.1} ns/entry", f.random_insert_mean_ns);
    println!("ascending batch insert         {:.1} ns/entry", f.ascending_insert_ns);
    println!("random get                     {:.1} ns", f.get_ns);
    println!("random scan of 16              {:.1} ns", f.scan_ns);
    println!("long scans                     {:.1} ns/entry", f.long_scan_ns);
    println!("iteration when frozen          {:.1} ns/entry", f.flush_ns);
    println!("overhead, random               {:.1} bytes/entry", f.overhead_bytes);
    println!("overhead, ascending            {:.1} bytes/entry", f.overhead_ascending_bytes);
    println!("drop                           {:.1} ms", f.drop_ms);
    println!("hot row, change and read       {:.1} ns", f.hot_ns);
    println!("hot row, left behind           {} bytes", f.hot_bytes);
}
