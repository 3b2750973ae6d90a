//! `frond log`: the records of the log, read offline.

use std::io::Write;
use std::sync::Arc;

use frond_engine::{read_identity, record_kind};
use frond_vfs::Vfs;
use serde_json::json;

use crate::open;
use crate::out::{bytes, grouped, Grid, Outcome};

/// The name of a record's kind; see docs/file-format.md.
fn kind_name(kind: u8) -> String {
    let name = match kind {
        record_kind::KIND_TRANSACTION => "transaction",
        record_kind::KIND_EDIT => "trunk edit",
        record_kind::KIND_COUNTERS => "counters",
        record_kind::KIND_SET_COUNTERS => "set counters",
        record_kind::KIND_TRIM => "trim",
        record_kind::KIND_TRANSACTION_OF_RUNS => "transaction with runs",
        record_kind::KIND_PREPARE => "prepare",
        record_kind::KIND_COMMIT_PREPARED => "commit of a prepared transaction",
        record_kind::KIND_ROLLBACK_PREPARED => "rollback of a prepared transaction",
        n => return format!("kind {n}"),
    };
    name.into()
}

/// Lists the log. True when nothing in it is damaged.
pub fn run(vfs: Arc<dyn Vfs>, summary: bool, json: bool, out: &mut dyn Write) -> Outcome<bool> {
    let _lock = vfs.lock_dir().map_err(|e| match e.kind() {
        std::io::ErrorKind::WouldBlock => {
            open::explain(frond_base::Error::new(frond_base::ErrorKind::Busy, ""))
        }
        _ => crate::out::Failure::Request(format!("cannot lock the database directory: {e}")),
    })?;
    let database = read_identity(&*vfs).ok();
    let mut failed = None;
    let mut totals = [(0u64, 0u64); 256];
    let report = frond_wal::inspect(&*vfs, database, &mut |record| {
        let total = &mut totals[usize::from(record.kind)];
        total.0 += 1;
        total.1 += record.payload.len() as u64;
        if summary || failed.is_some() {
            return;
        }
        let (kind, len) = (kind_name(record.kind), record.payload.len());
        let written = if json {
            let line = json!({ "lsn": record.lsn, "end": record.end, "kind": kind, "bytes": len });
            writeln!(out, "{line}")
        } else {
            writeln!(out, "{:>16}  {len:>12}  {kind}", record.lsn)
        };
        failed = written.err();
    })?;
    if let Some(e) = failed {
        return Err(e.into());
    }
    if summary && json {
        let segments: Vec<_> = report
            .segments
            .iter()
            .map(|s| {
                json!({ "file": s.file, "start": s.start, "end": s.end, "frames": s.frames,
                        "file_bytes": s.file_bytes })
            })
            .collect();
        let kinds: Vec<_> = kinds(&totals)
            .map(|(kind, n, len)| json!({ "kind": kind, "records": n, "bytes": len }))
            .collect();
        let problems: Vec<_> = report
            .problems
            .iter()
            .map(|p| json!({ "file": p.file, "offset": p.offset, "what": p.what }))
            .collect();
        let object = json!({ "segments": segments, "kinds": kinds, "problems": problems,
                             "end": report.end, "durable_to": report.promised,
                             "unfinished": report.unfinished });
        writeln!(out, "{object}")?;
    } else if summary {
        let mut grid = Grid::new(1, &["segment", "start LSN", "end LSN", "frames", "file size"]);
        for s in &report.segments {
            grid.row(vec![
                s.file.clone(),
                s.start.map_or("?".into(), |n| n.to_string()),
                s.end.to_string(),
                grouped(s.frames),
                bytes(s.file_bytes),
            ]);
        }
        writeln!(out, "{grid}")?;
        let mut grid = Grid::new(1, &["kind", "records", "bytes"]);
        for (kind, n, len) in kinds(&totals) {
            grid.row(vec![kind, grouped(n), grouped(len)]);
        }
        write!(out, "{grid}")?;
        if let Some(lsn) = report.unfinished {
            writeln!(out, "a record at {lsn} was never finished: normal after a crash")?;
        }
    }
    if !json {
        for p in &report.problems {
            writeln!(out, "problem: {} at offset {}: {}", p.file, p.offset, p.what)?;
        }
    }
    Ok(report.problems.is_empty())
}

fn kinds(totals: &[(u64, u64); 256]) -> impl Iterator<Item = (String, u64, u64)> + '_ {
    (0u8..=255)
        .map(|k| (k, totals[usize::from(k)]))
        .filter(|(_, (n, _))| *n > 0)
        .map(|(k, (n, len))| (kind_name(k), n, len))
}
