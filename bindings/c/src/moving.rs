//! Exporting and importing tables as files.

use std::ffi::{c_char, c_int, c_void, CStr, CString};

use frond_base::Error;
use frond_engine::{Export, Import, ImportFiles};
use frond_vfs::OsVfs;

use crate::abi::{Ask, CollationName, Report, FROND_OK};
use crate::db::frond_db;
use crate::error::{guard, guard_or, invalid};
use crate::pointers::{handle, put, put_new, text};
use crate::table::{db_and_name, frond_table};

/// An export under way.
pub struct frond_export {
    file: CString,
    description: Vec<u8>,
    _export: Export,
}

/// An import that is not done.
pub struct frond_import {
    import: Import,
}

#[no_mangle]
pub unsafe extern "C" fn frond_export_begin(
    table: *mut frond_table,
    killed: Option<Ask>,
    ctx: *mut c_void,
    export: *mut *mut frond_export,
) -> c_int {
    guard(|| {
        // SAFETY: A2.
        let table = unsafe { handle(table, "table") }?;
        let mut go_on = || killed.is_none_or(|killed| killed(ctx) == 0);
        let begun = table.engine.begin_export(&table.table, &mut go_on)?;
        let file = CString::new(begun.file_name()).unwrap_or_default();
        let description = begun.description().encode();
        // SAFETY: A2.
        unsafe { put_new(export, frond_export { file, description, _export: begun }, "export") }?;
        Ok(FROND_OK)
    })
}

#[no_mangle]
pub unsafe extern "C" fn frond_export_describe(
    export: *const frond_export,
    file: *mut *const c_char,
    description: *mut *const u8,
    len: *mut usize,
) -> c_int {
    guard(|| {
        // SAFETY: A2.
        let export = unsafe { handle(export, "export") }?;
        // SAFETY: A2.
        unsafe {
            put(file, export.file.as_ptr(), "file")?;
            put(description, export.description.as_ptr(), "description")?;
            put(len, export.description.len(), "len")?;
        }
        Ok(FROND_OK)
    })
}

#[no_mangle]
pub unsafe extern "C" fn frond_export_end(export: *mut frond_export) {
    guard_or((), || {
        if !export.is_null() {
            // SAFETY: A2, a live handle given up by the caller.
            drop(unsafe { Box::from_raw(export) });
        }
    });
}

#[no_mangle]
pub unsafe extern "C" fn frond_table_discard_rows(db: *mut frond_db, name: *const c_char) -> c_int {
    guard(|| {
        // SAFETY: A2.
        let (engine, name) = unsafe { db_and_name(db, name) }?;
        engine.discard_rows(name)?;
        Ok(FROND_OK)
    })
}

#[no_mangle]
pub unsafe extern "C" fn frond_table_is_discarded(table: *const frond_table) -> c_int {
    // SAFETY: A2.
    unsafe { table.as_ref() }.map_or(0, |t| c_int::from(t.table.is_discarded()))
}

#[no_mangle]
pub unsafe extern "C" fn frond_import_begin(
    db: *mut frond_db,
    name: *const c_char,
    directory: *const c_char,
    data: *const c_char,
    description: *const c_char,
    collation: Option<CollationName>,
    import: *mut *mut frond_import,
) -> c_int {
    guard(|| {
        // SAFETY: A2.
        let (engine, name) = unsafe { db_and_name(db, name) }?;
        // SAFETY: A2.
        let (directory, data, description) = unsafe {
            (text(directory, "directory")?, text(data, "data")?, text(description, "description")?)
        };
        let vfs = OsVfs::new(directory).map_err(|e| Error::io("open", directory, e))?;
        let named = |number: u32| collation_name(collation, number);
        let files = ImportFiles { vfs: &vfs, data, description };
        let begun = engine.begin_import(name, &files, &named)?;
        // SAFETY: A2.
        unsafe { put_new(import, frond_import { import: begun }, "import") }?;
        Ok(FROND_OK)
    })
}

fn collation_name(collation: Option<CollationName>, number: u32) -> String {
    let name = collation.map(|name| name(number)).filter(|name| !name.is_null());
    // SAFETY: A2, the callback returns NULL or a string that lasts.
    name.map_or(number.to_string(), |n| unsafe { CStr::from_ptr(n) }.to_string_lossy().into())
}

#[no_mangle]
pub unsafe extern "C" fn frond_import_meta(
    import: *const frond_import,
    meta: *mut *const u8,
    len: *mut usize,
) -> c_int {
    guard(|| {
        // SAFETY: A2.
        let bytes = unsafe { handle(import, "import") }?.import.meta();
        // SAFETY: A2.
        unsafe {
            put(meta, bytes.as_ptr(), "meta")?;
            put(len, bytes.len(), "len")?;
        }
        Ok(FROND_OK)
    })
}

#[no_mangle]
pub unsafe extern "C" fn frond_import_run(
    import: *mut frond_import,
    progress: Option<Report>,
    ctx: *mut c_void,
) -> c_int {
    guard(|| {
        if import.is_null() {
            return Err(invalid("import is NULL"));
        }
        // SAFETY: A2, a live handle given up by the caller.
        let import = unsafe { Box::from_raw(import) };
        let mut go_on = |done, total| progress.is_none_or(|tell| tell(ctx, done, total) == 0);
        import.import.run(&mut go_on)?;
        Ok(FROND_OK)
    })
}

#[no_mangle]
pub unsafe extern "C" fn frond_import_abandon(import: *mut frond_import) {
    guard_or((), || {
        if !import.is_null() {
            // SAFETY: A2, a live handle given up by the caller.
            drop(unsafe { Box::from_raw(import) });
        }
    });
}
