//! The benchmarks of single parts (`bench/micro`): run codec, extent allocator, write buffer.

use std::io::Write;

use frond_micro::allocator::{allocators, AllocatorBench, AllocatorFigures};
use frond_micro::codec::CodecBenchOptions;
use frond_run::Compression;
use serde_json::json;

use crate::args::{AllocatorArgs, BufferArgs, CodecArgs, CompressionName};
use crate::bench::process::Clock;
use crate::out::{grouped, Failure, Outcome};

/// Decode, merge, encode. True when the threshold is reached.
pub fn codec(args: &CodecArgs, out: &mut dyn Write) -> Outcome<bool> {
    if !(4096..=65536).contains(&args.page) || !args.page.is_power_of_two() {
        return Err(Failure::Request(format!(
            "a page of {} bytes: give 4K, 8K, 16K, 32K or 64K",
            args.page
        )));
    }
    if args.entries == 0 || args.entries > 50_000_000 || args.rows < 4 * args.entries {
        return Err(Failure::Request(
            "give 1 to 50M --entries, and at least four times as many --rows".into(),
        ));
    }
    let options = CodecBenchOptions {
        rows: args.rows,
        run_entries: args.entries as usize,
        page_bytes: args.page as u32,
        compression: match args.compression {
            CompressionName::None => Compression::None,
            CompressionName::Lz4 => Compression::Lz4,
            CompressionName::Zstd => Compression::Zstd(1),
        },
        repeat: args.repeat.max(1),
    };
    let clock = Clock::new();
    let report = frond_micro::codec::codec(&options, &|| clock.thread_time())?;
    if args.json {
        let lines: Vec<_> = report
            .results
            .iter()
            .map(|r| {
                json!({ "index": r.index, "kind": r.kind, "key_bytes": r.key_bytes,
                        "input_bytes_per_entry": r.input_bytes,
                        "output_bytes_per_entry": r.output_bytes,
                        "decode_million_per_second": r.decode,
                        "encode_million_per_second": r.encode,
                        "merge_million_per_second": r.merge })
            })
            .collect();
        writeln!(out, "{}", json!({ "passes": report.passes(), "results": lines }))?;
    } else {
        writeln!(out, "{report}")?;
    }
    Ok(report.passes())
}

/// Tree and linear search on the same work.
pub fn allocator(args: &AllocatorArgs, out: &mut dyn Write) -> Outcome<()> {
    let clock = Clock::new();
    let mut lines = Vec::new();
    for &extents in &args.extents {
        if !(2..=10_000_000).contains(&extents) {
            return Err(Failure::Request(format!("{extents} extents: give 2 to 10M")));
        }
        let options = AllocatorBench { extents: extents as usize, ..AllocatorBench::default() };
        let report = allocators(&options, &|| clock.now());
        if args.json {
            let figures = |a: &AllocatorFigures| {
                json!({ "alloc_ns": a.alloc_ns, "free_ns": a.free_ns,
                        "mean_steps": a.mean_steps, "most_steps": a.most_steps })
            };
            lines.push(json!({ "extents": extents, "holes": report.holes,
                               "tree": figures(&report.tree),
                               "linear": figures(&report.linear) }));
        } else {
            writeln!(out, "{} extents\n{report}\n", grouped(extents))?;
            out.flush()?;
        }
    }
    if args.json {
        writeln!(out, "{}", serde_json::Value::from(lines))?;
    }
    Ok(())
}

/// Batches into the write buffer, and reads from it.
pub fn buffer(args: &BufferArgs, out: &mut dyn Write) -> Outcome<()> {
    if !(10_000..=500_000_000).contains(&args.entries) {
        return Err(Failure::Request(format!("{} entries: give 10k to 500M", args.entries)));
    }
    let clock = Clock::new();
    let now = || clock.thread_time().as_nanos() as u64;
    let f = frond_micro::buffer::run(args.entries, &now);
    if args.json {
        let object = json!({ "entries": f.entries, "random_insert_ns": f.random_insert_ns,
                             "random_insert_mean_ns": f.random_insert_mean_ns,
                             "ascending_insert_ns": f.ascending_insert_ns, "get_ns": f.get_ns,
                             "scan_ns": f.scan_ns, "long_scan_ns": f.long_scan_ns,
                             "flush_ns": f.flush_ns,
                             "overhead_bytes": f.overhead_bytes,
                             "overhead_ascending_bytes": f.overhead_ascending_bytes,
                             "drop_ms": f.drop_ms, "hot_ns": f.hot_ns,
                             "hot_bytes": f.hot_bytes });
        writeln!(out, "{object}")?;
        return Ok(());
    }
    writeln!(out, "entries                         {:>10}", grouped(f.entries))?;
    writeln!(out, "random batches, last tenth      {:>10.1} ns/entry", f.random_insert_ns)?;
    writeln!(out, "random batches, mean            {:>10.1} ns/entry", f.random_insert_mean_ns)?;
    writeln!(out, "ascending batches               {:>10.1} ns/entry", f.ascending_insert_ns)?;
    writeln!(out, "random reads                    {:>10.1} ns", f.get_ns)?;
    writeln!(out, "random scans of 16 entries      {:>10.1} ns", f.scan_ns)?;
    writeln!(out, "long scans                      {:>10.1} ns/entry", f.long_scan_ns)?;
    writeln!(out, "iteration when frozen           {:>10.1} ns/entry", f.flush_ns)?;
    writeln!(out, "memory beyond the data, random  {:>10.1} bytes/entry", f.overhead_bytes)?;
    writeln!(
        out,
        "                     ascending  {:>10.1} bytes/entry",
        f.overhead_ascending_bytes
    )?;
    writeln!(out, "dropping it                     {:>10.1} ms", f.drop_ms)?;
    writeln!(out, "a row changed and read          {:>10.1} ns", f.hot_ns)?;
    writeln!(out, "what 100k changes leave behind  {:>10} bytes", grouped(f.hot_bytes))?;
    Ok(())
}
