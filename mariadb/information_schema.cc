// SPDX-License-Identifier: GPL-2.0-only
//
// Tables of information_schema: FROND_TRX, FROND_LOCKS, FROND_LOCK_WAITS, FROND_TABLES, FROND_TREES; information_schema_storage.cc
// has others. Each is a plugin of its own in the same library. They need the PROCESS privilege, as they show what other users do.
//
// A table consists of its columns, a function that makes a row of what the engine lists, and a descriptor (at the end).

#include "server.h"

#include "information_schema.h"

#include "information_schema_row.h"
#include "waits.h"

namespace {

using Show::CEnd;
using Show::Column;
using Show::Datetime;
using Show::Varchar;
using Number = Show::ULonglong;

// The name as XA COMMIT takes it: 'gtrid','bqual',format; with bytes that are no letters, in hexadecimal.
std::string quoted(const uint8_t *bytes, size_t length) {
    bool plain = true;
    for (size_t i = 0; i < length; i++)
        plain = plain && bytes[i] > ' ' && bytes[i] < 127 && bytes[i] != '\'' && bytes[i] != '\\';
    if (plain)
        return '\'' + std::string(reinterpret_cast<const char *>(bytes), length) + '\'';
    static const char digits[] = "0123456789ABCDEF";
    std::string text = "X'";
    for (size_t i = 0; i < length; i++) {
        text += digits[bytes[i] >> 4];
        text += digits[bytes[i] & 15];
    }
    return text + '\'';
}

std::string xid_text(const frond_xid *xid) {
    if (!xid)
        return std::string();
    return quoted(xid->data, xid->gtrid_length) + ',' + quoted(xid->data + xid->gtrid_length, xid->bqual_length) + ',' +
           std::to_string(xid->format);
}

const char *mode_name(uint32_t mode) {
    static const char *const names[] = {"", "IS", "IX", "S", "X"};
    return mode < array_elements(names) ? names[mode] : "";
}

const char *kind_name(uint32_t kind) {
    static const char *const names[] = {"", "ROW", "INDEX", "RANGE"};
    return kind < array_elements(names) ? names[kind] : "";
}

const char *state_name(uint32_t state) {
    static const char *const names[] = {"", "RUNNING", "LOCK WAIT", "PREPARED", "DETACHED"};
    return state < array_elements(names) ? names[state] : "";
}

// ---------------------------------------------------------------- FROND_TRX

Column trx_columns[] = {
    Column("TRX_ID", Number(), NOT_NULL),
    Column("STATE", Varchar(16), NOT_NULL),
    Column("CONNECTION_ID", Number(), NULLABLE),
    Column("STARTED", Datetime(6), NOT_NULL),
    Column("WAIT_STARTED", Datetime(6), NULLABLE),
    Column("ROWS_CHANGED", Number(), NOT_NULL),
    Column("LOCKS_HELD", Number(), NOT_NULL),
    Column("XID", Varchar(300), NULLABLE),
    Column("QUERY", Varchar(1024), NULLABLE),
    CEnd(),
};

void put_transaction(Schema_row &row, const frond_transaction_info *info) {
    row.number(info->id)
        .text(state_name(info->state))
        .number_or_null(info->connection)
        .ago(info->age_micros)
        .ago_or_null(info->wait_micros)
        .number(info->changes)
        .number(info->locks)
        .text_or_null(xid_text(info->xid))
        .text_or_null(frond_statement_of(info->connection));
}

// ---------------------------------------------------------------- FROND_LOCKS

Column locks_columns[] = {
    Column("TRX_ID", Number(), NOT_NULL),
    Column("CONNECTION_ID", Number(), NULLABLE),
    Column("LOCK_MODE", Varchar(4), NOT_NULL),
    Column("LOCK_TYPE", Varchar(8), NOT_NULL),
    Column("TABLE_SCHEMA", Varchar(NAME_CHAR_LEN), NULLABLE),
    Column("TABLE_NAME", Varchar(NAME_CHAR_LEN), NULLABLE),
    Column("INDEX_NAME", Varchar(NAME_CHAR_LEN), NULLABLE),
    Column("LOCK_DATA", Varchar(4096), NULLABLE),
    CEnd(),
};

void put_lock(Schema_row &row, const frond_lock_info *info) {
    row.number(info->transaction)
        .number_or_null(info->connection)
        .text(mode_name(info->mode))
        .text(kind_name(info->kind))
        .table_name(info->table)
        .text_or_null(info->index)
        .text_or_null(info->key);
}

// ---------------------------------------------------------------- FROND_LOCK_WAITS

Column lock_waits_columns[] = {
    Column("WAITING_TRX_ID", Number(), NOT_NULL),
    Column("WAITING_CONNECTION_ID", Number(), NULLABLE),
    Column("WAITING_QUERY", Varchar(1024), NULLABLE),
    Column("WAIT_STARTED", Datetime(6), NOT_NULL),
    Column("WAIT_MS", Number(), NOT_NULL),
    Column("LOCK_MODE", Varchar(4), NOT_NULL),
    Column("LOCK_TYPE", Varchar(8), NOT_NULL),
    Column("TABLE_SCHEMA", Varchar(NAME_CHAR_LEN), NULLABLE),
    Column("TABLE_NAME", Varchar(NAME_CHAR_LEN), NULLABLE),
    Column("INDEX_NAME", Varchar(NAME_CHAR_LEN), NULLABLE),
    Column("LOCK_DATA", Varchar(4096), NULLABLE),
    Column("BLOCKING_TRX_ID", Number(), NOT_NULL),
    Column("BLOCKING_CONNECTION_ID", Number(), NULLABLE),
    Column("BLOCKING_QUERY", Varchar(1024), NULLABLE),
    Column("BLOCKING_XID", Varchar(300), NULLABLE),
    CEnd(),
};

void put_lock_wait(Schema_row &row, const frond_lock_wait_info *info) {
    row.number(info->waiter)
        .number_or_null(info->waiter_connection)
        .text_or_null(frond_statement_of(info->waiter_connection))
        .ago(info->wait_micros)
        .number(info->wait_micros / 1000)
        .text(mode_name(info->mode))
        .text(kind_name(info->kind))
        .table_name(info->table)
        .text_or_null(info->index)
        .text_or_null(info->key)
        .number(info->blocker)
        .number_or_null(info->blocker_connection)
        .text_or_null(frond_statement_of(info->blocker_connection))
        .text_or_null(xid_text(info->blocker_xid));
}

// ---------------------------------------------------------------- FROND_TABLES

Column tables_columns[] = {
    Column("TABLE_ID", Number(), NOT_NULL),
    Column("TABLE_SCHEMA", Varchar(NAME_CHAR_LEN), NULLABLE),
    Column("TABLE_NAME", Varchar(NAME_CHAR_LEN), NULLABLE),
    Column("FILE_NAME", Varchar(64), NOT_NULL),
    Column("INDEXES", Number(), NOT_NULL),
    Column("TABLE_ROWS", Number(), NOT_NULL),
    Column("DATA_BYTES", Number(), NOT_NULL),
    Column("INDEX_BYTES", Number(), NOT_NULL),
    Column("FILE_BYTES", Number(), NOT_NULL),
    Column("FREE_BYTES", Number(), NOT_NULL),
    Column("AUTO_INCREMENT", Number(), NOT_NULL),
    CEnd(),
};

void put_table(Schema_row &row, const frond_table_info *info) {
    row.number(info->id)
        .table_name(info->table)
        .text(info->file)
        .number(info->indexes)
        .number(info->rows)
        .number(info->data_bytes)
        .number(info->index_bytes)
        .number(info->file_bytes)
        .number(info->free_bytes)
        .number(info->auto_increment);
}

// ---------------------------------------------------------------- FROND_TREES

Column trees_columns[] = {
    Column("TABLE_SCHEMA", Varchar(NAME_CHAR_LEN), NULLABLE),
    Column("TABLE_NAME", Varchar(NAME_CHAR_LEN), NULLABLE),
    Column("INDEX_NAME", Varchar(NAME_CHAR_LEN), NULLABLE),
    Column("TREE", Number(), NOT_NULL),
    Column("LEVELS", Number(), NOT_NULL),
    Column("INNER_NODES", Number(), NOT_NULL),
    Column("LEAVES", Number(), NOT_NULL),
    Column("RUNS", Number(), NOT_NULL),
    Column("ENTRIES", Number(), NOT_NULL),
    Column("TOMBSTONES", Number(), NOT_NULL),
    Column("STORED_BYTES", Number(), NOT_NULL),
    Column("LOGICAL_BYTES", Number(), NOT_NULL),
    Column("BUFFERED_ENTRIES", Number(), NOT_NULL),
    Column("BUFFERED_BYTES", Number(), NOT_NULL),
    Column("DEBT_BYTES", Number(), NOT_NULL),
    Column("BYTES_WRITTEN", Number(), NOT_NULL),
    Column("ENTRIES_WRITTEN", Number(), NOT_NULL),
    Column("ENTRIES_FLUSHED", Number(), NOT_NULL),
    Column("WRITE_AMPLIFICATION", FROND_RATIO, NULLABLE),
    CEnd(),
};

void put_tree(Schema_row &row, const frond_tree_info *info) {
    row.table_name(info->table)
        .text_or_null(info->index)
        .number(info->tree)
        .number(info->levels)
        .number(info->inner_nodes)
        .number(info->leaves)
        .number(info->runs)
        .number(info->entries)
        .number(info->tombstones)
        .number(info->stored_bytes)
        .number(info->logical_bytes)
        .number(info->buffered_entries)
        .number(info->buffered_bytes)
        .number(info->debt_bytes)
        .number(info->bytes_written)
        .number(info->entries_written)
        .number(info->entries_flushed)
        .ratio(info->entries_written, info->entries_flushed);
}

// ---------------------------------------------------------------- plugins

st_mysql_information_schema interface = {MYSQL_INFORMATION_SCHEMA_INTERFACE_VERSION};

} // namespace

st_maria_plugin frond_trx_plugin =
    FROND_SCHEMA_TABLE("FROND_TRX", "Transactions that have not ended, prepared ones too",
                       (init_schema_table<trx_columns, frond_transaction_info, frond_each_transaction, put_transaction>));
st_maria_plugin frond_locks_plugin =
    FROND_SCHEMA_TABLE("FROND_LOCKS", "Locks that transactions hold",
                       (init_schema_table<locks_columns, frond_lock_info, frond_each_lock, put_lock>));
st_maria_plugin frond_lock_waits_plugin =
    FROND_SCHEMA_TABLE("FROND_LOCK_WAITS", "Who waits for whom, on what",
                       (init_schema_table<lock_waits_columns, frond_lock_wait_info, frond_each_lock_wait, put_lock_wait>));
st_maria_plugin frond_tables_plugin =
    FROND_SCHEMA_TABLE("FROND_TABLES", "Tables, their files and sizes",
                       (init_schema_table<tables_columns, frond_table_info, frond_each_table, put_table>));
st_maria_plugin frond_trees_plugin =
    FROND_SCHEMA_TABLE("FROND_TREES", "Trees: levels, runs, debt, amplification",
                       (init_schema_table<trees_columns, frond_tree_info, frond_each_tree, put_tree>));
