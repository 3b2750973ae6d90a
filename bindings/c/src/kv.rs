//! Keys and values, and cursors over them.

use std::ffi::c_int;

use frond_engine::{Cursor, RowMode, Seek};

use crate::abi::{
    FROND_END, FROND_FIRST, FROND_GE, FROND_GT, FROND_LAST, FROND_LE, FROND_LOCK_EXCLUSIVE,
    FROND_LOCK_NONE, FROND_LOCK_SHARED, FROND_LT, FROND_NOT_FOUND, FROND_OK, FROND_PUT_NEW,
};
use crate::error::{guard, invalid};
use crate::pointers::{bytes, handle, handle_mut, put, put_new};
use crate::table::frond_table;
use crate::txn::{frond_txn, inner};

/// A cursor of one transaction.
pub struct frond_cursor {
    txn: *mut frond_txn,
    cursor: Cursor,
}

#[no_mangle]
pub unsafe extern "C" fn frond_put(
    txn: *mut frond_txn,
    table: *mut frond_table,
    key: *const u8,
    key_len: usize,
    value: *const u8,
    value_len: usize,
    flags: c_int,
) -> c_int {
    guard(|| {
        // SAFETY: A2.
        let (inner, table) = unsafe { (inner(txn)?, handle(table, "table")?) };
        // SAFETY: A2.
        let (key, value) =
            unsafe { (bytes(key, key_len, "key")?, bytes(value, value_len, "value")?) };
        inner.txn.put(&table.table, key, value, flags & FROND_PUT_NEW != 0)?;
        Ok(FROND_OK)
    })
}

#[no_mangle]
pub unsafe extern "C" fn frond_get(
    txn: *mut frond_txn,
    table: *mut frond_table,
    key: *const u8,
    key_len: usize,
    lock: c_int,
    value: *mut *const u8,
    value_len: *mut usize,
) -> c_int {
    guard(|| {
        // SAFETY: A2.
        let (inner, table) = unsafe { (inner(txn)?, handle(table, "table")?) };
        // SAFETY: A2.
        let key = unsafe { bytes(key, key_len, "key") }?;
        let mode = match lock {
            FROND_LOCK_NONE => None,
            FROND_LOCK_SHARED => Some(RowMode::S),
            FROND_LOCK_EXCLUSIVE => Some(RowMode::X),
            _ => return Err(invalid("lock is not NONE, SHARED or EXCLUSIVE of enum frond_lock")),
        };
        let mut found = std::mem::take(&mut inner.value);
        let outcome = match mode {
            None => inner.txn.get(&table.table, 0, key, &mut found),
            Some(mode) => inner.txn.get_locked(&table.table, 0, key, mode, &mut found),
        };
        inner.value = found;
        if !outcome? {
            return Ok(FROND_NOT_FOUND);
        }
        // SAFETY: A2.
        unsafe {
            put(value, inner.value.as_ptr(), "value")?;
            put(value_len, inner.value.len(), "value_len")?;
        }
        Ok(FROND_OK)
    })
}

#[no_mangle]
pub unsafe extern "C" fn frond_delete(
    txn: *mut frond_txn,
    table: *mut frond_table,
    key: *const u8,
    key_len: usize,
) -> c_int {
    guard(|| {
        // SAFETY: A2.
        let (inner, table) = unsafe { (inner(txn)?, handle(table, "table")?) };
        // SAFETY: A2.
        let key = unsafe { bytes(key, key_len, "key") }?;
        inner.txn.delete(&table.table, key)?;
        Ok(FROND_OK)
    })
}

#[no_mangle]
pub unsafe extern "C" fn frond_cursor_open(
    txn: *mut frond_txn,
    table: *mut frond_table,
    cursor: *mut *mut frond_cursor,
) -> c_int {
    guard(|| {
        // SAFETY: A2.
        let table = unsafe { handle(table, "table") }?;
        // SAFETY: A2.
        let inner = unsafe { inner(txn) }?;
        let opened = table.engine.cursor(&mut inner.txn, &table.table, 0)?;
        let object = frond_cursor { txn, cursor: opened };
        // SAFETY: A2.
        unsafe { put_new(cursor, object, "cursor") }?;
        Ok(FROND_OK)
    })
}

#[no_mangle]
pub unsafe extern "C" fn frond_cursor_close(cursor: *mut frond_cursor) {
    if !cursor.is_null() {
        // SAFETY: A2, a live handle given up by the caller.
        drop(unsafe { Box::from_raw(cursor) });
    }
}

fn found(valid: bool) -> c_int {
    if valid {
        FROND_OK
    } else {
        FROND_END
    }
}

#[no_mangle]
pub unsafe extern "C" fn frond_cursor_seek(
    cursor: *mut frond_cursor,
    how: c_int,
    key: *const u8,
    key_len: usize,
) -> c_int {
    guard(|| {
        // SAFETY: A2.
        let c = unsafe { handle_mut(cursor, "cursor") }?;
        // SAFETY: A2, the transaction outlives its cursors.
        let txn = &unsafe { inner(c.txn) }?.txn;
        // SAFETY: A2.
        let key = unsafe { bytes(key, key_len, "key") }?;
        let how = match how {
            FROND_GE => Seek::Ge,
            FROND_GT => Seek::Gt,
            FROND_LE => Seek::Le,
            FROND_LT => Seek::Lt,
            FROND_FIRST => return Ok(found(c.cursor.first(txn)?)),
            FROND_LAST => return Ok(found(c.cursor.last(txn)?)),
            _ => return Err(invalid("how is not one of enum frond_seek")),
        };
        Ok(found(c.cursor.seek(txn, key, how)?))
    })
}

#[no_mangle]
pub unsafe extern "C" fn frond_cursor_next(cursor: *mut frond_cursor) -> c_int {
    guard(|| {
        // SAFETY: A2.
        let c = unsafe { handle_mut(cursor, "cursor") }?;
        if !c.cursor.valid() {
            return Ok(FROND_END);
        }
        // SAFETY: A2, the transaction outlives its cursors.
        Ok(found(c.cursor.next(&unsafe { inner(c.txn) }?.txn)?))
    })
}

#[no_mangle]
pub unsafe extern "C" fn frond_cursor_prev(cursor: *mut frond_cursor) -> c_int {
    guard(|| {
        // SAFETY: A2.
        let c = unsafe { handle_mut(cursor, "cursor") }?;
        if !c.cursor.valid() {
            return Ok(FROND_END);
        }
        // SAFETY: A2, the transaction outlives its cursors.
        Ok(found(c.cursor.prev(&unsafe { inner(c.txn) }?.txn)?))
    })
}

#[no_mangle]
pub unsafe extern "C" fn frond_cursor_entry(
    cursor: *mut frond_cursor,
    key: *mut *const u8,
    key_len: *mut usize,
    value: *mut *const u8,
    value_len: *mut usize,
) -> c_int {
    guard(|| {
        // SAFETY: A2.
        let c = unsafe { handle_mut(cursor, "cursor") }?;
        if !c.cursor.valid() {
            return Err(invalid("the cursor has no position"));
        }
        let (k, v) = (c.cursor.key(), c.cursor.value());
        // SAFETY: A2.
        unsafe {
            put(key, k.as_ptr(), "key")?;
            put(key_len, k.len(), "key_len")?;
            put(value, v.as_ptr(), "value")?;
            put(value_len, v.len(), "value_len")?;
        }
        Ok(FROND_OK)
    })
}
