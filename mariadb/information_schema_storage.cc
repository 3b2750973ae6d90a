// SPDX-License-Identifier: GPL-2.0-only
//
// Tables of information_schema about storage: FROND_INDEXES, FROND_FILES, FROND_CACHE, FROND_JOBS. As those of information_schema.cc.

#include "server.h"

#include "information_schema.h"

#include "frond_rows.h"
#include "information_schema_row.h"

namespace {

using Show::CEnd;
using Show::Column;
using Show::Datetime;
using Show::Varchar;
using Number = Show::ULonglong;

// ---------------------------------------------------------------- FROND_INDEXES

Column indexes_columns[] = {
    Column("TABLE_SCHEMA", Varchar(NAME_CHAR_LEN), NULLABLE),
    Column("TABLE_NAME", Varchar(NAME_CHAR_LEN), NULLABLE),
    Column("INDEX_NAME", Varchar(NAME_CHAR_LEN), NULLABLE),
    Column("TABLE_ID", Number(), NOT_NULL),
    Column("TREE", Number(), NOT_NULL),
    Column("COLUMNS", Varchar(2048), NULLABLE),
    Column("IS_UNIQUE", Varchar(3), NOT_NULL),
    Column("STATE", Varchar(8), NOT_NULL),
    Column("PAGE_SIZE", Number(), NOT_NULL),
    Column("COMPRESSION", Varchar(8), NOT_NULL),
    Column("COMPRESSION_LEVEL", Number(), NULLABLE),
    Column("HAS_FILTER", Varchar(3), NOT_NULL),
    Column("ENTRIES", Number(), NULLABLE),
    Column("STORED_BYTES", Number(), NULLABLE),
    Column("LOGICAL_BYTES", Number(), NULLABLE),
    Column("BUFFERED_ENTRIES", Number(), NULLABLE),
    Column("BUFFERED_BYTES", Number(), NULLABLE),
    CEnd(),
};

std::string compression_name(uint32_t compression) {
    static const char *const names[] = {"", "none", "lz4", "zstd"};
    return compression < array_elements(names) ? names[compression] : "";
}

void put_index(Schema_row &row, const frond_index_info *info) {
    row.table_name(info->table)
        .text_or_null(info->index)
        .number(info->table_id)
        .number(info->tree)
        .text_or_null(info->columns)
        .yes_or_no(info->unique)
        .text(info->building ? "BUILDING" : "LIVE")
        .number(info->page_bytes)
        .text(compression_name(info->compression));
    if (info->compression == FROND_COMPRESSION_ZSTD)
        row.number(static_cast<ulonglong>(info->compression_level));
    else
        row.null();
    row.yes_or_no(info->filter);
    // Columns that are not stored are NULL.
    if (info->open)
        row.number(info->entries)
            .number(info->stored_bytes)
            .number(info->logical_bytes)
            .number(info->buffered_entries)
            .number(info->buffered_bytes);
}

// ---------------------------------------------------------------- FROND_FILES

Column files_columns[] = {
    Column("TABLE_ID", Number(), NOT_NULL),
    Column("TABLE_SCHEMA", Varchar(NAME_CHAR_LEN), NULLABLE),
    Column("TABLE_NAME", Varchar(NAME_CHAR_LEN), NULLABLE),
    Column("PATH", Varchar(64), NOT_NULL),
    Column("FILE_BYTES", Number(), NULLABLE),
    Column("USED_BYTES", Number(), NULLABLE),
    Column("FREE_BYTES", Number(), NULLABLE),
    Column("HOLES", Number(), NULLABLE),
    Column("LARGEST_HOLE", Number(), NULLABLE),
    Column("PUNCHED_BYTES", Number(), NULLABLE),
    Column("BLOCKS", Number(), NULLABLE),
    Column("WAITING_BLOCKS", Number(), NULLABLE),
    Column("BACKUP_BYTES", Number(), NULLABLE),
    Column("IMAGE_BYTES", Number(), NULLABLE),
    Column("CHECKPOINTS", Number(), NULLABLE),
    Column("CHECKPOINT_LSN", Number(), NULLABLE),
    CEnd(),
};

void put_file(Schema_row &row, const frond_file_info *info) {
    row.number(info->table_id)
        .table_name(info->table)
        .text(std::string(FROND_DIRECTORY) + "/" + info->file);
    if (info->open)
        row.number(info->file_bytes)
            .number(info->used_bytes)
            .number(info->free_bytes)
            .number(info->holes)
            .number(info->largest_hole)
            .number(info->given_back_bytes)
            .number(info->blocks)
            .number(info->waiting_blocks)
            .number(info->held_bytes)
            .number(info->image_bytes)
            .number(info->checkpoints)
            .number(info->checkpoint_lsn);
}

// ---------------------------------------------------------------- FROND_CACHE

Column cache_columns[] = {
    Column("TABLE_SCHEMA", Varchar(NAME_CHAR_LEN), NULLABLE),
    Column("TABLE_NAME", Varchar(NAME_CHAR_LEN), NULLABLE),
    Column("INDEX_NAME", Varchar(NAME_CHAR_LEN), NULLABLE),
    Column("TREE", Number(), NULLABLE),
    Column("PAGES", Number(), NOT_NULL),
    Column("BYTES", Number(), NOT_NULL),
    CEnd(),
};

void put_cached(Schema_row &row, const frond_cached_info *info) {
    row.table_name(info->table).text_or_null(info->index);
    if (info->known)
        row.number(info->tree);
    else
        row.null();
    row.number(info->pages).number(info->bytes);
}

// ---------------------------------------------------------------- FROND_JOBS

Column jobs_columns[] = {
    Column("KIND", Varchar(16), NOT_NULL),
    Column("STATE", Varchar(8), NOT_NULL),
    Column("TABLE_SCHEMA", Varchar(NAME_CHAR_LEN), NULLABLE),
    Column("TABLE_NAME", Varchar(NAME_CHAR_LEN), NULLABLE),
    Column("INDEX_NAME", Varchar(NAME_CHAR_LEN), NULLABLE),
    Column("STARTED", Datetime(6), NULLABLE),
    Column("BYTES", Number(), NULLABLE),
    Column("BYTES_WRITTEN", Number(), NOT_NULL),
    Column("DETAILS", Varchar(1024), NULLABLE),
    CEnd(),
};

void put_job(Schema_row &row, const frond_job_info *info) {
    row.text(info->kind)
        .text(info->state)
        .table_name(info->table)
        .text_or_null(info->index)
        .ago_or_null(info->age_micros)
        .number_or_null(info->bytes)
        .number(info->bytes_written)
        .text_or_null(info->details);
}

st_mysql_information_schema interface = {MYSQL_INFORMATION_SCHEMA_INTERFACE_VERSION};

} // namespace

st_maria_plugin frond_indexes_plugin =
    FROND_SCHEMA_TABLE("FROND_INDEXES", "Indexes: columns, format, sizes",
                       (init_schema_table<indexes_columns, frond_index_info, frond_each_index, put_index>));
st_maria_plugin frond_files_plugin =
    FROND_SCHEMA_TABLE("FROND_FILES", "Files of tables: sizes, free space, checkpoints",
                       (init_schema_table<files_columns, frond_file_info, frond_each_file, put_file>));
st_maria_plugin frond_cache_plugin =
    FROND_SCHEMA_TABLE("FROND_CACHE", "What is in the page cache, by table and index",
                       (init_schema_table<cache_columns, frond_cached_info, frond_each_cached, put_cached>));
st_maria_plugin frond_jobs_plugin =
    FROND_SCHEMA_TABLE("FROND_JOBS", "Background work, under way and waiting; a backup",
                       (init_schema_table<jobs_columns, frond_job_info, frond_each_job, put_job>));
