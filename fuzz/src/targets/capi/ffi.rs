//! The C API as its headers describe it: declared again, so that the layouts of the two sides are compared
//! by use.

use std::ffi::{c_char, c_int, c_void};

/// A handle of the library: the caller never looks inside.
pub type Handle = *mut c_void;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Options {
    pub struct_size: u32,
    pub durability: u32,
    pub cache_bytes: u64,
    pub log_segment_bytes: u64,
    pub log_capacity_bytes: u64,
    pub lock_bytes: u64,
    pub background_threads: u32,
    pub direct_io: u8,
    pub read_only: u8,
    pub create: u8,
    pub discard_damaged_tables: u8,
    pub log: Option<extern "C" fn(*mut c_void, c_int, *const c_char)>,
    pub log_ctx: *mut c_void,
    pub open_files: u32,
    pub recovery_target: u32,
}

#[repr(C)]
pub struct TxnOptions {
    pub struct_size: u32,
    pub isolation: u32,
    pub lock_timeout_ms: u64,
    pub latest_writes: u8,
    pub reserved: [u8; 7],
    pub user: *mut c_void,
}

#[repr(C)]
pub struct Codes {
    pub width: u8,
    pub count: u8,
    pub weights: [u16; 95],
    pub chars: [u8; 95],
    pub both_cases: [u8; 95],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct ColumnSpec {
    pub name: *const c_char,
    pub kind: u32,
    pub a: u32,
    pub b: u32,
    pub flags: u32,
    pub bytes: u32,
    pub charset: u32,
    pub max_char_bytes: u8,
    pub min_char_bytes: u8,
    pub sort: u8,
    pub level_count: u8,
    pub levels: [u8; 8],
    pub space: [[u8; 4]; 8],
    pub space_len: [u8; 8],
    pub codes: *const Codes,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PartSpec {
    pub column: u32,
    pub prefix_bytes: u32,
    pub prefix_chars: u32,
    pub descending: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct IndexSpec {
    pub name: *const c_char,
    pub parts: *const PartSpec,
    pub part_count: u32,
    pub unique: u32,
    pub page_bytes: u32,
    pub compression: u32,
    pub compression_level: i32,
    pub clustering: u32,
}

#[repr(C)]
pub struct TableSpec {
    pub struct_size: u32,
    pub column_count: u32,
    pub columns: *const ColumnSpec,
    pub indexes: *const IndexSpec,
    pub index_count: u32,
    pub hidden_primary: u32,
    pub auto_increment_column: u32,
    pub reserved: u32,
    pub auto_increment: u64,
    pub meta: *const u8,
    pub meta_len: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct ColumnLayout {
    pub offset: u32,
    pub null_offset: u32,
    pub null_mask: u8,
    pub reserved: [u8; 3],
}

#[repr(C)]
pub struct Callbacks {
    pub struct_size: u32,
    pub reserved: u32,
    pub ctx: *mut c_void,
    pub weights:
        Option<extern "C" fn(*mut c_void, u32, u32, *const u8, usize, *mut u8, usize) -> usize>,
    pub weights_len: Option<extern "C" fn(*mut c_void, u32, usize) -> usize>,
    pub char_prefix: Option<extern "C" fn(*mut c_void, u32, *const u8, usize, usize) -> usize>,
    pub opaque: Option<extern "C" fn(*mut c_void, u32, *const u8, *mut u8, usize)>,
    pub condition: Option<extern "C" fn(*mut c_void) -> c_int>,
    pub killed: Option<extern "C" fn(*mut c_void) -> c_int>,
}

#[repr(C)]
pub struct TableStats {
    pub struct_size: u32,
    pub reserved: u32,
    pub numbers: [u64; 7],
}

#[repr(C)]
pub struct RangeEnd {
    pub tuple: *const u8,
    pub tuple_len: usize,
    pub parts: u32,
    pub how: i32,
}

extern "C" {
    pub fn frond_last_error() -> *const c_char;
    pub fn frond_open(dir: *const c_char, options: *const Options, db: *mut Handle) -> c_int;
    pub fn frond_set(db: Handle, name: *const c_char, value: u64) -> c_int;
    pub fn frond_table_create(db: Handle, name: *const c_char) -> c_int;
    pub fn frond_table_open(db: Handle, name: *const c_char, table: *mut Handle) -> c_int;
    pub fn frond_table_close(table: Handle);
    pub fn frond_table_drop(db: Handle, name: *const c_char) -> c_int;
    pub fn frond_table_rename(db: Handle, from: *const c_char, to: *const c_char) -> c_int;
    pub fn frond_table_truncate(db: Handle, name: *const c_char) -> c_int;
    pub fn frond_table_exists(db: Handle, name: *const c_char, exists: *mut c_int) -> c_int;
    pub fn frond_txn_begin(db: Handle, options: *const TxnOptions, txn: *mut Handle) -> c_int;
    pub fn frond_txn_commit(txn: Handle) -> c_int;
    pub fn frond_txn_rollback(txn: Handle);
    pub fn frond_txn_rest(txn: Handle) -> c_int;
    pub fn frond_txn_wake(txn: Handle, options: *const TxnOptions) -> c_int;
    pub fn frond_txn_snapshot(txn: Handle) -> c_int;
    pub fn frond_txn_end_statement(txn: Handle);
    pub fn frond_txn_savepoint(txn: Handle) -> u64;
    pub fn frond_txn_rollback_to(txn: Handle, savepoint: u64) -> c_int;
    pub fn frond_txn_release(txn: Handle, savepoint: u64);
    pub fn frond_txn_interrupt(txn: Handle);
    pub fn frond_interrupt(db: Handle, txn: u64) -> c_int;
    pub fn frond_txn_clear_interrupt(txn: Handle);
    pub fn frond_txn_changes(txn: Handle) -> u64;
    pub fn frond_put(
        txn: Handle,
        table: Handle,
        key: *const u8,
        key_len: usize,
        value: *const u8,
        value_len: usize,
        flags: c_int,
    ) -> c_int;
    pub fn frond_get(
        txn: Handle,
        table: Handle,
        key: *const u8,
        key_len: usize,
        lock: c_int,
        value: *mut *const u8,
        value_len: *mut usize,
    ) -> c_int;
    pub fn frond_delete(txn: Handle, table: Handle, key: *const u8, key_len: usize) -> c_int;
    pub fn frond_cursor_open(txn: Handle, table: Handle, cursor: *mut Handle) -> c_int;
    pub fn frond_cursor_close(cursor: Handle);
    pub fn frond_cursor_seek(cursor: Handle, how: c_int, key: *const u8, key_len: usize) -> c_int;
    pub fn frond_cursor_next(cursor: Handle) -> c_int;
    pub fn frond_cursor_prev(cursor: Handle) -> c_int;
    pub fn frond_cursor_entry(
        cursor: Handle,
        key: *mut *const u8,
        key_len: *mut usize,
        value: *mut *const u8,
        value_len: *mut usize,
    ) -> c_int;
    pub fn frond_rows_create(db: Handle, name: *const c_char, spec: *const TableSpec) -> c_int;
    pub fn frond_rows_table_meta(table: Handle, meta: *mut *const u8, len: *mut usize) -> c_int;
    pub fn frond_rows_bind(
        table: Handle,
        layout: *const ColumnLayout,
        columns: u32,
        record_bytes: usize,
        callbacks: *const Callbacks,
        rows: *mut Handle,
    ) -> c_int;
    pub fn frond_rows_unbind(rows: Handle);
    pub fn frond_rows_covers(rows: Handle, index: u32, column: u32) -> c_int;
    pub fn frond_rows_ref_bytes(rows: Handle) -> usize;
    pub fn frond_row_insert(
        txn: Handle,
        rows: Handle,
        record: *const u8,
        flags: c_int,
        duplicate: *mut u32,
    ) -> c_int;
    pub fn frond_row_update(
        txn: Handle,
        rows: Handle,
        old: *const u8,
        new: *const u8,
        flags: c_int,
        duplicate: *mut u32,
    ) -> c_int;
    pub fn frond_row_delete(txn: Handle, rows: Handle, old: *const u8, flags: c_int) -> c_int;
    pub fn frond_row_lock(
        txn: Handle,
        rows: Handle,
        record: *const u8,
        waited: *mut c_int,
    ) -> c_int;
    pub fn frond_rows_lock_value(
        txn: Handle,
        rows: Handle,
        index: u32,
        tuple: *const u8,
        tuple_len: usize,
        parts: u32,
    ) -> c_int;
    pub fn frond_rows_ref(rows: Handle, record: *const u8, reference: *mut u8) -> c_int;
    pub fn frond_scan_open(
        txn: Handle,
        rows: Handle,
        index: u32,
        lock: c_int,
        wait: c_int,
        scan: *mut Handle,
    ) -> c_int;
    pub fn frond_scan_close(scan: Handle);
    pub fn frond_scan_renew(scan: Handle, txn: Handle, lock: c_int, wait: c_int) -> c_int;
    pub fn frond_scan_park(scan: Handle);
    pub fn frond_scan_columns(scan: Handle, wanted: *const u8, index_only: c_int) -> c_int;
    pub fn frond_scan_condition(scan: Handle, on: c_int);
    pub fn frond_scan_seek_within(
        scan: Handle,
        how: c_int,
        tuple: *const u8,
        tuple_len: usize,
        parts: u32,
        same: u32,
        record: *mut u8,
    ) -> c_int;
    pub fn frond_scan_first(scan: Handle, record: *mut u8) -> c_int;
    pub fn frond_scan_last(scan: Handle, record: *mut u8) -> c_int;
    pub fn frond_scan_next(scan: Handle, record: *mut u8) -> c_int;
    pub fn frond_scan_prev(scan: Handle, record: *mut u8) -> c_int;
    pub fn frond_scan_next_same(
        scan: Handle,
        tuple: *const u8,
        tuple_len: usize,
        parts: u32,
        record: *mut u8,
    ) -> c_int;
    pub fn frond_scan_unlock(scan: Handle);
    pub fn frond_scan_semi_consistent(scan: Handle, on: c_int);
    pub fn frond_scan_ref(scan: Handle, reference: *mut u8) -> c_int;
    pub fn frond_scan_fetch(scan: Handle, reference: *const u8, record: *mut u8) -> c_int;
    pub fn frond_auto_increment_lock(txn: Handle, table: Handle) -> c_int;
    pub fn frond_auto_increment_used(txn: Handle, table: Handle, used: u64) -> c_int;
    pub fn frond_auto_increment_reserve(
        txn: Handle,
        table: Handle,
        offset: u64,
        increment: u64,
        wanted: u64,
        first: *mut u64,
        count: *mut u64,
    ) -> c_int;
    pub fn frond_auto_increment_set(table: Handle, next: u64) -> c_int;
    pub fn frond_table_statistics(table: Handle, stats: *mut TableStats) -> c_int;
    pub fn frond_rows_in_range(
        rows: Handle,
        index: u32,
        low: *const RangeEnd,
        high: *const RangeEnd,
        count: *mut u64,
    ) -> c_int;
    pub fn frond_table_analyze(table: Handle) -> c_int;
    pub fn frond_rows_statistics(
        rows: Handle,
        index: u32,
        parts: *mut u64,
        most: u32,
        count: *mut u32,
        table_rows: *mut u64,
    ) -> c_int;
}
