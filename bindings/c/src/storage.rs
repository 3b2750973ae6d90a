//! Indexes, files, what is in the page cache, background work; and what a thread reads.

use std::ffi::{c_int, c_void};

use frond_engine::{read_counts, Compression, IndexState};

use crate::abi::{
    frond_cached_info, frond_file_info, frond_index_info, frond_job_info, frond_read_counts,
    EmitCached, EmitFile, EmitIndex, EmitJob, FROND_COMPRESSION_LZ4, FROND_COMPRESSION_NONE,
    FROND_COMPRESSION_ZSTD, FROND_OK,
};
use crate::db::frond_db;
use crate::error::{guard, invalid};
use crate::pointers::handle;
use crate::report::{micros, text};

fn compression(of: Compression) -> (u32, i32) {
    match of {
        Compression::None => (FROND_COMPRESSION_NONE, 0),
        Compression::Lz4 => (FROND_COMPRESSION_LZ4, 0),
        Compression::Zstd(level) => (FROND_COMPRESSION_ZSTD, i32::from(level)),
    }
}

#[no_mangle]
pub unsafe extern "C" fn frond_each_index(
    db: *mut frond_db,
    emit: Option<EmitIndex>,
    ctx: *mut c_void,
) -> c_int {
    guard(|| {
        // SAFETY: A2.
        let db = unsafe { handle(db, "db") }?;
        let emit = emit.ok_or_else(|| invalid("emit is NULL"))?;
        db.engine.each_index(&mut |i| {
            let [table, index, columns] = [&i.table, &i.index, &i.columns].map(|s| text(s));
            let (compression, compression_level) = compression(i.def.compression);
            let stats = i.stats.clone().unwrap_or_default();
            let info = frond_index_info {
                table: table.as_ptr(),
                index: index.as_ptr(),
                columns: columns.as_ptr(),
                table_id: i.table_id,
                tree: i.tree,
                unique: i.unique.into(),
                building: (i.def.state == IndexState::Building).into(),
                page_bytes: i.def.page_bytes,
                compression,
                compression_level,
                filter: i.def.filter.into(),
                open: i.stats.is_some().into(),
                reserved: 0,
                entries: stats.entries,
                stored_bytes: stats.run_bytes,
                logical_bytes: stats.logical_bytes,
                buffered_entries: stats.buffered_entries,
                buffered_bytes: stats.buffered_bytes,
            };
            emit(ctx, &info) == 0
        });
        Ok(FROND_OK)
    })
}

#[no_mangle]
pub unsafe extern "C" fn frond_each_file(
    db: *mut frond_db,
    emit: Option<EmitFile>,
    ctx: *mut c_void,
) -> c_int {
    guard(|| {
        // SAFETY: A2.
        let db = unsafe { handle(db, "db") }?;
        let emit = emit.ok_or_else(|| invalid("emit is NULL"))?;
        db.engine.each_file(&mut |f| {
            let (table, file) = (text(&f.table), text(&f.file));
            let stats = f.stats.unwrap_or_default();
            let info = frond_file_info {
                table: table.as_ptr(),
                file: file.as_ptr(),
                table_id: f.table_id,
                open: f.stats.is_some().into(),
                file_bytes: stats.file_bytes,
                used_bytes: stats.used_bytes,
                free_bytes: stats.hole_bytes,
                holes: stats.holes,
                largest_hole: stats.largest_hole,
                given_back_bytes: stats.given_back_bytes,
                blocks: stats.blocks,
                waiting_blocks: stats.waiting_blocks,
                held_bytes: f.held_bytes,
                image_bytes: stats.image_bytes,
                checkpoints: stats.checkpoint_seq,
                checkpoint_lsn: stats.checkpoint_lsn,
            };
            emit(ctx, &info) == 0
        });
        Ok(FROND_OK)
    })
}

#[no_mangle]
pub unsafe extern "C" fn frond_each_cached(
    db: *mut frond_db,
    emit: Option<EmitCached>,
    ctx: *mut c_void,
) -> c_int {
    guard(|| {
        // SAFETY: A2.
        let db = unsafe { handle(db, "db") }?;
        let emit = emit.ok_or_else(|| invalid("emit is NULL"))?;
        db.engine.each_cached(&mut |c| {
            let (table, index) = (text(&c.table), text(&c.index));
            let info = frond_cached_info {
                table: table.as_ptr(),
                index: index.as_ptr(),
                known: c.tree.is_some().into(),
                tree: c.tree.unwrap_or_default(),
                pages: c.held.pages,
                bytes: c.held.bytes,
            };
            emit(ctx, &info) == 0
        });
        Ok(FROND_OK)
    })
}

#[no_mangle]
pub unsafe extern "C" fn frond_each_job(
    db: *mut frond_db,
    emit: Option<EmitJob>,
    ctx: *mut c_void,
) -> c_int {
    guard(|| {
        // SAFETY: A2.
        let db = unsafe { handle(db, "db") }?;
        let emit = emit.ok_or_else(|| invalid("emit is NULL"))?;
        db.engine.each_job(&mut |j| {
            let texts = [j.kind, j.state, &j.table, &j.index, &j.details].map(text);
            let [kind, state, table, index, details] = texts.each_ref().map(|t| t.as_ptr());
            let info = frond_job_info {
                kind,
                state,
                table,
                index,
                details,
                // 0 means that it waits.
                age_micros: j.age.map_or(0, |age| micros(age).max(1)),
                bytes: j.bytes,
                bytes_written: j.bytes_written,
            };
            emit(ctx, &info) == 0
        });
        Ok(FROND_OK)
    })
}

#[no_mangle]
pub extern "C" fn frond_reads_begin() -> c_int {
    read_counts::begin().into()
}

#[no_mangle]
pub unsafe extern "C" fn frond_reads_end(counts: *mut frond_read_counts) {
    let now = read_counts::end();
    let counted = frond_read_counts {
        accessed: now.accessed,
        from_file: now.from_file,
        read_ahead: now.read_ahead,
        nanos: u64::try_from(now.time.as_nanos()).unwrap_or(u64::MAX),
    };
    if !counts.is_null() {
        // SAFETY: A2.
        unsafe { counts.write(counted) };
    }
}
