//! Logs in the form of servers that are not installed where the tests run, and cases that `written` lacks:
//! attributes of MySQL 8 with `log_slow_extra`, of MySQL 5.7, of MariaDB with all verbosities, and raw statements.

use std::path::{Path, PathBuf};

const EVENTS: u64 = 60;

fn statement(i: u64) -> String {
    let id = 100 + i;
    match i % 5 {
        0 => format!("select a from t where id = {id}"),
        1 => format!("insert into log (a, b) values ({id}, 'x')"),
        2 => format!("update users set seen = {id} where id = 7"),
        3 => "select count(*) from orders".to_owned(),
        _ => format!("delete from sessions where id = {id}"),
    }
}

/// The head's first lines, the times, and `more`.
fn event(time: &str, i: u64, more: &str) -> String {
    let (micros, lock, rows) = (1300 + i % 5 * 37_000 + i * 3, 20 + i * 3, 10 + i % 5 * 40);
    format!(
        "# Time: {time}\n# User@Host: app{}[app] @ web{} [10.0.0.1]  Id:    {i}\n# Query_time: 0.{micros:06}  Lock_time: 0.{lock:06}  Rows_sent: {}  Rows_examined: {rows}{more}\nSET timestamp={};\n{};\n",
        i % 3,
        i % 2,
        i % 9,
        1_767_294_571 + i,
        statement(i)
    )
}

fn mysql(i: u64, extra: bool) -> String {
    let time = format!("2026-01-01T19:{:02}:{:02}.{:06}Z", 9 + i / 60, i % 60, 659_924 - i);
    let more = format!(
        " Thread_id: {i} Errno: {} Killed: 0 Bytes_received: {} Bytes_sent: {} Read_first: 1 Read_last: 0 Read_key: {} Read_next: {i} Read_prev: 0 Read_rnd: 0 Read_rnd_next: {} Sort_merge_passes: 0 Sort_range_count: 0 Sort_rows: {} Sort_scan_count: 0 Created_tmp_disk_tables: 0 Created_tmp_tables: 1 Start: {time} End: {time}",
        if i % 20 == 1 { 1062 } else { 0 },
        50 + i % 5 * 20,
        100 + i % 5 * 300,
        3 + i % 5,
        i * 2,
        i % 4
    );
    event(&time, i, if extra { &more } else { "" })
}

fn mariadb(i: u64) -> String {
    let time = format!("260101 19:{:02}:{:02}", 9 + i / 60, i % 60);
    let more = format!(
        "\n# Rows_affected: {}  Bytes_sent: {}\n# Pages_accessed: {}  Pages_read: 1  Pages_prefetched: 0  Pages_updated: 2  Old_rows_read: 0\n# Pages_read_time: 0.2500  Engine_time: 1.5000\n# Tmp_tables: {}  Tmp_disk_tables: 1  Tmp_table_sizes: {}\n# Full_scan: Yes  Full_join: No  Tmp_table: Yes  Tmp_table_on_disk: Yes\n# Filesort: No  Filesort_on_disk: No  Merge_passes: 1  Priority_queue: No",
        i % 4,
        100 + i % 5 * 300,
        5 + i % 5,
        1 + i % 2,
        4096 + i % 5 * 100
    );
    event(&time, i, &more).replacen(
        &format!("  Id:    {i}\n"),
        &format!("\n# Thread_id: {i}  Schema: shop  QC_hit: No\n"),
        1,
    )
}

/// Writes the logs; returns each path with its kind.
pub fn write(folder: &Path) -> Vec<(PathBuf, &'static str)> {
    let all = |each: &dyn Fn(u64) -> String| (0..EVENTS).map(each).collect::<String>();
    let maria = format!(
        "/usr/sbin/mariadbd, Version: 10.11.6-MariaDB (Debian 12). started with:\nTcp port: 3306  Unix socket: /run/mysqld/mysqld.sock\nTime\t\t    Id Command\tArgument\n{}",
        all(&mariadb)
    );
    let raw = all(&|i| format!("{}{}\n", statement(i), if i % 10 < 5 { ";" } else { "" }));
    [
        ("slow-generated-mysql-5.7.txt", all(&|i| mysql(i, false)), "slowlog"),
        ("slow-generated-mysql-8.txt", all(&|i| mysql(i, true)), "slowlog"),
        ("slow-generated-mariadb.txt", maria, "slowlog"),
        ("slow-generated-raw.txt", raw, "rawlog"),
    ]
    .map(|(name, text, kind)| {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        (path, kind)
    })
    .into()
}
