//! `frond check`: everything stored, verified offline.
//!
//! In order: identity; every log segment; every table file's headers and image; then the database
//! is opened (recovered in memory) and every run, page and count is read; then rows are compared
//! with indexes. Where the database does not open, pages are read as of each table's newest
//! checkpoint.
//!
//! Invariants:
//!
//! - CK1. Nothing is written (CLI1); the directory's lock is held while anything is read.
//! - CK2. Damage is a finding and never ends the check; only what makes checking impossible is an
//!   error.
//! - CK3. Findings are bounded, and so is the time: each byte is read a fixed number of times.

mod files;
mod report;
mod rows;
mod stored;

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Arc;

use frond_base::ErrorKind;
use frond_engine::Engine;
use frond_vfs::Vfs;

use crate::open;
use crate::out::{Failure, Outcome};

pub use report::{Finding, Progress, Report, Severity};

/// What to check.
#[derive(Clone, Debug)]
pub struct Options {
    pub cache_bytes: u64,
    /// This table's pages and rows only.
    pub table: Option<String>,
    /// Compare rows with indexes.
    pub rows: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options { cache_bytes: 64 << 20, table: None, rows: true }
    }
}

/// Checks the database in the directory of `vfs`.
///
/// Fails only when there is nothing to check: another process has it, the directory cannot be read,
/// a newer release wrote it, the table asked for does not exist.
pub fn run(vfs: Arc<dyn Vfs>, options: &Options, progress: Progress<'_>) -> Outcome<Report> {
    // A wrong request is not the database's fault.
    open::options(options.cache_bytes).validate()?;
    let start = vfs.now();
    let mut report = Report::default();
    let names = vfs
        .list()
        .map_err(|e| Failure::Request(format!("cannot list the database directory: {e}")))?;
    let database = {
        let _lock = vfs.lock_dir().map_err(|e| match e.kind() {
            std::io::ErrorKind::WouldBlock => {
                open::explain(frond_base::Error::new(ErrorKind::Busy, ""))
            }
            _ => Failure::Request(format!("cannot lock the database directory: {e}")),
        })?;
        let database = files::identity(&*vfs, &mut report)?;
        progress("log");
        guarded(&mut report, "reading the log", |r| files::log(&*vfs, database, r));
        if let Some(database) = database {
            progress("table files");
            guarded(&mut report, "reading table files", |r| {
                files::tables(&*vfs, database, &names, r, &mut |_, _, r| r.table_files += 1);
            });
        }
        database
    };
    progress("recovery, in memory");
    let mut opened = None;
    guarded(&mut report, "recovering", |r| {
        match Engine::open(vfs.clone(), open::options(options.cache_bytes)) {
            Ok(engine) => opened = Some(engine),
            Err(e) => r.problem(format!("the database does not open: {e}")),
        }
    });
    match opened {
        Some(engine) => {
            report.complete = true;
            if let Some(table) = &options.table {
                if !engine.table_exists(table) {
                    return Err(no_such_table(&engine, table));
                }
            }
            contents(&engine, options, &mut report, progress);
            files::strangers(&names, Some(&engine.tables()), &mut report);
            guarded(&mut report, "closing", |_| drop(engine));
        }
        None => {
            progress("pages, as of each table's checkpoint");
            let _lock = vfs.lock_dir().ok();
            if let Some(database) = database {
                guarded(&mut report, "reading pages", |r| {
                    files::tables(&*vfs, database, &names, r, &mut |file, checkpoint, r| {
                        if let Some(checkpoint) = checkpoint {
                            stored::check(file, &checkpoint, r);
                        }
                    });
                });
            }
            files::strangers(&names, None, &mut report);
        }
    }
    report.seconds = vfs.now().saturating_sub(start).as_secs_f64();
    Ok(report)
}

/// Pages, then rows, of all tables or one.
fn contents(engine: &Engine, options: &Options, report: &mut Report, progress: Progress<'_>) {
    guarded(report, "checking pages", |r| {
        let outcome = match &options.table {
            Some(table) => match engine.check_table(table) {
                Ok(outcome) => outcome,
                Err(e) => return r.problem(format!("table '{table}': {e}")),
            },
            None => engine.check_all(&mut |table| progress(&format!("pages of {table}"))),
        };
        r.tables = outcome.tables;
        r.trees = outcome.trees;
        r.runs = outcome.runs;
        r.pages = outcome.pages;
        r.entries = outcome.entries;
        outcome.problems.into_iter().for_each(|p| r.problem(p));
    });
    if !options.rows {
        return;
    }
    for def in engine.tables() {
        if options.table.as_ref().is_some_and(|t| *t != def.name) {
            continue;
        }
        guarded(report, &format!("comparing the rows of '{}'", def.name), |r| {
            match engine.open_table(&def.name) {
                Ok(table) => rows::check(&table, r, progress),
                Err(e) => r.problem(format!("table '{}': {e}", def.name)),
            }
        });
    }
}

/// "There is no table X", with the nearest thing there is.
pub fn no_such_table(engine: &Engine, name: &str) -> Failure {
    let tables = engine.tables();
    let lower = name.to_lowercase();
    let near = tables.iter().find(|t| {
        t.name.to_lowercase() == lower || t.name.to_lowercase().ends_with(&format!("/{lower}"))
    });
    let hint = match (near, tables.len()) {
        (Some(t), _) => format!("did you mean '{}'?", t.name),
        (None, 0) => "the database has no tables".into(),
        (None, _) => "'frond stat DIR' lists the tables".into(),
    };
    Failure::Request(format!("there is no table '{name}'; {hint}"))
}

/// Runs a part of the check; a panic in it is an error of ours, reported as such, and the rest goes
/// on.
fn guarded(report: &mut Report, doing: &str, part: impl FnOnce(&mut Report)) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| part(report))) {
        let text = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("no message");
        report.internal_errors += 1;
        report.problem(format!(
            "internal error while {doing}: {text}; please report it, with the database if you can"
        ));
    }
}
