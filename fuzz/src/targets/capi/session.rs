//! One input's handles and buffers, and the calls by number.

use std::ffi::{c_char, c_int, c_void};
use std::ptr::{null, null_mut};

use super::ffi::{self, Handle};

pub const CREATE_ROWS: u8 = 0;
pub const CREATE: u8 = 1;
pub const OPEN: u8 = 2;
pub const BIND: u8 = 3;
pub const BEGIN: u8 = 4;
pub const COMMIT: u8 = 5;
pub const PUT: u8 = 6;
pub const GET: u8 = 7;
pub const CURSOR: u8 = 8;
pub const SEEK: u8 = 9;
pub const STEP: u8 = 10;
pub const ENTRY: u8 = 11;
pub const INSERT: u8 = 12;
pub const UPDATE: u8 = 13;
pub const SCAN: u8 = 14;
pub const FIRST: u8 = 15;
pub const NEXT: u8 = 16;
pub const REF: u8 = 17;
pub const FETCH: u8 = 18;
/// Calls that only mutation comes to.
const LAST: u8 = 40;

/// Bytes of arguments behind each call's number.
pub const ARGUMENTS: usize = 48;
/// Room for the longest record that a binding is told of, and for anything that is written to it.
const ROOM: usize = 1 << 17;
/// Bytes that a record may say it has.
const RECORD: usize = 4096;

/// Numbers out of the argument bytes.
struct Arguments<'a>(&'a [u8], usize);

impl Arguments<'_> {
    fn byte(&mut self) -> u8 {
        let byte = self.0[self.1 % self.0.len()];
        self.1 += 1;
        byte
    }

    /// Mostly below `n`, sometimes anything.
    fn number(&mut self, n: u32) -> u32 {
        let (choice, byte) = (self.byte(), u32::from(self.byte()));
        match choice % 16 {
            15 => u32::MAX - byte,
            14 => byte << 24,
            13 => byte * 257,
            _ => byte % n,
        }
    }

    fn long(&mut self) -> u64 {
        let number = self.number(256);
        if number > 1 << 16 {
            u64::MAX - u64::from(!number)
        } else {
            u64::from(number)
        }
    }

    fn flag(&mut self) -> c_int {
        self.number(4) as c_int
    }

    /// True once in 16 times.
    fn seldom(&mut self) -> bool {
        self.byte() % 16 == 15
    }
}

/// A good pointer and its true length, or NULL and any length.
fn slice(a: &mut Arguments<'_>, from: &[u8]) -> (*const u8, usize) {
    if a.seldom() {
        return (null(), a.long() as usize);
    }
    let len = a.long() as usize;
    if len > from.len() {
        // Refused before it is looked at: no object is that long.
        return (from.as_ptr(), if a.seldom() { usize::MAX } else { from.len() });
    }
    (from.as_ptr(), len)
}

pub struct Session {
    db: Handle,
    table: Handle,
    txn: Handle,
    cursor: Handle,
    rows: Handle,
    scan: Handle,
    savepoint: u64,
    /// What records are read into and written from; longer than any that is bound.
    record: Vec<u8>,
    reference: Vec<u8>,
    bytes: Vec<u8>,
}

const NAME: *const c_char = c"hostile".as_ptr();
const OTHER: *const c_char = c"other".as_ptr();

fn name(a: &mut Arguments<'_>) -> *const c_char {
    match a.byte() % 32 {
        31 => null(),
        30 => c"".as_ptr(),
        29 => c"\xff\xfe".as_ptr(),
        28 => OTHER,
        _ => NAME,
    }
}

/// Those of the callback's weights, which are the bytes, for the printable characters.
static CODES: ffi::Codes = codes(1, 95);
/// They end before the letters, and begin again at 0.
static ODD_CODES: ffi::Codes = codes(2, 200);

const fn codes(width: u8, count: u8) -> ffi::Codes {
    let mut codes =
        ffi::Codes { width, count, weights: [0; 95], chars: [0; 95], both_cases: [0; 95] };
    let mut n = 0;
    while n < if width == 1 { 95 } else { 30 } {
        codes.weights[n] = b' ' as u16 + n as u16;
        codes.chars[n] = b' ' + n as u8;
        n += 1;
    }
    codes
}

fn column(a: &mut Arguments<'_>) -> ffi::ColumnSpec {
    const KINDS: [(u32, u32, u32); 8] = [
        (1, 0, 4),
        (1, 1, 8),
        (20, 1, 21),
        (18, 0, 10),
        (21, 2, 10),
        (4, 10, 5),
        (8, 6, 8),
        (25, 4, 4),
    ];
    let (kind, parameter, bytes) = KINDS[usize::from(a.byte()) % KINDS.len()];
    let odd = a.seldom();
    ffi::ColumnSpec {
        name: if a.seldom() { null() } else { c"c".as_ptr() },
        kind: if odd { a.number(27) } else { kind },
        a: if odd { a.number(16) } else { parameter },
        b: if odd { a.number(16) } else { 0 },
        flags: if odd { a.number(8) } else { a.number(2) & 1 },
        bytes: if odd { a.number(64) } else { bytes },
        charset: [63, 8, 46, 33][usize::from(a.byte()) % 4],
        max_char_bytes: if odd { a.byte() } else { 1 },
        min_char_bytes: 1,
        sort: a.byte() % if odd { 5 } else { 3 },
        level_count: if odd { a.byte() } else { 1 },
        levels: [0; 8],
        space: [[b' '; 4]; 8],
        space_len: if odd { [a.byte(); 8] } else { [1; 8] },
        codes: if a.seldom() { &ODD_CODES } else { [null(), &CODES][usize::from(a.byte()) % 2] },
    }
}

extern "C" fn weights(
    _: *mut c_void,
    _: u32,
    _: u32,
    src: *const u8,
    len: usize,
    dst: *mut u8,
    room: usize,
) -> usize {
    let n = len.min(room);
    // SAFETY: `src` has `len` bytes and `dst` room for `room`.
    unsafe { std::ptr::copy_nonoverlapping(src, dst, n) };
    n
}

extern "C" fn weights_len(_: *mut c_void, _: u32, len: usize) -> usize {
    len
}

extern "C" fn char_prefix(_: *mut c_void, _: u32, _: *const u8, len: usize, chars: usize) -> usize {
    len.min(chars)
}

extern "C" fn opaque(_: *mut c_void, _: u32, image: *const u8, dst: *mut u8, room: usize) {
    // SAFETY: `dst` has room for `room` bytes; the image of a column has at least one.
    unsafe { std::ptr::write_bytes(dst, *image, room) };
}

extern "C" fn condition(_: *mut c_void) -> c_int {
    1
}

extern "C" fn killed(_: *mut c_void) -> c_int {
    0
}

impl Session {
    pub fn new(db: Handle) -> Session {
        Session {
            db,
            table: null_mut(),
            txn: null_mut(),
            cursor: null_mut(),
            rows: null_mut(),
            scan: null_mut(),
            savepoint: 0,
            record: vec![0; ROOM],
            reference: vec![0; ROOM],
            bytes: vec![b'k'; 6000],
        }
    }

    /// Closes what belongs to the transaction, then ends it.
    fn end(&mut self, commit: bool) -> c_int {
        let (scan, cursor, txn) = (
            std::mem::replace(&mut self.scan, null_mut()),
            std::mem::replace(&mut self.cursor, null_mut()),
            std::mem::replace(&mut self.txn, null_mut()),
        );
        // SAFETY: A2, handles are live or NULL, and forgotten here.
        unsafe {
            ffi::frond_scan_close(scan);
            ffi::frond_cursor_close(cursor);
            if commit {
                if ffi::frond_txn_rest(txn) == 1 {
                    let options = ffi::TxnOptions {
                        struct_size: size_of::<ffi::TxnOptions>() as u32,
                        isolation: 1,
                        lock_timeout_ms: 0,
                        latest_writes: 0,
                        reserved: [0; 7],
                        user: null_mut(),
                    };
                    assert_eq!(ffi::frond_txn_wake(txn, &options), 0, "it rested");
                }
                ffi::frond_txn_commit(txn)
            } else {
                ffi::frond_txn_rollback(txn);
                0
            }
        }
    }

    /// Everything back to the beginning.
    fn reset(&mut self) {
        self.end(false);
        let (rows, table) = (
            std::mem::replace(&mut self.rows, null_mut()),
            std::mem::replace(&mut self.table, null_mut()),
        );
        // SAFETY: as in `end`; names are C strings.
        unsafe {
            ffi::frond_rows_unbind(rows);
            ffi::frond_table_close(table);
            ffi::frond_table_drop(self.db, NAME);
            ffi::frond_table_drop(self.db, OTHER);
        }
    }

    fn create_rows(&mut self, a: &mut Arguments<'_>) -> c_int {
        let columns: Vec<_> = (0..1 + a.byte() % 5).map(|_| column(a)).collect();
        let count = columns.len() as u32;
        let parts: Vec<_> = (0..3)
            .map(|_| ffi::PartSpec {
                column: a.number(count),
                prefix_bytes: if a.seldom() { a.number(64) } else { 0 },
                prefix_chars: if a.seldom() { a.number(64) } else { 0 },
                descending: a.number(2),
            })
            .collect();
        let indexes: Vec<_> = (0..1 + a.byte() % 3)
            .map(|n| ffi::IndexSpec {
                name: if a.seldom() { null() } else { c"i".as_ptr() },
                parts: if a.seldom() { null() } else { parts.as_ptr() },
                part_count: if a.seldom() { u32::from(a.byte() % 4) } else { 1 },
                unique: u32::from(n == 0),
                page_bytes: if a.seldom() { a.number(1 << 17) } else { 4096 },
                compression: a.number(4),
                compression_level: a.number(8) as i32,
                clustering: if n > 0 || a.seldom() { a.number(2) } else { 0 },
            })
            .collect();
        let hidden = a.number(2);
        let (meta, meta_len) = slice(a, &self.bytes);
        let spec = ffi::TableSpec {
            struct_size: if a.seldom() {
                a.number(200)
            } else {
                size_of::<ffi::TableSpec>() as u32
            },
            column_count: if a.seldom() { a.number(2) % (count + 1) } else { count },
            columns: if a.seldom() { null() } else { columns.as_ptr() },
            indexes: if a.seldom() { null() } else { indexes.as_ptr() },
            index_count: indexes.len() as u32,
            hidden_primary: if a.seldom() { hidden } else { 0 },
            auto_increment_column: if a.seldom() { a.number(count) } else { u32::MAX },
            reserved: 0,
            auto_increment: a.long(),
            meta,
            meta_len,
        };
        // SAFETY: A2, every pointer is NULL or good, and arrays are as long as their counts say.
        unsafe { ffi::frond_rows_create(self.db, name(a), if a.seldom() { null() } else { &spec }) }
    }

    fn bind(&mut self, a: &mut Arguments<'_>) -> c_int {
        let _ = self.end(false);
        // SAFETY: A2; the scan is closed.
        unsafe { ffi::frond_rows_unbind(std::mem::replace(&mut self.rows, null_mut())) };
        let odd = a.seldom();
        let layout: Vec<_> = (0..6u32)
            .map(|n| ffi::ColumnLayout {
                offset: if odd { a.number(8192) } else { 8 + 32 * n },
                null_offset: if odd { a.number(8192) } else { 0 },
                null_mask: if odd { a.byte() } else { 1 << n },
                reserved: [0; 3],
            })
            .collect();
        let callbacks = ffi::Callbacks {
            struct_size: if a.seldom() {
                a.number(200)
            } else {
                size_of::<ffi::Callbacks>() as u32
            },
            reserved: 0,
            ctx: null_mut(),
            weights: (!a.seldom()).then_some(weights),
            weights_len: (!a.seldom()).then_some(weights_len),
            char_prefix: (!a.seldom()).then_some(char_prefix),
            opaque: (!a.seldom()).then_some(opaque),
            condition: (!a.seldom()).then_some(condition),
            killed: (!a.seldom()).then_some(killed),
        };
        // Wrong numbers of columns are refused: the array has room for more.
        let count = a.number(6).saturating_add(1).min(6);
        let record_bytes = if odd { a.number(1 << 13) as usize % (ROOM / 2) } else { RECORD };
        // SAFETY: A2, and the callbacks keep their contracts; the record's buffer is longer than it says.
        unsafe {
            for columns in [count, 1, 2, 3, 4, 5] {
                let layout = if a.seldom() { null() } else { layout.as_ptr() };
                let status = ffi::frond_rows_bind(
                    self.table,
                    layout,
                    columns,
                    record_bytes,
                    &callbacks,
                    &mut self.rows,
                );
                if status == 0 || status == super::PANIC {
                    return status;
                }
            }
        }
        0
    }

    /// A record: numbers anywhere, NULL bits, and lengths that are small. A blob's pointer stays NULL.
    fn fill(&mut self, a: &mut Arguments<'_>) -> *const u8 {
        self.record[..RECORD].fill(0);
        if a.seldom() {
            return null();
        }
        self.record[0] = a.byte();
        for n in 0..6 {
            self.record[8 + 32 * n] = a.byte() % 10;
        }
        self.record.as_ptr()
    }

    /// Carries out call number `call`. Its status, or 0 where it has none.
    pub fn call(&mut self, call: u8, arguments: &[u8]) -> c_int {
        let mut a = Arguments(arguments, 0);
        let a = &mut a;
        if a.seldom() && a.seldom() {
            self.reset();
        }
        let null_now = a.seldom() && a.seldom();
        let handle = |live: Handle| if null_now { null_mut() } else { live };
        let (txn, table, rows, scan, cursor) = (
            handle(self.txn),
            handle(self.table),
            handle(self.rows),
            handle(self.scan),
            handle(self.cursor),
        );
        let (mut value, mut len) = (null(), 0);
        let (mut number, mut other) = (0u64, 0u64);
        let mut small = 0;
        match call % LAST {
            CREATE_ROWS => return self.create_rows(a),
            BIND => return self.bind(a),
            COMMIT => return self.end(true),
            19 => return self.end(false),
            INSERT | UPDATE | 20 => {
                let (record, flags) = (self.fill(a), a.flag());
                // SAFETY: A2, the record is as long as the binding was told.
                return unsafe {
                    match call % LAST {
                        INSERT => ffi::frond_row_insert(txn, rows, record, flags, &mut small),
                        UPDATE => {
                            ffi::frond_row_update(txn, rows, record, record, flags, &mut small)
                        }
                        _ => ffi::frond_row_delete(txn, rows, record, flags),
                    }
                };
            }
            _ => {}
        }
        let (pointer, length) = slice(a, &self.bytes);
        let record = if a.seldom() { null_mut() } else { self.record.as_mut_ptr() };
        // SAFETY: A2, every pointer is NULL or good with its true length, and handles are NULL or live and used
        // by this thread alone.
        unsafe {
            match call % LAST {
                CREATE => ffi::frond_table_create(self.db, name(a)),
                OPEN if self.table.is_null() => {
                    ffi::frond_table_open(self.db, name(a), &mut self.table)
                }
                BEGIN if self.txn.is_null() => {
                    let options = ffi::TxnOptions {
                        struct_size: if a.seldom() {
                            3
                        } else {
                            size_of::<ffi::TxnOptions>() as u32
                        },
                        isolation: a.number(2).wrapping_add(1),
                        lock_timeout_ms: 0,
                        latest_writes: a.byte() & 1,
                        reserved: [0; 7],
                        user: null_mut(),
                    };
                    ffi::frond_txn_begin(self.db, &options, &mut self.txn)
                }
                PUT => {
                    let (v, v_len) = slice(a, &self.bytes);
                    ffi::frond_put(txn, table, pointer, length, v, v_len, a.flag())
                }
                GET => {
                    let status =
                        ffi::frond_get(txn, table, pointer, length, a.flag(), &mut value, &mut len);
                    if status == 0 && len > 0 {
                        self.bytes[0] = std::slice::from_raw_parts(value, len)[len - 1] | 1;
                    }
                    status
                }
                CURSOR if self.cursor.is_null() => {
                    ffi::frond_cursor_open(txn, table, &mut self.cursor)
                }
                SEEK => {
                    ffi::frond_cursor_seek(cursor, a.flag().wrapping_add(a.flag()), pointer, length)
                }
                STEP if a.byte() % 2 == 0 => ffi::frond_cursor_next(cursor),
                STEP => ffi::frond_cursor_prev(cursor),
                ENTRY => {
                    let (mut v, mut v_len) = (null(), 0);
                    ffi::frond_cursor_entry(cursor, &mut value, &mut len, &mut v, &mut v_len)
                }
                SCAN if self.scan.is_null() => {
                    ffi::frond_scan_open(txn, rows, a.number(2), a.flag(), a.flag(), &mut self.scan)
                }
                FIRST => ffi::frond_scan_first(scan, record),
                NEXT => ffi::frond_scan_next(scan, record),
                REF => ffi::frond_scan_ref(scan, self.reference.as_mut_ptr()),
                FETCH => ffi::frond_scan_fetch(scan, self.reference.as_ptr(), record),
                21 => ffi::frond_scan_prev(scan, record),
                22 => ffi::frond_scan_last(scan, record),
                23 => {
                    let (how, parts, same) =
                        (a.flag().wrapping_add(a.flag()), a.number(3), a.number(3));
                    ffi::frond_scan_seek_within(scan, how, pointer, length, parts, same, record)
                }
                24 => ffi::frond_scan_next_same(scan, pointer, length, a.number(3), record),
                25 => {
                    ffi::frond_scan_unlock(scan);
                    0
                }
                26 => {
                    ffi::frond_scan_semi_consistent(scan, a.flag());
                    ffi::frond_scan_condition(scan, a.flag());
                    0
                }
                27 => ffi::frond_scan_columns(scan, self.bytes.as_ptr(), a.flag()),
                28 => {
                    ffi::frond_scan_park(scan);
                    ffi::frond_scan_renew(scan, txn, a.flag(), a.flag())
                }
                29 => ffi::frond_rows_ref(rows, record, self.reference.as_mut_ptr()),
                30 if a.seldom() => {
                    let mut waited = 0;
                    ffi::frond_row_lock(txn, rows, record, &mut waited)
                }
                30 => {
                    ffi::frond_rows_lock_value(txn, rows, a.number(3), pointer, length, a.number(3))
                }
                31 => {
                    let low = ffi::RangeEnd {
                        tuple: pointer,
                        tuple_len: length,
                        parts: a.number(3),
                        how: a.flag(),
                    };
                    let high = if a.byte() % 2 == 0 { null() } else { &raw const low };
                    ffi::frond_rows_in_range(rows, a.number(3), &low, high, &mut number)
                }
                32 => {
                    let mut parts = vec![0; 3 << 16];
                    let mut count = 0;
                    ffi::frond_table_analyze(table);
                    // More parts than there are: none may be written behind the index's own.
                    ffi::frond_rows_statistics(
                        rows,
                        a.number(3),
                        parts.as_mut_ptr(),
                        a.number(8) % (1 << 16),
                        &mut count,
                        &mut number,
                    )
                }
                33 => {
                    let (offset, by, wanted) = (a.long(), a.long(), a.long());
                    if a.seldom() {
                        ffi::frond_auto_increment_lock(txn, table);
                        ffi::frond_auto_increment_used(txn, table, wanted);
                    }
                    ffi::frond_auto_increment_reserve(
                        txn,
                        table,
                        offset,
                        by,
                        wanted,
                        &mut number,
                        &mut other,
                    )
                }
                34 => ffi::frond_auto_increment_set(table, a.long()),
                35 => {
                    let size = if a.seldom() { 1 } else { size_of::<ffi::TableStats>() as u32 };
                    let mut stats =
                        ffi::TableStats { struct_size: size, reserved: 0, numbers: [0; 7] };
                    ffi::frond_rows_covers(rows, a.number(3), a.number(6));
                    ffi::frond_rows_ref_bytes(rows);
                    ffi::frond_rows_table_meta(table, &mut value, &mut len);
                    ffi::frond_table_statistics(table, &mut stats)
                }
                36 => {
                    self.savepoint = ffi::frond_txn_savepoint(txn);
                    ffi::frond_txn_end_statement(txn);
                    ffi::frond_txn_changes(txn);
                    ffi::frond_txn_snapshot(txn)
                }
                37 => {
                    let at = if a.byte() % 2 == 0 { self.savepoint } else { a.long() };
                    if a.byte() % 2 == 0 {
                        ffi::frond_txn_release(txn, at);
                    }
                    ffi::frond_txn_rollback_to(txn, at)
                }
                38 => {
                    ffi::frond_txn_interrupt(txn);
                    ffi::frond_interrupt(self.db, a.long());
                    ffi::frond_txn_clear_interrupt(txn);
                    let setting = [c"durability", c"log_capacity_bytes", c"nothing"]
                        [usize::from(a.byte()) % 3];
                    ffi::frond_set(self.db, setting.as_ptr(), a.long())
                }
                39 => {
                    let mut exists = 0;
                    ffi::frond_table_exists(self.db, name(a), &mut exists);
                    if a.seldom() {
                        ffi::frond_table_truncate(self.db, name(a));
                    }
                    ffi::frond_table_rename(self.db, name(a), name(a))
                }
                _ => ffi::frond_delete(txn, table, pointer, length),
            }
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.reset();
    }
}
