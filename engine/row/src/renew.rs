//! Row values of older schemas, rewritten as the current one writes them: bytes to bytes, without a record, a key
//! or a collation. So they can be rewritten wherever entries pass.
//!
//! - RNV1. All versions take the same columns from the key, because the parts of keys do not change
//!   (`Schema::check_reads`). So a value has the other columns, before and after.
//! - RNV2. The result is what encoding the decoded row would give, byte by byte. Extras have no version and stay.
//!
//! Tested by `tests/it/history.rs`.

use std::sync::{Arc, OnceLock};

use frond_base::{put_bytes, put_varint, ByteReader, IndexNo};

use crate::codec::{key_parts, RowCodec};
use crate::history::History;
use crate::layout::RecordLayout;
use crate::schema::{widen, Column, DefaultValue, Schema};
use crate::value::{stored_columns, Stored};

/// Rewrites the values of one index that has whole rows. `Send + Sync`.
pub struct Renewer {
    schema: Arc<Schema>,
    history: History,
    tree: IndexNo,
    current: Form,
    /// For each schema of the history, once a row of it has been met; `None`: it had no such index.
    older: Vec<OnceLock<Option<Writer>>>,
}

/// The columns of a version's row values.
struct Form {
    columns: Vec<Stored>,
    bitmap_bytes: usize,
}

struct Writer {
    form: Form,
    /// For each column of the current form: its position in this form, and what [`Column::widens`] says of it.
    /// `None`: the column was added later.
    from: Vec<Option<(usize, Option<bool>)>>,
}

impl Form {
    fn new(schema: &Schema, index: usize) -> Form {
        let parts = key_parts(schema, &RecordLayout::compact_of(&schema.columns), index);
        let (columns, bits) = stored_columns(schema, &parts);
        Form { columns, bitmap_bytes: bits.div_ceil(8) }
    }

    /// Cuts a value into its columns' contents; `None`: NULL.
    fn read<'v>(&self, r: &mut ByteReader<'v>) -> Option<Vec<Option<&'v [u8]>>> {
        let bitmap = r.take(self.bitmap_bytes).ok()?;
        let null = |bit: Option<usize>| bit.is_some_and(|b| bitmap[b / 8] >> (b % 8) & 1 == 1);
        let column = |c: &Stored| match (null(c.bit), c.fixed) {
            (true, _) => Some(None),
            (false, Some(bytes)) => r.take(bytes).ok().map(Some),
            (false, None) => r.bytes().ok().map(Some),
        };
        self.columns.iter().map(column).collect()
    }
}

impl RowCodec {
    /// A renewer for the values of `index`; `None` when they are not rows.
    pub fn renewer(&self, index: usize) -> Option<Renewer> {
        let (schema, history) = (self.schema.clone(), self.history.clone());
        self.schema.has_rows(index).then(|| Renewer::new(schema, history, index))
    }

    /// Whether two values of `index` are the same in the form of the current schema: one may be older than the other, as
    /// merges renew values in runs, and neither buffers nor the row cache do.
    pub fn same_renewed(&self, index: usize, a: &[u8], b: &[u8]) -> bool {
        let renewed = |renewer: Renewer| {
            let (mut of_a, mut of_b) = (Vec::new(), Vec::new());
            let a = if renewer.renew(a, &mut of_a) { &of_a } else { a };
            let b = if renewer.renew(b, &mut of_b) { &of_b } else { b };
            a == b
        };
        a == b || self.renewer(index).is_some_and(renewed)
    }
}

impl Renewer {
    /// `history` belongs to `schema`, in which `index` stores whole rows.
    pub fn new(schema: Arc<Schema>, history: History, index: usize) -> Renewer {
        let (tree, current) = (schema.indexes[index].tree, Form::new(&schema, index));
        let older = history.iter().map(|_| OnceLock::new()).collect();
        Renewer { schema, history, tree, current, older }
    }

    /// Puts into `out` the value in the form of the current schema. False: it has that form, or was written by a schema that
    /// is not known, and stays as it is.
    #[inline]
    pub fn renew(&self, value: &[u8], out: &mut Vec<u8>) -> bool {
        let mut r = ByteReader::new(value);
        match r.varint() {
            Ok(version) if version == u64::from(self.schema.version) => false,
            Ok(version) => self.rewrite(version, &mut r, out).is_some(),
            Err(_) => false,
        }
    }

    fn writer(&self, version: u64) -> Option<&Writer> {
        let n = self.history.binary_search_by_key(&version, |s| u64::from(s.version)).ok()?;
        let writer = self.older[n].get_or_init(|| {
            let writer = &self.history[n];
            let index = writer.indexes.iter().position(|i| i.tree == self.tree)?;
            let form = Form::new(writer, index);
            let id_of = |schema: &Schema, s: &Stored| schema.columns[s.column].id;
            let place = |s: &Stored| {
                let id = id_of(&self.schema, s);
                let n = form.columns.iter().position(|c| id_of(writer, c) == id)?;
                let was = &writer.columns[form.columns[n].column];
                Some((n, self.schema.columns[s.column].widens(was)))
            };
            let from = self.current.columns.iter().map(place).collect();
            Some(Writer { form, from })
        });
        writer.as_ref()
    }

    fn rewrite(&self, version: u64, r: &mut ByteReader<'_>, out: &mut Vec<u8>) -> Option<()> {
        let writer = self.writer(version)?;
        let contents = writer.form.read(r)?;
        out.clear();
        put_varint(out, u64::from(self.schema.version));
        let bitmap = out.len();
        out.resize(bitmap + self.current.bitmap_bytes, 0);
        for (stored, from) in self.current.columns.iter().zip(&writer.from) {
            let column = &self.schema.columns[stored.column];
            let (content, widens) = match from {
                Some((n, widens)) => (contents[*n], *widens),
                None => (added(column), None),
            };
            match (content, stored.bit, stored.fixed) {
                (None, Some(bit), _) => out[bitmap + bit / 8] |= 1 << (bit % 8),
                // A NULL in a column that is NOT NULL now becomes zero, or empty.
                (None, None, Some(bytes)) => out.resize(out.len() + bytes, 0),
                (content, _, None) => put_bytes(out, content.unwrap_or(&[])),
                (Some(content), _, Some(bytes)) => put_fixed(out, content, bytes, widens)?,
            }
        }
        out.extend_from_slice(r.take(r.remaining()).ok()?);
        Some(())
    }
}

/// The value of an added column in older rows.
fn added(column: &Column) -> Option<&[u8]> {
    match &column.default {
        DefaultValue::Empty => None,
        DefaultValue::Bytes(content) => Some(content),
    }
}

fn put_fixed(out: &mut Vec<u8>, content: &[u8], bytes: usize, widens: Option<bool>) -> Option<()> {
    match widens {
        None if content.len() == bytes => out.extend_from_slice(content),
        None => return None,
        Some(signed) => {
            let at = out.len();
            out.resize(at + bytes, 0);
            widen(content, signed, &mut out[at..]);
        }
    }
    Some(())
}
