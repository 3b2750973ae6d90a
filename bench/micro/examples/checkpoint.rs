//! `cargo run --release -p frond-micro --example checkpoint [runs]`
//!
//! What a checkpoint of a tree of synthetic metadata costs. Commits wait while the version is taken.
//!
//! Times are the thread's processor time (Linux), so that a busy machine matters less.

// A stand-alone measuring program: there is no simulated clock to go through.
#![allow(clippy::disallowed_methods)]

use frond_tree::synthetic;

fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0)
}

fn timed<T>(what: &str, f: impl FnOnce() -> T) -> T {
    let start = cpu_ns();
    let out = f();
    println!("{what:<44} {:>12.3} ms", (cpu_ns() - start) as f64 / 1e6);
    out
}

fn main() {
    let runs: u64 = std::env::args().nth(1).and_then(|a| a.parse().ok()).unwrap_or(1_000_000);
    let tree = synthetic::tree(runs / 6, 45);
    let stats = tree.stats();
    println!("{} runs in {} leaves, {} inner nodes", stats.runs, stats.leaves, stats.inner_nodes);
    let version = timed("take the version, commits wait", || tree.version());
    let image = timed("encode all of it", || version.image());
    println!("{:<44} {:>12} bytes", "all of it", image.bytes.len());
    drop(version);
    let loaded = timed("open from all of it", || synthetic::load(&tree, &image.bytes));
    drop((image, loaded));
    let store = |what: &str| {
        let (image, written) = timed(what, || synthetic::checkpoint(&tree)).unwrap_or_default();
        println!("{:<44} {:>12} bytes in packs, {} in the image", "", written, image.len());
        image
    };
    store("first checkpoint");
    let leaves = stats.leaves;
    for share in [10_000, 1000, 100, 10] {
        // All over the place; a leaf that was met before has changed already.
        let some =
            (0..leaves / share).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15 + share) % leaves);
        if let Err(e) = synthetic::change(&tree, some) {
            println!("{e}");
        }
        store(&format!("one leaf in {share} changed"));
    }
    let image = store("nothing changed");
    let loaded = timed("open from packs", || synthetic::load(&tree, &image));
    assert_eq!(loaded.map(|tree| tree.stats().runs).ok(), Some(tree.stats().runs));
}
