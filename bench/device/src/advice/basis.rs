//! The few numbers of a report that settings follow from, and how they become values.

use crate::report::{Cache, Engine, Figure, Kind, Report, Setting};
use crate::work::{SEQUENTIAL_BLOCK, SYNC_BLOCK};

/// Figures that settings follow from; `None`: not measured, or measured on a cache, not on the
/// device.
pub struct Basis {
    pub direct: bool,
    pub rotational: bool,
    pub file_system: String,
    pub processors: u32,
    /// Writes of 16 KiB per second at depth 16, the sync after them included.
    pub random_write_16k: Option<f64>,
    /// Median of random reads of 4, 16 and 64 KiB at depth 1, in microseconds.
    pub read_us: [Option<f64>; 3],
    /// Bytes a second, the better of the depths.
    pub sequential_read: Option<f64>,
    pub sequential_write: Option<f64>,
    /// Mean of `fdatasync`, in microseconds: rates follow from means, not from medians.
    pub sync_overwrite_us: Option<f64>,
    pub sync_append_us: Option<f64>,
    pub told_unit_bytes: Option<u64>,
}

impl Basis {
    pub fn of(report: &Report) -> Basis {
        let uncached = report.cache != Cache::Cached;
        let read = |block| {
            let figure = report.figure(Kind::RandomRead, block, 1, 0).filter(|_| uncached);
            figure.and_then(|f| f.latency_us.p50)
        };
        let best = |kind| {
            let figures = report.figures.iter();
            let rates = figures
                .filter(|f| f.kind == kind && f.block_bytes == SEQUENTIAL_BLOCK)
                .map(|f| f.bytes_per_second);
            rates.reduce(f64::max)
        };
        let sync =
            |kind| report.figure(kind, SYNC_BLOCK, 1, 0).and_then(|f: &Figure| f.latency_us.mean);
        let device = report.place.device.as_ref();
        Basis {
            direct: report.cache == Cache::Direct,
            rotational: device.and_then(|d| d.rotational).unwrap_or(false),
            file_system: report.place.file_system.clone(),
            processors: report.place.processors,
            random_write_16k: report
                .figure(Kind::RandomWrite, 16 << 10, 16, 0)
                .map(|f| f.durable_per_second),
            read_us: [read(4 << 10), read(16 << 10), read(64 << 10)],
            sequential_read: best(Kind::SequentialRead).filter(|_| uncached),
            sequential_write: best(Kind::SequentialWrite),
            sync_overwrite_us: sync(Kind::FdatasyncOverwrite),
            sync_append_us: sync(Kind::FdatasyncAppend),
            told_unit_bytes: report.tearing.told_unit_bytes,
        }
    }

    /// The largest of 4, 16 and 64 KiB whose read takes at most a quarter longer than a read of 4
    /// KiB; with the arithmetic.
    pub fn page(&self) -> Option<(u32, String)> {
        let least = self.read_us[0]?;
        let sizes = [4096u32, 16384, 65536];
        let fits = |us: &Option<f64>| us.is_some_and(|us| us <= 1.25 * least);
        let last = self.read_us.iter().take_while(|us| fits(us)).count().max(1) - 1;
        let times: Vec<String> =
            self.read_us.iter().map(|us| us.map_or("-".into(), |us| format!("{us:.0}"))).collect();
        let reason = format!(
            "a random read of 4/16/64 KiB takes {} us: the largest page that costs at most 1.25 \
             times the smallest ({least:.0} x 1.25 = {:.0})",
            times.join("/"),
            least * 1.25,
        );
        Some((sizes[last], reason))
    }

    /// A log size that recovery reads in ten seconds, a power of two from 256 MiB to 4 GiB; with
    /// the arithmetic.
    pub fn log_size(&self) -> Option<(String, String)> {
        let rate = self.sequential_read?;
        let bytes = ((rate * 10.0) as u64).clamp(256 << 20, 4 << 30);
        let bytes = 1u64 << bytes.ilog2();
        let value = match bytes >> 30 {
            0 => format!("{}M", bytes >> 20),
            gib => format!("{gib}G"),
        };
        let reason = format!(
            "a restart after a crash reads it in {:.1} s at {} (aim 10 s; 256 MiB to 4 GiB), and then \
             the pages it names",
            bytes as f64 / rate,
            mib(rate),
        );
        Some((value, reason))
    }

    /// What one connection can commit, from the time of a sync.
    pub fn commits(&self, us: f64) -> String {
        format!(
            "{us:.0} us a sync: {} commits/s of one connection, more of many in groups",
            two(1e6 / us)
        )
    }
}

pub fn setting(
    engine: Engine,
    name: &'static str,
    value: impl ToString,
    reason: String,
) -> Setting {
    Setting { engine, name, value: value.to_string(), reason }
}

/// Bytes per second as text.
pub fn mib(rate: f64) -> String {
    format!("{:.0} MiB/s", rate / (1u64 << 20) as f64)
}

/// Rounded down to two digits: more digits would claim more than was measured.
pub fn two(value: f64) -> u64 {
    let whole = value.max(0.0) as u64;
    match whole.checked_ilog10() {
        Some(digits) if digits >= 2 => {
            let unit = 10u64.pow(digits - 1);
            whole / unit * unit
        }
        _ => whole,
    }
}
