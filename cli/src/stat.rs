//! `frond stat`: the contents of a database and the space they take on disk.
//!
//! Everything comes from metadata in memory after recovery: no page is read.

use std::io::Write;
use std::sync::Arc;

use frond_engine::{Engine, IndexState, Table, TableDef};
use frond_row::Schema;
use frond_vfs::Vfs;
use serde::Serialize;

use crate::check::no_such_table;
use crate::open;
use crate::out::{bytes, grouped, Grid, Outcome};

/// Memory for reading metadata; pages are not read.
const CACHE: u64 = 16 << 20;

#[derive(Serialize)]
struct IndexStat {
    index: usize,
    name: String,
    /// Versions in runs, tombstones included.
    entries: u64,
    tombstones: u64,
    runs: u64,
    leaves: u64,
    inner_nodes: u64,
    height: usize,
    /// Key and value bytes before encoding.
    logical_bytes: u64,
    stored_bytes: u64,
    /// In the log, not yet in a run.
    buffered_entries: u64,
    buffered_bytes: u64,
}

impl IndexStat {
    fn per_entry(&self) -> f64 {
        self.stored_bytes as f64 / self.entries.max(1) as f64
    }
}

#[derive(Serialize)]
struct TableStat {
    name: String,
    /// Its file is `<id>.frd`.
    id: u32,
    rows: u64,
    file_bytes: u64,
    hole_bytes: u64,
    auto_increment: u64,
    indexes: Vec<IndexStat>,
    #[serde(skip)]
    schema: Option<Schema>,
}

#[derive(Serialize)]
struct LogStat {
    kept_bytes: u64,
    segments: u64,
}

#[derive(Serialize)]
struct DatabaseStat {
    format: u32,
    tables: Vec<TableStat>,
    log: LogStat,
    /// Tables that could not be opened, and why.
    failures: Vec<String>,
}

/// Writes the figures of the whole database, or of `only`.
pub fn run(vfs: Arc<dyn Vfs>, only: Option<&str>, json: bool, out: &mut dyn Write) -> Outcome<()> {
    let engine = open::engine(vfs, CACHE)?;
    if let Some(name) = only {
        if !engine.table_exists(name) {
            return Err(no_such_table(&engine, name));
        }
    }
    let stat = measure(&engine, only);
    if json {
        let text = serde_json::to_string(&stat).unwrap_or_default();
        writeln!(out, "{text}")?;
        return Ok(());
    }
    write_text(&stat, only.is_some(), out)
}

fn measure(engine: &Engine, only: Option<&str>) -> DatabaseStat {
    let (mut tables, mut failures) = (Vec::new(), Vec::new());
    for def in engine.tables() {
        if only.is_some_and(|name| name != def.name) {
            continue;
        }
        match engine.open_table(&def.name) {
            Ok(table) => tables.push(of_table(&table, &def)),
            Err(e) => failures.push(format!("table '{}': {e}", def.name)),
        }
    }
    let status = engine.status();
    let counter = |name: &str| status.iter().find(|(n, _)| *n == name).map_or(0, |(_, v)| *v);
    DatabaseStat {
        format: frond_engine::FORMAT_VERSION,
        tables,
        log: LogStat { kept_bytes: counter("log_bytes_kept"), segments: counter("log_segments") },
        failures,
    }
}

fn of_table(table: &Table, def: &TableDef) -> TableStat {
    let schema = match def.schema.is_empty() {
        true => None,
        false => Schema::decode(&def.schema, &def.name).ok(),
    };
    let name_of = |tree: usize| {
        let index = schema.as_ref().and_then(|s| {
            s.indexes.iter().find(|i| usize::from(i.tree) == tree).map(|i| i.name.clone())
        });
        index.unwrap_or_else(|| if tree == 0 { "PRIMARY".into() } else { tree.to_string() })
    };
    let in_use = |n: &usize| def.indexes.get(*n).is_none_or(|i| i.state != IndexState::Dropped);
    let trees = table.trees().iter().enumerate().filter(|(n, _)| in_use(n));
    let indexes = trees.map(|(n, tree)| {
        let s = tree.stats();
        IndexStat {
            index: n,
            name: name_of(n),
            entries: s.entries,
            tombstones: s.tombstones,
            runs: s.runs,
            leaves: s.leaves,
            inner_nodes: s.inner_nodes,
            height: s.height,
            logical_bytes: s.logical_bytes,
            stored_bytes: s.run_bytes,
            buffered_entries: s.buffered_entries,
            buffered_bytes: s.buffered_bytes,
        }
    });
    let indexes = indexes.collect();
    let figures = table.statistics();
    TableStat {
        name: def.name.clone(),
        id: def.id.0,
        rows: figures.rows,
        file_bytes: figures.file_bytes,
        hole_bytes: figures.free_bytes,
        auto_increment: table.auto_increment(),
        indexes,
        schema,
    }
}

fn write_text(stat: &DatabaseStat, detail: bool, out: &mut dyn Write) -> Outcome<()> {
    let mut trees = Grid::new(
        2,
        &[
            "table",
            "index",
            "entries",
            "tombstones",
            "runs",
            "leaves",
            "height",
            "logical",
            "stored",
            "B/entry",
            "buffered",
        ],
    );
    for table in &stat.tables {
        for index in &table.indexes {
            trees.row(vec![
                table.name.clone(),
                index.name.clone(),
                grouped(index.entries),
                grouped(index.tombstones),
                grouped(index.runs),
                grouped(index.leaves),
                index.height.to_string(),
                bytes(index.logical_bytes),
                bytes(index.stored_bytes),
                format!("{:.1}", index.per_entry()),
                bytes(if index.buffered_entries > 0 { index.buffered_bytes } else { 0 }),
            ]);
        }
    }
    let mut files = Grid::new(2, &["table", "file", "rows", "file size", "holes"]);
    for table in &stat.tables {
        files.row(vec![
            table.name.clone(),
            format!("{}.frd", table.id),
            grouped(table.rows),
            bytes(table.file_bytes),
            bytes(table.hole_bytes),
        ]);
    }
    if stat.tables.is_empty() {
        writeln!(out, "no tables")?;
    } else {
        writeln!(out, "{files}\n{trees}")?;
    }
    if detail {
        for table in &stat.tables {
            match &table.schema {
                Some(schema) => writeln!(out, "{schema}")?,
                None => writeln!(out, "plain keys and values\n")?,
            }
        }
    }
    for failure in &stat.failures {
        writeln!(out, "not readable: {failure}")?;
    }
    writeln!(
        out,
        "log: {} in {} segments; format {}",
        bytes(stat.log.kept_bytes),
        stat.log.segments,
        stat.format
    )?;
    Ok(())
}
