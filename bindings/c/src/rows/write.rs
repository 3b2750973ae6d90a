//! Changing rows.

use std::ffi::c_int;

use frond_base::Result;
use frond_engine::rows::{WriteFlags, Written};
use frond_row::RowInput;

use super::bind::{frond_rows, put_ref, ServerBlobs};
use crate::abi::{
    FROND_DUPLICATE_KEY, FROND_OK, FROND_WRITE_NO_LOCKS, FROND_WRITE_SKIP_FOREIGN,
    FROND_WRITE_SKIP_UNIQUE,
};
use crate::error::{guard, invalid};
use crate::pointers::{bytes, handle_mut, put};
use crate::txn::{frond_txn, inner};

fn flags(flags: c_int) -> WriteFlags {
    WriteFlags {
        no_locks: flags & FROND_WRITE_NO_LOCKS != 0,
        skip_unique: flags & FROND_WRITE_SKIP_UNIQUE != 0,
        skip_foreign: flags & FROND_WRITE_SKIP_FOREIGN != 0,
    }
}

fn input(record: &[u8], row_id: u64) -> RowInput<'_> {
    RowInput { record, blobs: &ServerBlobs, row_id }
}

/// # Safety
/// `duplicate` is NULL or writable.
unsafe fn outcome(written: Written, duplicate: *mut u32) -> Result<c_int> {
    match written {
        Written::Done => Ok(FROND_OK),
        Written::Duplicate(index) => {
            // SAFETY: the caller's contract.
            unsafe { put(duplicate, index as u32, "duplicate") }?;
            Ok(FROND_DUPLICATE_KEY)
        }
    }
}

#[no_mangle]
pub unsafe extern "C" fn frond_row_insert(
    txn: *mut frond_txn,
    rows: *mut frond_rows,
    record: *const u8,
    write_flags: c_int,
    duplicate: *mut u32,
) -> c_int {
    guard(|| {
        // SAFETY: A2.
        let (inner, rows) = unsafe { (inner(txn)?, handle_mut(rows, "rows")?) };
        // SAFETY: A2, a record image has record_bytes bytes.
        let record = unsafe { bytes(record, rows.record_bytes, "record") }?;
        if rows.rows.codec().schema().hidden_primary {
            rows.row_id = rows.rows.table().next_row_id();
        }
        let row = input(record, rows.row_id);
        let written = rows.rows.insert(&mut inner.txn, &row, flags(write_flags))?;
        // SAFETY: A2.
        unsafe { outcome(written, duplicate) }
    })
}

#[no_mangle]
pub unsafe extern "C" fn frond_row_update(
    txn: *mut frond_txn,
    rows: *mut frond_rows,
    old_record: *const u8,
    new_record: *const u8,
    write_flags: c_int,
    duplicate: *mut u32,
) -> c_int {
    guard(|| {
        // SAFETY: A2.
        let (inner, rows) = unsafe { (inner(txn)?, handle_mut(rows, "rows")?) };
        let n = rows.record_bytes;
        // SAFETY: A2, record images have record_bytes bytes.
        let (old, new) =
            unsafe { (bytes(old_record, n, "record")?, bytes(new_record, n, "record")?) };
        let (old, new) = (input(old, rows.row_id), input(new, rows.row_id));
        let written = rows.rows.update(&mut inner.txn, &old, &new, flags(write_flags))?;
        // SAFETY: A2.
        unsafe { outcome(written, duplicate) }
    })
}

#[no_mangle]
pub unsafe extern "C" fn frond_row_delete(
    txn: *mut frond_txn,
    rows: *mut frond_rows,
    old_record: *const u8,
    write_flags: c_int,
) -> c_int {
    guard(|| {
        // SAFETY: A2.
        let (inner, rows) = unsafe { (inner(txn)?, handle_mut(rows, "rows")?) };
        // SAFETY: A2, a record image has record_bytes bytes.
        let record = unsafe { bytes(old_record, rows.record_bytes, "record") }?;
        let row = input(record, rows.row_id);
        rows.rows.delete(&mut inner.txn, &row, flags(write_flags))?;
        Ok(FROND_OK)
    })
}

#[no_mangle]
pub unsafe extern "C" fn frond_row_lock(
    txn: *mut frond_txn,
    rows: *mut frond_rows,
    record: *const u8,
    waited: *mut c_int,
) -> c_int {
    guard(|| {
        // SAFETY: A2.
        let (inner, rows) = unsafe { (inner(txn)?, handle_mut(rows, "rows")?) };
        // SAFETY: A2, a record image has record_bytes bytes.
        let record = unsafe { bytes(record, rows.record_bytes, "record") }?;
        let row = input(record, rows.row_id);
        let has_waited = rows.rows.lock_row(&mut inner.txn, &row)?;
        // SAFETY: A2.
        unsafe { put(waited, c_int::from(has_waited), "waited") }?;
        Ok(FROND_OK)
    })
}

#[no_mangle]
pub unsafe extern "C" fn frond_rows_lock_value(
    txn: *mut frond_txn,
    rows: *mut frond_rows,
    index: u32,
    tuple: *const u8,
    tuple_len: usize,
    parts: u32,
) -> c_int {
    guard(|| {
        // SAFETY: A2.
        let (inner, rows) = unsafe { (inner(txn)?, handle_mut(rows, "rows")?) };
        let index = index as usize;
        if index >= rows.rows.indexes() {
            return Err(invalid("there is no such index"));
        }
        // SAFETY: A2.
        let tuple = unsafe { bytes(tuple, tuple_len, "tuple") }?;
        rows.rows.lock_value(&mut inner.txn, index, (tuple, parts as usize))?;
        Ok(FROND_OK)
    })
}

#[no_mangle]
pub unsafe extern "C" fn frond_rows_ref(
    rows: *mut frond_rows,
    record: *const u8,
    out: *mut u8,
) -> c_int {
    guard(|| {
        // SAFETY: A2.
        let rows = unsafe { handle_mut(rows, "rows") }?;
        // SAFETY: A2, a record image has record_bytes bytes.
        let record = unsafe { bytes(record, rows.record_bytes, "record") }?;
        let mut key = std::mem::take(&mut rows.key);
        key.clear();
        let encoded = rows.rows.codec().encode_key(0, &input(record, rows.row_id), &mut key);
        // SAFETY: A2, room for ref_bytes.
        let done = encoded.and_then(|()| unsafe { put_ref(out, rows.ref_bytes, &key) });
        rows.key = key;
        done?;
        Ok(FROND_OK)
    })
}
