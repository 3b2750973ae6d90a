//! Tables: create, open, drop, rename, truncate, list, check.

use std::ffi::{c_char, c_int, c_void, CString};
use std::sync::Arc;

use frond_base::Result;
use frond_engine::{Engine, IndexDef, Table, TableDef, TableSpec};

use crate::abi::{EmitText, FROND_OK};
use crate::db::frond_db;
use crate::error::{guard, invalid};
use crate::pointers::{handle, put, put_new, text};

/// An open table.
pub struct frond_table {
    pub engine: Arc<Engine>,
    pub table: Arc<Table>,
    /// The definition at open; borrowed results point into it.
    pub def: Arc<TableDef>,
}

/// # Safety
/// A2 for both pointers.
pub unsafe fn db_and_name<'a>(
    db: *mut frond_db,
    name: *const c_char,
) -> Result<(&'a Engine, &'a str)> {
    // SAFETY: A2.
    let (db, name) = unsafe { (handle(db, "db")?, text(name, "name")?) };
    Ok((&db.engine, name))
}

#[no_mangle]
pub unsafe extern "C" fn frond_table_create(db: *mut frond_db, name: *const c_char) -> c_int {
    guard(|| {
        // SAFETY: A2.
        let (engine, name) = unsafe { db_and_name(db, name) }?;
        engine.create_table(TableSpec {
            name: name.to_owned(),
            indexes: vec![IndexDef { filter: true, ..IndexDef::plain() }],
            schema: Vec::new(),
            meta: Vec::new(),
            auto_increment: 1,
        })?;
        Ok(FROND_OK)
    })
}

#[no_mangle]
pub unsafe extern "C" fn frond_table_open(
    db: *mut frond_db,
    name: *const c_char,
    table: *mut *mut frond_table,
) -> c_int {
    guard(|| {
        // SAFETY: A2.
        let (db, name) = unsafe { (handle(db, "db")?, text(name, "name")?) };
        let opened = db.engine.open_table(name)?;
        let def = opened.def();
        let object = frond_table { engine: db.engine.clone(), table: opened, def };
        // SAFETY: A2.
        unsafe { put_new(table, object, "table") }?;
        Ok(FROND_OK)
    })
}

#[no_mangle]
pub unsafe extern "C" fn frond_table_close(table: *mut frond_table) {
    if !table.is_null() {
        // SAFETY: A2, a live handle from frond_table_open, given up by the caller.
        drop(unsafe { Box::from_raw(table) });
    }
}

#[no_mangle]
pub unsafe extern "C" fn frond_table_drop(db: *mut frond_db, name: *const c_char) -> c_int {
    guard(|| {
        // SAFETY: A2.
        let (engine, name) = unsafe { db_and_name(db, name) }?;
        engine.drop_table(name)?;
        Ok(FROND_OK)
    })
}

#[no_mangle]
pub unsafe extern "C" fn frond_table_discard(db: *mut frond_db, name: *const c_char) -> c_int {
    guard(|| {
        // SAFETY: A2.
        let (engine, name) = unsafe { db_and_name(db, name) }?;
        engine.discard_table(name)?;
        Ok(FROND_OK)
    })
}

#[no_mangle]
pub unsafe extern "C" fn frond_table_rename(
    db: *mut frond_db,
    from: *const c_char,
    to: *const c_char,
) -> c_int {
    guard(|| {
        // SAFETY: A2.
        let (engine, from) = unsafe { db_and_name(db, from) }?;
        // SAFETY: A2.
        engine.rename_table(from, unsafe { text(to, "new name") }?)?;
        Ok(FROND_OK)
    })
}

#[no_mangle]
pub unsafe extern "C" fn frond_table_truncate(db: *mut frond_db, name: *const c_char) -> c_int {
    guard(|| {
        // SAFETY: A2.
        let (engine, name) = unsafe { db_and_name(db, name) }?;
        engine.truncate_table(name)?;
        Ok(FROND_OK)
    })
}

#[no_mangle]
pub unsafe extern "C" fn frond_table_refuse_older_snapshots(
    db: *mut frond_db,
    name: *const c_char,
) -> c_int {
    guard(|| {
        // SAFETY: A2.
        let (engine, name) = unsafe { db_and_name(db, name) }?;
        engine.refuse_older_snapshots(&*engine.open_table(name)?);
        Ok(FROND_OK)
    })
}

#[no_mangle]
pub unsafe extern "C" fn frond_table_exists(
    db: *mut frond_db,
    name: *const c_char,
    exists: *mut c_int,
) -> c_int {
    guard(|| {
        // SAFETY: A2.
        let (engine, name) = unsafe { db_and_name(db, name) }?;
        // SAFETY: A2.
        unsafe { put(exists, c_int::from(engine.table_exists(name)), "exists") }?;
        Ok(FROND_OK)
    })
}

#[no_mangle]
pub unsafe extern "C" fn frond_table_list(
    db: *mut frond_db,
    emit: Option<EmitText>,
    ctx: *mut c_void,
) -> c_int {
    guard(|| {
        // SAFETY: A2.
        let db = unsafe { handle(db, "db") }?;
        let emit = emit.ok_or_else(|| invalid("emit is NULL"))?;
        for def in db.engine.tables() {
            let name = CString::new(def.name.as_str()).unwrap_or_default();
            emit(ctx, name.as_ptr());
        }
        Ok(FROND_OK)
    })
}

#[no_mangle]
pub unsafe extern "C" fn frond_table_check(
    db: *mut frond_db,
    name: *const c_char,
    report: Option<EmitText>,
    ctx: *mut c_void,
    problems: *mut u64,
) -> c_int {
    guard(|| {
        // SAFETY: A2.
        let (engine, name) = unsafe { db_and_name(db, name) }?;
        let outcome = engine.check_table(name)?;
        for problem in &outcome.problems {
            if let (Some(report), Ok(text)) = (report, CString::new(problem.as_str())) {
                report(ctx, text.as_ptr());
            }
        }
        // SAFETY: A2.
        unsafe { put(problems, outcome.problems.len() as u64, "problems") }?;
        Ok(FROND_OK)
    })
}
