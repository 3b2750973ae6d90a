//! The metrics: which of the server's counters are exported, and under which names.
//!
//! Invariants:
//!
//! - MX1. A published name stays, with its meaning: dashboards and alerts depend on it.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Counter,
    Gauge,
}

use Kind::{Counter, Gauge};

/// A metric: the server's variable, in small letters; the name without `_total`; how it is scaled; help.
pub struct Metric {
    pub variable: &'static str,
    pub name: &'static str,
    pub kind: Kind,
    pub scale: f64,
    pub help: &'static str,
}

const fn metric(
    variable: &'static str,
    name: &'static str,
    kind: Kind,
    help: &'static str,
) -> Metric {
    Metric { variable, name, kind, scale: 1.0, help }
}

/// The server counts microseconds; the metric is in seconds.
const fn micros(
    variable: &'static str,
    name: &'static str,
    kind: Kind,
    help: &'static str,
) -> Metric {
    Metric { variable, name, kind, scale: 1e-6, help }
}

/// Frond's counters. The engine's names are in `engine/core/src/status.rs`; the server puts `Frond_`
/// before them.
pub const FROND: &[Metric] = &[
    metric("frond_commits", "frond_commits", Counter, "Committed transactions that changed rows."),
    metric(
        "frond_entries_committed",
        "frond_entries_committed",
        Counter,
        "Index entries that commits wrote.",
    ),
    metric("frond_tables", "frond_tables", Gauge, "Tables in the catalog."),
    metric(
        "frond_temporary_tables",
        "frond_temporary_tables",
        Gauge,
        "TEMPORARY tables of all sessions.",
    ),
    metric("frond_tables_open", "frond_tables_open", Gauge, "Tables in memory."),
    metric("frond_files_open", "frond_files_open", Gauge, "Table files that are open."),
    metric(
        "frond_files_open_limit",
        "frond_files_open_limit",
        Gauge,
        "Table files that may be open at once.",
    ),
    metric(
        "frond_files_opened_again",
        "frond_files_opened_again",
        Counter,
        "Table files opened again after the limit closed them.",
    ),
    metric(
        "frond_prepared",
        "frond_prepared_transactions",
        Gauge,
        "Prepared transactions that wait for their coordinator.",
    ),
    micros(
        "frond_prepared_oldest_micros",
        "frond_prepared_oldest_seconds",
        Gauge,
        "How long the oldest prepared transaction has been prepared, or known since the start.",
    ),
    metric(
        "frond_snapshots",
        "frond_snapshots",
        Gauge,
        "Registered snapshots: each keeps versions.",
    ),
    metric(
        "frond_log_bytes_appended",
        "frond_log_appended_bytes",
        Counter,
        "Bytes appended to the log.",
    ),
    metric(
        "frond_log_bytes_written",
        "frond_log_written_bytes",
        Counter,
        "Bytes written to log files.",
    ),
    metric("frond_log_bytes_kept", "frond_log_kept_bytes", Gauge, "Log that recovery would need."),
    metric(
        "frond_log_bytes_to_replay",
        "frond_log_to_replay_bytes",
        Gauge,
        "Log from the oldest change on that only the log has.",
    ),
    micros(
        "frond_recovery_estimate_micros",
        "frond_recovery_estimate_seconds",
        Gauge,
        "Time that recovery would take after a crash now.",
    ),
    metric(
        "frond_recovery_target_seconds",
        "frond_recovery_target_seconds",
        Gauge,
        "Time that recovery may take; 0: no aim.",
    ),
    metric(
        "frond_recovery_slowness_percent",
        "frond_recovery_slowness_percent",
        Gauge,
        "How slow recovery was on this machine, of what is assumed; 0: not measured.",
    ),
    micros(
        "frond_last_recovery_micros",
        "frond_last_recovery_seconds",
        Gauge,
        "Time that recovery took at the last start.",
    ),
    metric(
        "frond_last_recovery_bytes_per_second",
        "frond_last_recovery_bytes_per_second",
        Gauge,
        "Log that recovery replayed at the last start, per second.",
    ),
    metric("frond_log_syncs", "frond_log_syncs", Counter, "Syncs of the log."),
    micros(
        "frond_log_sync_micros",
        "frond_log_sync_seconds",
        Counter,
        "Time spent in syncs of the log.",
    ),
    micros(
        "frond_log_sync_micros_max",
        "frond_log_sync_longest_seconds",
        Gauge,
        "The longest sync of the log since the start.",
    ),
    metric("frond_log_segments", "frond_log_segments", Gauge, "Files of the log."),
    metric(
        "frond_cache_bytes_limit",
        "frond_memory_limit_bytes",
        Gauge,
        "The memory budget (frond_cache_size).",
    ),
    metric(
        "frond_cache_bytes_used",
        "frond_memory_used_bytes",
        Gauge,
        "Memory of the budget that is in use.",
    ),
    metric("frond_page_cache_bytes", "frond_page_cache_bytes", Gauge, "Memory of cached pages."),
    metric("frond_page_cache_pages", "frond_page_cache_pages", Gauge, "Cached pages."),
    metric("frond_page_cache_hits", "frond_page_cache_hits", Counter, "Pages found in the cache."),
    metric("frond_page_cache_misses", "frond_page_cache_misses", Counter, "Pages read from files."),
    metric(
        "frond_page_cache_evicted",
        "frond_page_cache_evicted",
        Counter,
        "Pages that others took the place of.",
    ),
    metric("frond_row_cache_bytes", "frond_row_cache_bytes", Gauge, "Memory of cached rows."),
    metric(
        "frond_row_cache_limit",
        "frond_row_cache_limit_bytes",
        Gauge,
        "Memory that cached rows may take now.",
    ),
    metric("frond_row_cache_rows", "frond_row_cache_rows", Gauge, "Cached rows."),
    metric("frond_row_cache_hits", "frond_row_cache_hits", Counter, "Rows found in the cache."),
    metric(
        "frond_row_cache_misses",
        "frond_row_cache_misses",
        Counter,
        "Rows looked for in the cache and read from pages.",
    ),
    metric(
        "frond_row_cache_inserted",
        "frond_row_cache_inserted",
        Counter,
        "Rows that the cache took.",
    ),
    metric(
        "frond_row_cache_evicted",
        "frond_row_cache_evicted",
        Counter,
        "Rows that others took the place of.",
    ),
    metric(
        "frond_run_index_bytes",
        "frond_run_index_bytes",
        Gauge,
        "Memory of the runs' fences and filters.",
    ),
    metric(
        "frond_metadata_bytes",
        "frond_metadata_bytes",
        Gauge,
        "Memory of trunks, metadata of runs, block maps, and empty write buffers.",
    ),
    metric(
        "frond_run_memory_bytes",
        "frond_run_memory_bytes",
        Gauge,
        "Memory that is kept for the next runs that background threads build.",
    ),
    metric(
        "frond_write_memory_bytes",
        "frond_write_memory_bytes",
        Gauge,
        "Memory of write buffers.",
    ),
    metric(
        "frond_write_buffer_bytes",
        "frond_write_buffer_bytes",
        Gauge,
        "Entries in write buffers, not yet in runs.",
    ),
    metric(
        "frond_write_buffer_limit",
        "frond_write_buffer_limit_bytes",
        Gauge,
        "Write buffers at which writers stop.",
    ),
    metric(
        "frond_merge_debt_bytes",
        "frond_merge_debt_bytes",
        Gauge,
        "Bytes that background work must still move.",
    ),
    metric(
        "frond_merge_debt_limit",
        "frond_merge_debt_limit_bytes",
        Gauge,
        "Merge debt at which writers stop.",
    ),
    metric(
        "frond_drain_bytes_per_second",
        "frond_drain_bytes_per_second",
        Gauge,
        "Rate at which background work writes buffers to runs.",
    ),
    micros(
        "frond_writers_delayed_micros",
        "frond_writers_delayed_seconds",
        Counter,
        "Time for which writers were slowed, all together.",
    ),
    metric(
        "frond_backup_files_pinned",
        "frond_backup_pinned_files",
        Gauge,
        "Files that a backup keeps.",
    ),
    metric(
        "frond_backup_bytes_held",
        "frond_backup_held_bytes",
        Gauge,
        "Disk space that a backup keeps from reuse.",
    ),
    metric(
        "frond_backup_pins_broken",
        "frond_backup_pins_broken",
        Counter,
        "Backups that failed because they kept too much.",
    ),
    metric(
        "frond_disk_full",
        "frond_disk_full",
        Gauge,
        "1 while the disk is full and writes are refused.",
    ),
    metric(
        "frond_spills",
        "frond_spills",
        Counter,
        "Times that a transaction wrote changes to private runs.",
    ),
    metric(
        "frond_spilled_commits",
        "frond_spilled_commits",
        Counter,
        "Commits of transactions larger than memory.",
    ),
    metric(
        "frond_loads",
        "frond_loads",
        Counter,
        "Loads of rows into empty tables that were begun.",
    ),
    metric(
        "frond_memory_returns",
        "frond_memory_returns",
        Counter,
        "Times that freed memory was returned to the system.",
    ),
    metric("frond_freezes", "frond_freezes", Counter, "Write buffers that were frozen."),
    metric("frond_jobs", "frond_jobs", Counter, "Flushes and merges done."),
    metric("frond_job_failures", "frond_job_failures", Counter, "Flushes and merges that failed."),
    metric("frond_images", "frond_images", Counter, "Images that checkpoints wrote."),
    metric("frond_lock_bytes", "frond_lock_bytes", Gauge, "Memory of row locks."),
    metric("frond_lock_waits", "frond_lock_waits", Counter, "Waits for a lock."),
    metric(
        "frond_lock_timeouts",
        "frond_lock_timeouts",
        Counter,
        "Waits for a lock that ended with an error.",
    ),
    metric("frond_deadlocks", "frond_deadlocks", Counter, "Deadlocks."),
    metric(
        "frond_read_free_rows",
        "frond_read_free_rows",
        Counter,
        "Rows that a replica changed without reading them.",
    ),
    metric(
        "frond_read_free_verified",
        "frond_read_free_verified",
        Counter,
        "Rows that a replica compared with what its primary changed.",
    ),
    metric(
        "frond_read_free_divergences",
        "frond_read_free_divergences",
        Counter,
        "Of these, rows that differed or were missing.",
    ),
];

/// The server's own counters.
pub const SERVER: &[Metric] = &[
    metric("uptime", "mariadb_uptime_seconds", Gauge, "Seconds since the server started."),
    metric("questions", "mariadb_questions", Counter, "Statements that clients sent."),
    metric("queries", "mariadb_queries", Counter, "Statements, those in routines included."),
    metric(
        "slow_queries",
        "mariadb_slow_queries",
        Counter,
        "Statements longer than long_query_time.",
    ),
    metric("connections", "mariadb_connections", Counter, "Connection attempts."),
    metric(
        "max_used_connections",
        "mariadb_connections_most",
        Gauge,
        "The most connections at once since the start.",
    ),
    metric("threads_connected", "mariadb_threads_connected", Gauge, "Connections."),
    metric(
        "threads_running",
        "mariadb_threads_running",
        Gauge,
        "Connections with a statement running.",
    ),
    metric(
        "threads_created",
        "mariadb_threads_created",
        Counter,
        "Threads created for connections.",
    ),
    metric(
        "aborted_clients",
        "mariadb_aborted_clients",
        Counter,
        "Connections that ended without a goodbye.",
    ),
    metric("aborted_connects", "mariadb_aborted_connects", Counter, "Connections that failed."),
    metric(
        "connection_errors_max_connections",
        "mariadb_connections_refused",
        Counter,
        "Connections refused by max_connections.",
    ),
    metric("bytes_received", "mariadb_received_bytes", Counter, "Bytes from clients."),
    metric("bytes_sent", "mariadb_sent_bytes", Counter, "Bytes to clients."),
    metric(
        "created_tmp_tables",
        "mariadb_temporary_tables",
        Counter,
        "Temporary tables of statements.",
    ),
    metric(
        "created_tmp_disk_tables",
        "mariadb_temporary_disk_tables",
        Counter,
        "Temporary tables of statements on disk.",
    ),
    metric(
        "opened_tables",
        "mariadb_opened_tables",
        Counter,
        "Tables opened: high when table_open_cache is small.",
    ),
    metric("open_tables", "mariadb_open_tables", Gauge, "Open tables."),
    metric(
        "table_locks_waited",
        "mariadb_table_locks_waited",
        Counter,
        "Waits for a lock of a table.",
    ),
    metric(
        "handler_read_rnd_next",
        "mariadb_rows_scanned",
        Counter,
        "Rows read in scans of tables.",
    ),
    metric("handler_read_key", "mariadb_rows_by_key", Counter, "Rows looked up in an index."),
    metric(
        "handler_write",
        "mariadb_rows_written",
        Counter,
        "Rows inserted, those of temporary tables included.",
    ),
    metric("handler_update", "mariadb_rows_updated", Counter, "Rows updated."),
    metric("handler_delete", "mariadb_rows_deleted", Counter, "Rows deleted."),
    metric("handler_commit", "mariadb_commits", Counter, "Commits in engines."),
    metric("handler_rollback", "mariadb_rollbacks", Counter, "Rollbacks in engines."),
    metric("select_full_join", "mariadb_joins_without_index", Counter, "Joins without an index."),
    metric(
        "sort_merge_passes",
        "mariadb_sort_merge_passes",
        Counter,
        "Passes of sorts that did not fit into memory.",
    ),
    metric("binlog_commits", "mariadb_binlog_commits", Counter, "Transactions in the binary log."),
    metric(
        "binlog_group_commits",
        "mariadb_binlog_group_commits",
        Counter,
        "Groups of them that were synced together.",
    ),
    metric(
        "binlog_bytes_written",
        "mariadb_binlog_written_bytes",
        Counter,
        "Bytes of the binary log.",
    ),
    metric(
        "memory_used",
        "mariadb_memory_used_bytes",
        Gauge,
        "Memory that the server counts, engines not included.",
    ),
    metric(
        "innodb_buffer_pool_bytes_data",
        "mariadb_innodb_buffer_pool_data_bytes",
        Gauge,
        "InnoDB's buffer pool with data.",
    ),
    metric(
        "innodb_buffer_pool_bytes_dirty",
        "mariadb_innodb_buffer_pool_dirty_bytes",
        Gauge,
        "InnoDB's buffer pool not yet written.",
    ),
    metric(
        "innodb_buffer_pool_read_requests",
        "mariadb_innodb_buffer_pool_requests",
        Counter,
        "Pages asked of InnoDB's buffer pool.",
    ),
    metric(
        "innodb_buffer_pool_reads",
        "mariadb_innodb_buffer_pool_misses",
        Counter,
        "Pages InnoDB had to read.",
    ),
    metric(
        "innodb_buffer_pool_wait_free",
        "mariadb_innodb_buffer_pool_waits",
        Counter,
        "Waits for a free page of InnoDB.",
    ),
    metric("innodb_data_read", "mariadb_innodb_read_bytes", Counter, "Bytes InnoDB read."),
    metric("innodb_data_written", "mariadb_innodb_written_bytes", Counter, "Bytes InnoDB wrote."),
    metric(
        "innodb_os_log_written",
        "mariadb_innodb_log_written_bytes",
        Counter,
        "Bytes of InnoDB's log.",
    ),
    metric(
        "innodb_log_waits",
        "mariadb_innodb_log_waits",
        Counter,
        "Waits for InnoDB's log buffer.",
    ),
    metric(
        "innodb_checkpoint_age",
        "mariadb_innodb_checkpoint_age_bytes",
        Gauge,
        "InnoDB's log since its checkpoint.",
    ),
    metric(
        "innodb_history_list_length",
        "mariadb_innodb_history_list_length",
        Gauge,
        "Undo logs that purge has still to remove.",
    ),
    metric(
        "innodb_row_lock_waits",
        "mariadb_innodb_row_lock_waits",
        Counter,
        "Waits for a row lock of InnoDB.",
    ),
    metric(
        "innodb_row_lock_current_waits",
        "mariadb_innodb_row_lock_waiters",
        Gauge,
        "Transactions that wait for a row lock of InnoDB.",
    ),
    metric("innodb_deadlocks", "mariadb_innodb_deadlocks", Counter, "Deadlocks in InnoDB."),
];

/// Settings with which figures are compared.
pub const VARIABLES: &[Metric] = &[
    metric("max_connections", "mariadb_max_connections", Gauge, "Connections that are allowed."),
    metric(
        "innodb_buffer_pool_size",
        "mariadb_innodb_buffer_pool_size_bytes",
        Gauge,
        "Size of InnoDB's buffer pool.",
    ),
    metric("innodb_log_file_size", "mariadb_innodb_log_size_bytes", Gauge, "Size of InnoDB's log."),
    metric(
        "frond_log_capacity",
        "frond_log_capacity_bytes",
        Gauge,
        "Log that Frond aims to keep at most.",
    ),
    metric("read_only", "mariadb_read_only", Gauge, "1 if clients may not write."),
];

/// Statements by their kind: `Com_...`.
pub const COMMANDS: &[&str] = &[
    "select",
    "insert",
    "insert_select",
    "update",
    "update_multi",
    "delete",
    "delete_multi",
    "replace",
    "load",
    "begin",
    "commit",
    "rollback",
    "call_procedure",
    "create_table",
    "alter_table",
    "drop_table",
    "truncate",
    "stmt_execute",
    "stmt_prepare",
];
