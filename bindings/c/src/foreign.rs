//! Foreign keys: definitions, lists, renames.

use std::ffi::{c_char, c_int, c_void, CString};

use frond_base::Result;
use frond_engine::{Action, Foreign, ForeignState, NewForeigns, RenameForeigns};

use crate::abi::*;
use crate::db::frond_db;
use crate::error::{guard, guard_or, invalid};
use crate::pointers::{array, handle, text};
use crate::rows::spec::table_spec;

const ACTIONS: [Action; 4] = [Action::Restrict, Action::NoAction, Action::Cascade, Action::SetNull];
const STATES: [ForeignState; 3] =
    [ForeignState::Active, ForeignState::Adding, ForeignState::Waiting];

fn action(n: u32) -> Result<Action> {
    ACTIONS.get(n as usize).copied().ok_or_else(|| invalid("an action of a foreign key is unknown"))
}

/// # Safety
/// A2 for the `n` names.
pub(crate) unsafe fn names(of: *const *const c_char, n: u32) -> Result<Vec<String>> {
    // SAFETY: A2.
    let of = unsafe { array(of, n, "columns") }?;
    // SAFETY: A2.
    of.iter().map(|name| Ok(unsafe { text(*name, "column name") }?.to_owned())).collect()
}

/// # Safety
/// A2 for the pointers inside.
unsafe fn foreign(f: &frond_foreign) -> Result<Foreign> {
    // SAFETY: A2.
    unsafe {
        Ok(Foreign {
            name: text(f.name, "name of a foreign key")?.to_owned(),
            table: text(f.table, "table of a foreign key")?.to_owned(),
            parent: text(f.parent, "parent of a foreign key")?.to_owned(),
            columns: names(f.columns, f.column_count)?,
            parent_columns: names(f.parent_columns, f.column_count)?,
            on_delete: action(f.on_delete)?,
            on_update: action(f.on_update)?,
            state: STATES
                .get(f.state as usize)
                .copied()
                .ok_or_else(|| invalid("a state of a foreign key is unknown"))?,
        })
    }
}

/// # Safety
/// A2 for the `n` definitions and the pointers inside.
pub(crate) unsafe fn foreigns(of: *const frond_foreign, n: u32) -> Result<Vec<Foreign>> {
    // SAFETY: A2.
    unsafe { array(of, n, "foreigns")?.iter().map(|f| foreign(f)).collect() }
}

#[no_mangle]
pub unsafe extern "C" fn frond_rows_create_child(
    db: *mut frond_db,
    name: *const c_char,
    spec: *const frond_table_spec,
    foreigns: *const frond_foreign,
    count: u32,
    replaces: *const c_char,
    parents_may_miss: c_int,
) -> c_int {
    guard(|| {
        // SAFETY: A2.
        let (db, spec) = unsafe { (handle(db, "db")?, table_spec(name, spec)?) };
        // SAFETY: A2, for what is inside too.
        let foreigns = unsafe { self::foreigns(foreigns, count) }?;
        let replaces = match replaces.is_null() {
            true => None,
            // SAFETY: A2.
            false => Some(unsafe { text(replaces, "replaces") }?.to_owned()),
        };
        let parents_may_miss = parents_may_miss != 0;
        db.engine.create_child(spec, NewForeigns { foreigns, replaces, parents_may_miss })?;
        Ok(FROND_OK)
    })
}

/// A constraint with what C reads of it.
struct ForC {
    name: CString,
    table: CString,
    parent: CString,
    columns: Vec<CString>,
    parent_columns: Vec<CString>,
}

fn for_c(f: &Foreign) -> ForC {
    let text = |s: &String| CString::new(s.as_str()).unwrap_or_default();
    ForC {
        name: text(&f.name),
        table: text(&f.table),
        parent: text(&f.parent),
        columns: f.columns.iter().map(text).collect(),
        parent_columns: f.parent_columns.iter().map(text).collect(),
    }
}

#[no_mangle]
pub unsafe extern "C" fn frond_foreign_list(
    db: *mut frond_db,
    table: *const c_char,
    as_parent: c_int,
    emit: Option<EmitForeign>,
    ctx: *mut c_void,
) -> c_int {
    guard(|| {
        // SAFETY: A2.
        let (db, table) = unsafe { (handle(db, "db")?, text(table, "table")?) };
        let emit = emit.ok_or_else(|| invalid("emit is NULL"))?;
        let (of, naming) = db.engine.foreigns(table);
        for f in if as_parent != 0 { naming } else { of } {
            let c = for_c(&f);
            let (indexes, nullable) = db.engine.foreign_details(&f)?;
            let text = |s: &String| CString::new(s.as_str()).unwrap_or_default();
            let indexes = indexes.as_ref().map(|(child, parent)| (text(child), text(parent)));
            let (child_index, parent_index) = match &indexes {
                Some((child, parent)) => (child.as_ptr(), parent.as_ptr()),
                None => (std::ptr::null(), std::ptr::null()),
            };
            let columns: Vec<*const c_char> = c.columns.iter().map(|s| s.as_ptr()).collect();
            let of_parent: Vec<*const c_char> =
                c.parent_columns.iter().map(|s| s.as_ptr()).collect();
            let shown = frond_foreign {
                name: c.name.as_ptr(),
                table: c.table.as_ptr(),
                parent: c.parent.as_ptr(),
                columns: columns.as_ptr(),
                parent_columns: of_parent.as_ptr(),
                column_count: columns.len() as u32,
                on_delete: f.on_delete as u32,
                on_update: f.on_update as u32,
                state: f.state as u32,
                child_index,
                parent_index,
                nullable: nullable.as_ptr(),
            };
            emit(ctx, &shown);
        }
        Ok(FROND_OK)
    })
}

#[no_mangle]
pub unsafe extern "C" fn frond_foreign_version(db: *mut frond_db) -> u64 {
    guard_or(0, || {
        // SAFETY: A2.
        let Ok(db) = (unsafe { handle(db, "db") }) else { return 0 };
        db.engine.foreign_version()
    })
}

#[no_mangle]
pub unsafe extern "C" fn frond_foreign_drop(
    db: *mut frond_db,
    table: *const c_char,
    name: *const c_char,
) -> c_int {
    guard(|| {
        // SAFETY: A2.
        let (db, table, name) =
            unsafe { (handle(db, "db")?, text(table, "table")?, text(name, "name")?) };
        db.engine.drop_foreign(table, name)?;
        Ok(FROND_OK)
    })
}

#[no_mangle]
pub unsafe extern "C" fn frond_table_rename_child(
    db: *mut frond_db,
    from: *const c_char,
    to: *const c_char,
    how: c_int,
    instead_of: *const c_char,
    prefixes: *const *const c_char,
    prefix_count: u32,
) -> c_int {
    guard(|| {
        // SAFETY: A2.
        let (db, from, to) =
            unsafe { (handle(db, "db")?, text(from, "name")?, text(to, "new name")?) };
        let instead_of = match instead_of.is_null() {
            true => None,
            // SAFETY: A2.
            false => Some(unsafe { text(instead_of, "instead_of") }?.to_owned()),
        };
        let how = match how {
            FROND_RENAME_FOLLOW => RenameForeigns::Follow,
            FROND_RENAME_ASIDE => RenameForeigns::Aside,
            FROND_RENAME_IN_PLACE => RenameForeigns::InPlace { instead_of },
            _ => return Err(invalid("the kind of the rename is unknown")),
        };
        // SAFETY: A2.
        let prefixes = unsafe { names(prefixes, prefix_count) }?;
        let rename = |f: &Foreign| {
            for pair in prefixes.chunks_exact(2) {
                if let Some(rest) = f.name.strip_prefix(pair[0].as_str()) {
                    return format!("{}{rest}", pair[1]);
                }
            }
            f.name.clone()
        };
        db.engine.rename_child(from, to, &how, &rename)?;
        Ok(FROND_OK)
    })
}

#[no_mangle]
pub unsafe extern "C" fn frond_table_check_copy(db: *mut frond_db, name: *const c_char) -> c_int {
    guard(|| {
        // SAFETY: A2.
        let (db, name) = unsafe { (handle(db, "db")?, text(name, "name")?) };
        db.engine.check_copy(name)?;
        Ok(FROND_OK)
    })
}

#[no_mangle]
pub unsafe extern "C" fn frond_table_drop_parent(
    db: *mut frond_db,
    name: *const c_char,
    within: *const c_char,
) -> c_int {
    guard(|| {
        // SAFETY: A2.
        let (db, name, within) =
            unsafe { (handle(db, "db")?, text(name, "name")?, text(within, "within")?) };
        db.engine.drop_parent(name, &|f| f.table.starts_with(within))?;
        Ok(FROND_OK)
    })
}
