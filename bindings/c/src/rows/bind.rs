//! Bindings: callbacks into the server, blobs behind pointers.

use std::ffi::c_int;
use std::sync::Arc;

use frond_base::Result;
use frond_engine::rows::{Condition, Rows, ScanHooks};
use frond_row::{BlobSink, Blobs, ColumnPlace, RecordLayout, SortKeys};

use crate::abi::{
    frond_column_layout, frond_rows_callbacks, FROND_CONDITION_ACCEPT, FROND_CONDITION_END,
    FROND_CONDITION_SKIP, FROND_OK,
};
use crate::error::{guard, guard_or, invalid};
use crate::pointers::{array, handle, put_new};
use crate::table::frond_table;

impl frond_rows_callbacks {
    /// Whether all callbacks are given that the keys of the schema need.
    fn suffice(&self, schema: &frond_row::Schema) -> frond_base::Result<()> {
        let weights = self.weights.is_some() && self.weights_len.is_some();
        let opaque = |c: &frond_row::Column| matches!(c.ty, frond_row::ColumnType::Opaque { .. });
        for c in &schema.columns {
            if matches!(c.sort, frond_row::Sort::Weights(_)) && !weights {
                let what = "callbacks.weights or weights_len is NULL, and column";
                return Err(invalid(&format!("{what} '{}' needs both", c.name)));
            }
            if opaque(c) && self.opaque.is_none() {
                return Err(invalid(&format!(
                    "callbacks.opaque is NULL, and '{}' needs it",
                    c.name
                )));
            }
        }
        Ok(())
    }

    /// Whether the statement was killed.
    pub(super) fn killed(&self) -> bool {
        self.killed.is_some_and(|f| f(self.ctx) != 0)
    }
}

// SAFETY: the header says that weights, weights_len and char_prefix may be called from any thread; the
// others are called only by the thread that uses the binding.
unsafe impl Send for frond_rows_callbacks {}
// SAFETY: as above.
unsafe impl Sync for frond_rows_callbacks {}

/// Callbacks, and the data of the schema that they need.
struct ServerSortKeys {
    callbacks: frond_rows_callbacks,
    /// Sort key bytes of opaque columns, by column.
    opaque: Vec<usize>,
}

impl SortKeys for ServerSortKeys {
    fn weights(&self, charset: u32, level: u8, src: &[u8], out: &mut Vec<u8>) {
        let c = &self.callbacks;
        let (Some(weights), Some(weights_len)) = (c.weights, c.weights_len) else {
            panic!("collation {charset} needs the weights callbacks");
        };
        let from = out.len();
        out.resize(from + weights_len(c.ctx, charset, src.len()), 0);
        let room = &mut out[from..];
        let (to, len, level) = (room.as_mut_ptr(), room.len(), u32::from(level));
        let n = weights(c.ctx, charset, level, src.as_ptr(), src.len(), to, len);
        assert!(n <= len, "the weights callback wrote {n} bytes into {len}");
        out.truncate(from + n);
    }

    fn char_prefix(&self, charset: u32, src: &[u8], chars: usize) -> usize {
        match self.callbacks.char_prefix {
            Some(f) => {
                f(self.callbacks.ctx, charset, src.as_ptr(), src.len(), chars).min(src.len())
            }
            None => chars.min(src.len()),
        }
    }

    fn opaque(&self, column: usize, image: &[u8], out: &mut Vec<u8>) {
        let Some(opaque) = self.callbacks.opaque else {
            panic!("column {column} needs the opaque callback");
        };
        let from = out.len();
        let len = self.opaque.get(column).copied().unwrap_or(0);
        out.resize(from + len, 0);
        let ctx = self.callbacks.ctx;
        opaque(ctx, column as u32, image.as_ptr(), out[from..].as_mut_ptr(), len);
    }
}

/// Blobs of a record in the server's memory: a field ends with a pointer.
pub struct ServerBlobs;

impl Blobs for ServerBlobs {
    fn blob<'a>(&'a self, _column: usize, field: &'a [u8]) -> &'a [u8] {
        let Some((length, pointer)) = field.split_last_chunk::<8>() else { return &[] };
        let mut len = [0u8; 8];
        len[..length.len()].copy_from_slice(length);
        let len = u64::from_le_bytes(len) as usize;
        let p = usize::from_ne_bytes(*pointer) as *const u8;
        if len == 0 || p.is_null() {
            return &[];
        }
        // SAFETY: A2, a blob field of a record image points to as many bytes as its length says, and they
        // stay in place for the duration of the call.
        unsafe { std::slice::from_raw_parts(p, len) }
    }
}

/// A scan's callbacks into the server, and its sink for pointers to blobs.
pub struct Hooks(pub frond_rows_callbacks);

impl BlobSink for Hooks {
    fn put_blob(&mut self, _column: usize, field: &mut [u8], bytes: &[u8]) {
        if let Some(pointer) = field.last_chunk_mut::<8>() {
            // The bytes are the entry's value, which the scan keeps until its next move.
            *pointer = (bytes.as_ptr() as usize).to_ne_bytes();
        }
    }
}

impl ScanHooks for Hooks {
    fn condition(&mut self) -> Condition {
        match self.0.condition.map_or(FROND_CONDITION_ACCEPT, |f| f(self.0.ctx)) {
            FROND_CONDITION_SKIP => Condition::Skip,
            FROND_CONDITION_ACCEPT => Condition::Accept,
            FROND_CONDITION_END => Condition::End,
            _ => Condition::Aborted,
        }
    }

    fn killed(&mut self) -> bool {
        self.0.killed()
    }

    fn blobs(&mut self) -> &mut dyn BlobSink {
        self
    }
}

/// A table bound to the server's record layout.
pub struct frond_rows {
    pub rows: Rows,
    pub hooks: frond_rows_callbacks,
    pub record_bytes: usize,
    /// Number of the row last read or inserted, of a table without a primary key.
    pub row_id: u64,
    pub ref_bytes: usize,
    pub key: Vec<u8>,
}

#[no_mangle]
pub unsafe extern "C" fn frond_rows_bind(
    table: *mut frond_table,
    layout: *const frond_column_layout,
    column_count: u32,
    record_bytes: usize,
    callbacks: *const frond_rows_callbacks,
    rows: *mut *mut frond_rows,
) -> c_int {
    guard(|| {
        // SAFETY: A2.
        let (table, layout, callbacks) = unsafe {
            (
                handle(table, "table")?,
                array(layout, column_count, "layout")?,
                handle(callbacks, "callbacks")?,
            )
        };
        if callbacks.struct_size as usize != size_of::<frond_rows_callbacks>() {
            return Err(invalid("callbacks.struct_size is not that of this release"));
        }
        let def = table.table.def();
        let schema = frond_row::Schema::decode(&def.schema, &def.name)?;
        callbacks.suffice(&schema)?;
        let opaque_bytes = |c: &frond_row::Column| match c.ty {
            frond_row::ColumnType::Opaque { key_bytes } => usize::from(key_bytes),
            _ => 0,
        };
        let sort_keys = ServerSortKeys {
            callbacks: *callbacks,
            opaque: schema.columns.iter().map(opaque_bytes).collect(),
        };
        let place = |(c, l): (&frond_row::Column, &frond_column_layout)| ColumnPlace {
            offset: l.offset,
            null: c.nullable.then_some((l.null_offset, l.null_mask)),
        };
        if schema.columns.len() != layout.len() {
            return Err(invalid(&format!(
                "table '{}' has {} columns, the layout {}",
                def.name,
                schema.columns.len(),
                layout.len()
            )));
        }
        let record_layout = RecordLayout::new(
            u32::try_from(record_bytes).map_err(|_| invalid("record too long"))?,
            schema.columns.iter().zip(layout).map(place).collect(),
        );
        let bound = Rows::bind(table.table.clone(), record_layout, Arc::new(sort_keys))?;
        bound.codec().check_collations()?;
        let ref_bytes = match longest_primary_key(&schema, callbacks) {
            n if n <= REF_KEY_MAX => 2 + n,
            _ => 0,
        };
        let object = frond_rows {
            rows: bound,
            hooks: *callbacks,
            record_bytes,
            row_id: 0,
            ref_bytes,
            key: Vec::new(),
        };
        // SAFETY: A2.
        unsafe { put_new(rows, object, "rows") }?;
        Ok(FROND_OK)
    })
}

/// When primary keys may be longer than this there are no references: the server sorts and stores
/// references at their greatest length.
const REF_KEY_MAX: usize = 3500;

/// An upper bound of the bytes of a primary key.
fn longest_primary_key(schema: &frond_row::Schema, callbacks: &frond_rows_callbacks) -> usize {
    if schema.hidden_primary {
        return 8;
    }
    let part = |p: &frond_row::Part| {
        let c = &schema.columns[usize::from(p.column)];
        let image = p.prefix.map_or(c.bytes as usize, |x| usize::from(x.bytes));
        let fixed = matches!(c.sort, frond_row::Sort::Binary)
            && !matches!(
                c.ty,
                frond_row::ColumnType::VarChar { .. } | frond_row::ColumnType::Blob { .. }
            );
        match c.ty {
            frond_row::ColumnType::Opaque { key_bytes } => 1 + usize::from(key_bytes),
            _ if fixed => 1 + image,
            // Bytes may be escaped, and each unit followed by a marker.
            _ => match (&c.sort, callbacks.weights_len) {
                (frond_row::Sort::Weights(levels), Some(weights_len)) => {
                    let weights = weights_len(callbacks.ctx, c.charset, image);
                    // A weight of two bytes has a code of three at most, and two of these may be spaces.
                    let codes = levels.iter().filter(|l| l.codes.is_some()).count();
                    2 + levels.len() * (2 * weights + 2) + codes * weights.div_ceil(2)
                }
                (frond_row::Sort::Weights(_), None) => frond_engine::KEY_BYTES_MAX,
                _ => 2 * image + 4,
            },
        }
    };
    let sum: usize = schema.indexes[0].parts.iter().map(part).sum();
    sum.min(frond_engine::KEY_BYTES_MAX)
}

#[no_mangle]
pub unsafe extern "C" fn frond_rows_unbind(rows: *mut frond_rows) {
    if !rows.is_null() {
        // SAFETY: A2, a live handle given up by the caller.
        drop(unsafe { Box::from_raw(rows) });
    }
}

#[no_mangle]
pub unsafe extern "C" fn frond_rows_covers(
    rows: *const frond_rows,
    index: u32,
    column: u32,
) -> c_int {
    guard_or(0, || {
        // SAFETY: A2.
        let Ok(rows) = (unsafe { handle(rows, "rows") }) else { return 0 };
        let codec = rows.rows.codec();
        let (index, column) = (index as usize, column as usize);
        let known = index < rows.rows.indexes() && column < codec.columns();
        c_int::from(known && codec.covers(index, column))
    })
}

#[no_mangle]
pub unsafe extern "C" fn frond_rows_ref_bytes(rows: *const frond_rows) -> usize {
    // SAFETY: A2.
    guard_or(0, || unsafe { handle(rows, "rows") }.map_or(0, |rows| rows.ref_bytes))
}

/// Writes a reference: 2-byte length, key, zeros up to `ref_bytes`.
///
/// # Safety
/// `out` is NULL or has room for `ref_bytes` bytes.
pub unsafe fn put_ref(out: *mut u8, ref_bytes: usize, key: &[u8]) -> Result<()> {
    if out.is_null() || key.len() + 2 > ref_bytes {
        return Err(invalid("ref is NULL, or a primary key is longer than it can be"));
    }
    // SAFETY: the caller's contract.
    let out = unsafe { std::slice::from_raw_parts_mut(out, ref_bytes) };
    out.fill(0);
    out[..2].copy_from_slice(&(key.len() as u16).to_le_bytes());
    out[2..2 + key.len()].copy_from_slice(key);
    Ok(())
}

/// The key inside a reference.
///
/// # Safety
/// `reference` is NULL or was written by [`put_ref`].
pub unsafe fn ref_key<'a>(reference: *const u8) -> Result<&'a [u8]> {
    if reference.is_null() {
        return Err(invalid("ref is NULL"));
    }
    // SAFETY: the caller's contract: a length of 2 bytes, and that many bytes after it.
    unsafe {
        let len = u16::from_le_bytes([*reference, *reference.add(1)]);
        Ok(std::slice::from_raw_parts(reference.add(2), usize::from(len)))
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::c_void;

    use frond_row::{Column, ColumnType, Index, Part, Schema, Sort, WeightLevel};

    use super::*;

    extern "C" fn weights(
        _: *mut c_void,
        _: u32,
        _: u32,
        _: *const u8,
        _: usize,
        _: *mut u8,
        _: usize,
    ) -> usize {
        0
    }

    extern "C" fn weights_len(_: *mut c_void, _: u32, len: usize) -> usize {
        len
    }

    extern "C" fn opaque(_: *mut c_void, _: u32, _: *const u8, _: *mut u8, _: usize) {}

    /// A leaked binding would hold the table, and so its memory and its file, until the process ends.
    #[test]
    fn a_binding_without_a_place_for_it_leaves_nothing_behind() {
        let options = frond_engine::Options { background_threads: 0, ..Default::default() };
        let vfs = Arc::new(frond_vfs::MemVfs::stepped());
        let engine = Arc::new(frond_engine::Engine::open(vfs, options).unwrap());
        let part = Part { column: 0, prefix: None, descending: false };
        let schema = Schema {
            version: 1,
            columns: vec![Column::new("a", ColumnType::Int { unsigned: true }, 4)],
            indexes: vec![Index {
                tree: 0,
                name: "a".into(),
                unique: true,
                clustering: false,
                parts: vec![part],
            }],
            hidden_primary: false,
            auto_increment: None,
        };
        let mut encoded = Vec::new();
        schema.encode(&mut encoded);
        let spec = frond_engine::TableSpec {
            name: "t".into(),
            indexes: vec![frond_engine::IndexDef::plain()],
            schema: encoded,
            meta: Vec::new(),
            auto_increment: 1,
        };
        engine.create_table(spec).unwrap();
        let table = engine.open_table("t").unwrap();
        let def = table.def();
        let mut opened = frond_table { engine, table, def };
        let holders = Arc::strong_count(&opened.table);
        let layout =
            [frond_column_layout { offset: 1, null_offset: 0, null_mask: 0, reserved: [0; 3] }];
        let callbacks = frond_rows_callbacks {
            struct_size: size_of::<frond_rows_callbacks>() as u32,
            reserved: 0,
            ctx: std::ptr::null_mut(),
            weights: None,
            weights_len: None,
            char_prefix: None,
            opaque: None,
            condition: None,
            killed: None,
        };
        let mut rows = std::ptr::null_mut();
        // SAFETY: handles and arrays are live; NULL is allowed as the place of a result.
        let mut bind = |place| unsafe {
            frond_rows_bind(&mut opened, layout.as_ptr(), 1, 5, &callbacks, place)
        };
        assert_eq!(bind(&mut rows), FROND_OK);
        assert_ne!(bind(std::ptr::null_mut()), FROND_OK);
        // SAFETY: the first call made it.
        drop(unsafe { Box::from_raw(rows) });
        assert_eq!(Arc::strong_count(&opened.table), holders);
    }

    #[test]
    fn a_binding_without_the_callbacks_that_its_columns_need_is_refused() {
        let mut text = Column::new("t", ColumnType::Char, 10);
        text.sort = Sort::Weights(vec![WeightLevel::plain(0, b" ")]);
        let blob = Column::new("o", ColumnType::Opaque { key_bytes: 4 }, 4);
        let mut schema = Schema {
            version: 1,
            columns: vec![text, blob],
            indexes: Vec::new(),
            hidden_primary: true,
            auto_increment: None,
        };
        let all = frond_rows_callbacks {
            struct_size: 0,
            reserved: 0,
            ctx: std::ptr::null_mut(),
            weights: Some(weights),
            weights_len: Some(weights_len),
            char_prefix: None,
            opaque: Some(opaque),
            condition: None,
            killed: None,
        };
        assert!(all.suffice(&schema).is_ok());
        for lacking in [
            frond_rows_callbacks { weights: None, ..all },
            frond_rows_callbacks { weights_len: None, ..all },
            frond_rows_callbacks { opaque: None, ..all },
        ] {
            let e = lacking.suffice(&schema).err().map(|e| e.kind());
            assert_eq!(e, Some(frond_base::ErrorKind::InvalidArgument));
        }
        schema.columns.clear();
        let none = frond_rows_callbacks { weights: None, opaque: None, ..all };
        assert!(none.suffice(&schema).is_ok());
    }
}
