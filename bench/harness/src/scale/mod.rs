//! `frond-demo scale`: the costs of large numbers of partitions, connections and tables, and of restarts.
//!
//! Purpose: partitions, connections, tables, and restarts after a kill. Partitions and connections are measured in
//! one server that holds all engines, one after the other. The figure is the server's CPU time, which
//! says more than the clock on a machine with other users. BLACKHOLE gets the same statements and stores
//! nothing: the difference to it is the cost of the engine. Tables and restarts have a server for each engine,
//! because memory and the time to the first answer belong to a process.
//!
//! Tested in the sections' files; the whole by `make bench-scale`.

mod common;
mod connections;
mod partitions;
mod restart;
mod tables;
mod verdicts;

use std::fs;

use crate::engines::Engine;
use crate::server::Site;
use crate::units;

use common::{plugin_directory, start};
use verdicts::Verdicts;

pub use common::Options;

/// Runs everything and prints the tables. `Ok(false)` when Frond missed a limit or an engine did not run.
pub fn run(options: &Options) -> Result<bool, String> {
    if options.engines.contains(&Engine::InnoDbChangeBuffer) {
        return Err(
            "innodb-cb is InnoDB with another setting: it cannot be beside it in one server".into(),
        );
    }
    let failed = |e: std::io::Error| format!("{}: {e}", options.out.display());
    fs::create_dir_all(&options.out).map_err(failed)?;
    let work = tempfile::tempdir_in(&options.out).map_err(failed)?;
    let path = work.path().canonicalize().map_err(|e| e.to_string())?;
    let site = Site::create(options.programs.clone(), &path)?;
    let plugins = plugin_directory(options, &path)?;
    let mut all = Verdicts::default();
    println!(
        "\nscale: {} of cache for each engine; CPU time is the server's, until it is quiet",
        units::bytes(options.cache)
    );
    {
        let (server, subjects) = start(options, &site, &plugins)?;
        all.missing(options.engines.len() + 1 - subjects.len());
        partitions::run(options, &server, &subjects, &mut all)?;
        connections::run(options, &server, &subjects, &mut all)?;
    }
    tables::run(options, &site, &plugins, &mut all)?;
    restart::run(options, &site, &plugins, &mut all)?;
    Ok(all.report())
}
