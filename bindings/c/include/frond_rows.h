/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Frond C API, part 2: typed rows with indexes, as an SQL server needs them.
 *
 * A table is created from a frond_table_spec (columns and indexes). A frond_rows is one user's binding to
 * an open table: it knows where the server's record image keeps each column and how to ask the server
 * for collation weights. Rows then travel as record images; the library encodes keys and rows, keeps
 * every index up to date, checks uniqueness and locks rows.
 *
 * A frond_rows and its scans belong to one thread at a time, and a scan must be closed before its
 * frond_rows is unbound.
 *
 * Tables without a primary key have a hidden row number as index 0. Updates and deletes of such a table
 * concern the row that the frond_rows last read (or inserted): a scan of it leaves its number there.
 */
#ifndef FROND_ROWS_H
#define FROND_ROWS_H

#include "frond.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- schema --------------------------------------------------------------------------------- */

/* The type of a column, and so the layout of its bytes in the record image. Numbers are little-endian. */
enum frond_column_type {
    FROND_INT = 1,            /* 1, 2, 3, 4 or 8 bytes; a: 1 = unsigned */
    FROND_FLOAT = 2,          /* 4 bytes */
    FROND_DOUBLE = 3,         /* 8 bytes */
    FROND_DECIMAL = 4,        /* packed decimal, orders by memcmp; a = precision, b = scale */
    FROND_YEAR = 5,           /* 1 byte */
    FROND_DATE = 6,           /* 3 bytes */
    FROND_TIME = 7,           /* the sortable forms of MySQL 5.6; a = fraction digits */
    FROND_DATETIME = 8,
    FROND_TIMESTAMP = 9,
    FROND_OLD_DATE = 10,      /* 4 bytes */
    FROND_OLD_TIME = 11,      /* 3 bytes */
    FROND_OLD_DATETIME = 12,  /* 8 bytes */
    FROND_OLD_TIMESTAMP = 13, /* 4 bytes */
    FROND_OLD_TEMPORAL = 14,  /* the "hires" forms: big-endian, order by memcmp */
    FROND_BIT = 15,           /* big-endian bytes; a = bits */
    FROND_ENUM = 16,          /* 1 or 2 bytes */
    FROND_SET = 17,           /* 1, 2, 3, 4 or 8 bytes */
    FROND_CHAR = 18,          /* fixed bytes, padded with spaces */
    FROND_BINARY = 19,        /* fixed bytes, padded with zeros */
    FROND_VARCHAR = 20,       /* 1 or 2 length bytes (a), then room for the longest value; VARBINARY too */
    FROND_BLOB = 21,          /* 1 to 4 length bytes (a), then a pointer; TEXT, JSON, GEOMETRY too */
    FROND_UUID = 22,          /* 16 bytes */
    FROND_INET6 = 23,
    FROND_INET4 = 24,
    FROND_OPAQUE = 25         /* a = bytes of the sort key that the `opaque` callback gives */
};

enum frond_column_flags {
    FROND_NULLABLE = 1,
    FROND_VIRTUAL = 2 /* computed by the server when read: not stored in rows */
};

/* How a string column compares. */
enum frond_sort {
    FROND_SORT_BINARY = 0,           /* as bytes */
    FROND_SORT_BINARY_PAD_SPACE = 1, /* as bytes, trailing spaces do not count */
    FROND_SORT_WEIGHTS = 2           /* by collation weights, from the `weights` callback */
};

/* Weights that keys have in one byte, and the text that comes back from them: docs/rfcs/0022-text-keys.md. */
typedef struct frond_codes {
    uint8_t width;           /* bytes of a weight, 1 or 2 */
    uint8_t count;           /* 1 to 95 */
    uint16_t weights[95];    /* ascending; of one byte: 4 and above */
    uint8_t chars[95];       /* the character of ASCII that has the weight, the small letter if both have it; 0: not known */
    uint8_t both_cases[95];  /* 1: the capital letter has it, too */
} frond_codes;

typedef struct frond_column_spec {
    const char *name;
    uint32_t type;           /* enum frond_column_type */
    uint32_t a, b;           /* parameters of the type, see there */
    uint32_t flags;          /* enum frond_column_flags */
    uint32_t bytes;          /* bytes in the record image, length bytes and pointer included */
    uint32_t charset;        /* the server's collation number; 63 = binary */
    uint8_t max_char_bytes;
    uint8_t min_char_bytes;
    uint8_t sort;            /* enum frond_sort */
    uint8_t level_count;     /* FROND_SORT_WEIGHTS: levels of the collation, up to 6 */
    uint8_t levels[8];       /* their numbers */
    /* Per level the weight of a space (1 to 4 bytes, their number in space_len), or none where trailing
     * spaces count (NO PAD). */
    uint8_t space[8][4];
    uint8_t space_len[8];
    /* Of the first level; NULL: keys have the weights as they are. If any has a character, the weights of a text of
     * listed characters are theirs, one after the other. A space must have one. */
    const frond_codes *codes;
} frond_column_spec;

typedef struct frond_part_spec {
    uint32_t column;
    uint32_t prefix_bytes; /* bytes of the column that are indexed; 0 = the whole column */
    uint32_t prefix_chars; /* the same in characters */
    uint32_t descending;
} frond_part_spec;

enum frond_compression {
    FROND_COMPRESSION_DEFAULT = 0, FROND_COMPRESSION_NONE = 1, FROND_COMPRESSION_LZ4 = 2,
    FROND_COMPRESSION_ZSTD = 3
};

typedef struct frond_index_spec {
    const char *name;
    const frond_part_spec *parts;
    uint32_t part_count;
    uint32_t unique;
    uint32_t page_bytes;   /* 4096 to 65536, a power of two; 0 = 16384 */
    uint32_t compression;  /* enum frond_compression */
    int32_t compression_level;
    uint32_t clustering;   /* 1: entries have the whole row; never of index 0, which has it anyway */
} frond_index_spec;

typedef struct frond_table_spec {
    uint32_t struct_size;
    uint32_t column_count;
    const frond_column_spec *columns;
    /* Index 0 is the primary key. With `hidden_primary` the table has none: indexes[0] must then have no
     * parts, and stands for an internal row number. Index numbers below count the same way. */
    const frond_index_spec *indexes;
    uint32_t index_count;
    uint32_t hidden_primary;
    uint32_t auto_increment_column; /* UINT32_MAX = none */
    uint32_t reserved;
    uint64_t auto_increment;        /* first value */
    /* Kept with the table and given back by frond_rows_table_meta(). */
    const uint8_t *meta;
    size_t meta_len;
} frond_table_spec;

int frond_rows_create(frond_db *db, const char *name, const frond_table_spec *spec);
/* The `meta` bytes as they were when the table was opened. Owned by the table handle. */
int frond_rows_table_meta(frond_table *table, const uint8_t **meta, size_t *len);
/* Changes the names of columns and indexes, and the table's `meta` bytes, to those in `spec`, durably and
 * at once; nothing else in `spec` is read, and nobody else may use the table meanwhile. */
int frond_rows_rename(frond_table *table, const frond_table_spec *spec);

/* ---- changing a definition in place ---------------------------------------------------------- */

/* Where a column lives in the record image. */
typedef struct frond_column_layout {
    uint32_t offset;
    uint32_t null_offset; /* byte of the null bit; ignored for NOT NULL columns */
    uint8_t null_mask;
    uint8_t reserved[3];
} frond_column_layout;

/* The number of something that the table does not have yet. */
enum frond_alter_source { FROND_NEW = -1 };

typedef struct frond_alter_spec {
    uint32_t struct_size;
    uint32_t record_bytes;
    /* The definition that the table is to have; its auto_increment is not read. Of an index that the table has already, page_bytes 0
     * and FROND_COMPRESSION_DEFAULT mean as before; what is new holds for pages that are written from now on. */
    const frond_table_spec *table;
    /* For each index and each column of the new definition: its number in the table, or FROND_NEW. If the first index is
     * another one, or FROND_NEW, the table is made anew, with all indexes: for another primary key, or to store it afresh. */
    const int32_t *index_from;
    const int32_t *column_from;
    /* A record of the new definition: the values that existing rows get in new columns. */
    const uint8_t *defaults;
    const frond_column_layout *layout;
    /* Names of foreign keys of the table that are dropped (frond_foreign.h). */
    const char *const *foreigns_gone;
    uint32_t foreigns_gone_count;
    /* Foreign keys to add, all active. Unless they are unchecked, frond_alter_build() looks for the parents of all rows
     * (FROND_NO_PARENT), and rows that are written meanwhile are checked. */
    uint32_t foreigns_new_count;
    const struct frond_foreign *foreigns_new;
    uint32_t foreigns_unchecked;
    uint32_t reserved;
} frond_alter_spec;

/* A change under way. */
typedef struct frond_alter frond_alter;
typedef struct frond_rows frond_rows;

/* Whether frond_alter_begin() would accept `spec`. FROND_UNSUPPORTED or FROND_INVALID_ARGUMENT: rows or keys would have to be
 * rewritten. Changes nothing. */
int frond_alter_check(frond_table *table, const frond_alter_spec *spec);
/* Begins the change. The caller makes sure that meanwhile nobody else uses the table and that no transaction has changes in it. When
 * it returns, commits write the entries of the new indexes. */
int frond_alter_begin(frond_table *table, const frond_alter_spec *spec, frond_alter **alter);
/* Builds the new indexes, and looks for parents, while others read and write the table. FROND_DUPLICATE_KEY: two rows have the same value
 * in `*duplicate`, an index of the new definition; `ref`, of frond_rows_ref_bytes() bytes or NULL, gets a reference of one of them.
 * `rows` is a binding of the table as it was before. `progress` gets the number of rows done and the estimated number of all rows;
 * nonzero ends the work with FROND_INTERRUPTED. */
int frond_alter_build(frond_alter *alter, frond_rows *rows, int (*progress)(void *ctx, uint64_t done, uint64_t total),
                      void *ctx, uint32_t *duplicate, uint8_t *ref);
/* Puts the new definitions of `count` tables of one database in force, durably, all or none, and frees the handles, also after an error.
 * Nobody else may use the tables meanwhile. `rows` has a binding of each table. FROND_DUPLICATE_KEY as for frond_alter_build(), of table
 * `*failed`; then, and after any other error, the tables are as they were.
 * Handles of a table that was made anew report it as dropped: open it again. */
int frond_alter_commit(frond_alter *const *alters, frond_rows *const *rows, uint32_t count, uint32_t *failed,
                       uint32_t *duplicate, uint8_t *ref);
/* Takes back what was begun; NULL is allowed. */
void frond_alter_abort(frond_alter *alter);

/* ---- binding -------------------------------------------------------------------------------- */

/* What the `condition` callback says of an index entry. */
enum frond_condition {
    FROND_CONDITION_SKIP = 0,
    FROND_CONDITION_ACCEPT = 1,
    FROND_CONDITION_END = 2,    /* past the end of the range */
    FROND_CONDITION_ABORTED = 3 /* killed */
};

typedef struct frond_rows_callbacks {
    uint32_t struct_size;
    uint32_t reserved;
    void *ctx;
    /* Collation weights of `src` at `level`, without padding and without stripping: at most `dst_len`
     * bytes (room for every weight is given). Returns their number. Any thread. */
    size_t (*weights)(void *ctx, uint32_t charset, uint32_t level, const uint8_t *src,
                      size_t src_len, uint8_t *dst, size_t dst_len);
    /* Bytes that the longest weights of `src_len` bytes take. */
    size_t (*weights_len)(void *ctx, uint32_t charset, size_t src_len);
    /* Bytes taken by the first `chars` characters of `src`, at most src_len. */
    size_t (*char_prefix)(void *ctx, uint32_t charset, const uint8_t *src, size_t src_len,
                          size_t chars);
    /* FROND_OPAQUE: the column's sort key, exactly `dst_len` bytes, from its image. */
    void (*opaque)(void *ctx, uint32_t column, const uint8_t *image, uint8_t *dst, size_t dst_len);
    /* Index condition: called when the columns of the current index entry have been put into the record.
     * Returns an enum frond_condition. */
    int (*condition)(void *ctx);
    /* Polled now and then in long reads: nonzero = stop with FROND_INTERRUPTED. */
    int (*killed)(void *ctx);
} frond_rows_callbacks;

/* `record_bytes` is the length of a record image. `callbacks` is copied; its ctx must outlive the binding. */
int frond_rows_bind(frond_table *table, const frond_column_layout *layout, uint32_t column_count,
                    size_t record_bytes, const frond_rows_callbacks *callbacks, frond_rows **rows);
void frond_rows_unbind(frond_rows *rows);

/* Nonzero when every value of `column` can be read from entries of `index` alone. */
int frond_rows_covers(const frond_rows *rows, uint32_t index, uint32_t column);
/* Longest reference (encoded primary key) in bytes, its 2-byte length included. 0: keys may be too long to serve
 * as references; rows are named by the tuple of their primary key, which frond_scan_fetch_tuple() takes. */
size_t frond_rows_ref_bytes(const frond_rows *rows);

/* ---- changing rows -------------------------------------------------------------------------- */

enum frond_write_flags {
    FROND_WRITE_DEFAULT = 0,
    FROND_WRITE_NO_LOCKS = 1,    /* nobody else can see the table (being built) */
    FROND_WRITE_SKIP_UNIQUE = 2, /* the caller vouches for secondary uniqueness */
    FROND_WRITE_SKIP_FOREIGN = 4 /* foreign keys are neither checked nor do they cascade */
};

/* All three lock the row, and the unique keys involved, exclusively. On FROND_DUPLICATE_KEY
 * `*duplicate` is the number of the first index violated and nothing is changed. */
int frond_row_insert(frond_txn *txn, frond_rows *rows, const uint8_t *record, int flags,
                     uint32_t *duplicate);
int frond_row_update(frond_txn *txn, frond_rows *rows, const uint8_t *old_record,
                     const uint8_t *new_record, int flags, uint32_t *duplicate);
int frond_row_delete(frond_txn *txn, frond_rows *rows, const uint8_t *old_record, int flags);
/* Locks the row that has the primary key of `record` exclusively, whether it is there or not, without looking at it;
 * `*waited`: whether others held the lock, and so may have changed the row. */
int frond_row_lock(frond_txn *txn, frond_rows *rows, const uint8_t *record, int *waited);
/* Locks the value `tuple` (as for frond_scan_seek) of an index exclusively, whether a row has it or not: for
 * uniqueness that the caller checks itself by reading the index. */
int frond_rows_lock_value(frond_txn *txn, frond_rows *rows, uint32_t index, const uint8_t *tuple,
                          size_t tuple_len, uint32_t parts);

/* ---- reading rows --------------------------------------------------------------------------- */

enum frond_wait { FROND_WAIT = 0, FROND_NOWAIT = 1, FROND_SKIP_LOCKED = 2 };

typedef struct frond_scan frond_scan;

/* A scan over one index. With a lock, each row returned is locked and is its newest committed (or own)
 * version; without, or with FROND_LOCK_SNAPSHOT, it is the version of the transaction's snapshot. */
int frond_scan_open(frond_txn *txn, frond_rows *rows, uint32_t index, int lock, int wait,
                    frond_scan **scan);
void frond_scan_close(frond_scan *scan);
/* Uses an open scan again in another statement or transaction, with other locks. */
int frond_scan_renew(frond_scan *scan, frond_txn *txn, int lock, int wait);
/* Parks the scan: releases the pages that it holds. The next call is
 * frond_scan_renew() or frond_scan_close(). */
void frond_scan_park(frond_scan *scan);
/* The columns that later reads put into the record: `wanted` has one bit per column. With `index_only`
 * the entry alone is read (the caller checked frond_rows_covers). NULL = all columns. */
int frond_scan_columns(frond_scan *scan, const uint8_t *wanted, int index_only);
/* Turns evaluation of the `condition` callback on index entries on or off. */
void frond_scan_condition(frond_scan *scan, int on);

enum frond_tuple_seek {
    FROND_KEY_EXACT = 0,       /* first entry whose leading parts equal the tuple, else FROND_NOT_FOUND */
    FROND_KEY_OR_NEXT = 1,     /* first entry >= tuple */
    FROND_KEY_OR_PREV = 2,     /* last entry <= tuple (prefix matches count as equal) */
    FROND_AFTER_KEY = 3,       /* first entry after all that match the tuple */
    FROND_BEFORE_KEY = 4,      /* last entry before all that match */
    FROND_PREFIX_LAST = 5,     /* last entry that matches, else FROND_NOT_FOUND */
    FROND_PREFIX_LAST_OR_PREV = 6 /* last entry that matches, or the one before */
};

/* Positions by a search tuple in the server's key image format: `parts` leading parts. Fills `record`.
 * FROND_END / FROND_NOT_FOUND when there is none. */
int frond_scan_seek(frond_scan *scan, int how, const uint8_t *tuple, size_t tuple_len,
                    uint32_t parts, uint8_t *record);
/* As frond_scan_seek() forwards, but not beyond the entries that match the first `same` parts of the tuple: the
 * entry behind them is not locked, and does not count as changed after the snapshot. */
int frond_scan_seek_within(frond_scan *scan, int how, const uint8_t *tuple, size_t tuple_len,
                           uint32_t parts, uint32_t same, uint8_t *record);
int frond_scan_first(frond_scan *scan, uint8_t *record);
int frond_scan_last(frond_scan *scan, uint8_t *record);
int frond_scan_next(frond_scan *scan, uint8_t *record);
int frond_scan_prev(frond_scan *scan, uint8_t *record);
/* Like next, but FROND_END at the first entry that does not match the tuple's leading parts. */
int frond_scan_next_same(frond_scan *scan, const uint8_t *tuple, size_t tuple_len, uint32_t parts,
                         uint8_t *record);
/* The row under the scan does not match WHERE: drops its lock, unless the transaction held the lock before or the isolation level keeps
 * it. */
void frond_scan_unlock(frond_scan *scan);

/* At READ COMMITTED, a locking scan over index 0 does not wait for a row that another transaction holds, but returns
 * the version committed last, without a lock; renewing the scan ends that. For such a row
 * frond_scan_was_semi_consistent() returns 1, and the row must not be changed: the next call
 * returns it again, locked and at its newest version, or the row behind it. After
 * frond_scan_unlock() the next call goes on. */
void frond_scan_semi_consistent(frond_scan *scan, int on);
int frond_scan_was_semi_consistent(frond_scan *scan);

/* Reference of the row under the scan, or of a record image: a 2-byte little-endian length and the
 * primary key; compares with memcmp after the length. Writes frond_rows_ref_bytes() at most. */
int frond_scan_ref(frond_scan *scan, uint8_t *ref);
int frond_rows_ref(frond_rows *rows, const uint8_t *record, uint8_t *ref);
/* Compares two references: <0, 0, >0. */
int frond_ref_compare(const uint8_t *a, const uint8_t *b);
/* Reads the row of a reference into `record`, through a scan on index 0. */
int frond_scan_fetch(frond_scan *scan, const uint8_t *ref, uint8_t *record);
/* As frond_scan_fetch(), by a tuple with all parts of the primary key, which is not a hidden one. */
int frond_scan_fetch_tuple(frond_scan *scan, const uint8_t *tuple, size_t tuple_len, uint32_t parts,
                           uint8_t *record);

/* ---- counters and statistics ---------------------------------------------------------------- */

/* Reserves `*count` consecutive AUTO_INCREMENT values of the series offset + n * increment. May wait for a lock. */
int frond_auto_increment_reserve(frond_txn *txn, frond_table *table, uint64_t offset, uint64_t increment,
                                 uint64_t wanted, uint64_t *first, uint64_t *count);
/* Until the statement of `txn` ends, other transactions wait before they take values or pass one with
 * frond_auto_increment_used(): all values that the statement reserves are consecutive. */
int frond_auto_increment_lock(frond_txn *txn, frond_table *table);
/* Later values will exceed `used`. May wait for a lock. */
int frond_auto_increment_used(frond_txn *txn, frond_table *table, uint64_t used);
uint64_t frond_auto_increment_get(frond_table *table);
int frond_auto_increment_set(frond_table *table, uint64_t next);

typedef struct frond_table_stats {
    uint32_t struct_size;
    uint32_t with_file;      /* set by the caller: 1, file_bytes and free_bytes are wanted too, for which a latch is taken; 0, both are 0 */
    uint64_t rows;           /* committed rows, exact when nothing is being written */
    uint64_t data_bytes;     /* uncompressed, primary index */
    uint64_t index_bytes;    /* uncompressed, the others */
    uint64_t file_bytes;     /* on disk */
    uint64_t free_bytes;     /* holes in the file */
    uint64_t auto_increment; /* next value */
    uint64_t changes;        /* of rows, since the table was opened, about */
    uint64_t updated;        /* last commit with a change of the table, Unix time; 0: none since it was opened */
} frond_table_stats;
int frond_table_statistics(frond_table *table, frond_table_stats *stats);

/* Estimated number of entries in a range of an index, from what is in memory (no I/O). A NULL tuple is
 * an open end; `*_how` is FROND_KEY_EXACT (inclusive) or FROND_AFTER_KEY / FROND_BEFORE_KEY (exclusive). */
typedef struct frond_range_end {
    const uint8_t *tuple; /* NULL = open */
    size_t tuple_len;
    uint32_t parts;
    int32_t how;
} frond_range_end;
int frond_rows_in_range(frond_rows *rows, uint32_t index, const frond_range_end *low,
                        const frond_range_end *high, uint64_t *count);

/* Samples of indexes. They are kept with the table, survive a restart, and are taken again in the background when a tenth of the rows has
 * changed. */
typedef struct frond_part_statistics { /* of the first n parts of an index together */
    uint64_t distinct;       /* values, NULLs being equal to each other, about */
    uint64_t distinct_nulls; /* of these, values with a NULL */
    uint64_t nulls;          /* entries with a NULL */
} frond_part_statistics;
/* A number that grows when other statistics come into force; 0: there are none. */
uint64_t frond_table_statistics_number(frond_table *table);
/* Samples the indexes now. The result is durable when this returns. */
int frond_table_analyze(frond_table *table);
/* Samples them if the table has few entries and its statistics are old. */
int frond_table_sample_small(frond_table *table);
/* The statistics of an index, by number of parts: writes at most `most` of them, and their number to `count`. `rows`: a binding of the
 * table. `table_rows`: rows of the table when it was sampled. */
int frond_rows_statistics(frond_rows *rows, uint32_t index, frond_part_statistics *parts, uint32_t most, uint32_t *count,
                          uint64_t *table_rows);

typedef struct frond_row_computer {
    uint8_t *record; /* of the length that the table was opened with */
    int (*compute)(void *ctx);
    void *ctx;
} frond_row_computer;
/* As frond_table_check(), and, unless `pages_only`, compares every index with the rows at one snapshot:
 * it must hold exactly their entries. For an index with a virtual column each row is put into the computer's
 * record and its compute callback called, which returns 0; without a computer (NULL) only number and primary
 * keys of such an index are compared. Reads everything, writes nothing; writers may go on. Polls the `killed` callback:
 * FROND_INTERRUPTED. */
int frond_rows_check(frond_table *table, frond_rows *rows, int pages_only,
                     void (*report)(void *ctx, const char *problem), void *ctx,
                     const frond_row_computer *computer, uint64_t *problems);

/* Rewrites the table's trees so that each leaf is one run. */
int frond_table_optimize(frond_table *table, int (*killed)(void *ctx), void *ctx);

#ifdef __cplusplus
}
#endif
#endif
