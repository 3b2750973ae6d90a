//! A server's counts of reads by index.

use frond_indexes::usage::{Count, Counters};

use crate::digest::live::connect::{number, text, Server};
use crate::out::{Failure, Outcome};

const OWN: &str = "('mysql', 'sys', 'information_schema', 'performance_schema')";

const INSTRUMENTS: &str = "SELECT (SELECT ENABLED FROM performance_schema.setup_instruments \
    WHERE NAME = 'wait/io/table/sql/handler') = 'YES' AND (SELECT ENABLED FROM performance_schema.setup_consumers \
    WHERE NAME = 'global_instrumentation') = 'YES'";

/// Reads the counters that are on. Nothing is switched on here; `notes` gets the counters that
/// could not be used, and why.
pub fn read(server: &mut Server, notes: &mut Vec<String>) -> Outcome<Counters> {
    // MySQL has the table elsewhere since 8.0.
    let schema = if server.mariadb { "information_schema" } else { "performance_schema" };
    let uptime = format!(
        "SELECT VARIABLE_VALUE FROM {schema}.GLOBAL_STATUS WHERE UPPER(VARIABLE_NAME) = 'UPTIME'"
    );
    let identity = "SELECT CONCAT(@@hostname, ':', @@port, ' #', @@server_id)";
    let mut number = |sql: &str| -> Outcome<u64> {
        Ok(server.value(sql)?.and_then(|text| text.parse().ok()).unwrap_or_default())
    };
    let mut counters = Counters {
        uptime: number(&uptime)?,
        taken: number("SELECT UNIX_TIMESTAMP()")?,
        server: server.value(identity)?.unwrap_or_default(),
        ..Counters::default()
    };
    // Tables whose time is not known count as made long ago.
    let created = format!(
        "SELECT TABLE_SCHEMA, TABLE_NAME, '', UNIX_TIMESTAMP(CREATE_TIME) FROM information_schema.TABLES \
         WHERE TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED') AND TABLE_SCHEMA NOT IN {OWN}"
    );
    counters.created = counts(server, &[created]).map_err(Failure::Request)?;
    let keys = format!(
        "SELECT DISTINCT TABLE_SCHEMA, TABLE_NAME, INDEX_NAME, 0 FROM information_schema.STATISTICS \
         WHERE TABLE_SCHEMA NOT IN {OWN}"
    );
    counters.keys = counts(server, &[keys]).map_err(Failure::Request)?;
    let read = [("performance_schema", performance_schema(server)), ("userstat", userstat(server))];
    for (source, counts) in read {
        match counts {
            Ok(counts) => {
                counters.sources.insert(source.into(), counts);
            }
            // One of the two is enough.
            Err(why) if source == "performance_schema" || counters.sources.is_empty() => {
                notes.push(format!("{}: {source} says nothing: {why}", server.name));
            }
            Err(_) => {}
        }
    }
    Ok(counters)
}

/// The counts, or why there are none.
fn performance_schema(server: &mut Server) -> Result<Vec<Count>, String> {
    let left_out = format!(
        "SELECT COUNT(*) = 0 AND EXISTS (SELECT 1 FROM performance_schema.setup_objects WHERE OBJECT_TYPE = 'TABLE' \
         AND OBJECT_SCHEMA = '%' AND OBJECT_NAME = '%' AND ENABLED = 'YES') FROM performance_schema.setup_objects \
         WHERE OBJECT_TYPE = 'TABLE' AND ENABLED = 'NO' AND OBJECT_SCHEMA NOT IN {OWN}"
    );
    for (sql, otherwise) in [
        ("SELECT @@performance_schema", "it is off (performance_schema = ON in the configuration)"),
        (INSTRUMENTS, "its instrument wait/io/table/sql/handler or its consumer global_instrumentation is disabled"),
        (&left_out, "setup_objects leaves tables out"),
    ] {
        if server.value(sql).map_err(|e| e.to_string())?.as_deref() != Some("1") {
            return Err(otherwise.into());
        }
    }
    // Tables and indexes beyond the limits of performance_schema are not counted at all.
    let mut lost = None;
    let sql = "SHOW GLOBAL STATUS WHERE Variable_name IN ('Performance_schema_index_stat_lost', \
        'Performance_schema_table_instances_lost', 'Performance_schema_table_handles_lost')";
    let result = server.each_row(sql, &mut |row| {
        if number(row, 1) > Some(0_u64) {
            lost = Some(text(row, 0));
        }
    });
    result.map_err(|e| e.to_string())?;
    if let Some(name) = lost {
        return Err(format!("{name} is not 0: it has no room for all tables"));
    }
    let keys = format!(
        "SELECT OBJECT_SCHEMA, OBJECT_NAME, INDEX_NAME, COUNT_STAR FROM \
         performance_schema.table_io_waits_summary_by_index_usage \
         WHERE OBJECT_TYPE = 'TABLE' AND INDEX_NAME IS NOT NULL AND OBJECT_SCHEMA NOT IN {OWN}"
    );
    let tables = format!(
        "SELECT OBJECT_SCHEMA, OBJECT_NAME, '', COUNT_INSERT + COUNT_UPDATE + COUNT_DELETE FROM \
         performance_schema.table_io_waits_summary_by_table WHERE OBJECT_TYPE = 'TABLE' AND OBJECT_SCHEMA NOT IN {OWN}"
    );
    counts(server, &[keys, tables])
}

fn userstat(server: &mut Server) -> Result<Vec<Count>, String> {
    // Other servers than MariaDB have no such variable.
    let on = server.value("SELECT @@global.userstat").map_err(|e| e.to_string())?;
    if on.as_deref() != Some("1") {
        return Err("it is off (SET GLOBAL userstat = ON)".into());
    }
    let keys = format!(
        "SELECT TABLE_SCHEMA, TABLE_NAME, INDEX_NAME, ROWS_READ FROM information_schema.INDEX_STATISTICS \
         WHERE TABLE_SCHEMA NOT IN {OWN}"
    );
    let tables = format!(
        "SELECT TABLE_SCHEMA, TABLE_NAME, '', ROWS_CHANGED FROM information_schema.TABLE_STATISTICS \
         WHERE TABLE_SCHEMA NOT IN {OWN}"
    );
    counts(server, &[keys, tables])
}

fn counts(server: &mut Server, questions: &[String]) -> Result<Vec<Count>, String> {
    let mut found = Vec::new();
    for sql in questions {
        let asked = server.each_row(sql, &mut |row| {
            found.push(Count {
                db: text(row, 0),
                table: text(row, 1),
                key: text(row, 2),
                n: number(row, 3).unwrap_or_default(),
            });
        });
        asked.map_err(|e| e.to_string())?;
    }
    Ok(found)
}
