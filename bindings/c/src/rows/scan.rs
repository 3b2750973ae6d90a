//! Reading rows.

use std::ffi::c_int;

use frond_base::Result;
use frond_engine::rows::{Fetched, Scan, ScanLock, TupleSeek};
use frond_engine::{OnLocked, RowMode, Transaction};

use super::bind::{frond_rows, put_ref, ref_key, Hooks};
use crate::abi::{
    FROND_AFTER_KEY, FROND_BEFORE_KEY, FROND_END, FROND_KEY_EXACT, FROND_KEY_OR_NEXT,
    FROND_KEY_OR_PREV, FROND_LOCK_EXCLUSIVE, FROND_LOCK_NONE, FROND_LOCK_SHARED,
    FROND_LOCK_SNAPSHOT, FROND_NOT_FOUND, FROND_NOWAIT, FROND_OK, FROND_PREFIX_LAST,
    FROND_PREFIX_LAST_OR_PREV, FROND_SKIP_LOCKED, FROND_WAIT,
};
use crate::error::{guard, guard_or, invalid};
use crate::pointers::{bytes, handle_mut, put_new};
use crate::txn::{frond_txn, inner};

/// A scan over one index, for the transaction it was opened or last renewed with.
pub struct frond_scan {
    txn: *mut frond_txn,
    rows: *mut frond_rows,
    scan: Scan,
}

fn lock_of(lock: c_int, wait: c_int) -> Result<Option<ScanLock>> {
    let (mode, at_snapshot) = match lock {
        FROND_LOCK_NONE => return Ok(None),
        FROND_LOCK_SHARED => (RowMode::S, false),
        FROND_LOCK_EXCLUSIVE => (RowMode::X, false),
        FROND_LOCK_SNAPSHOT => (RowMode::S, true),
        _ => return Err(invalid("lock is not one of enum frond_lock")),
    };
    let (wait, skip_locked) = match wait {
        FROND_WAIT => (OnLocked::Wait, false),
        FROND_NOWAIT => (OnLocked::Fail, false),
        FROND_SKIP_LOCKED => (OnLocked::Fail, true),
        _ => return Err(invalid("wait is not one of enum frond_wait")),
    };
    Ok(Some(ScanLock { mode, wait, skip_locked, at_snapshot }))
}

#[no_mangle]
pub unsafe extern "C" fn frond_scan_open(
    txn: *mut frond_txn,
    rows: *mut frond_rows,
    index: u32,
    lock: c_int,
    wait: c_int,
    scan: *mut *mut frond_scan,
) -> c_int {
    guard(|| {
        // SAFETY: A2.
        let (inner, bound) = unsafe { (inner(txn)?, handle_mut(rows, "rows")?) };
        let lock = lock_of(lock, wait)?;
        let opened = Scan::open(&mut inner.txn, &bound.rows, index as usize, lock)?;
        let object = frond_scan { txn, rows, scan: opened };
        // SAFETY: A2.
        unsafe { put_new(scan, object, "scan") }?;
        Ok(FROND_OK)
    })
}

#[no_mangle]
pub unsafe extern "C" fn frond_scan_close(scan: *mut frond_scan) {
    if !scan.is_null() {
        // SAFETY: A2, a live handle given up by the caller.
        drop(unsafe { Box::from_raw(scan) });
    }
}

#[no_mangle]
pub unsafe extern "C" fn frond_scan_renew(
    scan: *mut frond_scan,
    txn: *mut frond_txn,
    lock: c_int,
    wait: c_int,
) -> c_int {
    guard(|| {
        // SAFETY: A2.
        let (scan, inner) = unsafe { (handle_mut(scan, "scan")?, inner(txn)?) };
        scan.txn = txn;
        scan.scan.renew(&mut inner.txn, lock_of(lock, wait)?)?;
        Ok(FROND_OK)
    })
}

#[no_mangle]
pub unsafe extern "C" fn frond_scan_park(scan: *mut frond_scan) {
    guard_or((), || {
        // SAFETY: A2.
        if let Ok(scan) = unsafe { handle_mut(scan, "scan") } {
            scan.scan.park();
        }
    });
}

#[no_mangle]
pub unsafe extern "C" fn frond_scan_columns(
    scan: *mut frond_scan,
    wanted: *const u8,
    index_only: c_int,
) -> c_int {
    guard(|| {
        // SAFETY: A2.
        let scan = unsafe { handle_mut(scan, "scan") }?;
        // SAFETY: A2, a scan is closed before its binding.
        let rows = unsafe { handle_mut(scan.rows, "rows") }?;
        let columns = rows.rows.codec().columns();
        if wanted.is_null() {
            scan.scan.want(|_| true, index_only != 0);
            return Ok(FROND_OK);
        }
        // SAFETY: A2, one bit per column.
        let bits = unsafe { bytes(wanted, columns.div_ceil(8), "wanted") }?;
        scan.scan.want(|c| bits[c / 8] & (1 << (c % 8)) != 0, index_only != 0);
        Ok(FROND_OK)
    })
}

#[no_mangle]
pub unsafe extern "C" fn frond_scan_condition(scan: *mut frond_scan, on: c_int) {
    guard_or((), || {
        // SAFETY: A2.
        if let Ok(scan) = unsafe { handle_mut(scan, "scan") } {
            scan.scan.set_condition(on != 0);
        }
    });
}

/// Runs one positioning call with everything it needs.
///
/// # Safety
/// A2 for the pointers; `record` has the binding's record_bytes.
unsafe fn position(
    scan: *mut frond_scan,
    record: *mut u8,
    step: impl FnOnce(&mut Scan, &mut Transaction, &mut [u8], &mut Hooks) -> Result<Fetched>,
) -> c_int {
    guard(|| {
        // SAFETY: A2.
        let scan = unsafe { handle_mut(scan, "scan") }?;
        // SAFETY: A2; a scan is closed before its binding and used within its transaction's life.
        let (inner, rows) = unsafe { (inner(scan.txn)?, handle_mut(scan.rows, "rows")?) };
        if record.is_null() {
            return Err(invalid("record is NULL"));
        }
        // SAFETY: A2, a record image has record_bytes bytes and is the caller's to write.
        let record = unsafe { std::slice::from_raw_parts_mut(record, rows.record_bytes) };
        let mut hooks = Hooks(rows.hooks);
        match step(&mut scan.scan, &mut inner.txn, record, &mut hooks)? {
            Fetched::Row => {
                if rows.rows.codec().schema().hidden_primary {
                    let key = scan.scan.row_key()?;
                    rows.row_id = rows.rows.codec().row_id(0, key)?;
                }
                Ok(FROND_OK)
            }
            Fetched::End => Ok(FROND_END),
            Fetched::NotFound => Ok(FROND_NOT_FOUND),
        }
    })
}

fn tuple_seek(how: c_int) -> Result<TupleSeek> {
    Ok(match how {
        FROND_KEY_EXACT => TupleSeek::Exact,
        FROND_KEY_OR_NEXT => TupleSeek::OrNext,
        FROND_KEY_OR_PREV => TupleSeek::OrPrev,
        FROND_AFTER_KEY => TupleSeek::After,
        FROND_BEFORE_KEY => TupleSeek::Before,
        FROND_PREFIX_LAST => TupleSeek::PrefixLast,
        FROND_PREFIX_LAST_OR_PREV => TupleSeek::PrefixLastOrPrev,
        _ => return Err(invalid("how is not one of enum frond_tuple_seek")),
    })
}

#[no_mangle]
pub unsafe extern "C" fn frond_scan_seek(
    scan: *mut frond_scan,
    how: c_int,
    tuple: *const u8,
    tuple_len: usize,
    parts: u32,
    record: *mut u8,
) -> c_int {
    // SAFETY: A2.
    unsafe {
        position(scan, record, |scan, txn, record, hooks| {
            let tuple = bytes(tuple, tuple_len, "tuple")?;
            scan.seek(txn, tuple_seek(how)?, (tuple, parts as usize), record, hooks)
        })
    }
}

#[no_mangle]
pub unsafe extern "C" fn frond_scan_seek_within(
    scan: *mut frond_scan,
    how: c_int,
    tuple: *const u8,
    tuple_len: usize,
    parts: u32,
    same: u32,
    record: *mut u8,
) -> c_int {
    // SAFETY: A2.
    unsafe {
        position(scan, record, |scan, txn, record, hooks| {
            let tuple = bytes(tuple, tuple_len, "tuple")?;
            let tuple = (tuple, parts as usize, same as usize);
            scan.seek_within(txn, tuple_seek(how)?, tuple, record, hooks)
        })
    }
}

#[no_mangle]
pub unsafe extern "C" fn frond_scan_first(scan: *mut frond_scan, record: *mut u8) -> c_int {
    // SAFETY: A2.
    unsafe { position(scan, record, |s, txn, record, hooks| s.first(txn, record, hooks)) }
}

#[no_mangle]
pub unsafe extern "C" fn frond_scan_last(scan: *mut frond_scan, record: *mut u8) -> c_int {
    // SAFETY: A2.
    unsafe { position(scan, record, |s, txn, record, hooks| s.last(txn, record, hooks)) }
}

#[no_mangle]
pub unsafe extern "C" fn frond_scan_next(scan: *mut frond_scan, record: *mut u8) -> c_int {
    // SAFETY: A2.
    unsafe { position(scan, record, |s, txn, record, hooks| s.next(txn, record, hooks)) }
}

#[no_mangle]
pub unsafe extern "C" fn frond_scan_prev(scan: *mut frond_scan, record: *mut u8) -> c_int {
    // SAFETY: A2.
    unsafe { position(scan, record, |s, txn, record, hooks| s.prev(txn, record, hooks)) }
}

#[no_mangle]
pub unsafe extern "C" fn frond_scan_next_same(
    scan: *mut frond_scan,
    tuple: *const u8,
    tuple_len: usize,
    parts: u32,
    record: *mut u8,
) -> c_int {
    // SAFETY: A2.
    unsafe {
        position(scan, record, |scan, txn, record, hooks| {
            let tuple = bytes(tuple, tuple_len, "tuple")?;
            scan.next_same(txn, (tuple, parts as usize), record, hooks)
        })
    }
}

#[no_mangle]
pub unsafe extern "C" fn frond_scan_fetch(
    scan: *mut frond_scan,
    reference: *const u8,
    record: *mut u8,
) -> c_int {
    // SAFETY: A2.
    unsafe {
        position(scan, record, |scan, txn, record, hooks| {
            scan.fetch(txn, ref_key(reference)?, record, hooks)
        })
    }
}

#[no_mangle]
pub unsafe extern "C" fn frond_scan_fetch_tuple(
    scan: *mut frond_scan,
    tuple: *const u8,
    tuple_len: usize,
    parts: u32,
    record: *mut u8,
) -> c_int {
    // SAFETY: A2.
    unsafe {
        position(scan, record, |scan, txn, record, hooks| {
            let tuple = bytes(tuple, tuple_len, "tuple")?;
            scan.fetch_tuple(txn, (tuple, parts as usize), record, hooks)
        })
    }
}

#[no_mangle]
pub unsafe extern "C" fn frond_scan_unlock(scan: *mut frond_scan) {
    guard_or((), || {
        // SAFETY: A2.
        let Ok(scan) = (unsafe { handle_mut(scan, "scan") }) else { return };
        // SAFETY: A2.
        if let Ok(inner) = unsafe { inner(scan.txn) } {
            scan.scan.unlock_current(&mut inner.txn);
        }
    });
}

#[no_mangle]
pub unsafe extern "C" fn frond_scan_semi_consistent(scan: *mut frond_scan, on: c_int) {
    guard_or((), || {
        // SAFETY: A2.
        let Ok(scan) = (unsafe { handle_mut(scan, "scan") }) else { return };
        // SAFETY: A2.
        if let Ok(inner) = unsafe { inner(scan.txn) } {
            scan.scan.set_semi_consistent(&inner.txn, on != 0);
        }
    });
}

#[no_mangle]
pub unsafe extern "C" fn frond_scan_was_semi_consistent(scan: *mut frond_scan) -> c_int {
    guard_or(0, || {
        // SAFETY: A2.
        unsafe { handle_mut(scan, "scan") }.map_or(0, |s| s.scan.was_semi_consistent() as c_int)
    })
}

#[no_mangle]
pub unsafe extern "C" fn frond_scan_ref(scan: *mut frond_scan, out: *mut u8) -> c_int {
    guard(|| {
        // SAFETY: A2.
        let scan = unsafe { handle_mut(scan, "scan") }?;
        // SAFETY: A2, a scan is closed before its binding.
        let rows = unsafe { handle_mut(scan.rows, "rows") }?;
        // SAFETY: A2, room for ref_bytes.
        unsafe { put_ref(out, rows.ref_bytes, scan.scan.row_key()?) }?;
        Ok(FROND_OK)
    })
}

#[no_mangle]
pub unsafe extern "C" fn frond_ref_compare(a: *const u8, b: *const u8) -> c_int {
    guard_or(0, || {
        // SAFETY: A2, both were written by frond_scan_ref or frond_rows_ref.
        match unsafe { (ref_key(a), ref_key(b)) } {
            (Ok(a), Ok(b)) => a.cmp(b) as c_int,
            _ => 0,
        }
    })
}
