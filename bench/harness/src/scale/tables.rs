//! Many tables of one row: created, opened again, updated, dropped.
//!
//! Each engine has a server of its own here, because memory is compared as well: the memory of the
//! process after each step, less its memory before the first step.

use std::path::Path;

use super::common::{header, line, measured, ratio, seconds, settings, Cost, Options, Subject};
use super::verdicts::Verdicts;
use crate::engines::Engine;
use crate::sample::sample;
use crate::server::{Server, Site};
use crate::units;

const STEPS: [&str; 4] = ["CREATE, a row each", "reopen and read", "update each", "DROP"];

/// The largest allowed ratio of a step's clock time to InnoDB's.
const MOST: f64 = 0.7;

/// What an engine may take besides its cache. The server's own caches of open tables are not part of it: they are what
/// the same tables in BLACKHOLE take.
const MEMORY_BESIDES: u64 = 100 << 20;

struct Measured {
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
    let server = Server::start(site, "tables", &settings(options, plugins, &[], true))?;
    let blackhole = Subject::Blackhole.sql_name();
    let of_server = match server.has_engine(blackhole) {
        true => measure(options, &server, blackhole)?.grown,
        false => 0,
    };
    drop(server);
    for &engine in &options.engines {
        let lines = settings(options, plugins, &[engine], false);
        let server = Server::start(site, "tables", &lines)?;
        if server.has_engine(engine.sql_name()) {
            all.push((engine, measure(options, &server, engine.sql_name())?));
        } else {
            println!("  {} skipped: the server has no such engine", engine.label());
        }
    }
    header(&format!("{} tables", options.tables), all.iter().map(|(e, _)| e.label().into()));
    for (i, step) in STEPS.iter().enumerate() {
        line(step, all.iter().map(|(_, m)| seconds(m.steps[i].seconds)));
        line("  CPU", all.iter().map(|(_, m)| seconds(m.steps[i].cpu_seconds)));
    }
    line("memory grew by", all.iter().map(|(_, m)| units::bytes(m.grown)));
    println!(
        "  of that the server itself, by the same tables in BLACKHOLE: {}",
        units::bytes(of_server)
    );
    let find = |e: Engine| all.iter().find(|(engine, _)| *engine == e).map(|(_, m)| m);
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
    let most = (options.cache + MEMORY_BESIDES + of_server) >> 20;
    verdicts.at_most("tables: MiB of memory", (frond.grown >> 20) as f64, most as f64);
    Ok(())
}

fn measure(options: &Options, server: &Server, name: &str) -> Result<Measured, String> {
    server.sql("CREATE DATABASE many")?;
    let script = |statement: &dyn Fn(u32) -> String| {
        let mut out = String::from("USE many;\n");
        (0..options.tables).for_each(|i| out.push_str(&statement(i)));
        out
    };
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
    let mut out = Measured { steps: Vec::new(), grown: 0 };
    for script in &scripts {
        out.steps.push(measured(server, script)?);
        out.grown = out.grown.max(memory()?.saturating_sub(before));
    }
    Ok(out)
}
