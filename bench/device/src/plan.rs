//! What is measured, for how long, and what must be known of it.

use std::path::Path;
use std::time::Duration;

use crate::clock::{now, Budget, Stop};
use crate::error::{Error, Result};
use crate::files::{Files, LOG_LEAST};
use crate::place::{FileFacts, Place};
use crate::report::{Cache, Figure, Kind, Report, Tearing, SCHEMA};
use crate::work::{
    access, fill, sync, Access, Measured, Syncing, READERS, SEQUENTIAL_BLOCK, SYNC_BLOCK,
};

pub const BLOCKS: [u32; 3] = [4 << 10, 16 << 10, 64 << 10];
pub const READ_DEPTHS: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];
pub const WRITE_DEPTHS: [u32; 4] = [1, 4, 16, 64];
pub const SEQUENTIAL_DEPTHS: [u32; 2] = [1, 4];

/// The least space for both files; the least data, however slow the device is.
pub const LEAST_BYTES: u64 = 32 << 20;
const LEAST_DATA: u64 = LEAST_BYTES / 2;
const DEFAULT_BYTES: u64 = 1 << 30;
/// The share of the time that filling may take.
const FILL_SHARE: u32 = 5;

pub struct Options {
    pub seconds: u32,
    /// Space for both files; `None`: 1 GiB, less if that is too much for the file system.
    pub bytes: Option<u64>,
}

#[derive(Clone, Copy)]
enum Step {
    Access(Access, u32, u32),
    Sync(Syncing),
}

impl Step {
    /// The step's share of the time: syncs are rare and matter most.
    fn weight(self) -> u32 {
        match self {
            Step::Access(..) => 1,
            Step::Sync(_) => 2,
        }
    }

    fn name(self) -> String {
        match self {
            Step::Access(access, block, depth) => {
                let what = match access {
                    Access::RandomRead => "random reads",
                    Access::RandomWrite => "random writes",
                    Access::SequentialRead => "reads in order",
                    Access::SequentialWrite => "writes in order",
                };
                format!("{what} of {} KiB, depth {depth}", block >> 10)
            }
            Step::Sync(how) => {
                let call = if how.data_only { "fdatasync" } else { "fsync" };
                let place = if how.append { "append" } else { "overwrite" };
                format!("{call}, {place}, {} readers", how.readers)
            }
        }
    }
}

fn steps() -> Vec<Step> {
    let mut steps = Vec::new();
    let mut accesses = |kind, blocks: &[u32], depths: &[u32]| {
        for &block in blocks {
            steps.extend(depths.iter().map(|&depth| Step::Access(kind, block, depth)));
        }
    };
    accesses(Access::RandomRead, &BLOCKS, &READ_DEPTHS);
    accesses(Access::SequentialRead, &[SEQUENTIAL_BLOCK], &SEQUENTIAL_DEPTHS);
    accesses(Access::RandomWrite, &BLOCKS, &WRITE_DEPTHS);
    accesses(Access::SequentialWrite, &[SEQUENTIAL_BLOCK], &SEQUENTIAL_DEPTHS);
    for readers in [0, READERS] {
        for data_only in [false, true] {
            for append in [true, false] {
                steps.push(Step::Sync(Syncing { data_only, append, readers }));
            }
        }
    }
    steps
}

/// The space to use: as requested or the default, if that leaves the reserve (DEV2).
fn space(place: &Place, asked: Option<u64>) -> Result<u64> {
    let mib = |n: u64| format!("{} MiB", n >> 20);
    let usable = place.free_bytes.saturating_sub(place.reserve_bytes());
    let bytes = asked.unwrap_or(DEFAULT_BYTES.min(usable));
    if asked.is_some_and(|n| n < LEAST_BYTES) {
        return Err(Error::Request(format!("--size: give at least {}", mib(LEAST_BYTES))));
    }
    if bytes > usable || bytes < LEAST_BYTES {
        return Err(Error::Request(format!(
            "{} has {} free, of which {} must stay free: there is no room for {} (--size)",
            place.dir,
            mib(place.free_bytes),
            mib(place.reserve_bytes()),
            mib(bytes.max(LEAST_BYTES)),
        )));
    }
    Ok(bytes)
}

fn figure(kind: Kind, block: u32, depth: u32, readers: u32, measured: &Measured) -> Figure {
    let operations = measured.latency.count();
    let seconds = measured.elapsed.as_secs_f64();
    let settle = measured.settle.as_secs_f64();
    let rate = |time: f64| if time > 0.0 { operations as f64 / time } else { 0.0 };
    Figure {
        kind,
        block_bytes: block,
        depth,
        readers,
        operations,
        seconds,
        settle_seconds: settle,
        per_second: rate(seconds),
        durable_per_second: rate(seconds + settle),
        bytes_per_second: rate(seconds + settle) * f64::from(block),
        latency_us: measured.latency.summary(),
    }
}

fn run(step: Step, files: &Files, time: Duration, stop: &Stop) -> Result<Figure> {
    Ok(match step {
        Step::Access(how, block, depth) => {
            let kind = match how {
                Access::RandomRead => Kind::RandomRead,
                Access::RandomWrite => Kind::RandomWrite,
                Access::SequentialRead => Kind::SequentialRead,
                Access::SequentialWrite => Kind::SequentialWrite,
            };
            figure(kind, block, depth, 0, &access(files, how, block, depth, time, stop)?)
        }
        Step::Sync(how) => {
            let kind = match (how.data_only, how.append) {
                (false, true) => Kind::FsyncAppend,
                (false, false) => Kind::FsyncOverwrite,
                (true, true) => Kind::FdatasyncAppend,
                (true, false) => Kind::FdatasyncOverwrite,
            };
            figure(kind, SYNC_BLOCK, 1, how.readers, &sync(files, how, time, stop)?)
        }
    })
}

/// Measures the device below `dir`. Calls `progress` with each step before it begins. The files are
/// gone when it returns.
pub fn measure(
    dir: &Path,
    options: &Options,
    stop: &Stop,
    progress: &mut dyn FnMut(&str),
) -> Result<Report> {
    let begin = now();
    let place = Place::of(dir)?;
    if place.read_only {
        return Err(Error::Request(format!("{} is on a read-only file system", place.dir)));
    }
    let bytes = space(&place, options.bytes)?;
    debug_assert!(bytes > LOG_LEAST);
    let total = Duration::from_secs(options.seconds.into());
    progress("making the test files");
    stop.check()?;
    let mut files = Files::create(Path::new(&place.dir), bytes)?;
    let file = FileFacts::of(&files.data);
    let (filled, written) = fill(&files, LEAST_DATA, total / FILL_SHARE, stop)?;
    let cut = written < files.data_bytes;
    files.filled(written);

    let mut figures = vec![figure(Kind::Fill, SEQUENTIAL_BLOCK, 1, 0, &filled)];
    let steps = steps();
    let left = total.saturating_sub(now() - begin);
    let mut budget = Budget::new(left, steps.iter().map(|s| s.weight()).sum());
    for step in steps {
        progress(&step.name());
        figures.push(run(step, &files, budget.share(step.weight()), stop)?);
    }

    // These accept O_DIRECT, but they are in memory all the same.
    let in_memory = matches!(place.file_system.as_str(), "tmpfs" | "ramfs");
    let cache = match (files.direct, place.memory_bytes) {
        _ if in_memory => Cache::Cached,
        (true, _) => Cache::Direct,
        (false, Some(memory)) if files.data_bytes >= memory.saturating_mul(2) => {
            Cache::LargerThanMemory
        }
        _ => Cache::Cached,
    };
    let mut report = Report {
        schema: SCHEMA,
        generator: String::new(),
        tearing: tearing(&place, &file),
        place,
        file,
        direct_alignment_found_bytes: files.direct.then_some(files.offset_alignment),
        cache,
        data_bytes: files.data_bytes,
        log_bytes: files.log_bytes,
        seconds: 0.0,
        figures,
        settings: Vec::new(),
        notes: Vec::new(),
    };
    drop(files);
    report.seconds = (now() - begin).as_secs_f64();
    report.notes = notes(&report, cut);
    report.settings = crate::advice::settings(&report);
    Ok(report)
}

/// What the system says about torn writes.
fn tearing(place: &Place, file: &FileFacts) -> Tearing {
    let device = place.device.as_ref();
    let (unit, by) = if let Some(n) = file.atomic_write_max_bytes {
        (
            Some(u64::from(n)),
            "file system and device, for writes that ask for it (RWF_ATOMIC); database servers do \
             not ask, and the kernel may split theirs",
        )
    } else if let Some(n) = device.and_then(|d| d.atomic_write_bytes) {
        (Some(n), "the device; the file system gives no such promise, and may split writes")
    } else if let Some(n) = device.and_then(|d| d.physical_block_bytes) {
        (Some(n), "the device's physical block: by convention written whole, promised by nobody")
    } else {
        (None, "nobody: assume 512 bytes")
    };
    Tearing { told_unit_bytes: unit, told_by: by.into(), proven: false }
}

/// Below this a sync has hardly left the machine's memory, in microseconds.
const FAST_SYNC_US: f64 = 50.0;

fn notes(report: &Report, cut: bool) -> Vec<String> {
    let mut notes = Vec::new();
    let mib = report.data_bytes >> 20;
    notes.push(match report.cache {
        Cache::Direct => format!(
            "Direct I/O on {mib} MiB: past the system's cache. A cache of the device, its controller or \
             a virtual machine's host may have answered; a larger --size tells."
        ),
        Cache::LargerThanMemory => format!(
            "No direct I/O here; {mib} MiB are at least twice the memory, so that at most half of the \
             reads can have come from the system's cache."
        ),
        Cache::Cached => format!(
            "No direct I/O to a device here, and {mib} MiB fit into the system's cache: reads show memory, not the \
             device. Settings that depend on them are left out. Give a --size of twice the memory."
        ),
    });
    notes.push(
        "Depth is the number of threads with one pread or pwrite each; at high depths the processors \
         may be the limit."
            .into(),
    );
    if cut {
        notes.push(format!(
            "The device wrote only {mib} MiB in a fifth of the time; nothing beyond was measured."
        ));
    }
    if report.file == FileFacts::default() {
        notes.push("The kernel tells no alignment for direct I/O of this file.".into());
    }
    let fdatasync = report.figure(Kind::FdatasyncOverwrite, SYNC_BLOCK, 1, 0);
    if let Some(p50) = fdatasync.and_then(|f| f.latency_us.p50).filter(|&us| us < FAST_SYNC_US) {
        notes.push(format!(
            "A sync takes {p50:.0} us: a write cache that survives a power failure, or one that does \
             not and is not emptied. No program can tell which."
        ));
    }
    let few = report.figures.iter().filter(|f| f.operations < 100).count();
    if few > 0 {
        notes.push(format!(
            "{few} of {} measurements have fewer than 100 operations and so no 99th percentile: give \
             more --seconds.",
            report.figures.len()
        ));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(total: u64, free: u64) -> Place {
        Place { file_system_bytes: total, free_bytes: free, dir: "/d".into(), ..Place::default() }
    }

    #[test]
    fn space_leaves_a_reserve() {
        let gib = 1u64 << 30;
        let of = |free, asked| space(&place(100 * gib, free), asked);
        assert_eq!(of(50 * gib, None).unwrap(), gib);
        assert_eq!(of(50 * gib, Some(45 * gib)).unwrap(), 45 * gib);
        assert!(of(50 * gib, Some(45 * gib + 1)).is_err());
        // The default shrinks to what is free; a requested size does not.
        assert_eq!(of(5 * gib + (100 << 20), None).unwrap(), 100 << 20);
        assert!(of(5 * gib + (100 << 20), Some(gib)).is_err());
        for (free, asked) in [(5 * gib, None), (0, None), (50 * gib, Some(0)), (50 * gib, Some(1))]
        {
            let text = of(free, asked).unwrap_err().to_string();
            assert!(text.contains("--size"), "{text}");
        }
    }

    #[test]
    fn a_told_atomic_write_is_never_called_proven() {
        let mut place = place(1, 1);
        let mut file = FileFacts::default();
        assert_eq!(tearing(&place, &file).told_unit_bytes, None);
        place.device =
            Some(crate::place::Device { physical_block_bytes: Some(4096), ..Default::default() });
        assert_eq!(tearing(&place, &file).told_unit_bytes, Some(4096));
        file.atomic_write_max_bytes = Some(65536);
        let told = tearing(&place, &file);
        assert!(told.told_unit_bytes == Some(65536) && !told.proven, "{told:?}");
        assert!(told.told_by.contains("RWF_ATOMIC"));
    }

    #[test]
    fn a_short_run_measures_everything_and_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let options = Options { seconds: 1, bytes: Some(LEAST_BYTES) };
        let mut told = Vec::new();
        let report =
            measure(dir.path(), &options, &Stop::default(), &mut |s| told.push(s.to_owned()))
                .unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        assert_eq!(report.figures.len(), told.len());
        for f in &report.figures {
            assert!(f.operations > 0 && f.per_second > 0.0 && f.seconds > 0.0, "{f:?}");
            assert!(f.latency_us.max >= f.latency_us.min, "{f:?}");
        }
        for depth in READ_DEPTHS {
            let f = report.figure(Kind::RandomRead, 16384, depth, 0).unwrap();
            // Little's law: operations in flight are rate times latency.
            let flying = f.per_second * f.latency_us.mean.unwrap() / 1e6;
            assert!(flying <= f64::from(depth) * 1.01, "{flying} of {depth}");
        }
        assert!(report.data_bytes + report.log_bytes <= LEAST_BYTES);
    }

    #[test]
    fn who_stops_it_finds_no_files() {
        let dir = tempfile::tempdir().unwrap();
        let stop = Stop::default();
        let options = Options { seconds: 600, bytes: Some(LEAST_BYTES) };
        let mut steps = 0;
        let result = measure(dir.path(), &options, &stop, &mut |_| {
            steps += 1;
            if steps == 2 {
                stop.request();
            }
        });
        assert!(matches!(result, Err(Error::Interrupted)));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
