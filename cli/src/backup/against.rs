//! `verify --against-server`: compares a backup with a running server, both at one position of the server's binary log.
//!
//! A snapshot of the server has a position in its binary log. The backup is restored, and all that was logged between its own position
//! and that one is replayed into it; then both have the same rows. Rejected: comparing at once and naming differences, as every later
//! change would be one.

use super::args::VerifyArgs;
use super::chain::Chain;
use super::extract::checksum;
use super::names::quoted;
use super::private::{Private, Work};
use super::replay::{self, Until};
use super::restore::Lay;
use crate::digest::live::connect::Server;
use crate::out::{Failure, Outcome};

/// Returns the differences; `told` gets lines about what was compared.
pub fn run(args: &VerifyArgs, chain: &Chain, told: &mut Vec<String>) -> Outcome<Vec<String>> {
    let manifest = &chain.manifest;
    let Some(from) = &manifest.binlog else {
        let what = "--against-server needs a backup of a server with a binary log";
        return Err(Failure::Request(what.into()));
    };
    let mut server =
        Server::patient(&args.connection, args.port, "SELECT, RELOAD, BINLOG MONITOR ON *.*")?;
    server
        .run("SET SESSION wait_timeout = 31536000, TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        .or_else(|_| server.run("SET SESSION wait_timeout = 31536000"))?;
    let work = Work::beside(args.work.as_deref(), &args.dir)?;
    let datadir = work.0.join("data");
    let how = Lay {
        datadir: &datadir,
        mariadb_backup: "mariadb-backup".as_ref(),
        rate: None,
        quiet: args.quiet,
        threads: args.threads,
    };
    // Copying takes long. The snapshot keeps old versions of rows alive, so it is taken afterwards.
    how.lay(chain, None)?;
    server.run("START TRANSACTION WITH CONSISTENT SNAPSHOT")?;
    let status = |server: &mut Server, name: &str| {
        let mut found = None;
        server.rows(&format!("SHOW STATUS LIKE 'Binlog_snapshot_{name}'"), &mut |row| {
            found = row.get(1).copied().flatten().map(|t| String::from_utf8_lossy(t).into_owned());
            true
        })?;
        Ok::<_, Failure>(found.filter(|text| !text.is_empty()))
    };
    let (file, position) = (status(&mut server, "file")?, status(&mut server, "position")?);
    let (Some(file), Some(position)) = (file, position.and_then(|p| p.parse::<u64>().ok())) else {
        let what = format!(
            "{} writes no binary log, so what changed since the backup is not known",
            server.name
        );
        return Err(Failure::Request(what));
    };
    let data = server.value("SELECT @@datadir")?.unwrap_or_default();
    let base = server.value("SELECT @@log_bin_basename")?.unwrap_or_default();
    let mut files = replay::logs(&[replay::place(data.as_ref(), &base)], from, None)?;
    let name =
        |path: &std::path::PathBuf| path.file_name().map(|n| n.to_string_lossy().into_owned());
    let last = files.iter().position(|path| name(path).as_deref() == Some(&*file));
    let last = last.ok_or_else(|| Failure::Request(format!("binary log {file} is not there")))?;
    files.truncate(last + 1);
    let mut other = Private::start(&datadir, &args.server, &[])?;
    replay::run(&other, &files, from, Some(&Until::Position(position)))?;
    let list = |server: &mut Server| {
        let mut names = Vec::new();
        let sql = "SELECT table_schema, table_name FROM information_schema.tables WHERE engine = 'FROND' AND \
                   table_type = 'BASE TABLE' ORDER BY 1, 2";
        server.rows(sql, &mut |row| {
            let text = |i: usize| String::from_utf8_lossy(row[i].unwrap_or_default()).into_owned();
            names.push((text(0), text(1)));
            true
        })?;
        Ok::<_, Failure>(names)
    };
    let (here, there) = (list(&mut server)?, list(&mut other.server)?);
    let mut differ = Vec::new();
    let mut compared = 0;
    for (database, table) in &there {
        let place = format!("{}.{}", quoted(database), quoted(table));
        let sum = format!("CHECKSUM TABLE {place} EXTENDED");
        let want = checksum(&mut other.server, &sum)?;
        match checksum(&mut server, &sum) {
            Ok(is) if is == want => compared += 1,
            Ok(is) => differ
                .push(format!("table {place}: checksum {is} in the server, {want} in the backup")),
            // DDL after the snapshot can make a comparison impossible.
            Err(e) => told.push(format!("not compared: {place}: {e}")),
        }
    }
    let missing = here.iter().filter(|table| !there.contains(table));
    for (database, table) in missing {
        told.push(format!("not compared: {database}.{table} was made after the snapshot"));
    }
    told.push(format!(
        "compared with {} at {file} position {position}: {compared} tables of Frond are equal, {} differ",
        server.name,
        differ.len()
    ));
    other.stop()?;
    Ok(differ)
}
