//! `frond-demo cold`: look-ups of rows of which each is as likely as any other, in a table much larger than the cache.
//!
//! Purpose: what a look-up costs that finds almost nothing in memory: by primary key, and through an index, by the
//! number of connections. Bytes read per look-up are the kernel's count for the whole server.
//!
//! Tested below, and by stage 30.

use super::{fill, finish, measure, tell, until_quiet, Set};
use crate::oltp::{self, Options};
use crate::units;

/// Runs everything and prints a table. `Ok(false)` when an engine that was asked for did not run.
pub fn run(options: &Options, clients: &[u32]) -> Result<bool, String> {
    let (_work, path, site) = oltp::site(options)?;
    let (server, engines) = oltp::start(options, &site, &path, &[])?;
    println!(
        "\nCold look-ups: a table of {} rows, {} of cache per engine\n",
        units::grouped(options.rows),
        units::bytes(options.cache)
    );
    let sets: Vec<Set> = ["id", "n"]
        .into_iter()
        .flat_map(|by| clients.iter().map(move |&threads| (by, threads)))
        .enumerate()
        .map(|(seed, (by, threads))| Set { rows: options.rows, by, threads, seed })
        .collect();
    let mut measured = Vec::new();
    for &engine in &engines {
        fill(options, &server, engine)?;
        server.sql(&format!("ALTER TABLE {}.hot ADD INDEX (n)", oltp::database(engine)))?;
        until_quiet(&server)?;
        let mut of_engine = Vec::new();
        for set in &sets {
            let one = measure(options, &server, engine, set)?;
            tell(engine, &format!("{:<32}", name(set)), &one);
            of_engine.push(one);
        }
        measured.push(of_engine);
    }
    let names: Vec<String> = sets.iter().map(name).collect();
    finish(options, "look-ups", "cold.md", &engines, &names, &measured)
}

fn name(set: &Set) -> String {
    let by = if set.by == "id" { "by primary key" } else { "through an index" };
    let s = if set.threads == 1 { "" } else { "s" };
    format!("{by}, {} connection{s}", set.threads)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::engines::Engine;

    #[test]
    #[ignore = "starts a server with the plugin: scripts/stages/30-plugin.sh"]
    fn look_ups_run_both_ways_on_both_engines() {
        let out = tempfile::tempdir().unwrap();
        let engines = vec![Engine::InnoDb, Engine::Frond];
        assert!(run(&oltp::for_a_moment(out.path(), engines), &[1, 3]).unwrap());
        let table = fs::read_to_string(out.path().join("cold.md")).unwrap();
        assert_eq!(table.lines().count(), 2 + 4, "{table}");
        assert!(table.contains("through an index, 3 connections"), "{table}");
    }

    #[test]
    fn one_connection_is_one() {
        let set = Set { rows: 1, by: "id", threads: 1, seed: 0 };
        assert_eq!(name(&set), "by primary key, 1 connection");
        assert_eq!(name(&Set { by: "n", threads: 16, ..set }), "through an index, 16 connections");
    }
}
