// SPDX-License-Identifier: GPL-2.0-only
//
// System variables and table options. docs/mariadb.md explains each of them.

#include "server.h"

#include "settings.h"

#include "backup.h"
#include "log.h"
#include "plugin.h"

static constexpr ulonglong KIB = 1024, MIB = 1024 * KIB, GIB = 1024 * MIB;

static ulonglong cache_size, temporary_cache_size, log_segment_size, log_capacity, row_lock_memory, backup_pin_limit;
static ulong flush_log_at_commit, read_free_verify, read_free_divergence, stats_method;
static uint background_threads, open_files, recovery_target;
static my_bool print_all_deadlocks, row_cache, direct_io, discard_damaged_tables, allow_incomplete_backup;

// Passes a changed variable to the running engine; the old value stays when the engine refuses.
template <typename T>
static void change(THD *thd, const char *name, void *variable, const void *value) {
    const T wanted = *static_cast<const T *>(value);
    if (frond_database && frond_set(frond_database, name, static_cast<uint64_t>(wanted))) {
        push_warning_printf(thd, Sql_condition::WARN_LEVEL_WARN, ER_WRONG_ARGUMENTS, "Frond: %s",
                            frond_last_error());
        return;
    }
    *static_cast<T *>(variable) = wanted;
}

static void change_cache_size(THD *thd, st_mysql_sys_var *, void *variable, const void *value) {
    change<ulonglong>(thd, "cache_bytes", variable, value);
}

// The engine keeps at least two segments: the variable shows the value in use.
static void change_log_capacity(THD *thd, st_mysql_sys_var *, void *variable, const void *value) {
    ulonglong wanted = *static_cast<const ulonglong *>(value);
    if (wanted < 2 * log_segment_size) {
        wanted = 2 * log_segment_size;
        push_warning_printf(thd, Sql_condition::WARN_LEVEL_WARN, ER_TRUNCATED_WRONG_VALUE,
                            "Frond: frond_log_capacity is %llu: the log has two segments of "
                            "frond_log_segment_size at least",
                            wanted);
    }
    change<ulonglong>(thd, "log_capacity_bytes", variable, &wanted);
}

static void change_durability(THD *thd, st_mysql_sys_var *, void *variable, const void *value) {
    change<ulong>(thd, "durability", variable, value);
}

static void change_print_all_deadlocks(THD *thd, st_mysql_sys_var *, void *variable, const void *value) {
    change<my_bool>(thd, "print_deadlocks", variable, value);
}

static void change_row_cache(THD *thd, st_mysql_sys_var *, void *variable, const void *value) {
    change<my_bool>(thd, "row_cache", variable, value);
}

static MYSQL_SYSVAR_ULONGLONG(cache_size, cache_size, PLUGIN_VAR_RQCMDARG,
                              "Memory for pages and for changes not yet written to tables, in bytes",
                              nullptr, change_cache_size, 128 * MIB, 8 * MIB, 1ULL << 46, MIB);
static MYSQL_SYSVAR_ULONGLONG(temporary_cache_size, temporary_cache_size, PLUGIN_VAR_RQCMDARG | PLUGIN_VAR_READONLY,
                              "Memory for pages and changes of TEMPORARY tables, in bytes: frond_cache_size does not "
                              "include it. None is taken before there is such a table",
                              nullptr, nullptr, 32 * MIB, 8 * MIB, 1ULL << 46, MIB);
static MYSQL_SYSVAR_ULONG(flush_log_at_commit, flush_log_at_commit, PLUGIN_VAR_RQCMDARG,
                          "1: a commit is on disk when it returns; 2: in the operating system; "
                          "0: within a second. With 0 and 2 a power failure loses up to a second",
                          nullptr, change_durability, FROND_SYNC, FROND_EACH_SECOND, FROND_WRITE, 0);
static MYSQL_SYSVAR_ULONGLONG(log_segment_size, log_segment_size,
                              PLUGIN_VAR_RQCMDARG | PLUGIN_VAR_READONLY,
                              "Size of one file of the log, in bytes", nullptr, nullptr, 64 * MIB,
                              1 * MIB, 1 * GIB, MIB);
static MYSQL_SYSVAR_ULONGLONG(log_capacity, log_capacity, PLUGIN_VAR_RQCMDARG,
                              "Log that is kept for recovery, in bytes: beyond half of it tables are "
                              "written so that it can be removed, and near it writers are slowed. It may "
                              "be exceeded for a while: Frond_log_bytes_kept is what there is. More means "
                              "rarer checkpoints and a longer start after a crash",
                              nullptr, change_log_capacity, 1 * GIB, 16 * MIB, 1ULL << 42, MIB);
static void change_recovery_target(THD *thd, st_mysql_sys_var *, void *variable, const void *value) {
    change<uint>(thd, "recovery_target", variable, value);
}

static MYSQL_SYSVAR_UINT(recovery_target, recovery_target, PLUGIN_VAR_RQCMDARG,
                         "Seconds that recovery may take after a crash: tables are written early enough, by the "
                         "speed of recovery measured on this machine. 0: only frond_log_capacity bounds it. "
                         "Frond_recovery_estimate_micros is what it would take now",
                         nullptr, change_recovery_target, 30, 0, 3600, 0);
static MYSQL_SYSVAR_ULONGLONG(lock_memory, row_lock_memory, PLUGIN_VAR_RQCMDARG | PLUGIN_VAR_READONLY,
                              "Memory for row locks, in bytes; a transaction with very many locks "
                              "locks whole indexes instead",
                              nullptr, nullptr, 32 * MIB, 1 * MIB, 64 * GIB, MIB);
static MYSQL_SYSVAR_UINT(background_threads, background_threads,
                         PLUGIN_VAR_RQCMDARG | PLUGIN_VAR_READONLY,
                         "Threads that merge changes into tables, and that replay the log at the start", nullptr, nullptr, 2, 1, 64, 0);
static MYSQL_SYSVAR_UINT(open_files, open_files, PLUGIN_VAR_RQCMDARG | PLUGIN_VAR_READONLY,
                         "Table files that are open at a time: others are opened when they are used. 0: a "
                         "quarter of what the server may open, 16 to 8192",
                         nullptr, nullptr, 0, 0, 1000000, 0);
static MYSQL_SYSVAR_BOOL(direct_io, direct_io, PLUGIN_VAR_OPCMDARG | PLUGIN_VAR_READONLY,
                         "Read and write table files without the operating system's cache", nullptr,
                         nullptr, TRUE);

static MYSQL_SYSVAR_BOOL(discard_damaged_tables, discard_damaged_tables,
                         PLUGIN_VAR_OPCMDARG | PLUGIN_VAR_READONLY,
                         "For one start without a backup: drop tables that recovery needs and that are "
                         "damaged, and keep their files as N.frd.damaged, instead of not starting the engine",
                         nullptr, nullptr, FALSE);

static MYSQL_SYSVAR_BOOL(allow_incomplete_backup, allow_incomplete_backup, PLUGIN_VAR_OPCMDARG,
                         "Let BACKUP STAGE START, and so mariadb-backup, go on although the backup will not "
                         "hold the tables of this engine: with a warning instead of an error",
                         nullptr, nullptr, FALSE);

static void change_pin_limit(THD *thd, st_mysql_sys_var *, void *variable, const void *value) {
    change<ulonglong>(thd, "backup_pin_bytes", variable, value);
}

static MYSQL_SYSVAR_ULONGLONG(backup_pin_limit, backup_pin_limit, PLUGIN_VAR_RQCMDARG,
                              "Bytes of disk space that a backup may keep from being used again: freed blocks, "
                              "dropped tables, log. A backup that keeps more fails",
                              nullptr, change_pin_limit, 64 * GIB, 16 * MIB, 1ULL << 50, MIB);

// The step is taken when the value is checked, because only the check can fail.
static const char *backup_names[] = {"none", "begin", "begin_other", "shorten", "describe", "log_copied", "end", NullS};
static TYPELIB backup_typelib = {array_elements(backup_names) - 1, "", backup_names, nullptr};

static int take_backup_step(THD *thd, st_mysql_sys_var *, void *save, st_mysql_value *value) {
    char buffer[32];
    int length = sizeof buffer;
    const char *name = value->val_str(value, buffer, &length);
    const int found = name ? find_type(std::string(name, length).c_str(), &backup_typelib, FIND_TYPE_BASIC) : 0;
    if (found <= 0)
        return 1;
    *static_cast<ulong *>(save) = static_cast<ulong>(found - 1);
    return frond_backup_step(thd, static_cast<uint>(found - 1));
}

static MYSQL_THDVAR_ENUM(backup, PLUGIN_VAR_NOCMDOPT,
                         "The step of a backup that this session takes ('frond backup' does): begin or begin_other, "
                         "shorten, describe, log_copied, end. Needs RELOAD",
                         take_backup_step, nullptr, FROND_BACKUP_NONE, &backup_typelib);

static MYSQL_SYSVAR_BOOL(print_all_deadlocks, print_all_deadlocks, PLUGIN_VAR_OPCMDARG,
                         "Write each deadlock to the error log: who waited for whom, on what, with which statement",
                         nullptr, change_print_all_deadlocks, FALSE);

static MYSQL_SYSVAR_BOOL(row_cache, row_cache, PLUGIN_VAR_OPCMDARG,
                         "Cache single rows beside pages, where that saves more reads than pages would", nullptr,
                         change_row_cache, TRUE);

static MYSQL_THDVAR_ULONG(lock_wait_timeout, PLUGIN_VAR_RQCMDARG,
                          "Seconds that a statement waits for a row lock before it fails with error "
                          "1205; 0 does not wait",
                          nullptr, nullptr, 50, 0, 1024 * 1024 * 1024, 0);
static MYSQL_THDVAR_BOOL(snapshot_isolation, PLUGIN_VAR_OPCMDARG,
                         "At REPEATABLE READ, changing a row that another transaction changed after "
                         "this one's snapshot fails with error 1020. OFF: the newest version is "
                         "changed, as in InnoDB 10.11",
                         nullptr, nullptr, TRUE);
static const char *read_free_names[] = {"OFF", "PK", NullS};
static TYPELIB read_free_typelib = {array_elements(read_free_names) - 1, "", read_free_names, nullptr};
static MYSQL_THDVAR_ENUM(read_free_replication, PLUGIN_VAR_RQCMDARG,
                         "PK: a replica applies updates and deletions of row events without reading the rows, in "
                         "tables with a primary key. For threads of a replica only, from their start on",
                         nullptr, nullptr, 0, &read_free_typelib);
static MYSQL_SYSVAR_ULONG(read_free_verify, read_free_verify, PLUGIN_VAR_RQCMDARG,
                          "Of a million rows that a replica would change without reading them, how many it compares "
                          "with what their primary changed",
                          nullptr, nullptr, 1000, 0, 1000000, 0);
static const char *divergence_names[] = {"STOP", "CONTINUE", NullS};
static TYPELIB divergence_typelib = {array_elements(divergence_names) - 1, "", divergence_names, nullptr};
static MYSQL_SYSVAR_ENUM(read_free_divergence, read_free_divergence, PLUGIN_VAR_RQCMDARG,
                         "What a replica does when frond_read_free_verify finds a row that differs: STOP with an error, or "
                         "CONTINUE with the primary's row. Both name it in the error log",
                         nullptr, nullptr, 0, &divergence_typelib);
static const char *method_names[] = {"nulls_equal", "nulls_unequal", "nulls_ignored", NullS};
static TYPELIB method_typelib = {array_elements(method_names) - 1, "", method_names, nullptr};
static MYSQL_SYSVAR_ENUM(stats_method, stats_method, PLUGIN_VAR_RQCMDARG,
                         "What rows per key, and so the cardinalities of indexes, make of NULLs: nulls_equal, they are one "
                         "value; nulls_unequal, each is another; nulls_ignored, they do not count",
                         nullptr, nullptr, FROND_NULLS_EQUAL, &method_typelib);
static MYSQL_THDVAR_ULONG(default_page_size, PLUGIN_VAR_RQCMDARG,
                          "Page size of new tables without PAGE_SIZE: 4096 to 65536, rounded down to "
                          "a power of two",
                          nullptr, nullptr, 16384, 4096, 65536, 4096);
static const char *compression_names[] = {"default", "none", "lz4", "zstd", NullS};
static TYPELIB compression_typelib = {array_elements(compression_names) - 1, "", compression_names,
                                      nullptr};
static MYSQL_THDVAR_ENUM(default_compression, PLUGIN_VAR_RQCMDARG,
                         "Compression of new tables without COMPRESSION", nullptr, nullptr,
                         FROND_COMPRESSION_DEFAULT, &compression_typelib);

st_mysql_sys_var *frond_system_variables[] = {
    MYSQL_SYSVAR(cache_size),
    MYSQL_SYSVAR(temporary_cache_size),
    MYSQL_SYSVAR(flush_log_at_commit),
    MYSQL_SYSVAR(log_segment_size),
    MYSQL_SYSVAR(log_capacity),
    MYSQL_SYSVAR(recovery_target),
    MYSQL_SYSVAR(lock_memory),
    MYSQL_SYSVAR(background_threads),
    MYSQL_SYSVAR(open_files),
    MYSQL_SYSVAR(direct_io),
    MYSQL_SYSVAR(discard_damaged_tables),
    MYSQL_SYSVAR(allow_incomplete_backup),
    MYSQL_SYSVAR(backup),
    MYSQL_SYSVAR(backup_pin_limit),
    MYSQL_SYSVAR(print_all_deadlocks),
    MYSQL_SYSVAR(row_cache),
    MYSQL_SYSVAR(lock_wait_timeout),
    MYSQL_SYSVAR(snapshot_isolation),
    MYSQL_SYSVAR(read_free_replication),
    MYSQL_SYSVAR(read_free_verify),
    MYSQL_SYSVAR(read_free_divergence),
    MYSQL_SYSVAR(stats_method),
    MYSQL_SYSVAR(default_page_size),
    MYSQL_SYSVAR(default_compression),
    nullptr,
};

st_ha_create_table_option frond_table_options[] = {
    HA_TOPTION_NUMBER("PAGE_SIZE", page_size, 0, 0, 65536, 4096),
    HA_TOPTION_ENUM("COMPRESSION", compression, "default,none,lz4,zstd", FROND_COMPRESSION_DEFAULT),
    HA_TOPTION_NUMBER("COMPRESSION_LEVEL", compression_level, 0, 0, 22, 1),
    HA_TOPTION_END,
};

st_ha_create_table_option frond_index_options[] = {
    HA_IOPTION_NUMBER("PAGE_SIZE", page_size, 0, 0, 65536, 4096),
    HA_IOPTION_ENUM("COMPRESSION", compression, "default,none,lz4,zstd", FROND_COMPRESSION_DEFAULT),
    HA_IOPTION_NUMBER("COMPRESSION_LEVEL", compression_level, 0, 0, 22, 1),
    HA_IOPTION_BOOL("CLUSTERING", clustering, 0),
    HA_IOPTION_END,
};

// The log has at least two files: with a small capacity the files are smaller.
static void fit_log_segments() {
    if (log_segment_size <= log_capacity / 2)
        return;
    log_segment_size = log_capacity / 2 / MIB * MIB;
    sql_print_warning("Frond: frond_log_segment_size is %llu: frond_log_capacity is %llu, and there are two "
                      "segments at least",
                      log_segment_size, log_capacity);
}

frond_options frond_open_options() {
    fit_log_segments();
    frond_options options = FROND_OPTIONS_INIT;
    options.durability = static_cast<uint32_t>(flush_log_at_commit);
    options.cache_bytes = cache_size;
    options.log_segment_bytes = log_segment_size;
    options.log_capacity_bytes = log_capacity;
    options.recovery_target = recovery_target ? recovery_target : UINT32_MAX;
    options.lock_bytes = row_lock_memory;
    options.background_threads = background_threads;
    options.open_files = open_files;
    options.direct_io = direct_io;
    options.discard_damaged_tables = discard_damaged_tables;
    options.create = 1;
    return options;
}

frond_options frond_scratch_options() {
    frond_options options = frond_open_options();
    options.cache_bytes = temporary_cache_size;
    options.background_threads = 1;
    return options;
}

void frond_apply_settings() {
    frond_set(frond_database, "backup_pin_bytes", backup_pin_limit);
    frond_set(frond_database, "print_deadlocks", print_all_deadlocks);
    frond_set(frond_database, "row_cache", row_cache);
}

bool frond_allows_incomplete_backup() { return allow_incomplete_backup; }

uint64_t frond_lock_timeout_ms(THD *thd) {
    // NOWAIT and WAIT n set the server's own lock_wait_timeout for the statement (sql_yacc.yy), and
    // of engines only InnoDB's variable: the smaller one counts.
    const uint64_t seconds = THDVAR(thd, lock_wait_timeout);
    const uint64_t servers = thd->variables.lock_wait_timeout;
    return std::min(seconds, servers) * 1000;
}

bool frond_uses_snapshot_isolation(THD *thd) { return THDVAR(thd, snapshot_isolation); }

bool frond_applies_read_free(THD *thd) { return THDVAR(thd, read_free_replication) != 0; }

ulong frond_read_free_verify() { return read_free_verify; }

bool frond_stops_at_divergence() { return read_free_divergence == 0; }

Frond_stats_method frond_stats_method() { return static_cast<Frond_stats_method>(stats_method); }

uint32_t frond_default_page_size(THD *thd) {
    const ulong asked = THDVAR(thd, default_page_size);
    uint32_t size = 4096;
    while (size * 2 <= asked)
        size *= 2;
    return size;
}

uint32_t frond_default_compression(THD *thd) {
    return static_cast<uint32_t>(THDVAR(thd, default_compression));
}
