//! Many tables of one row: created, opened again, updated, dropped.
//!
//! Each engine has a server of its own here, because memory is compared as well: the memory of the
//! process after each step, less its memory before the first step.

use std::path::Path;

use super::common::{header, line, measured, ratio, seconds, settings, Cost, Options};
use super::verdicts::Verdicts;
use crate::engines::Engine;
use crate::sample::sample;
use crate::server::{Server, Site};
use crate::units;

const STEPS: [&str; 4] = ["CREATE, a row each", "reopen and read", "update each", "DROP"];

/// The largest allowed ratio of a step's clock time to InnoDB's.
const MOST: f64 = 0.7;

/// What the server may grow by besides the cache. Its own caches of open tables are part of it.
const MEMORY_BESIDES: u64 = 100 << 20;

struct Measured {
    engine: Engine,
    steps: Vec<Cost>,
    /// Highest resident memory after a step, less that before the first step.
    grown: u64,
}

pub fn run(
    options: &Options,
    site: &Site,
    plugins: &Path,
    verdicts: &mut Verdicts,
) -> Result<(), String> {
    let mut all = Vec::new();
    for &engine in &options.engines {
        let lines = settings(options, plugins, &[engine], false);
        let server = Server::start(site, "tables", &lines)?;
        if server.has_engine(engine.sql_name()) {
            all.push(measure(options, &server, engine)?);
        } else {
            println!("  {} skipped: the server has no such engine", engine.label());
        }
    }
    header(&format!("{} tables", options.tables), all.iter().map(|m| m.engine.label().into()));
    for (i, step) in STEPS.iter().enumerate() {
        line(step, all.iter().map(|m| seconds(m.steps[i].seconds)));
        line("  CPU", all.iter().map(|m| seconds(m.steps[i].cpu_seconds)));
    }
    line("memory grew by", all.iter().map(|m| units::bytes(m.grown)));
    let find = |e: Engine| all.iter().find(|m| m.engine == e);
    let Some(frond) = find(Engine::Frond) else { return Ok(()) };
    if let Some(inno) = find(Engine::InnoDb) {
        for (i, step) in STEPS.iter().enumerate() {
            let name = format!("tables, {step}: time over InnoDB's");
            verdicts.ratio_at_most(
                &name,
                ratio(frond.steps[i].seconds, inno.steps[i].seconds),
                MOST,
            );
        }
    }
    let most = (options.cache + MEMORY_BESIDES) >> 20;
    verdicts.at_most("tables: MiB of memory", (frond.grown >> 20) as f64, most as f64);
    Ok(())
}

fn measure(options: &Options, server: &Server, engine: Engine) -> Result<Measured, String> {
    server.sql("CREATE DATABASE many")?;
    let script = |statement: &dyn Fn(u32) -> String| {
        let mut out = String::from("USE many;\n");
        (0..options.tables).for_each(|i| out.push_str(&statement(i)));
        out
    };
    let name = engine.sql_name();
    let scripts = [
        script(&|i| {
            format!(
                "CREATE TABLE t{i} (id INT PRIMARY KEY, v INT, KEY (v)) ENGINE={name};\n\
                 INSERT INTO t{i} VALUES (1,{i});\n"
            )
        }),
        format!("FLUSH TABLES;\n{}", script(&|i| format!("DO (SELECT v FROM t{i});\n"))),
        script(&|i| format!("UPDATE t{i} SET v=v+1 WHERE id=1;\n")),
        script(&|i| format!("DROP TABLE t{i};\n")),
    ];
    let memory = || sample(server.pid()).map(|s| s.rss_bytes);
    let before = memory()?;
    let mut out = Measured { engine, steps: Vec::new(), grown: 0 };
    for script in &scripts {
        out.steps.push(measured(server, script)?);
        out.grown = out.grown.max(memory()?.saturating_sub(before));
    }
    Ok(out)
}
