//! `cargo run --release -p frond-micro --example checkpoint [runs]`
//!
//! Prints the cost of a checkpoint of a tree of synthetic metadata, the cost of opening it, and its memory. Commits
//! wait while the version is taken. Then the same for the block map of a table file with as many blocks.
//!
//! The first of two times is the thread's processor time (Linux), so that a busy machine matters less; the system
//! counts it in steps of some milliseconds. The second is by the clock.

// A stand-alone measuring program: there is no simulated clock to go through.
#![allow(clippy::disallowed_methods)]

use frond_base::{BlockId, Result, TableId};
use frond_space::{BlockChange, Extent, TableFile, TableFileOptions};
use frond_tree::synthetic;
use frond_vfs::OsVfs;

fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0)
}

fn timed<T>(what: &str, f: impl FnOnce() -> T) -> T {
    let (start, clock) = (cpu_ns(), std::time::Instant::now());
    let out = f();
    let (cpu, clock) = ((cpu_ns() - start) as f64 / 1e6, clock.elapsed().as_secs_f64() * 1e3);
    println!("{what:<44} {cpu:>12.3} ms {clock:>12.3} ms");
    out
}

/// Resident memory of the process, bytes.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    text.split(' ').nth(1).and_then(|n| n.parse::<u64>().ok()).unwrap_or(0) * 4096
}

/// A sparse file with `count` blocks of a unit each, and its checkpoints.
fn block_map(count: u64) -> Result<()> {
    const NAME: &str = "1.frd";
    let dir = std::env::temp_dir().join(format!("frond-checkpoint-{}", std::process::id()));
    let failed = |e| frond_base::Error::io("use the directory of", NAME, e);
    std::fs::create_dir(&dir).map_err(failed)?;
    let vfs = OsVfs::new(&dir).map_err(failed)?;
    let options =
        TableFileOptions { database: 1, table: TableId(1), direct: false, read_only: false };
    drop(TableFile::create(&vfs, NAME, &options, 0)?);
    let raw = std::fs::OpenOptions::new().write(true).open(dir.join(NAME)).map_err(failed)?;
    raw.set_len((count + 2) * 4096).map_err(failed)?;
    let before = resident();
    let (file, _) = TableFile::open(&vfs, NAME, &options)?;
    for block in 1..=count {
        file.replay_add(block, Extent { offset: (block + 1) * 4096, len: 4096 })?;
    }
    file.finish_recovery(0)?;
    println!("{:<44} {:>12} bytes a block", "memory", (resident() - before) / count);
    println!("{:<44} {:>12} bytes a block", "as charged", file.memory_bytes() / count);
    let all: Vec<BlockId> = (1..=count).collect();
    let change = BlockChange { added: all, removed: Vec::new() };
    timed("first checkpoint of the file", || {
        file.begin_checkpoint().write_changed(b"", 1, &change)
    })?;
    let removed = (1..count).step_by(1000).collect();
    let change = BlockChange { added: Vec::new(), removed };
    timed("one block in 1000 changed", || file.begin_checkpoint().write_changed(b"", 2, &change))?;
    drop(file);
    std::fs::remove_dir_all(&dir).map_err(failed)
}

fn main() {
    let runs: u64 = std::env::args().nth(1).and_then(|a| a.parse().ok()).unwrap_or(1_000_000);
    // This comes first: freed memory would distort the figures.
    if let Err(e) = block_map(runs) {
        println!("{e}");
    }
    let before = resident();
    let tree = synthetic::tree(runs / 6, 45);
    let stats = tree.stats();
    println!("{} runs in {} leaves, {} inner nodes", stats.runs, stats.leaves, stats.inner_nodes);
    println!("{:<44} {:>12} bytes a run", "memory", (resident() - before) / stats.runs);
    println!("{:<44} {:>12} bytes a run", "as charged", stats.memory_bytes / stats.runs);
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
        // Leaves at random places; a leaf that comes twice is already changed the second time.
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
