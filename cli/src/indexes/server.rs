//! Tables, sizes and estimates of a running server.
//!
//! Definitions come from SHOW CREATE TABLE and go through the parser of dumps, so there is one reading of a key.
//! `information_schema` lacks the lengths of some prefixes, and has actions in another place. Only queries are
//! sent.

use std::collections::HashMap;

use frond_indexes::dump::{create_table, Hiding};
use frond_indexes::model::{quoted, Table};
use frond_indexes::report::Report;

use super::IndexesArgs;
use crate::digest::live::connect::{number, text, Server};
use crate::out::{Failure, Outcome};

/// The privilege that the account needs. SELECT shows a table's definition, and the table of sizes.
const NEEDS: &str = "SELECT ON *.*";

/// (database, table, key)
type Name = (String, String, String);

pub fn connect(args: &IndexesArgs) -> Outcome<Server> {
    Server::connect(&args.connection, args.port, NEEDS)
}

/// The server that `--also` names: HOST[:PORT], or a socket's path. The account is the same.
pub fn connect_also(args: &IndexesArgs, name: &str) -> Outcome<Server> {
    let mut connection = args.connection.clone();
    let mut port = None;
    (connection.host, connection.socket) = (None, None);
    if name.contains('/') {
        connection.socket = Some(name.into());
    } else {
        let (host, number) = name.rsplit_once(':').unwrap_or((name, ""));
        if !number.is_empty() {
            let bad = |_| Failure::Request(format!("--also {name}: '{number}' is no port"));
            port = Some(number.parse().map_err(bad)?);
        }
        connection.host = Some(host.to_owned());
    }
    Server::connect(&connection, port, NEEDS)
}

/// All tables but the server's own: even when few are wanted, foreign keys of any table may need an index of any
/// other.
pub fn read(server: &mut Server, report: &mut Report) -> Outcome<(Vec<Table>, Hiding)> {
    report.sources.push(server.name.clone());
    let hiding = Hiding::of_version(&server.name);
    // Quoted names get backquotes, and the statements are in UTF-8.
    server.run(
        "SET SESSION sql_mode = '', sql_quote_show_create = 1, character_set_results = utf8mb4",
    )?;
    let mut names = Vec::new();
    let sql = "SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_ROWS FROM information_schema.TABLES \
        WHERE TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED') AND TABLE_SCHEMA NOT IN \
        ('mysql', 'sys', 'information_schema', 'performance_schema') ORDER BY 1, 2";
    server.each_row(sql, &mut |row| names.push((text(row, 0), text(row, 1), number(row, 2))))?;
    let mut tables = Vec::new();
    for (db, name, rows) in names {
        let mut sql = Vec::new();
        let question = format!("SHOW CREATE TABLE {}.{}", quoted(&db), quoted(&name));
        let asked = server.each_row(&question, &mut |row| {
            sql = row.get(1).copied().flatten().unwrap_or_default().to_vec();
        });
        let read = asked.map_err(|e| e.to_string()).and_then(|()| create_table(&sql, &db));
        match read {
            Ok(table) => tables.push(Table { rows, ..table }),
            // If the server has gone, the other tables would fail, too.
            Err(what) if server.value("SELECT 1").is_err() => return Err(Failure::Request(what)),
            Err(what) => report.problems.push(format!("{db}.{name}: {what}")),
        }
    }
    let cardinality = numbers(
        server,
        "SELECT TABLE_SCHEMA, TABLE_NAME, INDEX_NAME, MAX(CARDINALITY) \
         FROM information_schema.STATISTICS GROUP BY 1, 2, 3",
    )?;
    // Sizes are in pages; a partition is a table of its own there: `t#P#p0`.
    let sizes = numbers(
        server,
        "SELECT database_name, SUBSTRING_INDEX(table_name, '#', 1), index_name, \
         SUM(stat_value) * @@innodb_page_size FROM mysql.innodb_index_stats \
         WHERE stat_name = 'size' GROUP BY 1, 2, 3",
    );
    let sizes = sizes.unwrap_or_else(|e| {
        report.notes.push(format!("Sizes of indexes are not known: {e}"));
        HashMap::new()
    });
    for table in &mut tables {
        for key in &mut table.keys {
            let name = (table.db.clone(), table.name.clone(), key.name.clone());
            key.cardinality = cardinality.get(&name).copied();
            key.bytes = sizes.get(&name).copied();
        }
    }
    Ok((tables, hiding))
}

/// Reads rows of a name (database, table, key) and a number.
fn numbers(server: &mut Server, sql: &str) -> Outcome<HashMap<Name, u64>> {
    let mut found = HashMap::new();
    server.each_row(sql, &mut |row| {
        if let Some(n) = number(row, 3) {
            found.insert((text(row, 0), text(row, 1), text(row, 2)), n);
        }
    })?;
    Ok(found)
}
