//! `frond-demo oltp`: the everyday load, engines side by side in one server.
//!
//! Purpose: tables that fit in memory are where InnoDB is strongest. The workloads are sysbench's OLTP workloads and
//! some that are hard for engines that write late (a queue, one hot row, updates under an open
//! snapshot). Each is measured on every engine in turn (A B A B ...), so that a slow phase of the machine
//! hits all of them. Each measurement is a fixed number of transactions; its figure is the server's CPU time
//! per transaction, which other work on the machine disturbs less than the rate. The median of the
//! rounds counts.
//!
//! Invariants
//!
//! - OB1. Every table is read once in full before the first measurement.
//! - OB2. The measurements of all engines have the same transactions, seeds, threads and tables.
//! - OB3. In the phase [`Phase::Written`] an engine's reads follow its own changes without a pause.
//!
//! `workload.rs` has the workloads, `report.rs` the table. Tested by stage 30, which runs all of it for a moment.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::engines::{Engine, PluginDirs};
use crate::interrupt;
use crate::limits;
use crate::sample::sample;
use crate::server::{Programs, Server, Site};
use crate::sysbench;
use crate::units;

mod report;
mod workload;

use report::{Measured, Row, Rows};
use workload::{Phase, Workload};

pub struct Options {
    pub programs: Programs,
    pub plugins: PluginDirs,
    pub out: PathBuf,
    /// `bench/oltp`.
    pub scripts: PathBuf,
    pub engines: Vec<Engine>,
    pub rows: u64,
    pub cache: u64,
    pub threads: u32,
    /// Multiplies the number of transactions of each measurement.
    pub scale: f64,
    pub rounds: u32,
}

/// Runs everything and prints a table. `Ok(false)` when an engine that was asked for did not run, or Frond took
/// more memory than its cache and [`limits::MEMORY_BESIDES`].
pub fn run(options: &Options) -> Result<bool, String> {
    let (_work, path, site) = site(options)?;
    let (server, engines) = start(options, &site, &path, &[])?;
    println!(
        "\nOLTP: a table of {} rows, {} of cache per engine, {} threads, {} rounds\n",
        units::grouped(options.rows),
        units::bytes(options.cache),
        options.threads,
        options.rounds
    );
    let resident = || sample(server.pid()).map(|sample| sample.rss_bytes);
    let mut before_frond = None;
    for &engine in &engines {
        if engine == Engine::Frond {
            before_frond = Some(resident()?);
        }
        prepare(options, &server, engine)?;
    }
    let bench = Bench { options, server: &server, engines: &engines };
    let mut rows = Rows::new(&engines);
    bench.clean(&mut rows)?;
    bench.written(&mut rows)?;
    bench.apart(&mut rows)?;
    rows.finish();
    let text = rows.terminal();
    println!("\n{text}");
    let file = options.out.join("oltp.md");
    fs::write(&file, rows.markdown()).map_err(|e| format!("{}: {e}", file.display()))?;
    println!("  the same as Markdown: {}", file.display());
    let mut large = false;
    if let Some(before) = before_frond {
        let grown = resident()?.saturating_sub(before);
        let most = options.cache + limits::MEMORY_BESIDES;
        println!("  memory since before Frond's tables: {}", units::bytes(grown));
        large = grown > most;
        if large {
            println!("  MISSED: at most {}", units::bytes(most));
        }
    }
    Ok(engines.len() == options.engines.len() && !large)
}

struct Bench<'a> {
    options: &'a Options,
    server: &'a Server,
    engines: &'a [Engine],
}

impl Bench<'_> {
    fn clean(&self, rows: &mut Rows) -> Result<(), String> {
        for w in workload::of(Phase::Clean) {
            for round in 0..self.options.rounds {
                for &engine in self.engines {
                    rows.add(Row::Clean, &w, engine, self.measure(engine, &w, round)?);
                }
            }
        }
        Ok(())
    }

    /// Runs the phase of OB3: an engine's changes and then its reads, then the next engine.
    fn written(&self, rows: &mut Rows) -> Result<(), String> {
        for round in 0..self.options.rounds {
            for &engine in self.engines {
                for w in workload::of(Phase::Writes) {
                    rows.add(Row::Writes, &w, engine, self.measure(engine, &w, round)?);
                }
                for w in workload::of(Phase::Written) {
                    rows.add(Row::Written, &w, engine, self.measure(engine, &w, round)?);
                }
            }
        }
        Ok(())
    }

    fn apart(&self, rows: &mut Rows) -> Result<(), String> {
        for w in workload::of(Phase::Apart) {
            for round in 0..self.options.rounds {
                for &engine in self.engines {
                    rows.add(Row::Apart, &w, engine, self.measure(engine, &w, round)?);
                }
            }
        }
        Ok(())
    }

    fn measure(&self, engine: Engine, w: &Workload, round: u32) -> Result<Measured, String> {
        if interrupt::requested() {
            return Err(interrupt::MESSAGE.into());
        }
        if !w.setup.is_empty() {
            let setup = w.setup.replace("{engine}", engine.sql_name());
            self.server.sql(&format!("USE {}; {setup}", database(engine)))?;
        }
        let events = (f64::from(w.events) * self.options.scale).ceil().max(1.0) as u32;
        let threads = if w.threads > 0 { w.threads } else { self.options.threads };
        let threads = threads.min(events);
        let mut command = command(self.options, self.server, engine, w.script);
        command
            .arg(format!("--threads={threads}"))
            .arg(format!("--events={events}"))
            // The same rows for all engines in a round, other rows in each round.
            .arg(format!("--rand-seed={}", round + 1))
            .args(["--time=120", "run"]);
        let before = sample(self.server.pid())?.cpu_seconds;
        let text = output(command)?;
        let cpu = sample(self.server.pid())?.cpu_seconds - before;
        let (done, rate) = sysbench::events(&text)
            .ok_or_else(|| format!("sysbench's report is not understood:\n{text}"))?;
        Ok(Measured { cpu_us: cpu * 1e6 / done.max(1) as f64, rate })
    }
}

/// Makes a directory below `options.out`, removed when dropped, and the site of a server in it.
pub fn site(options: &Options) -> Result<(tempfile::TempDir, PathBuf, Site), String> {
    let failed = |e: std::io::Error| format!("{}: {e}", options.out.display());
    fs::create_dir_all(&options.out).map_err(failed)?;
    let work = tempfile::tempdir_in(&options.out).map_err(failed)?;
    let path = work.path().canonicalize().map_err(|e| e.to_string())?;
    let site = Site::create(options.programs.clone(), &path)?;
    Ok((work, path, site))
}

/// One server with all engines that can be loaded; `work` gets a directory with links to their plugins. `besides` are
/// settings that come after the engines' own.
pub fn start(
    options: &Options,
    site: &Site,
    work: &Path,
    besides: &[String],
) -> Result<(Server, Vec<Engine>), String> {
    let plugins = work.join("plugins");
    fs::create_dir(&plugins).map_err(|e| format!("{}: {e}", plugins.display()))?;
    let mut settings = vec![format!("plugin_dir={}", plugins.display())];
    let mut engines = Vec::new();
    for &engine in &options.engines {
        match options.plugins.for_engine(engine) {
            Ok(dir) => {
                if let Some(file) = engine.plugin() {
                    std::os::unix::fs::symlink(dir.join(file), plugins.join(file))
                        .map_err(|e| format!("{file}: {e}"))?;
                    settings.push(format!("plugin_load_add={file}"));
                }
                engines.push(engine);
            }
            Err(why) => println!("  {} skipped: {why}", engine.label()),
        }
    }
    let inno = engines.contains(&Engine::InnoDb);
    for engine in &engines {
        let lines = engine.settings(options.cache);
        // Where InnoDB is measured as well, it must not be cut to its minimum.
        settings.extend(
            lines
                .into_iter()
                .filter(|l| *engine == Engine::InnoDb || !inno || !l.starts_with("innodb_")),
        );
    }
    settings.extend_from_slice(besides);
    let server = Server::start(site, "oltp", &settings)?;
    engines.retain(|e| {
        let there = server.has_engine(e.sql_name());
        if !there {
            println!("  {} skipped: the server started without it", e.label());
            println!("{}", server.log_errors());
        }
        there
    });
    if engines.is_empty() {
        return Err("no engine could be loaded".into());
    }
    Ok((server, engines))
}

pub fn database(engine: Engine) -> String {
    format!("oltp_{}", engine.key().replace('-', "_"))
}

pub fn command(options: &Options, server: &Server, engine: Engine, script: &str) -> Command {
    let mut command = Command::new("sysbench");
    // sysbench's own scripts get all options, scripts of ours only those of the connection.
    if script.ends_with(".lua") {
        command
            .arg(options.scripts.join(script))
            .env("LUA_PATH", format!("{}/?.lua;;", options.scripts.display()));
    } else {
        command
            .arg(script)
            .args(["--rand-type=uniform", "--tables=1"])
            .arg(format!("--mysql_storage_engine={}", engine.sql_name()))
            .arg(format!("--table-size={}", options.rows));
    }
    command
        .arg("--db-driver=mysql")
        .arg(format!("--mysql-socket={}", server.socket().display()))
        .args(["--mysql-user=root"])
        .arg(format!("--mysql-db={}", database(engine)))
        .stdin(Stdio::null());
    command
}

pub fn output(mut command: Command) -> Result<String, String> {
    let out = command.output().map_err(|e| format!("cannot start sysbench: {e}"))?;
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    if !out.status.success() {
        let errors = String::from_utf8_lossy(&out.stderr).into_owned();
        return Err(format!("sysbench failed:\n{text}{errors}"));
    }
    Ok(text)
}

pub fn prepare(options: &Options, server: &Server, engine: Engine) -> Result<(), String> {
    server.sql(&format!("CREATE DATABASE {}", database(engine)))?;
    let mut command = command(options, server, engine, "oltp_read_only");
    command.args(["--rand-seed=1", "prepare"]);
    output(command)?;
    for index in ["PRIMARY", "k_1"] {
        server.sql(&format!(
            "SELECT COUNT(*), SUM(LENGTH(c)) FROM {}.sbtest1 FORCE INDEX ({index}) WHERE k > 0",
            database(engine)
        ))?;
    }
    println!("  {} prepared and read in full", engine.label());
    Ok(())
}

/// Options for a run of some seconds.
#[cfg(test)]
pub fn for_a_moment(out: &Path, engines: Vec<Engine>) -> Options {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    Options {
        programs: Programs {
            mariadbd: "/usr/sbin/mariadbd".into(),
            install_db: "/usr/bin/mariadb-install-db".into(),
            client: "/usr/bin/mariadb".into(),
        },
        plugins: PluginDirs {
            server: "/usr/lib/mysql/plugin".into(),
            frond: root.join("target/mariadb").canonicalize().expect("the plugin is built"),
        },
        out: out.to_path_buf(),
        scripts: root.join("bench/oltp"),
        engines,
        rows: 500,
        cache: 64 << 20,
        threads: 2,
        scale: 0.001,
        rounds: 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[ignore = "starts a server with the plugin: scripts/stages/30-plugin.sh"]
    fn every_workload_runs_on_both_engines() {
        let out = tempfile::tempdir().unwrap();
        assert!(run(&for_a_moment(out.path(), vec![Engine::InnoDb, Engine::Frond])).unwrap());
        let table = fs::read_to_string(out.path().join("oltp.md")).unwrap();
        assert_eq!(table.lines().count(), 2 + 6 + 6 + 6 + 3, "{table}");
    }
}
