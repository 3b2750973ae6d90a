//! `frond bench device`: runs the measurement of `frond_device`, stops it at a signal, and shows it.
//!
//! Tested by `tests/cli/device.rs`.

use std::io::{IsTerminal, Write};
use std::sync::Arc;

use frond_device::plan::{self, Options, BLOCKS, READ_DEPTHS, WRITE_DEPTHS};
use frond_device::report::{Cache, Engine, Figure, Kind, Report};
use frond_device::work::{READERS, SYNC_BLOCK};
use frond_device::Stop;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::args::DeviceArgs;
use crate::out::{bytes, grouped, Failure, Grid, Outcome};

/// False when the figures may be those of the system's cache instead of the device's.
pub fn run(args: &DeviceArgs, out: &mut dyn Write) -> Outcome<bool> {
    let stop = Arc::new(Stop::default());
    watch(&stop)?;
    let shown = !args.quiet && std::io::stderr().is_terminal();
    let mut progress = |what: &str| {
        if shown {
            eprint!("\r\x1b[K{what}");
        }
    };
    let options = Options { seconds: args.seconds, bytes: args.size };
    let report = plan::measure(&args.dir, &options, &stop, &mut progress);
    if shown {
        eprint!("\r\x1b[K");
    }
    let mut report = report.map_err(|e| Failure::Request(e.to_string()))?;
    report.generator = concat!("frond ", env!("CARGO_PKG_VERSION")).into();
    match args.json {
        true => writeln!(out, "{}", serde_json::to_string(&report).map_err(std::io::Error::from)?)?,
        false => text(&report, out)?,
    }
    Ok(report.cache != Cache::Cached)
}

/// Lets signals end the measurement in order, so that its files are removed.
#[allow(clippy::disallowed_methods)] // No thread of the engine, and none that must end.
fn watch(stop: &Arc<Stop>) -> Outcome<()> {
    let fail = |e: std::io::Error| Failure::Request(format!("cannot watch for signals: {e}"));
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(fail)?;
    let stop = Arc::clone(stop);
    std::thread::spawn(move || signals.forever().for_each(|_| stop.request()));
    Ok(())
}

/// Microseconds as people read them.
fn time(us: Option<f64>) -> String {
    match us {
        None => "-".into(),
        Some(us) if us < 9.95 => format!("{us:.1} us"),
        Some(us) if us < 999.5 => format!("{us:.0} us"),
        Some(us) if us < 9_950.0 => format!("{:.1} ms", us / 1e3),
        Some(us) if us < 999_500.0 => format!("{:.0} ms", us / 1e3),
        Some(us) => format!("{:.1} s", us / 1e6),
    }
}

const TIMES: [&str; 6] = ["mean", "p50", "p90", "p99", "p99.9", "max"];

fn times(f: &Figure) -> impl Iterator<Item = String> {
    let l = f.latency_us;
    [l.mean, l.p50, l.p90, l.p99, l.p999, l.max].into_iter().map(time)
}

fn text(report: &Report, out: &mut dyn Write) -> Outcome<()> {
    place(report, out)?;
    for (title, kind, depths) in [
        ("Random reads", Kind::RandomRead, &READ_DEPTHS[..]),
        ("Random writes (durable/s: with the sync after them)", Kind::RandomWrite, &WRITE_DEPTHS),
    ] {
        let mut header = vec!["block", "depth", "ops/s", "durable/s", "bytes/s"];
        header.extend(TIMES);
        header.retain(|&h| kind == Kind::RandomWrite || h != "durable/s");
        let mut grid = Grid::new(1, &header);
        for figure in BLOCKS
            .iter()
            .flat_map(|&b| depths.iter().map(move |&d| (b, d)))
            .filter_map(|(block, depth)| report.figure(kind, block, depth, 0))
        {
            let mut row = vec![
                bytes(figure.block_bytes.into()),
                figure.depth.to_string(),
                grouped(figure.per_second as u64),
            ];
            if kind == Kind::RandomWrite {
                row.push(grouped(figure.durable_per_second as u64));
            }
            row.push(bytes(figure.bytes_per_second as u64));
            row.extend(times(figure));
            grid.row(row);
        }
        writeln!(out, "\n{title}\n{grid}")?;
    }
    in_order(report, out)?;
    syncs(report, out)?;
    settings(report, out)
}

fn place(report: &Report, out: &mut dyn Write) -> Outcome<()> {
    let place = &report.place;
    writeln!(
        out,
        "{} on {}, {} free; {} of data, {} of log, {:.0} s",
        place.dir,
        place.file_system,
        bytes(place.free_bytes),
        bytes(report.data_bytes),
        bytes(report.log_bytes),
        report.seconds
    )?;
    match &place.device {
        None => writeln!(out, "device: none that the system tells, or several")?,
        Some(d) => {
            let block = |n: Option<u64>| n.map_or("?".into(), |n| n.to_string());
            writeln!(
                out,
                "device: {}{}, {}, blocks of {} (logical) and {} (physical) bytes, cache: {}, scheduler: {}",
                d.name,
                d.model.as_ref().map_or(String::new(), |m| format!(" ({m})")),
                match d.rotational {
                    Some(true) => "says that it turns",
                    Some(false) => "says that it does not turn",
                    None => "does not say whether it turns",
                },
                block(d.logical_block_bytes),
                block(d.physical_block_bytes),
                d.write_cache.as_deref().unwrap_or("?"),
                d.scheduler.as_deref().unwrap_or("?"),
            )?;
        }
    }
    let number = |n: Option<u32>| n.map_or("not told".into(), |n| n.to_string());
    match report.direct_alignment_found_bytes {
        None => writeln!(out, "direct I/O: refused here")?,
        Some(found) => writeln!(
            out,
            "direct I/O: offsets of {found} bytes work; told: {} (offsets), {} (memory)",
            number(report.file.direct_offset_alignment),
            number(report.file.direct_memory_alignment)
        )?,
    }
    let unit = report.tearing.told_unit_bytes.map_or("?".into(), |n| n.to_string());
    writeln!(
        out,
        "torn writes: whole up to {unit} bytes, says {}. Not proven.",
        report.tearing.told_by
    )?;
    for note in &report.notes {
        writeln!(out, "note: {note}")?;
    }
    Ok(())
}

fn in_order(report: &Report, out: &mut dyn Write) -> Outcome<()> {
    let mut header = vec!["1 MiB at a time", "depth", "bytes/s"];
    header.extend(TIMES);
    let mut grid = Grid::new(1, &header);
    for figure in &report.figures {
        let name = match figure.kind {
            Kind::Fill => "write, new file",
            Kind::SequentialRead => "read",
            Kind::SequentialWrite => "write again",
            _ => continue,
        };
        let mut row = vec![name.into(), figure.depth.to_string()];
        row.push(bytes(figure.bytes_per_second as u64));
        row.extend(times(figure));
        grid.row(row);
    }
    writeln!(out, "\nIn order (writes with the sync after them)\n{grid}")?;
    Ok(())
}

fn syncs(report: &Report, out: &mut dyn Write) -> Outcome<()> {
    let mut header = vec!["call", "log", "readers", "syncs/s"];
    header.extend(TIMES);
    let mut grid = Grid::new(2, &header);
    for figure in &report.figures {
        let (call, log) = match figure.kind {
            Kind::FsyncAppend => ("fsync", "grows"),
            Kind::FsyncOverwrite => ("fsync", "is written again"),
            Kind::FdatasyncAppend => ("fdatasync", "grows"),
            Kind::FdatasyncOverwrite => ("fdatasync", "is written again"),
            _ => continue,
        };
        let mut row = vec![call.into(), log.into(), figure.readers.to_string()];
        row.push(grouped(figure.per_second as u64));
        row.extend(times(figure));
        grid.row(row);
    }
    writeln!(
        out,
        "\nSyncs, each after a write of {SYNC_BLOCK} bytes, alone and beside {READERS} threads that read 16 KiB at random\n{grid}"
    )?;
    Ok(())
}

fn settings(report: &Report, out: &mut dyn Write) -> Outcome<()> {
    writeln!(out, "\nSettings that follow")?;
    for engine in [Engine::InnoDB, Engine::MyRocks, Engine::Frond] {
        writeln!(out, "# {engine:?}")?;
        for s in report.settings.iter().filter(|s| s.engine == engine) {
            writeln!(out, "{}={}\n    # {}", s.name, s.value, s.reason)?;
        }
    }
    Ok(())
}
