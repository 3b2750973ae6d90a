//! Changing a definition in place.

use std::ffi::{c_int, c_void};

use frond_base::Result;
use frond_engine::{AddedForeigns, Alter, AlterSpec, IndexDef, Pages, Violation};
use frond_row::{ColumnPlace, DefaultValue, RecordLayout, Schema};

use super::bind::{frond_rows, put_ref, ServerBlobs};
use super::spec::{described, Described};
use crate::abi::{frond_alter_spec, frond_column_layout, frond_index_spec, Report};
use crate::abi::{FROND_COMPRESSION_DEFAULT, FROND_DUPLICATE_KEY, FROND_NEW, FROND_OK};
use crate::error::{guard, guard_or, invalid};
use crate::foreign::{foreigns, names};
use crate::pointers::{array, bytes, handle, handle_mut, put};
use crate::table::frond_table;

/// A change under way.
pub struct frond_alter {
    alter: Alter,
}

fn sources(from: &[i32]) -> Result<Vec<Option<usize>>> {
    let source = |n: &i32| match *n {
        FROND_NEW => Ok(None),
        n => usize::try_from(n).map(Some).map_err(|_| invalid("a source below FROND_NEW")),
    };
    from.iter().map(source).collect()
}

/// The values that existing rows get in new columns.
///
/// # Safety
/// A2 for the pointers inside.
unsafe fn take_defaults(
    spec: &frond_alter_spec,
    column_from: &[Option<usize>],
    schema: &mut Schema,
) -> Result<()> {
    if !column_from.contains(&None) {
        return Ok(());
    }
    let n = schema.columns.len() as u32;
    // SAFETY: A2.
    let (record, layout) = unsafe {
        (
            bytes(spec.defaults, spec.record_bytes as usize, "defaults")?,
            array(spec.layout, n, "layout")?,
        )
    };
    let columns = schema.columns.iter().zip(layout);
    let place = |(c, l): (&frond_row::Column, &frond_column_layout)| ColumnPlace {
        offset: l.offset,
        null: c.nullable.then_some((l.null_offset, l.null_mask)),
    };
    let layout = RecordLayout::new(spec.record_bytes, columns.map(place).collect());
    for (n, _) in column_from.iter().enumerate().filter(|(_, from)| from.is_none()) {
        let content = schema.content_of(&layout, n, record, &ServerBlobs)?;
        schema.columns[n].default = content.map_or(DefaultValue::Empty, DefaultValue::Bytes);
    }
    Ok(())
}

/// What an index that the table has already is given: nothing where the description leaves it open.
fn pages(spec: &frond_index_spec, def: &IndexDef) -> Pages {
    Pages {
        page_bytes: (spec.page_bytes != 0).then_some(def.page_bytes),
        compression: (spec.compression != FROND_COMPRESSION_DEFAULT).then_some(def.compression),
    }
}

/// # Safety
/// A2 for the pointers inside.
unsafe fn altered(spec: *const frond_alter_spec) -> Result<AlterSpec> {
    // SAFETY: A2.
    let spec = unsafe { handle(spec, "spec") }?;
    if spec.struct_size as usize != size_of::<frond_alter_spec>() {
        return Err(invalid("spec.struct_size is not that of this release"));
    }
    // SAFETY: A2.
    let table = unsafe { handle(spec.table, "spec.table") }?;
    // SAFETY: A2.
    let Described { mut schema, indexes, meta } = unsafe { described(table) }?;
    // SAFETY: A2.
    let (index_from, column_from) = unsafe {
        (
            sources(array(spec.index_from, table.index_count, "index_from")?)?,
            sources(array(spec.column_from, table.column_count, "column_from")?)?,
        )
    };
    // SAFETY: A2.
    unsafe { take_defaults(spec, &column_from, &mut schema) }?;
    // SAFETY: A2.
    let foreigns_gone = unsafe { names(spec.foreigns_gone, spec.foreigns_gone_count) }?;
    // SAFETY: A2, for what is inside too.
    let foreigns = unsafe { foreigns(spec.foreigns_new, spec.foreigns_new_count) }?;
    let foreigns_new = AddedForeigns { foreigns, unchecked: spec.foreigns_unchecked != 0 };
    // SAFETY: A2.
    let described = unsafe { array(table.indexes, table.index_count, "indexes") }?;
    let pages = described.iter().zip(&indexes).map(|(spec, def)| pages(spec, def)).collect();
    Ok(AlterSpec {
        schema,
        index_from,
        column_from,
        storage: indexes,
        pages,
        meta: meta.to_vec(),
        foreigns_gone,
        foreigns_new,
    })
}

#[no_mangle]
pub unsafe extern "C" fn frond_alter_check(
    table: *mut frond_table,
    spec: *const frond_alter_spec,
) -> c_int {
    guard(|| {
        // SAFETY: A2.
        let (table, spec) = unsafe { (handle(table, "table")?, altered(spec)?) };
        table.engine.check_alter(&table.table, &spec)?;
        Ok(FROND_OK)
    })
}

#[no_mangle]
pub unsafe extern "C" fn frond_alter_begin(
    table: *mut frond_table,
    spec: *const frond_alter_spec,
    alter: *mut *mut frond_alter,
) -> c_int {
    guard(|| {
        // SAFETY: A2.
        let (table, spec) = unsafe { (handle(table, "table")?, altered(spec)?) };
        let begun = table.engine.alter_table(&table.table, spec)?;
        // SAFETY: A2.
        unsafe { put(alter, Box::into_raw(Box::new(frond_alter { alter: begun })), "alter") }?;
        Ok(FROND_OK)
    })
}

/// Tells the caller of a violation.
///
/// # Safety
/// A2 for the pointers.
unsafe fn tell(
    found: Option<Violation>,
    rows: &frond_rows,
    duplicate: *mut u32,
    reference: *mut u8,
) -> Result<c_int> {
    let Some(found) = found else { return Ok(FROND_OK) };
    // SAFETY: A2.
    unsafe { put(duplicate, found.index as u32, "duplicate") }?;
    if !reference.is_null() && rows.ref_bytes > 0 {
        // SAFETY: A2, room for `ref_bytes` bytes.
        unsafe { put_ref(reference, rows.ref_bytes, &found.primary_key) }?;
    }
    Ok(FROND_DUPLICATE_KEY)
}

#[no_mangle]
pub unsafe extern "C" fn frond_alter_build(
    alter: *mut frond_alter,
    rows: *mut frond_rows,
    progress: Option<Report>,
    ctx: *mut c_void,
    duplicate: *mut u32,
    r#ref: *mut u8,
) -> c_int {
    guard(|| {
        // SAFETY: A2.
        let (alter, rows) = unsafe { (handle_mut(alter, "alter")?, handle(rows, "rows")?) };
        let mut going_on = |done, total| progress.is_none_or(|tell| tell(ctx, done, total) == 0);
        let found = alter.alter.build(&rows.rows, &mut going_on)?;
        // SAFETY: A2.
        unsafe { tell(found, rows, duplicate, r#ref) }
    })
}

#[no_mangle]
pub unsafe extern "C" fn frond_alter_commit(
    alters: *const *mut frond_alter,
    rows: *const *mut frond_rows,
    count: u32,
    failed: *mut u32,
    duplicate: *mut u32,
    r#ref: *mut u8,
) -> c_int {
    guard(|| {
        // SAFETY: A2.
        let (alters, rows) =
            unsafe { (array(alters, count, "alters")?, array(rows, count, "rows")?) };
        if alters.iter().any(|alter| alter.is_null()) {
            return Err(invalid("an alter is NULL"));
        }
        // SAFETY: A2, live handles given up by the caller.
        let all = alters.iter().map(|alter| unsafe { Box::from_raw(*alter) }.alter).collect();
        let Some((n, violation)) = Alter::commit_all(all)? else { return Ok(FROND_OK) };
        // SAFETY: A2.
        unsafe {
            put(failed, n as u32, "failed")?;
            tell(Some(violation), handle(rows[n], "rows")?, duplicate, r#ref)
        }
    })
}

#[no_mangle]
pub unsafe extern "C" fn frond_alter_abort(alter: *mut frond_alter) {
    guard_or((), || {
        if !alter.is_null() {
            // SAFETY: A2, a live handle given up by the caller.
            drop(unsafe { Box::from_raw(alter) });
        }
    });
}
