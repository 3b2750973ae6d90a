//! `cargo run --release -p frond-micro --example locks [locks]`
//!
//! Times are the thread's processor time (Linux), so that a busy machine matters less.

// A stand-alone measuring program: there is no simulated clock to go through.
#![allow(clippy::disallowed_methods)]

fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0)
}

fn main() {
    let n = std::env::args().nth(1).and_then(|a| a.parse().ok()).unwrap_or(1_000_000);
    let f = frond_micro::locks::run(n, &cpu_ns);
    println!("new lock, 1000 a transaction   {:.1} ns", f.lock_ns);
    println!("release, 1000 a transaction    {:.1} ns", f.release_ns);
    println!("transaction of one lock        {:.1} ns", f.single_ns);
    println!("write set put, ascending       {:.1} ns", f.put_ns);
}
