//! Prepared transactions.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use frond_base::Result;
use frond_engine::{Engine, PreparedTransaction, Xid, XID_PART_MAX};

use crate::abi::{
    frond_xid, FROND_BY_COORDINATOR, FROND_BY_HANDLE, FROND_BY_NAME, FROND_NOT_FOUND, FROND_OK,
};
use crate::db::frond_db;
use crate::error::{guard, guard_or, invalid};
use crate::pointers::{handle, handle_mut, put_new};
use crate::txn::{engine_of, frond_txn, take};

/// A prepared transaction, used by one thread at a time.
pub struct frond_prepared {
    /// Declared before the engine and so dropped before it: its drop needs the database.
    inner: PreparedTransaction,
    _engine: Arc<Engine>,
}

impl frond_xid {
    fn name(&self) -> Result<Xid> {
        let (gtrid, bqual) = (self.gtrid_length as usize, self.bqual_length as usize);
        if gtrid > XID_PART_MAX || bqual > XID_PART_MAX {
            return Err(invalid("a part of the xid is longer than 64 bytes"));
        }
        Xid::new(self.format, &self.data[..gtrid], &self.data[gtrid..gtrid + bqual])
    }

    pub fn of(xid: &Xid) -> frond_xid {
        let (gtrid, bqual) = (xid.gtrid(), xid.bqual());
        let mut data = [0; 2 * XID_PART_MAX];
        data[..gtrid.len()].copy_from_slice(gtrid);
        data[gtrid.len()..][..bqual.len()].copy_from_slice(bqual);
        let (gtrid_length, bqual_length) = (gtrid.len() as u32, bqual.len() as u32);
        frond_xid { format: xid.format(), gtrid_length, bqual_length, data }
    }
}

#[no_mangle]
pub unsafe extern "C" fn frond_txn_prepare(
    txn: *mut frond_txn,
    xid: *const frond_xid,
    ended_by: c_int,
    prepared: *mut *mut frond_prepared,
) -> c_int {
    guard(|| {
        // SAFETY: A2.
        let engine = unsafe { engine_of(txn) }?;
        // SAFETY: A2; whatever follows, the caller has given the transaction up.
        let txn = unsafe { take(txn) }.ok_or_else(|| invalid("transaction is NULL"))?;
        // SAFETY: A2.
        let name = unsafe { handle(xid, "xid") }?.name()?;
        if prepared.is_null() {
            return Err(invalid("prepared is NULL"));
        }
        let inner = match ended_by {
            FROND_BY_HANDLE => txn.prepare(name)?,
            FROND_BY_COORDINATOR => txn.prepare_coordinated(name)?,
            FROND_BY_NAME => txn.prepare_named(name)?,
            _ => return Err(invalid("ended_by is none of FROND_BY_...")),
        };
        let object = frond_prepared { inner, _engine: engine };
        // SAFETY: A2.
        unsafe { put_new(prepared, object, "prepared") }?;
        Ok(FROND_OK)
    })
}

#[no_mangle]
pub unsafe extern "C" fn frond_prepared_commit_ordered(prepared: *mut frond_prepared) -> c_int {
    guard(|| {
        // SAFETY: A2; one thread at a time.
        unsafe { handle_mut(prepared, "prepared") }?.inner.commit_ordered()?;
        Ok(FROND_OK)
    })
}

/// # Safety
/// A2; the caller gives the handle up.
unsafe fn take_prepared(prepared: *mut frond_prepared) -> Result<frond_prepared> {
    if prepared.is_null() {
        return Err(invalid("prepared is NULL"));
    }
    // SAFETY: the caller's contract.
    Ok(*unsafe { Box::from_raw(prepared) })
}

#[no_mangle]
pub unsafe extern "C" fn frond_prepared_commit(
    prepared: *mut frond_prepared,
    wait: c_int,
) -> c_int {
    guard(|| {
        // SAFETY: A2.
        unsafe { take_prepared(prepared) }?.inner.commit(wait != 0)?;
        Ok(FROND_OK)
    })
}

#[no_mangle]
pub unsafe extern "C" fn frond_prepared_rollback(prepared: *mut frond_prepared) -> c_int {
    guard(|| {
        // SAFETY: A2.
        unsafe { take_prepared(prepared) }?.inner.rollback()?;
        Ok(FROND_OK)
    })
}

#[no_mangle]
pub unsafe extern "C" fn frond_prepared_detach(prepared: *mut frond_prepared) {
    guard_or((), || {
        // SAFETY: A2.
        drop(unsafe { take_prepared(prepared) });
    });
}

type EmitXid = extern "C" fn(ctx: *mut c_void, xid: *const frond_xid);

#[no_mangle]
pub unsafe extern "C" fn frond_prepared_list(
    db: *mut frond_db,
    emit: Option<EmitXid>,
    ctx: *mut c_void,
) -> c_int {
    guard(|| {
        // SAFETY: A2.
        let db = unsafe { handle(db, "db") }?;
        let emit = emit.ok_or_else(|| invalid("emit is NULL"))?;
        for xid in db.engine.prepared() {
            emit(ctx, &frond_xid::of(&xid));
        }
        Ok(FROND_OK)
    })
}

/// # Safety
/// A2.
unsafe fn end(db: *mut frond_db, xid: *const frond_xid, commit: bool) -> c_int {
    guard(|| {
        // SAFETY: A2.
        let (db, xid) = unsafe { (handle(db, "db")?, handle(xid, "xid")?.name()?) };
        let was_there = match commit {
            true => db.engine.commit_prepared(&xid)?,
            false => db.engine.rollback_prepared(&xid)?,
        };
        // A coordinator asks every engine: no message for that.
        Ok(if was_there { FROND_OK } else { FROND_NOT_FOUND })
    })
}

#[no_mangle]
pub unsafe extern "C" fn frond_commit_by_xid(db: *mut frond_db, xid: *const frond_xid) -> c_int {
    // SAFETY: A2.
    unsafe { end(db, xid, true) }
}

#[no_mangle]
pub unsafe extern "C" fn frond_rollback_by_xid(db: *mut frond_db, xid: *const frond_xid) -> c_int {
    // SAFETY: A2.
    unsafe { end(db, xid, false) }
}
