//! Transactions, locks and waits, tables and trees; the hooks that are called for lock waits.

use std::ffi::{c_char, c_int, c_void, CString};
use std::ptr;
use std::time::Duration;

use frond_engine::{LockKind, LockMode, LockPlace, TransactionState, WaitHooks, Xid};

use crate::abi::{
    frond_lock_info, frond_lock_wait_info, frond_table_info, frond_transaction_info,
    frond_tree_info, frond_wait_hooks, frond_xid, EmitLock, EmitLockWait, EmitTable,
    EmitTransaction, EmitTree, FROND_KIND_INDEX, FROND_KIND_RANGE, FROND_KIND_ROW,
    FROND_MODE_EXCLUSIVE, FROND_MODE_INTENTION_EXCLUSIVE, FROND_MODE_INTENTION_SHARED,
    FROND_MODE_SHARED, FROND_OK, FROND_TRANSACTION_DETACHED, FROND_TRANSACTION_PREPARED,
    FROND_TRANSACTION_RUNNING, FROND_TRANSACTION_WAITING,
};
use crate::db::frond_db;
use crate::error::{guard, invalid};
use crate::pointers::handle;

/// Bytes of a statement that are shown.
const STATEMENT_BYTES: usize = 1024;

pub(crate) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn pointer(xid: &Option<frond_xid>) -> *const frond_xid {
    xid.as_ref().map_or(ptr::null(), ptr::from_ref)
}

fn name(xid: &Option<Xid>) -> Option<frond_xid> {
    xid.as_ref().map(frond_xid::of)
}

fn mode(mode: LockMode) -> u32 {
    match mode {
        LockMode::IS => FROND_MODE_INTENTION_SHARED,
        LockMode::IX => FROND_MODE_INTENTION_EXCLUSIVE,
        LockMode::S => FROND_MODE_SHARED,
        LockMode::X => FROND_MODE_EXCLUSIVE,
    }
}

fn kind(kind: LockKind) -> u32 {
    match kind {
        LockKind::Row => FROND_KIND_ROW,
        LockKind::Index => FROND_KIND_INDEX,
        LockKind::Range => FROND_KIND_RANGE,
    }
}

pub(crate) fn text(s: &str) -> CString {
    CString::new(s.replace('\0', "\u{fffd}")).unwrap_or_default()
}

/// Table, index and key for C.
struct Texts([CString; 3]);

impl Texts {
    fn of(place: &LockPlace) -> Texts {
        Texts([&place.table, &place.index, &place.key].map(|s| text(s)))
    }

    fn pointers(&self) -> [*const c_char; 3] {
        [self.0[0].as_ptr(), self.0[1].as_ptr(), self.0[2].as_ptr()]
    }
}

#[no_mangle]
pub unsafe extern "C" fn frond_each_transaction(
    db: *mut frond_db,
    emit: Option<EmitTransaction>,
    ctx: *mut c_void,
) -> c_int {
    guard(|| {
        // SAFETY: A2.
        let db = unsafe { handle(db, "db") }?;
        let emit = emit.ok_or_else(|| invalid("emit is NULL"))?;
        db.engine.each_transaction(&mut |t| {
            let xid = name(&t.xid);
            let info = frond_transaction_info {
                id: t.id,
                connection: t.connection,
                age_micros: micros(t.age),
                // 0 means that it does not wait.
                wait_micros: t.waits.map_or(0, |waits| micros(waits).max(1)),
                changes: t.changes,
                locks: t.locks,
                xid: pointer(&xid),
                state: match t.state {
                    TransactionState::Running => FROND_TRANSACTION_RUNNING,
                    TransactionState::Waiting => FROND_TRANSACTION_WAITING,
                    TransactionState::Prepared => FROND_TRANSACTION_PREPARED,
                    TransactionState::Detached => FROND_TRANSACTION_DETACHED,
                },
                reserved: 0,
            };
            emit(ctx, &info) == 0
        });
        Ok(FROND_OK)
    })
}

#[no_mangle]
pub unsafe extern "C" fn frond_each_lock(
    db: *mut frond_db,
    emit: Option<EmitLock>,
    ctx: *mut c_void,
) -> c_int {
    guard(|| {
        // SAFETY: A2.
        let db = unsafe { handle(db, "db") }?;
        let emit = emit.ok_or_else(|| invalid("emit is NULL"))?;
        db.engine.each_lock(&mut |lock| {
            let texts = Texts::of(&lock.place);
            let [table, index, key] = texts.pointers();
            let info = frond_lock_info {
                transaction: lock.transaction,
                connection: lock.connection,
                mode: mode(lock.mode),
                kind: kind(lock.place.kind),
                table,
                index,
                key,
            };
            emit(ctx, &info) == 0
        });
        Ok(FROND_OK)
    })
}

#[no_mangle]
pub unsafe extern "C" fn frond_each_lock_wait(
    db: *mut frond_db,
    emit: Option<EmitLockWait>,
    ctx: *mut c_void,
) -> c_int {
    guard(|| {
        // SAFETY: A2.
        let db = unsafe { handle(db, "db") }?;
        let emit = emit.ok_or_else(|| invalid("emit is NULL"))?;
        db.engine.each_lock_wait(&mut |wait| {
            let texts = Texts::of(&wait.place);
            let [table, index, key] = texts.pointers();
            let xid = name(&wait.blocker_xid);
            let info = frond_lock_wait_info {
                waiter: wait.waiter,
                waiter_connection: wait.waiter_connection,
                blocker: wait.blocker,
                blocker_connection: wait.blocker_connection,
                blocker_xid: pointer(&xid),
                wait_micros: micros(wait.waits),
                mode: mode(wait.mode),
                kind: kind(wait.place.kind),
                table,
                index,
                key,
            };
            emit(ctx, &info) == 0
        });
        Ok(FROND_OK)
    })
}

#[no_mangle]
pub unsafe extern "C" fn frond_each_table(
    db: *mut frond_db,
    emit: Option<EmitTable>,
    ctx: *mut c_void,
) -> c_int {
    guard(|| {
        // SAFETY: A2.
        let db = unsafe { handle(db, "db") }?;
        let emit = emit.ok_or_else(|| invalid("emit is NULL"))?;
        db.engine.each_table(&mut |t| {
            let (table, file) = (text(&t.name), text(&t.file));
            let info = frond_table_info {
                table: table.as_ptr(),
                file: file.as_ptr(),
                id: t.id,
                indexes: t.indexes,
                rows: t.statistics.rows,
                data_bytes: t.statistics.data_bytes,
                index_bytes: t.statistics.index_bytes,
                file_bytes: t.statistics.file_bytes,
                free_bytes: t.statistics.free_bytes,
                auto_increment: t.auto_increment,
            };
            emit(ctx, &info) == 0
        });
        Ok(FROND_OK)
    })
}

#[no_mangle]
pub unsafe extern "C" fn frond_each_tree(
    db: *mut frond_db,
    emit: Option<EmitTree>,
    ctx: *mut c_void,
) -> c_int {
    guard(|| {
        // SAFETY: A2.
        let db = unsafe { handle(db, "db") }?;
        let emit = emit.ok_or_else(|| invalid("emit is NULL"))?;
        db.engine.each_tree(&mut |t| {
            let (table, index) = (text(&t.table), text(&t.index));
            let s = &t.stats;
            let info = frond_tree_info {
                table: table.as_ptr(),
                index: index.as_ptr(),
                tree: t.number,
                levels: u32::try_from(s.height).unwrap_or(u32::MAX),
                leaves: s.leaves,
                inner_nodes: s.inner_nodes,
                runs: s.runs,
                entries: s.entries,
                tombstones: s.tombstones,
                stored_bytes: s.run_bytes,
                logical_bytes: s.logical_bytes,
                buffered_entries: s.buffered_entries,
                buffered_bytes: s.buffered_bytes,
                debt_bytes: s.debt.total(),
                bytes_written: s.bytes_written,
                entries_written: s.entries_written,
                entries_flushed: s.entries_flushed,
            };
            emit(ctx, &info) == 0
        });
        Ok(FROND_OK)
    })
}

struct Hooks(frond_wait_hooks);
// SAFETY: the header says which thread calls each hook; the context is the caller's, for all of them.
unsafe impl Send for Hooks {}
// SAFETY: as above.
unsafe impl Sync for Hooks {}

impl WaitHooks for Hooks {
    fn waits(&self, waiter: u64, holders: &[u64]) {
        if let Some(call) = self.0.waits {
            call(self.0.ctx, waiter, holders.as_ptr(), holders.len());
        }
    }

    fn waited(&self, waiter: u64) {
        if let Some(call) = self.0.waited {
            call(self.0.ctx, waiter);
        }
    }

    fn victim(&self, a: u64, b: u64) -> i32 {
        self.0.victim.map_or(0, |call| call(self.0.ctx, a, b))
    }

    fn statement(&self, connection: u64) -> String {
        let Some(call) = self.0.statement else { return String::new() };
        let mut text = vec![0u8; STATEMENT_BYTES];
        let written = call(self.0.ctx, connection, text.as_mut_ptr().cast(), text.len());
        text.truncate(written);
        String::from_utf8_lossy(&text).into_owned()
    }
}

#[no_mangle]
pub unsafe extern "C" fn frond_set_wait_hooks(
    db: *mut frond_db,
    hooks: *const frond_wait_hooks,
) -> c_int {
    guard(|| {
        // SAFETY: A2.
        let (db, hooks) = unsafe { (handle(db, "db")?, handle(hooks, "hooks")?) };
        if hooks.struct_size as usize != size_of::<frond_wait_hooks>() {
            return Err(invalid("hooks.struct_size is not that of this release"));
        }
        if !db.engine.set_wait_hooks(Box::new(Hooks(*hooks))) {
            return Err(invalid("the database has hooks already"));
        }
        Ok(FROND_OK)
    })
}
