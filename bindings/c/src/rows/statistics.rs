//! Samples of indexes, for an optimizer.

use std::ffi::c_int;

use super::bind::frond_rows;
use crate::abi::{frond_part_statistics, FROND_OK};
use crate::error::{guard, guard_or, invalid};
use crate::pointers::{handle, put};
use crate::table::frond_table;

#[no_mangle]
pub unsafe extern "C" fn frond_table_statistics_number(table: *mut frond_table) -> u64 {
    guard_or(0, || {
        // SAFETY: A2.
        let table = unsafe { handle(table, "table") };
        table.map_or(0, |table| table.table.key_statistics_number())
    })
}

#[no_mangle]
pub unsafe extern "C" fn frond_table_analyze(table: *mut frond_table) -> c_int {
    guard(|| {
        // SAFETY: A2.
        let table = unsafe { handle(table, "table") }?;
        table.engine.analyze_table(&table.table)?;
        Ok(FROND_OK)
    })
}

#[no_mangle]
pub unsafe extern "C" fn frond_table_sample_small(table: *mut frond_table) -> c_int {
    guard(|| {
        // SAFETY: A2.
        let table = unsafe { handle(table, "table") }?;
        table.engine.sample_if_small(&table.table)?;
        Ok(FROND_OK)
    })
}

#[no_mangle]
pub unsafe extern "C" fn frond_rows_statistics(
    rows: *mut frond_rows,
    index: u32,
    parts: *mut frond_part_statistics,
    most: u32,
    count: *mut u32,
    table_rows: *mut u64,
) -> c_int {
    guard(|| {
        // SAFETY: A2.
        let rows = &unsafe { handle(rows, "rows") }?.rows;
        let index = index as usize;
        if index >= rows.indexes() || parts.is_null() {
            return Err(invalid("there is no such index, or parts is NULL"));
        }
        let known = rows.table().key_statistics().1;
        let found = known.as_ref().and_then(|k| k.of_tree(rows.tree_no(index))).unwrap_or_default();
        let found = &found[..found.len().min(most as usize)];
        for (i, p) in found.iter().enumerate() {
            let (distinct, distinct_nulls, nulls) = (p.distinct, p.distinct_nulls, p.nulls);
            // SAFETY: A2, room for `most` structures.
            unsafe {
                parts.add(i).write(frond_part_statistics { distinct, distinct_nulls, nulls })
            };
        }
        // SAFETY: A2.
        unsafe {
            put(count, found.len() as u32, "count")?;
            put(table_rows, known.map_or(0, |k| k.rows), "table_rows")?;
        }
        Ok(FROND_OK)
    })
}
