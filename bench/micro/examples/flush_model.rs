//! `cargo run --release -p frond-micro --example flush_model -- [NAME=NUMBER ...]`
//!
//! Models the writes of a growing secondary index on random values, with the engine's own planner and router and
//! with counts in place of entries (`engine/tree/src/counted.rs`). A line for each size: rewrites of an entry
//! since the start and since the previous line, mean delta run of a leaf, jobs and syncs per freeze, bytes of
//! trunk edits in the log per entry, and the runs that a read has to look into.
//!
//! Options: `rows` (the largest size), `freeze` (entries of a write buffer), `stored`, `estimated` and `logical`
//! (hundredths of a byte per entry), and those of a tree's shape: `fanout`, `node_runs`, `leaf_runs`, `alpha`,
//! `leaf_bytes`, `min_slice`.

use frond_base::Result;
use frond_tree::counted::{CountedTree, EntrySizes, ModelCounts};
use frond_tree::{TreeOptions, TreeStats};

fn print(rows: u64, model: &CountedTree, last: &mut (TreeStats, ModelCounts)) {
    let (stats, counts) = (model.tree.stats(), model.counts());
    let per = |a: u64, b: u64| a as f64 / b.max(1) as f64;
    let new = |f: fn(&TreeStats) -> u64| f(&stats) - f(&last.0);
    let (entries, freezes) = (new(|s| s.entries_flushed), new(|s| s.freezes));
    println!(
        "{:>10} M {:>7} {:>6} {:>7.2} {:>7.2} {:>9.1} {:>8.1} {:>8.1} {:>7.2} {:>7.2} {:>6.1}",
        rows / 1_000_000,
        stats.leaves,
        stats.height,
        per(stats.entries_written, stats.entries_flushed),
        per(new(|s| s.entries_written), entries),
        per(new(|s| s.delta_bytes), new(|s| s.deltas)) / 1024.0,
        per(counts.flushes + counts.merges - last.1.flushes - last.1.merges, freezes),
        per(counts.syncs - last.1.syncs, freezes),
        per(counts.edit_bytes - last.1.edit_bytes, entries),
        per(new(|s| s.bytes_written), entries),
        model.tree.runs_per_read(),
    );
    *last = (stats, counts);
}

fn run(args: &[(String, u64)]) -> Result<()> {
    let given = |name: &str, default: u64| {
        args.iter().find(|(n, _)| n == name).map_or(default, |(_, value)| *value)
    };
    let of = |name, default| given(name, default) as f64 / 100.0;
    let sizes = EntrySizes {
        logical: of("logical", 2000),
        stored: of("stored", 650),
        estimated: of("estimated", 1000),
    };
    let shape = |o: &mut TreeOptions| {
        o.leaf_bytes = given("leaf_bytes", o.leaf_bytes);
        o.group_bytes = 2 * o.leaf_bytes;
        o.min_slice = given("min_slice", o.leaf_bytes / 64);
        o.fanout = given("fanout", o.fanout as u64) as usize;
        o.node_runs = given("node_runs", o.node_runs as u64) as usize;
        o.leaf_runs = given("leaf_runs", o.leaf_runs as u64) as usize;
        o.alpha_percent = given("alpha", u64::from(o.alpha_percent)) as u32;
    };
    let mut model = CountedTree::new(shape, sizes);
    let (rows, freeze) = (given("rows", 1_000_000_000), given("freeze", 150_000));
    println!(
        "{:>12} {:>7} {:>6} {:>7} {:>7} {:>9} {:>8} {:>8} {:>7} {:>7} {:>6}",
        "rows",
        "leaves",
        "height",
        "written",
        "of late",
        "delta KiB",
        "jobs",
        "syncs",
        "edit B",
        "run B",
        "reads"
    );
    let mut last = (TreeStats::default(), ModelCounts::default());
    let (mut done, mut next) = (0, 10_000_000);
    while done < rows {
        model.freeze(freeze)?;
        done += freeze;
        if done >= next {
            print(done, &model, &mut last);
            next = if next / 10u64.pow(next.ilog10()) == 1 { next * 3 } else { next / 3 * 10 };
        }
    }
    Ok(())
}

fn main() {
    let args = std::env::args().skip(1).filter_map(|arg| {
        let (name, value) = arg.split_once('=')?;
        Some((name.to_owned(), value.parse().ok()?))
    });
    if let Err(e) = run(&args.collect::<Vec<_>>()) {
        println!("{e}");
    }
}
