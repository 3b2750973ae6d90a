//! Transactions.

use std::cell::UnsafeCell;
use std::ffi::c_int;
use std::sync::Arc;
use std::time::Duration;

use frond_base::Result;
use frond_engine::{Engine, Isolation, OwnerHandle, Transaction, TxnOptions};

use crate::abi::{
    frond_txn_options, FROND_NOT_FOUND, FROND_OK, FROND_READ_COMMITTED, FROND_SERIALIZABLE,
    FROND_SNAPSHOT,
};
use crate::db::frond_db;
use crate::error::{guard, guard_or, invalid};
use crate::pointers::{handle, put_new};

/// A running transaction. `owner` may be used by any thread, the rest by one at a time (so other threads
/// never see it through a reference).
pub struct frond_txn {
    /// Keeps the database open as long as the transaction runs.
    engine: Arc<Engine>,
    owner: OwnerHandle,
    inner: UnsafeCell<Inner>,
}

pub struct Inner {
    pub txn: Transaction,
    /// The value that the last read returned.
    pub value: Vec<u8>,
}

/// Bytes of a value that a transaction at rest keeps the memory of, at most.
const VALUE_KEPT: usize = 64 << 10;

/// The part of a transaction that its own thread uses.
///
/// # Safety
/// A2, and only one such reference is alive: the header allows one thread at a time, and no function
/// here calls another one with it.
#[inline]
pub unsafe fn inner<'a>(txn: *const frond_txn) -> Result<&'a mut Inner> {
    // SAFETY: A2.
    let txn = unsafe { handle(txn, "transaction") }?;
    // SAFETY: the caller's contract.
    Ok(unsafe { &mut *txn.inner.get() })
}

fn options_of(o: &frond_txn_options) -> Result<TxnOptions> {
    if o.struct_size as usize != size_of::<frond_txn_options>() {
        return Err(invalid("options.struct_size is not that of this release"));
    }
    let isolation = match o.isolation {
        FROND_READ_COMMITTED => Isolation::ReadCommitted,
        FROND_SNAPSHOT => Isolation::Snapshot,
        FROND_SERIALIZABLE => Isolation::Serializable,
        _ => return Err(invalid("isolation is not one of enum frond_isolation")),
    };
    let lock_timeout = Duration::from_millis(o.lock_timeout_ms);
    Ok(TxnOptions { isolation, lock_timeout, latest_writes: o.latest_writes != 0 })
}

#[no_mangle]
pub unsafe extern "C" fn frond_txn_begin(
    db: *mut frond_db,
    options: *const frond_txn_options,
    txn: *mut *mut frond_txn,
) -> c_int {
    guard(|| {
        // SAFETY: A2.
        let (db, o) = unsafe { (handle(db, "db")?, handle(options, "options")?) };
        let begun = db.engine.begin(options_of(o)?);
        let object = frond_txn {
            engine: db.engine.clone(),
            owner: begun.handle(),
            inner: UnsafeCell::new(Inner { txn: begun, value: Vec::new() }),
        };
        // SAFETY: A2.
        unsafe { put_new(txn, object, "txn") }?;
        Ok(FROND_OK)
    })
}

#[no_mangle]
pub unsafe extern "C" fn frond_txn_rest(txn: *mut frond_txn) -> c_int {
    guard_or(0, || {
        // SAFETY: A2.
        let Ok(inner) = (unsafe { inner(txn) }) else { return 0 };
        let rests = inner.txn.rest();
        if rests && inner.value.capacity() > VALUE_KEPT {
            inner.value = Vec::new();
        }
        c_int::from(rests)
    })
}

#[no_mangle]
pub unsafe extern "C" fn frond_txn_wake(
    txn: *mut frond_txn,
    options: *const frond_txn_options,
) -> c_int {
    guard(|| {
        // SAFETY: A2.
        let (inner, options) = unsafe { (inner(txn)?, handle(options, "options")?) };
        inner.txn.wake(options_of(options)?);
        Ok(FROND_OK)
    })
}

/// The database of a transaction.
///
/// # Safety
/// A2.
pub unsafe fn engine_of(txn: *const frond_txn) -> Result<Arc<Engine>> {
    // SAFETY: the caller's contract.
    Ok(unsafe { handle(txn, "transaction") }?.engine.clone())
}

/// # Safety
/// A2; the caller gives the handle up.
pub unsafe fn take(txn: *mut frond_txn) -> Option<Transaction> {
    if txn.is_null() {
        return None;
    }
    // SAFETY: the caller's contract.
    let boxed = unsafe { Box::from_raw(txn) };
    Some(boxed.inner.into_inner().txn)
}

#[no_mangle]
pub unsafe extern "C" fn frond_txn_commit(txn: *mut frond_txn) -> c_int {
    guard(|| {
        // SAFETY: A2.
        let txn = unsafe { take(txn) }.ok_or_else(|| invalid("transaction is NULL"))?;
        txn.commit()?;
        Ok(FROND_OK)
    })
}

#[no_mangle]
pub unsafe extern "C" fn frond_txn_rollback(txn: *mut frond_txn) {
    guard_or((), || {
        // SAFETY: A2.
        if let Some(txn) = unsafe { take(txn) } {
            txn.rollback();
        }
    });
}

#[no_mangle]
pub unsafe extern "C" fn frond_txn_snapshot(txn: *mut frond_txn) -> c_int {
    guard(|| {
        // SAFETY: A2.
        unsafe { inner(txn) }?.txn.snapshot();
        Ok(FROND_OK)
    })
}

#[no_mangle]
pub unsafe extern "C" fn frond_txn_end_statement(txn: *mut frond_txn) {
    guard_or((), || {
        // SAFETY: A2.
        if let Ok(inner) = unsafe { inner(txn) } {
            inner.txn.end_statement();
        }
    });
}

#[no_mangle]
pub unsafe extern "C" fn frond_txn_lock_ranges(txn: *mut frond_txn) {
    guard_or((), || {
        // SAFETY: A2.
        if let Ok(inner) = unsafe { inner(txn) } {
            inner.txn.lock_ranges();
        }
    });
}

#[no_mangle]
pub unsafe extern "C" fn frond_txn_set_lock_timeout(txn: *mut frond_txn, ms: u64) {
    guard_or((), || {
        // SAFETY: A2.
        if let Ok(inner) = unsafe { inner(txn) } {
            inner.txn.set_lock_timeout(Duration::from_millis(ms));
        }
    });
}

#[no_mangle]
pub unsafe extern "C" fn frond_txn_savepoint(txn: *mut frond_txn) -> u64 {
    // SAFETY: A2.
    guard_or(0, || unsafe { inner(txn) }.map_or(0, |inner| inner.txn.savepoint()))
}

#[no_mangle]
pub unsafe extern "C" fn frond_txn_rollback_to(txn: *mut frond_txn, savepoint: u64) -> c_int {
    guard(|| {
        // SAFETY: A2.
        let txn = &mut unsafe { inner(txn) }?.txn;
        if !txn.is_savepoint(savepoint) {
            return Err(invalid("not a savepoint of this transaction, or one that was released"));
        }
        txn.rollback_to(savepoint);
        Ok(FROND_OK)
    })
}

#[no_mangle]
pub unsafe extern "C" fn frond_txn_release(txn: *mut frond_txn, savepoint: u64) {
    guard_or((), || {
        // SAFETY: A2.
        if let Ok(inner) = unsafe { inner(txn) } {
            inner.txn.release(savepoint);
        }
    });
}

#[no_mangle]
pub unsafe extern "C" fn frond_txn_set_connection(txn: *mut frond_txn, connection: u64) {
    guard_or((), || {
        // SAFETY: A2.
        if let Ok(txn) = unsafe { handle(txn.cast_const(), "transaction") } {
            txn.owner.set_label(connection);
        }
    });
}

#[no_mangle]
pub unsafe extern "C" fn frond_txn_interrupt(txn: *mut frond_txn) {
    guard_or((), || {
        // SAFETY: A2; only `owner` is used, which is made for other threads.
        if let Ok(txn) = unsafe { handle(txn.cast_const(), "transaction") } {
            txn.owner.interrupt();
        }
    });
}

#[no_mangle]
pub unsafe extern "C" fn frond_interrupt(db: *mut frond_db, txn_id: u64) -> c_int {
    guard(|| {
        // SAFETY: A2.
        let db = unsafe { handle(db, "db") }?;
        // Most have ended meanwhile: no message for that.
        Ok(if db.engine.interrupt(txn_id) { FROND_OK } else { FROND_NOT_FOUND })
    })
}

#[no_mangle]
pub unsafe extern "C" fn frond_txn_clear_interrupt(txn: *mut frond_txn) {
    guard_or((), || {
        // SAFETY: A2.
        if let Ok(txn) = unsafe { handle(txn.cast_const(), "transaction") } {
            txn.owner.clear_interrupt();
        }
    });
}

#[no_mangle]
pub unsafe extern "C" fn frond_txn_changes(txn: *const frond_txn) -> u64 {
    // SAFETY: A2.
    guard_or(0, || unsafe { inner(txn) }.map_or(0, |inner| inner.txn.changes()))
}

#[no_mangle]
pub unsafe extern "C" fn frond_txn_id(txn: *const frond_txn) -> u64 {
    // SAFETY: A2.
    guard_or(0, || unsafe { inner(txn) }.map_or(0, |inner| inner.txn.id()))
}
