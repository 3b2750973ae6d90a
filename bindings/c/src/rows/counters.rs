//! Counters, statistics and maintenance.

use std::ffi::{c_int, c_void, CString};

use frond_base::{ErrorKind, Result};
use frond_engine::rows::Computer;

use super::bind::frond_rows;
use super::compute::ServerComputer;
use crate::abi::{
    frond_range_end, frond_row_computer, frond_table_stats, Ask, EmitText, FROND_AFTER_KEY,
    FROND_KEY_EXACT, FROND_OK,
};
use crate::error::{guard, guard_or, invalid};
use crate::pointers::{bytes, handle, handle_mut, put};
use crate::table::frond_table;
use crate::txn::{frond_txn, inner};

#[no_mangle]
pub unsafe extern "C" fn frond_auto_increment_lock(
    txn: *mut frond_txn,
    table: *mut frond_table,
) -> c_int {
    guard(|| {
        // SAFETY: A2.
        let (inner, table) = unsafe { (inner(txn)?, handle(table, "table")?) };
        inner.txn.lock_auto_increment(&table.table)?;
        Ok(FROND_OK)
    })
}

#[no_mangle]
pub unsafe extern "C" fn frond_auto_increment_reserve(
    txn: *mut frond_txn,
    table: *mut frond_table,
    offset: u64,
    increment: u64,
    wanted: u64,
    first: *mut u64,
    count: *mut u64,
) -> c_int {
    guard(|| {
        // SAFETY: A2.
        let (inner, table) = unsafe { (inner(txn)?, handle(table, "table")?) };
        let series = (offset, increment);
        let (from, n) = inner.txn.reserve_auto_increment(&table.table, series, wanted)?;
        // SAFETY: A2.
        unsafe {
            put(first, from, "first")?;
            put(count, n, "count")?;
        }
        Ok(FROND_OK)
    })
}

#[no_mangle]
pub unsafe extern "C" fn frond_auto_increment_used(
    txn: *mut frond_txn,
    table: *mut frond_table,
    used: u64,
) -> c_int {
    guard(|| {
        // SAFETY: A2.
        let (inner, table) = unsafe { (inner(txn)?, handle(table, "table")?) };
        inner.txn.auto_increment_used(&table.table, used)?;
        Ok(FROND_OK)
    })
}

#[no_mangle]
pub unsafe extern "C" fn frond_auto_increment_get(table: *mut frond_table) -> u64 {
    guard_or(0, || {
        // SAFETY: A2.
        unsafe { handle(table.cast_const(), "table") }.map_or(0, |t| t.table.auto_increment())
    })
}

#[no_mangle]
pub unsafe extern "C" fn frond_auto_increment_set(table: *mut frond_table, next: u64) -> c_int {
    guard(|| {
        // SAFETY: A2.
        let table = unsafe { handle(table, "table") }?;
        table.engine.set_auto_increment(&table.table, next)?;
        Ok(FROND_OK)
    })
}

#[no_mangle]
pub unsafe extern "C" fn frond_table_statistics(
    table: *mut frond_table,
    stats: *mut frond_table_stats,
) -> c_int {
    guard(|| {
        // SAFETY: A2.
        let (table, stats) = unsafe { (handle(table, "table")?, handle_mut(stats, "stats")?) };
        if stats.struct_size as usize != size_of::<frond_table_stats>() {
            return Err(invalid("stats.struct_size is not that of this release"));
        }
        let s = match stats.with_file {
            0 => table.table.sizes(),
            _ => table.table.statistics(),
        };
        stats.rows = s.rows;
        stats.data_bytes = s.data_bytes;
        stats.index_bytes = s.index_bytes;
        stats.file_bytes = s.file_bytes;
        stats.free_bytes = s.free_bytes;
        stats.changes = s.changes;
        stats.updated = s.updated;
        stats.auto_increment = table.table.auto_increment();
        Ok(FROND_OK)
    })
}

/// The tree key at which a range begins (or ends, exclusively); `None` is open.
///
/// # Safety
/// A2 for the pointers.
unsafe fn bound(
    rows: &frond_rows,
    index: usize,
    end: *const frond_range_end,
    after_matches: impl Fn(i32) -> bool,
) -> Result<Option<Vec<u8>>> {
    if end.is_null() {
        return Ok(None);
    }
    // SAFETY: A2.
    let end = unsafe { handle(end, "range end") }?;
    if end.tuple.is_null() {
        return Ok(None);
    }
    // SAFETY: A2.
    let tuple = unsafe { bytes(end.tuple, end.tuple_len, "tuple") }?;
    let mut key = Vec::new();
    rows.rows.codec().tuple_key(index, tuple, end.parts as usize, &mut key)?;
    if after_matches(end.how) && !frond_row::prefix_end(&mut key) {
        return Ok(None);
    }
    Ok(Some(key))
}

#[no_mangle]
pub unsafe extern "C" fn frond_rows_in_range(
    rows: *mut frond_rows,
    index: u32,
    low: *const frond_range_end,
    high: *const frond_range_end,
    count: *mut u64,
) -> c_int {
    guard(|| {
        // SAFETY: A2.
        let rows = unsafe { handle(rows, "rows") }?;
        let index = index as usize;
        if index >= rows.rows.indexes() {
            return Err(invalid("there is no such index"));
        }
        // SAFETY: A2.
        let (lo, hi) = unsafe {
            (
                // `> tuple` starts after everything that matches it.
                bound(rows, index, low, |how| how == FROND_AFTER_KEY)?,
                // `<= tuple` (AFTER_KEY in the server's words, or EXACT) ends after the matches, `< tuple`
                // (BEFORE_KEY) where they begin.
                bound(rows, index, high, |how| matches!(how, FROND_KEY_EXACT | FROND_AFTER_KEY))?,
            )
        };
        let estimate = rows.rows.estimate(index, lo.as_deref(), hi.as_deref());
        // SAFETY: A2.
        unsafe { put(count, estimate, "count") }?;
        Ok(FROND_OK)
    })
}

#[no_mangle]
pub unsafe extern "C" fn frond_table_optimize(
    table: *mut frond_table,
    killed: Option<Ask>,
    ctx: *mut c_void,
) -> c_int {
    guard(|| {
        // SAFETY: A2.
        let table = unsafe { handle(table, "table") }?;
        table
            .engine
            .optimize_table(&table.table, &mut || killed.is_some_and(|killed| killed(ctx) != 0))?;
        Ok(FROND_OK)
    })
}

#[no_mangle]
pub unsafe extern "C" fn frond_rows_check(
    table: *mut frond_table,
    rows: *mut frond_rows,
    pages_only: c_int,
    report: Option<EmitText>,
    ctx: *mut c_void,
    computer: *const frond_row_computer,
    problems: *mut u64,
) -> c_int {
    guard(|| {
        // SAFETY: A2.
        let (table, rows) = unsafe { (handle(table, "table")?, handle(rows, "rows")?) };
        // SAFETY: A2, null or a computer that outlives the call.
        let computer = unsafe { computer.as_ref() };
        let mut computer = computer.map(|c| ServerComputer::new(rows.rows.codec(), c));
        let hooks = rows.hooks;
        let mut killed = || hooks.killed();
        let mut outcome = table.engine.check_table_unless(&table.table, &mut killed)?;
        if pages_only == 0 {
            // The check of pages above has reported unreadable pages; such a page ends the check of rows.
            match rows.rows.check(
                &table.engine,
                &mut outcome,
                &mut killed,
                computer.as_mut().map(|c| c as &mut dyn Computer),
            ) {
                Err(e) if e.kind() == ErrorKind::Corruption && !outcome.is_clean() => {}
                done => done?,
            }
        }
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
