//! `extract`: moves one table of a backup into a running server.
//!
//! - EX1. The table is made under a temporary name and renamed when it is whole; the rename fails if the final name exists by then. So
//!   no incomplete table ever has the final name, and a failing command never drops somebody else's table.

use std::io::Write;
use std::path::Path;
use std::process::Command;

use frond_vfs::{OsVfs, Vfs};

use super::args::{ExtractArgs, Through};
use super::chain::Chain;
use super::clients;
use super::copy::failed;
use super::import::{self, UNLOGGED};
use super::names::{file_name, quoted, text};
use super::private::{self, Private, Work};
use super::replay;
use super::restore::Lay;
use crate::digest::live::connect::Server;
use crate::out::{Failure, Outcome};

const NEEDS: &str = "CREATE, ALTER, INSERT, SELECT, DROP, TRIGGER in the database";

/// A table's name and where it goes.
struct Subject {
    database: String,
    table: String,
    target: String,
}

impl Subject {
    fn of(args: &ExtractArgs) -> Outcome<Subject> {
        let told = || Failure::Request("--table takes DATABASE.TABLE".into());
        let (database, table) = args.table.split_once('.').ok_or_else(told)?;
        if database.is_empty() || table.is_empty() {
            return Err(told());
        }
        let target = args.name.as_deref().unwrap_or(table);
        Ok(Subject { database: database.into(), table: table.into(), target: target.into() })
    }

    /// Whether the engine's table `stored` is this table; a partition is a table of its own there.
    fn is(&self, stored: &str) -> bool {
        let whole = format!("{}/{}", file_name(&self.database), file_name(&self.table));
        stored == whole || stored.strip_prefix(&whole).is_some_and(|rest| rest.starts_with("#P#"))
    }
}

pub fn run(args: &ExtractArgs, out: &mut dyn Write) -> Outcome<()> {
    let chain = Chain::find(&args.dir, &args.chain, &args.key)?;
    let manifest = &chain.manifest;
    let subject = Subject::of(args)?;
    // A password that the stock client cannot have is refused now, not after the restore.
    clients::connect(&args.connection, args.port, &mut Command::new("mariadb"))?;
    let mut target = Server::patient(&args.connection, args.port, NEEDS)?;
    let place = format!("{}.{}", quoted(&subject.database), quoted(&subject.target));
    let known = |what: &str, condition: String| {
        format!("SELECT COUNT(*) FROM information_schema.{what} WHERE {condition}")
    };
    let database = known("schemata", format!("schema_name = {}", text(&subject.database)));
    if target.value(&database)?.as_deref() != Some("1") {
        let what =
            format!("{} has no database {}: CREATE DATABASE first", target.name, subject.database);
        return Err(Failure::Request(what));
    }
    let there = known(
        "tables",
        format!(
            "table_schema = {} AND table_name = {}",
            text(&subject.database),
            text(&subject.target)
        ),
    );
    if target.value(&there)?.as_deref() != Some("0") {
        return Err(Failure::Request(format!(
            "{place} exists in {}: drop or rename it, or give another name with --as",
            target.name
        )));
    }
    let replayed = match (&args.until, &manifest.binlog) {
        (None, _) => None,
        (Some(until), Some(at)) => Some((until, at, replay::logs(&args.binlogs, at, Some(until))?)),
        _ => return Err(Failure::Request("the backup has no binary log position".into())),
    };

    let stored = manifest.rows.iter().flatten().any(|(name, _)| subject.is(name))
        || manifest.tables.iter().any(|t| subject.is(&t.name));
    if !stored && manifest.others == "frond" && replayed.is_none() {
        let what = format!("{}: no table {} is in it", args.dir.display(), args.table);
        return Err(Failure::Request(what));
    }
    let work = Work::beside(args.work.as_deref(), &args.dir)?;
    let datadir = work.0.join("data");
    let how = Lay {
        datadir: &datadir,
        mariadb_backup: &args.mariadb_backup,
        rate: None,
        quiet: args.quiet,
        threads: args.threads,
    };
    let alone = stored && replayed.is_none();
    let only = |name: &str| subject.is(name);
    how.lay(&chain, if alone { Some(&only) } else { None })?;
    // Files of the other tables are not there: this option makes the server discard those tables.
    let more: &[&str] = if alone { &["--frond-discard-damaged-tables"] } else { &[] };
    let mut server = Private::start(&datadir, &args.server, more)?;
    if let Some((until, at, files)) = &replayed {
        let command = replay::run(&server, files, at, Some(until))?;
        writeln!(out, "replayed: {command}")?;
    }
    let random = OsVfs::new(&work.0).map_err(failed("open", &work.0))?.random_u64();
    let own = format!("frond_extract_{random:016x}");
    let made = format!("{}.{}", quoted(&subject.database), quoted(&own));
    let names = (subject.database.as_str(), subject.table.as_str());
    let asked = args.through == Some(Through::Import);
    let files = match args.through {
        Some(Through::Dump) => None,
        _ => match import::place(&mut server.server, &mut target, names, asked)? {
            Err(why) if asked => return Err(Failure::Request(format!("{}: {why}", args.table))),
            is => is.ok(),
        },
    };
    let (database, table) = (quoted(&subject.database), quoted(&subject.table));
    server.server.run(&format!("RENAME TABLE {database}.{table} TO {made}"))?;
    // EX1.
    let copied = match &files {
        Some(dir) => {
            move_files(&mut server, &datadir, &mut target, dir, &subject.database, &own, args)
        }
        None => copy(&mut server, &mut target, &subject.database, &own, args),
    };
    let done = copied.and_then(|rows| {
        target.run(&format!("RENAME TABLE {made} TO {place}"))?;
        Ok(rows)
    });
    if done.is_err() {
        let _ = target.run(&format!("DROP TABLE IF EXISTS {made}"));
    }
    let rows = done?;
    server.stop()?;
    let how = if files.is_some() { "imported" } else { "loaded" };
    writeln!(out, "{place} in {}: {rows} rows {how}, as in the backup", target.name)?;
    if files.is_some() && target.value("SELECT @@log_bin")?.as_deref() == Some("1") {
        writeln!(out, "not in the binary log: extract it on each replica, too")?;
    }
    Ok(())
}

/// Loads `database.made` from a dump, and returns the rows.
fn copy(
    server: &mut Private,
    target: &mut Server,
    database: &str,
    made: &str,
    args: &ExtractArgs,
) -> Outcome<String> {
    let place = format!("{}.{}", quoted(database), quoted(made));
    let sum = format!("CHECKSUM TABLE {place} EXTENDED");
    let want = checksum(&mut server.server, &sum)?;
    dump(server, (database, made), &[], None, args)?;
    let is = checksum(target, &sum)?;
    if is != want {
        return Err(Failure::Request(format!(
            "{place} differs from the backup's after the copy (checksum {is}, not {want}): was it changed meanwhile?"
        )));
    }
    count(&mut server.server, &place)
}

/// The same, but its rows go through DISCARD and IMPORT TABLESPACE.
fn move_files(
    server: &mut Private,
    datadir: &Path,
    target: &mut Server,
    dir: &Path,
    database: &str,
    made: &str,
    args: &ExtractArgs,
) -> Outcome<String> {
    let place = format!("{}.{}", quoted(database), quoted(made));
    let logs = target.value("SELECT @@log_bin")?.as_deref() == Some("1");
    if logs {
        target.run(UNLOGGED)?;
    }
    let first = logs.then_some(UNLOGGED);
    dump(server, (database, made), &["--no-data"], first, args)?;
    let want = count(&mut server.server, &place)?;
    import::run(server, datadir, target, dir, (database, made))?;
    let is = count(target, &place)?;
    match is == want {
        true => Ok(is),
        false => Err(Failure::Request(format!("{place} has {is} rows, not {want}"))),
    }
}

fn count(server: &mut Server, place: &str) -> Outcome<String> {
    Ok(server.value(&format!("SELECT COUNT(*) FROM {place}"))?.unwrap_or_default())
}

/// Dumps a table, with more options, and loads it, after the statement `first`.
fn dump(
    server: &Private,
    (database, table): (&str, &str),
    more: &[&str],
    first: Option<&str>,
    args: &ExtractArgs,
) -> Outcome<()> {
    let mut dump = server.client("mariadb-dump");
    dump.args([
        "--single-transaction",
        "--skip-add-drop-table",
        "--skip-lock-tables",
        "--hex-blob",
    ]);
    dump.args(["--default-character-set=utf8mb4", "--max-allowed-packet=1G", "--skip-add-locks"]);
    dump.args(more).arg("--").arg(database).arg(table);
    let mut load = Command::new("mariadb");
    // It must be the first option, as the client demands.
    if let Some(file) = &args.connection.defaults_file {
        load.arg(format!("--defaults-file={}", file.display()));
    } else if args.connection.no_defaults {
        load.arg("--no-defaults");
    }
    clients::connect(&args.connection, args.port, &mut load)?;
    load.args(first.map(|sql| format!("--init-command={sql}")));
    load.args(["--binary-mode", "--default-character-set=utf8mb4"]);
    load.arg("--").arg(database);
    private::pipe(dump, load, server.place())
}

/// The second column of the first row.
pub fn checksum(server: &mut Server, sql: &str) -> Outcome<String> {
    let mut found = None;
    server.rows(sql, &mut |row| {
        found = row.get(1).copied().flatten().map(|t| String::from_utf8_lossy(t).into_owned());
        true
    })?;
    found.ok_or_else(|| Failure::Request(format!("{sql}: it cannot be read")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_found_by_the_names_of_their_files() {
        let subject = |database: &str, table: &str| Subject {
            database: database.into(),
            table: table.into(),
            target: table.into(),
        };
        assert!(subject("shop", "orders").is("shop/orders"));
        assert!(subject("shop", "orders").is("shop/orders#P#p0"));
        assert!(!subject("shop", "orders").is("shop/orders2"));
        assert!(subject("my-shop", "a b").is("my@002dshop/a@0020b"));
    }
}
