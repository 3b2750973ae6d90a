//! The numbers and structures of the headers in `include/`, in Rust.
//!
//! The headers are written by hand, for their comments, which C programmers read. This is their
//! only counterpart: no other file of this crate has a number or a `repr(C)` structure of the
//! interface. `tests` compiles a C program against the headers and compares every number, size,
//! offset, field type and function, and fails on an item that only one side has. Rejected:
//! generating the headers (cbindgen): comments for readers of C would then be in the Rust code.

use std::ffi::{c_char, c_int, c_void};

use frond_base::ErrorKind;

#[cfg(test)]
mod tests;

/// Constants under the name of their C enumeration, and the list of them for the comparison.
macro_rules! numbers {
    ($($enumeration:ident: $ty:ty { $($name:ident = $value:expr,)* })*) => {
        // Some are only for C programs: a zero that means no flag, a level of a message.
        $($(#[allow(dead_code)]
        pub const $name: $ty = $value;)*)*

        /// Enumeration, constant, value.
        #[cfg(test)]
        const NUMBERS: &[(&str, &str, i64)] =
            &[$($((stringify!($enumeration), stringify!($name), $name as i64),)*)*];
    };
}

/// Structures with C's layout, and the list of their fields for the comparison.
macro_rules! structures {
    ($($(#[$meta:meta])* $name:ident { $($field:ident: $ty:ty,)* })*) => {
        $($(#[$meta])*
        #[repr(C)]
        pub struct $name {
            $(pub $field: $ty,)*
        })*

        #[cfg(test)]
        const STRUCTURES: &[tests::Structure] = &[$(tests::Structure {
            name: stringify!($name),
            size: size_of::<$name>(),
            align: align_of::<$name>(),
            fields: &[$(tests::Field {
                name: stringify!($field),
                offset: std::mem::offset_of!($name, $field),
                size: size_of::<$ty>(),
                ty: stringify!($ty),
            },)*],
        },)*];
    };
}

/// The C API's code of an error.
pub const fn code(kind: ErrorKind) -> c_int {
    -(kind as c_int)
}

numbers! {
    frond_error: c_int {
        FROND_OK = 0,
        FROND_INVALID_ARGUMENT = code(ErrorKind::InvalidArgument),
        FROND_NOT_FOUND = code(ErrorKind::NotFound),
        FROND_EXISTS = code(ErrorKind::Exists),
        FROND_DUPLICATE_KEY = code(ErrorKind::DuplicateKey),
        FROND_CONFLICT = code(ErrorKind::Conflict),
        FROND_DEADLOCK = code(ErrorKind::Deadlock),
        FROND_LOCK_TIMEOUT = code(ErrorKind::LockTimeout),
        FROND_LOCK_NOWAIT = code(ErrorKind::LockNoWait),
        FROND_LOCK_TABLE_FULL = code(ErrorKind::LockTableFull),
        FROND_INTERRUPTED = code(ErrorKind::Interrupted),
        FROND_TOO_BIG = code(ErrorKind::TooBig),
        FROND_NO_SPACE = code(ErrorKind::NoSpace),
        FROND_IO = code(ErrorKind::Io),
        FROND_CORRUPTION = code(ErrorKind::Corruption),
        FROND_POISONED = code(ErrorKind::Poisoned),
        FROND_UNSUPPORTED_FORMAT = code(ErrorKind::UnsupportedFormat),
        FROND_CLOSED = code(ErrorKind::Closed),
        FROND_BUSY = code(ErrorKind::Busy),
        FROND_UNSUPPORTED = code(ErrorKind::Unsupported),
        FROND_PANIC = code(ErrorKind::Panic),
        FROND_TABLE_CHANGED = code(ErrorKind::TableChanged),
        FROND_TOO_MANY_FILES = code(ErrorKind::TooManyFiles),
        FROND_NO_PARENT = code(ErrorKind::NoParent),
        FROND_REFERENCED = code(ErrorKind::Referenced),
        FROND_CASCADE_TOO_DEEP = code(ErrorKind::CascadeTooDeep),
        FROND_CASCADE_DUPLICATE = code(ErrorKind::CascadeDuplicate),
        FROND_BAD_FOREIGN_KEY = code(ErrorKind::BadForeignKey),
        FROND_DISCARDED = code(ErrorKind::Discarded),
        FROND_MISMATCH = code(ErrorKind::Mismatch),
        FROND_END = -100,
    }
    frond_log_level: c_int {
        FROND_LOG_ERROR = 0,
        FROND_LOG_WARNING = 1,
        FROND_LOG_NOTE = 2,
    }
    frond_durability: u32 {
        FROND_EACH_SECOND = 0,
        FROND_SYNC = 1,
        FROND_WRITE = 2,
    }
    frond_isolation: u32 {
        FROND_READ_COMMITTED = 1,
        FROND_SNAPSHOT = 2,
        FROND_SERIALIZABLE = 3,
    }
    frond_ended_by: c_int {
        FROND_BY_HANDLE = 0,
        FROND_BY_COORDINATOR = 1,
        FROND_BY_NAME = 2,
    }
    frond_transaction_state: u32 {
        FROND_TRANSACTION_RUNNING = 1,
        FROND_TRANSACTION_WAITING = 2,
        FROND_TRANSACTION_PREPARED = 3,
        FROND_TRANSACTION_DETACHED = 4,
    }
    frond_lock_mode: u32 {
        FROND_MODE_INTENTION_SHARED = 1,
        FROND_MODE_INTENTION_EXCLUSIVE = 2,
        FROND_MODE_SHARED = 3,
        FROND_MODE_EXCLUSIVE = 4,
    }
    frond_lock_kind: u32 {
        FROND_KIND_ROW = 1,
        FROND_KIND_INDEX = 2,
        FROND_KIND_RANGE = 3,
    }
    frond_put_flags: c_int {
        FROND_PUT_REPLACE = 0,
        FROND_PUT_NEW = 1,
    }
    frond_action: u32 {
        FROND_RESTRICT = 0,
        FROND_NO_ACTION = 1,
        FROND_CASCADE = 2,
        FROND_SET_NULL = 3,
    }
    frond_foreign_state: u32 {
        FROND_FOREIGN_ACTIVE = 0,
        FROND_FOREIGN_ADDING = 1,
        FROND_FOREIGN_WAITING = 2,
        FROND_FOREIGN_CHECKING = 3,
        FROND_FOREIGN_GUARDING = 4,
    }
    frond_rename: c_int {
        FROND_RENAME_FOLLOW = 0,
        FROND_RENAME_ASIDE = 1,
        FROND_RENAME_IN_PLACE = 2,
    }
    frond_lock: c_int {
        FROND_LOCK_NONE = 0,
        FROND_LOCK_SHARED = 1,
        FROND_LOCK_EXCLUSIVE = 2,
        FROND_LOCK_SNAPSHOT = 3,
    }
    frond_seek: c_int {
        FROND_GE = 0,
        FROND_GT = 1,
        FROND_LE = 2,
        FROND_LT = 3,
        FROND_FIRST = 4,
        FROND_LAST = 5,
    }
    frond_column_type: u32 {
        FROND_INT = 1,
        FROND_FLOAT = 2,
        FROND_DOUBLE = 3,
        FROND_DECIMAL = 4,
        FROND_YEAR = 5,
        FROND_DATE = 6,
        FROND_TIME = 7,
        FROND_DATETIME = 8,
        FROND_TIMESTAMP = 9,
        FROND_OLD_DATE = 10,
        FROND_OLD_TIME = 11,
        FROND_OLD_DATETIME = 12,
        FROND_OLD_TIMESTAMP = 13,
        FROND_OLD_TEMPORAL = 14,
        FROND_BIT = 15,
        FROND_ENUM = 16,
        FROND_SET = 17,
        FROND_CHAR = 18,
        FROND_BINARY = 19,
        FROND_VARCHAR = 20,
        FROND_BLOB = 21,
        FROND_UUID = 22,
        FROND_INET6 = 23,
        FROND_INET4 = 24,
        FROND_OPAQUE = 25,
    }
    frond_column_flags: u32 {
        FROND_NULLABLE = 1,
        FROND_VIRTUAL = 2,
    }
    frond_sort: u8 {
        FROND_SORT_BINARY = 0,
        FROND_SORT_BINARY_PAD_SPACE = 1,
        FROND_SORT_WEIGHTS = 2,
    }
    frond_compression: u32 {
        FROND_COMPRESSION_DEFAULT = 0,
        FROND_COMPRESSION_NONE = 1,
        FROND_COMPRESSION_LZ4 = 2,
        FROND_COMPRESSION_ZSTD = 3,
    }
    frond_condition: c_int {
        FROND_CONDITION_SKIP = 0,
        FROND_CONDITION_ACCEPT = 1,
        FROND_CONDITION_END = 2,
        FROND_CONDITION_ABORTED = 3,
    }
    frond_write_flags: c_int {
        FROND_WRITE_DEFAULT = 0,
        FROND_WRITE_NO_LOCKS = 1,
        FROND_WRITE_SKIP_UNIQUE = 2,
        FROND_WRITE_SKIP_FOREIGN = 4,
    }
    frond_wait: c_int {
        FROND_WAIT = 0,
        FROND_NOWAIT = 1,
        FROND_SKIP_LOCKED = 2,
    }
    frond_alter_source: i32 {
        FROND_NEW = -1,
    }
    frond_tuple_seek: c_int {
        FROND_KEY_EXACT = 0,
        FROND_KEY_OR_NEXT = 1,
        FROND_KEY_OR_PREV = 2,
        FROND_AFTER_KEY = 3,
        FROND_BEFORE_KEY = 4,
        FROND_PREFIX_LAST = 5,
        FROND_PREFIX_LAST_OR_PREV = 6,
    }
}

pub type LogFn = extern "C" fn(ctx: *mut c_void, level: c_int, message: *const c_char);
pub type Weights = extern "C" fn(*mut c_void, u32, u32, *const u8, usize, *mut u8, usize) -> usize;
pub type WeightsLen = extern "C" fn(*mut c_void, u32, usize) -> usize;
pub type CharPrefix = extern "C" fn(*mut c_void, u32, *const u8, usize, usize) -> usize;
pub type Opaque = extern "C" fn(*mut c_void, u32, *const u8, *mut u8, usize);
pub type Report = extern "C" fn(ctx: *mut c_void, done: u64, total: u64) -> c_int;
pub type CollationName = extern "C" fn(number: u32) -> *const c_char;
pub type Ask = extern "C" fn(*mut c_void) -> c_int;
pub type EmitCounter = extern "C" fn(ctx: *mut c_void, name: *const c_char, value: u64);
pub type EmitForeign = extern "C" fn(ctx: *mut c_void, foreign: *const frond_foreign);
pub type EmitText = extern "C" fn(ctx: *mut c_void, text: *const c_char);
pub type EmitTransaction = extern "C" fn(*mut c_void, *const frond_transaction_info) -> c_int;
pub type EmitLock = extern "C" fn(*mut c_void, *const frond_lock_info) -> c_int;
pub type EmitLockWait = extern "C" fn(*mut c_void, *const frond_lock_wait_info) -> c_int;
pub type EmitTable = extern "C" fn(*mut c_void, *const frond_table_info) -> c_int;
pub type EmitTree = extern "C" fn(*mut c_void, *const frond_tree_info) -> c_int;
pub type EmitIndex = extern "C" fn(*mut c_void, *const frond_index_info) -> c_int;
pub type EmitFile = extern "C" fn(*mut c_void, *const frond_file_info) -> c_int;
pub type EmitCached = extern "C" fn(*mut c_void, *const frond_cached_info) -> c_int;
pub type EmitJob = extern "C" fn(*mut c_void, *const frond_job_info) -> c_int;
pub type Waits = extern "C" fn(*mut c_void, u64, *const u64, usize);
pub type Waited = extern "C" fn(*mut c_void, u64);
pub type Victim = extern "C" fn(*mut c_void, u64, u64) -> c_int;
pub type StatementOf = extern "C" fn(*mut c_void, u64, *mut c_char, usize) -> usize;

structures! {
    frond_options {
        struct_size: u32,
        durability: u32,
        cache_bytes: u64,
        log_segment_bytes: u64,
        log_capacity_bytes: u64,
        lock_bytes: u64,
        background_threads: u32,
        direct_io: u8,
        read_only: u8,
        create: u8,
        discard_damaged_tables: u8,
        log: Option<LogFn>,
        log_ctx: *mut c_void,
        open_files: u32,
        recovery_target: u32,
    }
    frond_txn_options {
        struct_size: u32,
        isolation: u32,
        lock_timeout_ms: u64,
        latest_writes: u8,
        reserved: [u8; 7],
        user: *mut c_void,
    }
    frond_xid {
        format: i64,
        gtrid_length: u32,
        bqual_length: u32,
        data: [u8; 128],
    }
    frond_transaction_info {
        id: u64,
        connection: u64,
        age_micros: u64,
        wait_micros: u64,
        changes: u64,
        locks: u64,
        xid: *const frond_xid,
        state: u32,
        reserved: u32,
    }
    frond_lock_info {
        transaction: u64,
        connection: u64,
        mode: u32,
        kind: u32,
        table: *const c_char,
        index: *const c_char,
        key: *const c_char,
    }
    frond_lock_wait_info {
        waiter: u64,
        waiter_connection: u64,
        blocker: u64,
        blocker_connection: u64,
        blocker_xid: *const frond_xid,
        wait_micros: u64,
        mode: u32,
        kind: u32,
        table: *const c_char,
        index: *const c_char,
        key: *const c_char,
    }
    frond_table_info {
        table: *const c_char,
        file: *const c_char,
        id: u32,
        indexes: u32,
        rows: u64,
        data_bytes: u64,
        index_bytes: u64,
        file_bytes: u64,
        free_bytes: u64,
        auto_increment: u64,
    }
    frond_tree_info {
        table: *const c_char,
        index: *const c_char,
        tree: u32,
        levels: u32,
        leaves: u64,
        inner_nodes: u64,
        runs: u64,
        entries: u64,
        tombstones: u64,
        stored_bytes: u64,
        logical_bytes: u64,
        buffered_entries: u64,
        buffered_bytes: u64,
        debt_bytes: u64,
        bytes_written: u64,
        entries_written: u64,
        entries_flushed: u64,
    }
    frond_index_info {
        table: *const c_char,
        index: *const c_char,
        columns: *const c_char,
        table_id: u32,
        tree: u32,
        unique: u32,
        building: u32,
        page_bytes: u32,
        compression: u32,
        compression_level: i32,
        filter: u32,
        open: u32,
        reserved: u32,
        entries: u64,
        stored_bytes: u64,
        logical_bytes: u64,
        buffered_entries: u64,
        buffered_bytes: u64,
    }
    frond_file_info {
        table: *const c_char,
        file: *const c_char,
        table_id: u32,
        open: u32,
        file_bytes: u64,
        used_bytes: u64,
        free_bytes: u64,
        holes: u64,
        largest_hole: u64,
        given_back_bytes: u64,
        blocks: u64,
        waiting_blocks: u64,
        held_bytes: u64,
        image_bytes: u64,
        checkpoints: u64,
        checkpoint_lsn: u64,
    }
    frond_cached_info {
        table: *const c_char,
        index: *const c_char,
        known: u32,
        tree: u32,
        pages: u64,
        bytes: u64,
    }
    frond_job_info {
        kind: *const c_char,
        state: *const c_char,
        table: *const c_char,
        index: *const c_char,
        details: *const c_char,
        age_micros: u64,
        bytes: u64,
        bytes_written: u64,
    }
    frond_read_counts {
        accessed: u64,
        from_file: u64,
        read_ahead: u64,
        nanos: u64,
    }
    /// Copied when it is given.
    #[derive(Clone, Copy)]
    frond_wait_hooks {
        struct_size: u32,
        reserved: u32,
        ctx: *mut c_void,
        waits: Option<Waits>,
        waited: Option<Waited>,
        victim: Option<Victim>,
        statement: Option<StatementOf>,
    }
    frond_codes {
        width: u8,
        count: u8,
        weights: [u16; 95],
        chars: [u8; 95],
        both_cases: [u8; 95],
    }
    frond_column_spec {
        name: *const c_char,
        r#type: u32,
        a: u32,
        b: u32,
        flags: u32,
        bytes: u32,
        charset: u32,
        max_char_bytes: u8,
        min_char_bytes: u8,
        sort: u8,
        level_count: u8,
        levels: [u8; 8],
        space: [[u8; 4]; 8],
        space_len: [u8; 8],
        codes: *const frond_codes,
    }
    frond_part_spec {
        column: u32,
        prefix_bytes: u32,
        prefix_chars: u32,
        descending: u32,
    }
    frond_index_spec {
        name: *const c_char,
        parts: *const frond_part_spec,
        part_count: u32,
        unique: u32,
        page_bytes: u32,
        compression: u32,
        compression_level: i32,
        clustering: u32,
    }
    frond_table_spec {
        struct_size: u32,
        column_count: u32,
        columns: *const frond_column_spec,
        indexes: *const frond_index_spec,
        index_count: u32,
        hidden_primary: u32,
        auto_increment_column: u32,
        reserved: u32,
        auto_increment: u64,
        meta: *const u8,
        meta_len: usize,
    }
    frond_foreign {
        name: *const c_char,
        table: *const c_char,
        parent: *const c_char,
        columns: *const *const c_char,
        parent_columns: *const *const c_char,
        column_count: u32,
        on_delete: u32,
        on_update: u32,
        state: u32,
        child_index: *const c_char,
        parent_index: *const c_char,
        nullable: *const u8,
    }
    frond_alter_spec {
        struct_size: u32,
        record_bytes: u32,
        table: *const frond_table_spec,
        index_from: *const i32,
        column_from: *const i32,
        defaults: *const u8,
        layout: *const frond_column_layout,
        foreigns_gone: *const *const c_char,
        foreigns_gone_count: u32,
        foreigns_new_count: u32,
        foreigns_new: *const frond_foreign,
        foreigns_unchecked: u32,
        reserved: u32,
    }
    frond_column_layout {
        offset: u32,
        null_offset: u32,
        null_mask: u8,
        reserved: [u8; 3],
    }
    /// Copied at binding.
    #[derive(Clone, Copy)]
    frond_rows_callbacks {
        struct_size: u32,
        reserved: u32,
        ctx: *mut c_void,
        weights: Option<Weights>,
        weights_len: Option<WeightsLen>,
        char_prefix: Option<CharPrefix>,
        opaque: Option<Opaque>,
        condition: Option<Ask>,
        killed: Option<Ask>,
    }
    frond_table_stats {
        struct_size: u32,
        with_file: u32,
        rows: u64,
        data_bytes: u64,
        index_bytes: u64,
        file_bytes: u64,
        free_bytes: u64,
        auto_increment: u64,
        changes: u64,
        updated: u64,
    }
    frond_part_statistics {
        distinct: u64,
        distinct_nulls: u64,
        nulls: u64,
    }
    frond_range_end {
        tuple: *const u8,
        tuple_len: usize,
        parts: u32,
        how: i32,
    }
    frond_row_computer {
        record: *mut u8,
        compute: Option<Ask>,
        ctx: *mut c_void,
    }
}
