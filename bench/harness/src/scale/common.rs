//! What all sections share: options, servers, and a measured step.
//!
//! Invariants
//!
//! - MN1. All engines get the same statements in the same order, over one connection of the same client (or
//!   sysbench with the same threads and seed).
//! - MN2. [`measured`] ends when the server has been quiet for [`QUIET`]: work that an engine leaves for later counts.
//!   sysbench runs for a fixed time, and its CPU time is that of the same interval.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use crate::engines::{Engine, PluginDirs};
use crate::interrupt;
use crate::sample::sample;
use crate::server::{Programs, Server, Site};

/// The server is quiet if it used at most [`QUIET_CPU`] in this time.
const QUIET: Duration = Duration::from_millis(500);
const QUIET_CPU: f64 = 0.015;
/// The longest wait for a server that never gets quiet.
const QUIET_MOST: Duration = Duration::from_secs(10);

pub struct Options {
    pub programs: Programs,
    pub plugins: PluginDirs,
    pub out: PathBuf,
    pub engines: Vec<Engine>,
    /// Bytes of cache for each engine.
    pub cache: u64,
    /// Numbers of hash partitions; 1 is a table without any.
    pub partitions: Vec<u32>,
    /// Rows that are inserted for each number of partitions.
    pub rows: u64,
    /// Tables that are created, updated and dropped.
    pub tables: u32,
    /// Seconds of each measurement with many connections.
    pub seconds: u32,
    /// Kills under load.
    pub kills: u32,
    /// Seconds of load before each kill.
    pub load: u32,
    /// `frond_recovery_target`, seconds.
    pub recovery_target: u32,
}

/// An engine under test, or BLACKHOLE, which stores nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    Blackhole,
    Engine(Engine),
}

impl Subject {
    pub fn label(self) -> &'static str {
        match self {
            Subject::Blackhole => "BLACKHOLE",
            Subject::Engine(engine) => engine.label(),
        }
    }

    pub fn sql_name(self) -> &'static str {
        match self {
            Subject::Blackhole => "BLACKHOLE",
            Subject::Engine(engine) => engine.sql_name(),
        }
    }

    pub fn database(self) -> String {
        format!("scale_{}", self.label().to_ascii_lowercase())
    }
}

/// The cost of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// CPU time of the server, user and system, until it was quiet.
    pub cpu_seconds: f64,
    /// Seconds until the client had its last answer.
    pub seconds: f64,
}

/// Links to the shared objects of all engines: the server has one directory for plugins.
pub fn plugin_directory(options: &Options, work: &Path) -> Result<PathBuf, String> {
    let dir = work.join("plugins");
    fs::create_dir(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    let mut files = vec![options.plugins.server.join("ha_blackhole.so")];
    for &engine in &options.engines {
        if let (Some(file), Ok(from)) = (engine.plugin(), options.plugins.for_engine(engine)) {
            files.push(from.join(file));
        }
    }
    for file in files.iter().filter(|f| f.is_file()) {
        let name = file.file_name().unwrap_or_default();
        symlink(file, dir.join(name)).map_err(|e| format!("{}: {e}", file.display()))?;
    }
    Ok(dir)
}

/// A server with BLACKHOLE and all engines that can be loaded.
pub fn start(
    options: &Options,
    site: &Site,
    plugins: &Path,
) -> Result<(Server, Vec<Subject>), String> {
    let server = Server::start(site, "scale", &settings(options, plugins, &options.engines, true))?;
    let mut subjects = vec![Subject::Blackhole];
    subjects.extend(options.engines.iter().map(|e| Subject::Engine(*e)));
    subjects.retain(|s| {
        let there = server.has_engine(s.sql_name());
        if !there {
            println!("  {} skipped: the server has no such engine", s.label());
            println!("{}", server.log_errors());
        }
        there
    });
    for subject in &subjects {
        server.sql(&format!("CREATE DATABASE {}", subject.database()))?;
    }
    Ok((server, subjects))
}

pub fn settings(
    options: &Options,
    plugins: &Path,
    engines: &[Engine],
    blackhole: bool,
) -> Vec<String> {
    let mut out = vec![
        format!("plugin_dir={}", plugins.display()),
        "open_files_limit=70000".into(),
        "table_open_cache=4000".into(),
        "table_definition_cache=4000".into(),
        "max_connections=200".into(),
    ];
    if blackhole {
        out.push("plugin_load_add=ha_blackhole.so".into());
    }
    let inno = engines.contains(&Engine::InnoDb);
    for engine in engines {
        if let Some(file) = engine.plugin() {
            if plugins.join(file).is_file() {
                out.push(format!("plugin_load_add={file}"));
            } else {
                continue;
            }
        }
        let lines = engine.settings(options.cache).into_iter();
        // Where InnoDB is measured too, it must not be cut to its minimum.
        out.extend(
            lines.filter(|l| *engine == Engine::InnoDb || !inno || !l.starts_with("innodb_")),
        );
    }
    out
}

/// Runs `script` and waits until the server is quiet.
pub fn measured(server: &Server, script: &str) -> Result<Cost, String> {
    let before = sample(server.pid())?.cpu_seconds;
    let begun = Instant::now();
    server.script(script)?;
    let seconds = begun.elapsed().as_secs_f64();
    Ok(Cost { cpu_seconds: quiet(server)? - before, seconds })
}

/// Waits until the server does next to nothing; returns the CPU time that it has used by then.
fn quiet(server: &Server) -> Result<f64, String> {
    let deadline = Instant::now() + QUIET_MOST;
    let mut last = sample(server.pid())?.cpu_seconds;
    loop {
        if interrupt::requested() {
            return Err(interrupt::MESSAGE.into());
        }
        thread::sleep(QUIET);
        let now = sample(server.pid())?.cpu_seconds;
        if now - last <= QUIET_CPU || Instant::now() > deadline {
            return Ok(now);
        }
        last = now;
    }
}

/// One line of a table: a name of 26 characters, then cells of 13.
pub fn line(name: &str, cells: impl IntoIterator<Item = String>) {
    let cells: String = cells.into_iter().map(|c| format!("{c:>13}")).collect();
    println!("  {name:<26}{cells}");
}

pub fn header(title: &str, columns: impl IntoIterator<Item = String>) {
    println!();
    line(title, columns);
}

pub fn seconds(value: f64) -> String {
    format!("{value:.2} s")
}

/// `a` divided by `b`, both measured in ticks of 10 ms. `None` when `b` has fewer than ten ticks.
pub fn ratio(a: f64, b: f64) -> Option<f64> {
    (b >= 0.1).then(|| a.max(0.0) / b)
}
