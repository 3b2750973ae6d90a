//! The parts of a check that need no open database: identity, log, headers and images, foreign
//! files.

use std::collections::HashSet;
use std::sync::Arc;

use frond_base::{ErrorKind, TableId};
use frond_engine::{read_identity, TableDef, PIN_FILE};
use frond_space::{Checkpoint, TableFile, TableFileOptions};
use frond_vfs::{Vfs, LOCK_FILE};

use crate::check::Report;
use crate::open::IDENTITY;
use crate::out::{Failure, Outcome};

/// The database id; `None` (and a problem) when it is damaged or missing.
pub fn identity(vfs: &dyn Vfs, report: &mut Report) -> Outcome<Option<u64>> {
    match vfs.exists(IDENTITY) {
        Ok(true) => {}
        Ok(false) => {
            report.problem(format!(
                "{IDENTITY} is missing: the directory is not recognised as a database; restore the \
                 file from a backup of this database"
            ));
            return Ok(None);
        }
        Err(e) => return Err(Failure::Request(format!("cannot look for {IDENTITY}: {e}"))),
    }
    match read_identity(vfs) {
        Ok(database) => Ok(Some(database)),
        Err(e) if e.kind() == ErrorKind::UnsupportedFormat => Err(e.into()),
        Err(e) => {
            report.problem(e.message());
            Ok(None)
        }
    }
}

/// Every segment and record of the log.
pub fn log(vfs: &dyn Vfs, database: Option<u64>, report: &mut Report) {
    match frond_wal::inspect(vfs, database, &mut |_| {}) {
        Ok(log) => {
            report.log_segments = log.segments.len() as u64;
            report.log_records = log.records;
            report.log_payload_bytes = log.payload_bytes;
            for p in log.problems {
                report.problem(format!("{} at offset {}: {}", p.file, p.offset, p.what));
            }
        }
        Err(e) => report.problem(e.message()),
    }
}

/// Headers and image of every table file; `each` gets the files that could be opened.
pub fn tables(
    vfs: &dyn Vfs,
    database: u64,
    names: &[String],
    report: &mut Report,
    each: &mut dyn FnMut(TableFile, Option<Checkpoint>, &mut Report),
) {
    for name in names {
        let Some(table) = table_of(name) else { continue };
        let options = TableFileOptions { database, table, direct: false, read_only: true };
        match TableFile::open(vfs, name, &options) {
            Ok((file, checkpoint)) => {
                if let Some(found) = file.fallback() {
                    report.warning(format!("{name}: {}; the other header is used", found.reason));
                }
                each(file, checkpoint, report);
            }
            Err(e) => report.problem(e.message()),
        }
    }
}

/// The number in a table file's name.
fn table_of(name: &str) -> Option<TableId> {
    let digits = name.strip_suffix(".frd")?;
    let number = digits.parse::<u32>().ok()?;
    (number.to_string() == digits).then_some(TableId(number))
}

/// Files that belong to no table and not to the log. `tables` is `None` when the catalog could not be read.
pub fn strangers(names: &[String], tables: Option<&[Arc<TableDef>]>, report: &mut Report) {
    let defined: Option<HashSet<TableId>> =
        tables.map(|all| all.iter().map(|def| def.id).chain([TableId(0)]).collect());
    for name in names {
        if let Some(id) = table_of(name) {
            if defined.as_ref().is_some_and(|ids| !ids.contains(&id)) {
                report.warning(format!(
                    "{name}: belongs to no table (dropped just before a crash); the next start of \
                     the server removes it"
                ));
            }
        } else if name.ends_with(".new") && (name == "frond.id.new" || name.ends_with(".frd.new")) {
            report.warning(format!("{name}: left by a crash during its creation; harmless"));
        } else if name == PIN_FILE {
            report.warning(format!("{name}: of a backup that ended with its server; harmless"));
        } else if name != IDENTITY && name != LOCK_FILE && !is_log(name) {
            report.warning(format!("{name}: not a file of a Frond database"));
        }
    }
}

fn is_log(name: &str) -> bool {
    let digits = |rest: &str| rest.len() == 8 && rest.bytes().all(|b| b.is_ascii_digit());
    ["log.", "spare."].iter().any(|prefix| {
        name.strip_prefix(prefix).and_then(|n| n.strip_suffix(".frl")).is_some_and(digits)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_a_database_are_no_strangers() {
        let names: Vec<String> = [
            "frond.id",
            "LOCK",
            "0.frd",
            "7.frd",
            "8.frd",
            "07.frd",
            "log.00000001.frl",
            "spare.00000002.frl",
            "log.1.frl",
            "9.frd.new",
            "notes.txt",
        ]
        .map(String::from)
        .to_vec();
        let def = TableDef::new(TableId(7), "t".into(), Vec::new());
        let mut report = Report::default();
        strangers(&names, Some(&[Arc::new(def)]), &mut report);
        let named: Vec<&str> =
            report.findings.iter().filter_map(|f| f.what.split(':').next()).collect();
        assert_eq!(named, ["8.frd", "07.frd", "log.1.frl", "9.frd.new", "notes.txt"]);
        assert!(report.is_clean());
    }
}
