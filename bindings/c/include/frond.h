/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Frond: a write-optimised, transactional storage engine. C API, part 1: databases, tables of keys and
 * values, transactions, cursors. Part 2 (typed rows, for SQL servers) is frond_rows.h.
 *
 * Conventions
 * - Every function that can fail returns 0 or a negative frond_error. frond_last_error() then gives the
 *   message of the calling thread's last failure: what happened, where, and what to do.
 * - Keys are byte strings of 1 byte to 512 KiB ordered by memcmp; values have up to 64 MiB.
 * - A database and its tables may be used from any thread. A transaction and its cursors may be used
 *   from one thread at a time; frond_txn_interrupt() and frond_interrupt() may be called from any other.
 * - Memory returned through `const uint8_t **` belongs to the transaction or cursor and is valid until
 *   the next call on it.
 * - Structures passed in start with their own size, so that later releases can add fields: initialise
 *   them with the FROND_*_INIT macros.
 * - A panic inside the library is caught at this boundary: the call returns FROND_PANIC; if it was a
 *   commit, the database accepts no further commits.
 */
#ifndef FROND_H
#define FROND_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum frond_error {
    FROND_OK = 0,
    FROND_INVALID_ARGUMENT = -1,
    FROND_NOT_FOUND = -2,
    FROND_EXISTS = -3,
    FROND_DUPLICATE_KEY = -4,
    FROND_CONFLICT = -5,        /* row changed after the transaction's snapshot */
    FROND_DEADLOCK = -6,        /* the transaction must be rolled back */
    FROND_LOCK_TIMEOUT = -7,
    FROND_LOCK_NOWAIT = -8,
    FROND_LOCK_TABLE_FULL = -9,
    FROND_INTERRUPTED = -10,
    FROND_TOO_BIG = -11,
    FROND_NO_SPACE = -12,
    FROND_IO = -13,
    FROND_CORRUPTION = -14,
    FROND_POISONED = -15,       /* an earlier write failed: restart */
    FROND_UNSUPPORTED_FORMAT = -16,
    FROND_CLOSED = -17,
    FROND_BUSY = -18,           /* another process has the directory; or write buffers are
                                 * full and cannot be drained */
    FROND_UNSUPPORTED = -19,
    FROND_PANIC = -20,
    FROND_TABLE_CHANGED = -21,  /* the table was made anew after the transaction's snapshot */
    FROND_TOO_MANY_FILES = -22, /* the process may not open more files: it may be tried again */
    FROND_NO_PARENT = -40,      /* for these see frond_foreign.h */
    FROND_REFERENCED = -41,
    FROND_CASCADE_TOO_DEEP = -42,
    FROND_CASCADE_DUPLICATE = -43,
    FROND_BAD_FOREIGN_KEY = -44,
    FROND_DISCARDED = -50,      /* the table's rows were discarded */
    FROND_MISMATCH = -51,       /* what is to be imported has other columns or indexes */
    FROND_END = -100            /* a cursor is past the last (or first) entry: not a failure */
};

typedef struct frond_db frond_db;
typedef struct frond_table frond_table;
typedef struct frond_txn frond_txn;
typedef struct frond_cursor frond_cursor;
typedef struct frond_prepared frond_prepared;
typedef struct frond_export frond_export;
typedef struct frond_import frond_import;

/* Message of this thread's last failed call, or "". Never NULL. */
const char *frond_last_error(void);
/* "0.1.0" */
const char *frond_version(void);

/* ---- database ------------------------------------------------------------------------------- */

enum frond_durability {
    FROND_EACH_SECOND = 0, /* write and sync once a second */
    FROND_SYNC = 1,        /* sync at every commit (default) */
    FROND_WRITE = 2        /* write at commit, sync once a second */
};

enum frond_log_level { FROND_LOG_ERROR = 0, FROND_LOG_WARNING = 1, FROND_LOG_NOTE = 2 };

typedef struct frond_options {
    uint32_t struct_size;
    uint32_t durability;         /* enum frond_durability */
    uint64_t cache_bytes;        /* memory for pages and changes; locks have their own;
                                  * 0 = 128 MiB */
    uint64_t log_segment_bytes;  /* 0 = 64 MiB */
    uint64_t log_capacity_bytes; /* log kept for recovery, as an aim ("log_bytes_kept" is what there is);
                                  * 0 = 1 GiB */
    uint64_t lock_bytes;         /* memory for row locks; 0 = 32 MiB */
    uint32_t background_threads; /* 0 = 2 */
    uint8_t direct_io;           /* bypass the operating system's cache for table files */
    uint8_t read_only;
    uint8_t create;              /* create the directory when missing */
    uint8_t discard_damaged_tables; /* drop tables that recovery needs and that are damaged, and keep
                                     * their files as N.frd.damaged, instead of failing */
    /* Messages for the operator (recovery, full disk, failures); may be NULL. Any thread. */
    void (*log)(void *ctx, int level /* enum frond_log_level */, const char *message);
    void *log_ctx;
    uint32_t open_files;         /* table files open at a time; 0 = a quarter of the process's
                                  * limit, 16 to 8192 */
    uint32_t recovery_target;    /* seconds that frond_open may take after a crash, as an aim: the log is
                                  * kept short enough; 0 = 30, UINT32_MAX = no aim */
} frond_options;
#define FROND_OPTIONS_INIT \
    { sizeof(frond_options), FROND_SYNC, 0, 0, 0, 0, 0, 1, 0, 1, 0, NULL, NULL, 0, 0 }

/* Opens the database in `directory`, creating it in an empty one, and recovers it. */
int frond_open(const char *directory, const frond_options *options, frond_db **db);
/* Opens an empty database that ends with the process, in a directory of its own: nothing is synced, there is no log, and what
 * an earlier process left there is removed. `durability`, `read_only` and what concerns the log are ignored. */
int frond_open_scratch(const char *directory, const frond_options *options, frond_db **db);
/* Removes what is left of such a database, if there is anything. It must not be open. */
int frond_wipe_scratch(const char *directory);
/* Writes out what is needed for a quick start and closes. All transactions must be finished. */
int frond_close(frond_db *db);
/* Changes a setting while running: "durability", "cache_bytes", "log_capacity_bytes", "backup_pin_bytes";
 * "row_cache" (1, the default: single rows are cached beside pages); "recovery_target" (seconds, 0: no aim);
 * "print_deadlocks" (1: each one goes to the log function). */
int frond_set(frond_db *db, const char *name, uint64_t value);
/* Makes everything committed so far durable, whatever the durability mode. */
int frond_sync(frond_db *db);

/* A backup of the running database: takes the next `step`.
 *   "begin"        opens all tables and asks for a pin; `*id` is the backup's number from then on
 *   "armed"        sets `*id` to 1 when a pin is asked for and not taken, else to 0
 *   "shorten"      of the backup `*id`, before the mark: works towards a short log, so that less of it is copied. Sets `*id`
 *                  to 1 when another such step, a little later, may reach more, else to 0
 *   "mark"         takes the pin; nothing may commit meanwhile. Sets `*id` to 1, or to 0 if none was asked for
 *   "proven"       nothing committed since; "unproven": something did, and the pin is broken
 *   "describe"     writes the file backup.pin: what to copy
 *   "log_copied"   the log may be trimmed again
 *   "end"          all is copied; fails if the pin was broken meanwhile
 *   "abandon"      lets go of everything
 * The last four are about the backup `*id`. */
int frond_backup(frond_db *db, const char *step, uint64_t *id);

/* Calls `emit` for each counter ("commits", "log_bytes", "cache_hits", ...). */
int frond_status(frond_db *db, void (*emit)(void *ctx, const char *name, uint64_t value), void *ctx);
/* A report for people: transactions, lock waits, memory, log, trees. Free with frond_free(). */
char *frond_status_text(frond_db *db);
void frond_free(void *p);

/* ---- tables --------------------------------------------------------------------------------- */

/* Creates a table of plain keys and values. */
int frond_table_create(frond_db *db, const char *name);
int frond_table_open(frond_db *db, const char *name, frond_table **table);
void frond_table_close(frond_table *table);
/* Durable when they return, as is a truncation; no transaction may be using the table. FROND_LOCK_TIMEOUT while a
 * prepared transaction has changes in it. */
int frond_table_drop(frond_db *db, const char *name);
/* As frond_table_drop(), for a table that is lost anyway: a prepared transaction loses its changes in it. */
int frond_table_discard(frond_db *db, const char *name);
int frond_table_rename(frond_db *db, const char *from, const char *to);
/* Empties it in constant time. */
int frond_table_truncate(frond_db *db, const char *name);
/* For a table that replaces another one: from now on reads without locks by transactions with an
 * older snapshot fail with FROND_TABLE_CHANGED. Without it they find the table empty. Lasts until the
 * database is closed. */
int frond_table_refuse_older_snapshots(frond_db *db, const char *name);
int frond_table_exists(frond_db *db, const char *name, int *exists);
/* Calls `emit` for each table name. */
int frond_table_list(frond_db *db, void (*emit)(void *ctx, const char *name), void *ctx);
/* Verifies every page of the table; problems go to `report`, their number to `problems`. */
int frond_table_check(frond_db *db, const char *name,
                      void (*report)(void *ctx, const char *problem), void *ctx, uint64_t *problems);

/* ---- exporting and importing tables as files ------------------------------------------------ */

/* Makes the table's file hold all of it and stay as it is until frond_export_end(). Nobody may change the table or its
 * definition meanwhile. `killed` is asked now and then; nonzero ends the work with FROND_INTERRUPTED. */
int frond_export_begin(frond_table *table, int (*killed)(void *ctx), void *ctx, frond_export **out);
/* The file's name in the database's directory, and what an import needs beside a copy of it. Valid until the end. */
int frond_export_describe(const frond_export *out, const char **file, const uint8_t **description, size_t *len);
void frond_export_end(frond_export *out);
/* Discards all rows in constant time: the table can be dropped, renamed and imported into. FROND_DISCARDED if they are
 * discarded already. */
int frond_table_discard_rows(frond_db *db, const char *name);
int frond_table_is_discarded(const frond_table *table);
/* Opens a copy of an exported table, the files `data` and `description` in `directory`, for a table whose rows were
 * discarded (otherwise FROND_EXISTS). FROND_MISMATCH: the message has what differs; `collation` names collations in
 * it, and may be NULL or return NULL. FROND_NOT_FOUND: a file is missing. */
int frond_import_begin(frond_db *db, const char *name, const char *directory, const char *data,
                       const char *description, const char *(*collation)(uint32_t number), frond_import **in);
/* The `meta` bytes that the other database kept with the definition. */
int frond_import_meta(const frond_import *in, const uint8_t **meta, size_t *len);
/* Copies the rows, durably, and frees the handle, also after an error. Handles of the table report it as dropped: open it
 * again. After an error the table is discarded as before. `progress` as for frond_alter_build(). */
int frond_import_run(frond_import *in, int (*progress)(void *ctx, uint64_t done, uint64_t total), void *ctx);
/* NULL is allowed. */
void frond_import_abandon(frond_import *in);

/* ---- transactions --------------------------------------------------------------------------- */

enum frond_isolation {
    FROND_READ_COMMITTED = 1,  /* each statement sees what was committed when it began */
    FROND_SNAPSHOT = 2,        /* the transaction sees what was committed at its first read */
    /* As FROND_SNAPSHOT; typed scans that lock rows (frond_rows.h) also lock the ranges that they read, including keys that do
     * not exist. When all reads lock, transactions are serializable. */
    FROND_SERIALIZABLE = 3
};

typedef struct frond_txn_options {
    uint32_t struct_size;
    uint32_t isolation;       /* enum frond_isolation */
    uint64_t lock_timeout_ms; /* 0 = do not wait */
    /* With FROND_SNAPSHOT: let writes overwrite rows changed after the snapshot (as InnoDB's
     * REPEATABLE READ does) instead of failing with FROND_CONFLICT. */
    uint8_t latest_writes;
    uint8_t reserved[7];
    void *user;               /* handed to callbacks */
} frond_txn_options;
#define FROND_TXN_OPTIONS_INIT \
    { sizeof(frond_txn_options), FROND_SNAPSHOT, 50000, 0, {0}, NULL }

int frond_txn_begin(frond_db *db, const frond_txn_options *options, frond_txn **txn);
/* Commits and frees. A failed commit is rolled back. Only after FROND_POISONED and FROND_IO is the outcome unknown until a
 * restart. */
int frond_txn_commit(frond_txn *txn);
/* Rolls back and frees. Cannot fail. */
void frond_txn_rollback(frond_txn *txn);
/* Commits a transaction that has neither changed nor locked anything, and keeps it for frond_txn_wake, which is cheaper than
 * another frond_txn_begin. Returns 1; or 0 if it has changed or locked something: then it goes on. At rest only
 * frond_txn_wake and frond_txn_rollback may be called with it, the latter to free it. It keeps the database open. */
int frond_txn_rest(frond_txn *txn);
/* Begins another transaction in place of one at rest, with the same number and connection. */
int frond_txn_wake(frond_txn *txn, const frond_txn_options *options);
/* Takes the snapshot now instead of at the first read. */
int frond_txn_snapshot(frond_txn *txn);
/* Until the statement ends, typed scans that lock rows also lock the ranges that they read, and keep the locks of rows that do
 * not match, as with FROND_SERIALIZABLE. Call it before the statement's scans are opened or renewed. */
void frond_txn_lock_ranges(frond_txn *txn);
/* Ends a statement: with FROND_READ_COMMITTED the next read takes a new snapshot. */
void frond_txn_end_statement(frond_txn *txn);
/* A savepoint is a position; it stays valid until it is released or rolled back past. Release those that
 * are no longer needed: a transaction larger than memory keeps the changes between two of them in separate
 * runs.
 * frond_txn_rollback_to() to one that was released is FROND_INVALID_ARGUMENT. */
uint64_t frond_txn_savepoint(frond_txn *txn);
int frond_txn_rollback_to(frond_txn *txn, uint64_t savepoint);
void frond_txn_release(frond_txn *txn, uint64_t savepoint);
/* From any thread: a lock wait, a scan, or a wait for memory of this transaction returns FROND_INTERRUPTED;
 * typed scans also poll their `killed` callback. frond_txn_clear_interrupt() (from the transaction's own
 * thread) lets it go on. */
void frond_txn_interrupt(frond_txn *txn);
/* The same by frond_txn_id(), for a transaction that may be ending: a commit that waits for memory returns
 * FROND_INTERRUPTED and is rolled back. FROND_NOT_FOUND when it has ended. */
int frond_interrupt(frond_db *db, uint64_t txn_id);
void frond_txn_clear_interrupt(frond_txn *txn);
/* How long later lock requests wait; 0 = not at all. */
void frond_txn_set_lock_timeout(frond_txn *txn, uint64_t ms);
/* Number of changes made so far. */
uint64_t frond_txn_changes(const frond_txn *txn);
uint64_t frond_txn_id(const frond_txn *txn);
/* A number that frond_status_text() prints beside the transaction's own; 0: none. */
void frond_txn_set_connection(frond_txn *txn, uint64_t connection);

/* ---- prepared transactions ------------------------------------------------------------------- */

/* For transactions that span several engines: first all prepare, which may fail, then all commit, which may not. A prepared
 * transaction survives the end of its handle and of the process, with its locks, until it is ended: by its handle, or by its
 * name when it has no handle. */
typedef struct frond_xid {
    int64_t format;
    uint32_t gtrid_length;   /* up to 64 bytes */
    uint32_t bqual_length;   /* the same */
    uint8_t data[128];       /* one after the other */
} frond_xid;

enum frond_ended_by {
    FROND_BY_HANDLE = 0,
    /* A coordinator (a binary log) will soon end it in a group. The thread that ends a group begins with the transaction that it
     * has prepared itself; the log is then synced once for a group. */
    FROND_BY_COORDINATOR = 1,
    /* Others know its name, and may end it by that also while there is a handle (XA). */
    FROND_BY_NAME = 2
};

/* Prepares, and frees `txn`; durable as the durability mode says. On failure the outcome is as that of frond_txn_commit().
 * FROND_EXISTS when another prepared transaction has the name. */
int frond_txn_prepare(frond_txn *txn, const frond_xid *xid, int ended_by, frond_prepared **prepared);
/* Commits: visible from now on, not durable by itself; no I/O. The order of calls is that of the commits. Any
 * thread, one at a time. FROND_POISONED after a failed write: it stays prepared, and a restart shows it. */
int frond_prepared_commit_ordered(frond_prepared *prepared);
/* Commits if that is not done, and frees; with `wait`, durable as the durability mode says. */
int frond_prepared_commit(frond_prepared *prepared, int wait);
/* Rolls back and frees. */
int frond_prepared_rollback(frond_prepared *prepared);
/* Frees the handle alone. The transaction stays prepared, unless it is committed. */
void frond_prepared_detach(frond_prepared *prepared);
/* Calls `emit` for each prepared transaction that is ended by its name (FROND_BY_NAME, or it has no handle) and that a restart
 * would find, in a fixed order. */
int frond_prepared_list(frond_db *db, void (*emit)(void *ctx, const frond_xid *xid), void *ctx);
/* End a prepared transaction; durable as the durability mode says. FROND_NOT_FOUND when there is none. A handle of it can
 * afterwards only be freed; other calls with it return FROND_NOT_FOUND. */
int frond_commit_by_xid(frond_db *db, const frond_xid *xid);
int frond_rollback_by_xid(frond_db *db, const frond_xid *xid);

/* ---- who waits for whom ---------------------------------------------------------------------- */

/* Transactions are named by frond_txn_id(), and by the connection that frond_txn_set_connection() gave (0: none). The
 * lists are read in pieces while transactions go on: no list is a consistent snapshot. Texts are valid during
 * the call; a callback that returns non-zero ends the list. No latch is held in it. */

enum frond_transaction_state {
    FROND_TRANSACTION_RUNNING = 1,
    FROND_TRANSACTION_WAITING = 2,  /* for a lock */
    FROND_TRANSACTION_PREPARED = 3,
    FROND_TRANSACTION_DETACHED = 4  /* prepared, without a handle: to be ended by its name */
};

typedef struct frond_transaction_info {
    uint64_t id;
    uint64_t connection;
    uint64_t age_micros;   /* since its begin; since the start of the database if that was later */
    uint64_t wait_micros;  /* since it waits for a lock; 0 when it does not */
    uint64_t changes;      /* as of its latest request for a lock */
    uint64_t locks;
    const frond_xid *xid;  /* NULL when it is not prepared */
    uint32_t state;        /* enum frond_transaction_state */
    uint32_t reserved;
} frond_transaction_info;

enum frond_lock_mode {
    FROND_MODE_INTENTION_SHARED = 1,
    FROND_MODE_INTENTION_EXCLUSIVE = 2,
    FROND_MODE_SHARED = 3,
    FROND_MODE_EXCLUSIVE = 4
};

/* What a lock is on. */
enum frond_lock_kind { FROND_KIND_ROW = 1, FROND_KIND_INDEX = 2, FROND_KIND_RANGE = 3 };

typedef struct frond_lock_info {
    uint64_t transaction;
    uint64_t connection;
    uint32_t mode;         /* enum frond_lock_mode */
    uint32_t kind;         /* enum frond_lock_kind */
    const char *table;     /* "" when it is not there any more */
    const char *index;     /* "" for a table of keys and values */
    const char *key;       /* columns and values; of a range its ends; "" for a whole index */
} frond_lock_info;

typedef struct frond_lock_wait_info {
    uint64_t waiter;
    uint64_t waiter_connection;
    uint64_t blocker;
    uint64_t blocker_connection;
    const frond_xid *blocker_xid; /* NULL when the blocker is not prepared */
    uint64_t wait_micros;
    uint32_t mode;         /* that is waited for */
    uint32_t kind;
    const char *table;
    const char *index;
    const char *key;
} frond_lock_wait_info;

int frond_each_transaction(frond_db *db, int (*emit)(void *ctx, const frond_transaction_info *info), void *ctx);
int frond_each_lock(frond_db *db, int (*emit)(void *ctx, const frond_lock_info *info), void *ctx);
/* One call for each pair of a transaction that waits and one that it waits for. */
int frond_each_lock_wait(frond_db *db, int (*emit)(void *ctx, const frond_lock_wait_info *info), void *ctx);

typedef struct frond_table_info {
    const char *table;       /* "" for the catalog */
    const char *file;        /* below the directory of the database; need not exist yet */
    uint32_t id;
    uint32_t indexes;
    uint64_t rows;
    uint64_t data_bytes;     /* of the primary index, uncompressed, estimated */
    uint64_t index_bytes;    /* of the others */
    uint64_t file_bytes;
    uint64_t free_bytes;     /* of these, bytes that are used again */
    uint64_t auto_increment; /* the next value */
} frond_table_info;

typedef struct frond_tree_info {
    const char *table;       /* "" for the catalog */
    const char *index;       /* "" for a table of keys and values, and while it is built or dropped */
    uint32_t tree;           /* number in its table */
    uint32_t levels;
    uint64_t leaves;
    uint64_t inner_nodes;
    uint64_t runs;
    uint64_t entries;        /* in runs: versions and tombstones */
    uint64_t tombstones;
    uint64_t stored_bytes;   /* of the runs */
    uint64_t logical_bytes;  /* of the runs' entries before encoding */
    uint64_t buffered_entries;
    uint64_t buffered_bytes;
    uint64_t debt_bytes;     /* that flushes and merges have still to move */
    uint64_t bytes_written;  /* this and the rest since the database was opened */
    uint64_t entries_written;
    uint64_t entries_flushed; /* from buffers; entries_written divided by this is the amplification */
} frond_tree_info;

/* As the lists above: read in pieces while others go on, not of one moment; `emit` returns 0 to go on. */
int frond_each_table(frond_db *db, int (*emit)(void *ctx, const frond_table_info *info), void *ctx);
int frond_each_tree(frond_db *db, int (*emit)(void *ctx, const frond_tree_info *info), void *ctx);

/* An index that is in use or being built. */
typedef struct frond_index_info {
    const char *table;
    const char *index;       /* "" for a table of keys and values */
    const char *columns;     /* as people write them: "name(10),ts DESC" */
    uint32_t table_id;
    uint32_t tree;           /* number in its table */
    uint32_t unique;
    uint32_t building;
    uint32_t page_bytes;
    uint32_t compression;    /* enum frond_compression of frond_rows.h */
    int32_t compression_level; /* of zstd */
    uint32_t filter;         /* for look-ups of single keys */
    uint32_t open;           /* 0: the table has not been used since the start, and what follows is not known */
    uint32_t reserved;
    uint64_t entries;        /* versions and tombstones, in runs */
    uint64_t stored_bytes;
    uint64_t logical_bytes;  /* before encoding */
    uint64_t buffered_entries;
    uint64_t buffered_bytes;
} frond_index_info;

typedef struct frond_file_info {
    const char *table;       /* "" for the catalog */
    const char *file;        /* below the directory of the database */
    uint32_t table_id;
    uint32_t open;           /* 0: the table has not been used since the start, and what follows is not known */
    uint64_t file_bytes;
    uint64_t used_bytes;
    uint64_t free_bytes;     /* in holes, for reuse */
    uint64_t holes;
    uint64_t largest_hole;
    uint64_t given_back_bytes; /* to the file system, since the table was opened */
    uint64_t blocks;
    uint64_t waiting_blocks; /* freed, and not to be used again before the log is durable */
    uint64_t held_bytes;     /* that only a backup needs */
    uint64_t image_bytes;
    uint64_t checkpoints;
    uint64_t checkpoint_lsn;
} frond_file_info;

/* What the page cache has of an index. */
typedef struct frond_cached_info {
    const char *table;       /* "" for the catalog, and for what belongs to no table any more */
    const char *index;
    uint32_t known;          /* 0: pages of a run that only older readers need, or of a dropped table */
    uint32_t tree;
    uint64_t pages;
    uint64_t bytes;
} frond_cached_info;

/* A piece of background work. */
typedef struct frond_job_info {
    const char *kind;        /* WRITE BUFFER, FLUSH, MERGE, ATTACH, IMAGE, BUILD INDEX, DROP INDEX, DROP TABLE, BACKUP */
    const char *state;       /* RUNNING, WAITING, FAILED; of a backup ARMED, PINNED, BROKEN */
    const char *table;       /* "" where there is none */
    const char *index;
    const char *details;     /* for people */
    uint64_t age_micros;     /* since it began; 0 while it waits */
    uint64_t bytes;          /* to be read, estimated, or held by a backup; 0: unknown */
    uint64_t bytes_written;  /* so far */
} frond_job_info;

/* As the lists above. */
int frond_each_index(frond_db *db, int (*emit)(void *ctx, const frond_index_info *info), void *ctx);
int frond_each_file(frond_db *db, int (*emit)(void *ctx, const frond_file_info *info), void *ctx);
int frond_each_cached(frond_db *db, int (*emit)(void *ctx, const frond_cached_info *info), void *ctx);
int frond_each_job(frond_db *db, int (*emit)(void *ctx, const frond_job_info *info), void *ctx);

/* Pages that a thread has read. */
typedef struct frond_read_counts {
    uint64_t accessed;       /* all */
    uint64_t from_file;
    uint64_t read_ahead;     /* taken from what was read with an earlier page */
    uint64_t nanos;          /* that reading from files took */
} frond_read_counts;

/* Counts the pages that the calling thread reads from now on. Returns 0, without effect, if they are counted already. While
 * no thread counts, counting costs nothing. */
int frond_reads_begin(void);
/* Ends it. */
void frond_reads_end(frond_read_counts *counts);

/* Callbacks about lock waits. `waits` is called by the thread that is about to sleep, and again when other transactions
 * were put before it in the queue; `waited` by the same thread when the sleep is over. Both may interrupt transactions. */
typedef struct frond_wait_hooks {
    uint32_t struct_size;
    uint32_t reserved;
    void *ctx;
    void (*waits)(void *ctx, uint64_t connection, const uint64_t *holders, size_t count);
    void (*waited)(void *ctx, uint64_t connection);
    /* Which of two connections in a deadlock should be rolled back: < 0 `a`, > 0 `b`. Must not call the library. */
    int (*victim)(void *ctx, uint64_t a, uint64_t b);
    /* Copies the statement that the connection runs into `text`, for reports, and returns its length. */
    size_t (*statement)(void *ctx, uint64_t connection, char *text, size_t size);
} frond_wait_hooks;

/* Once per database. */
int frond_set_wait_hooks(frond_db *db, const frond_wait_hooks *hooks);

/* ---- keys and values ------------------------------------------------------------------------ */

enum frond_put_flags { FROND_PUT_REPLACE = 0, FROND_PUT_NEW = 1 /* FROND_DUPLICATE_KEY if present */ };
enum frond_lock {
    FROND_LOCK_NONE = 0,
    FROND_LOCK_SHARED = 1,
    FROND_LOCK_EXCLUSIVE = 2,
    /* For scans: a shared lock, and the row is read at the snapshot. FROND_CONFLICT if the row changed since then. */
    FROND_LOCK_SNAPSHOT = 3
};

int frond_put(frond_txn *txn, frond_table *table, const uint8_t *key, size_t key_len,
              const uint8_t *value, size_t value_len, int flags);
/* FROND_NOT_FOUND when absent. */
int frond_get(frond_txn *txn, frond_table *table, const uint8_t *key, size_t key_len, int lock,
              const uint8_t **value, size_t *value_len);
/* Deleting an absent key is not an error. */
int frond_delete(frond_txn *txn, frond_table *table, const uint8_t *key, size_t key_len);

enum frond_seek { FROND_GE = 0, FROND_GT = 1, FROND_LE = 2, FROND_LT = 3, FROND_FIRST = 4, FROND_LAST = 5 };

int frond_cursor_open(frond_txn *txn, frond_table *table, frond_cursor **cursor);
void frond_cursor_close(frond_cursor *cursor);
/* FROND_END when there is no such entry. */
int frond_cursor_seek(frond_cursor *cursor, int how, const uint8_t *key, size_t key_len);
int frond_cursor_next(frond_cursor *cursor);
int frond_cursor_prev(frond_cursor *cursor);
/* The current entry; requires that the last positioning call returned 0. */
int frond_cursor_entry(frond_cursor *cursor, const uint8_t **key, size_t *key_len,
                       const uint8_t **value, size_t *value_len);

#ifdef __cplusplus
}
#endif
#endif
