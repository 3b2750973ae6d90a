//! [`RowCodec`]: a schema and a record layout compiled for use, shared by all threads of a table.

use std::sync::Arc;

use frond_base::{Error, ErrorKind, Result};

use crate::blobs::Blobs;
use crate::codes::{Coded, Codes};
use crate::entries::{Entries, Slot};
use crate::field::{Field, Form};
use crate::history::History;
use crate::key::KeyPart;
use crate::layout::RecordLayout;
use crate::order::{BadKey, SortKeys};
use crate::row_input::RowInput;
use crate::schema::{
    Column, ColumnType, DefaultValue, Index, Part, Schema, Sort, WeightLevel, MAX_KEY_BYTES,
};
use crate::value::{extras_of, put_extras, source_of, Extra, ExtraKind, ValuePlan};

/// The result of [`RowCodec::tuple_key`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TupleKey {
    /// Tuple parts that are in the key. Fewer than given only when the tuple lacks a primary key
    /// part because the index has a prefix of that column.
    pub parts: usize,
    /// One of them is NULL: the tuple cannot match a unique key.
    pub has_null: bool,
}

/// One index, compiled. Parts: its own, then the primary key's.
#[derive(Debug)]
pub(crate) struct IndexPlan {
    pub index: usize,
    pub parts: Vec<KeyPart>,
    pub user_parts: usize,
    pub extras: Vec<Extra>,
    /// Whether its values are rows.
    pub rows: bool,
}

/// Encodes and decodes the rows of one table. Immutable; `Send + Sync`.
pub struct RowCodec {
    pub(crate) name: String,
    pub(crate) schema: Arc<Schema>,
    pub(crate) layout: Arc<RecordLayout>,
    pub(crate) plans: Arc<[Arc<IndexPlan>]>,
    pub(crate) history: History,
    /// How the values of each index with rows are written; `None` for other indexes.
    values: Arc<[Option<ValuePlan>]>,
    sort: Arc<dyn SortKeys>,
}

/// The parts of an index: its own, then the primary key's.
pub(crate) fn key_parts(schema: &Schema, layout: &RecordLayout, index: usize) -> Vec<KeyPart> {
    let primary: &[Part] = if index > 0 { &schema.indexes[0].parts } else { &[] };
    let parts = schema.indexes[index].parts.iter().chain(primary);
    parts
        .map(|part| {
            let n = usize::from(part.column);
            let column = &schema.columns[n];
            KeyPart::new(Field::new(n, column, &layout.columns[n]), column, part)
        })
        .collect()
}

fn index_plan(schema: &Schema, layout: &RecordLayout, index: usize) -> IndexPlan {
    let parts = key_parts(schema, layout, index);
    let user_parts = schema.indexes[index].parts.len();
    let rows = schema.has_rows(index);
    let extras = extras_of(schema, &parts, rows);
    IndexPlan { index, parts, user_parts, extras, rows }
}

impl RowCodec {
    /// Compiles `schema` for records of `layout`. `name` is the table's name in messages; `history`
    /// are the older schemas whose versions rows may still have.
    ///
    /// Errors: `InvalidArgument` when the layout does not fit.
    pub fn bind(
        name: &str,
        schema: Arc<Schema>,
        layout: RecordLayout,
        history: History,
        sort: Arc<dyn SortKeys>,
    ) -> Result<RowCodec> {
        schema.validate()?;
        let layout = layout.with_defaults(&schema)?;
        layout.check(&schema)?;
        let plan = |index| Arc::new(index_plan(&schema, &layout, index));
        let plans: Arc<[Arc<IndexPlan>]> = (0..schema.indexes.len()).map(plan).collect();
        let value = |p: &Arc<IndexPlan>| p.rows.then(|| ValuePlan::new(&schema, &layout, &p.parts));
        let values = plans.iter().map(value).collect();
        let layout = Arc::new(layout);
        Ok(RowCodec { name: name.to_string(), schema, layout, plans, history, values, sort })
    }

    /// Replaces what this codec is made of by the same parts of `other`, and frees its own. False: they are not the same.
    pub fn share(&mut self, other: &RowCodec) -> bool {
        if self.schema != other.schema || self.layout != other.layout {
            return false;
        }
        self.schema = other.schema.clone();
        self.layout = other.layout.clone();
        self.plans = other.plans.clone();
        self.values = other.values.clone();
        true
    }

    pub fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    pub fn layout(&self) -> &RecordLayout {
        &self.layout
    }

    /// Number of columns that records have: all but those that are being added ([`Column::coming`]).
    pub fn columns(&self) -> usize {
        self.layout.own_columns()
    }

    /// What orders texts. It takes collations by number, so other tables may use it too, except for
    /// columns of [`ColumnType::Opaque`].
    pub fn sort_keys(&self) -> &Arc<dyn SortKeys> {
        &self.sort
    }

    /// Compares the weights in the schema, of a space and of the characters of codes, with those that
    /// [`SortKeys`] gives now: if a collation has changed, the keys in the trees are wrong.
    ///
    /// Errors: `Unsupported`, naming the column.
    pub fn check_collations(&self) -> Result<()> {
        for c in &self.schema.columns {
            let Sort::Weights(levels) = &c.sort else { continue };
            // Where all characters are wider, a space is not the single byte that is compared here.
            if c.min_char_bytes > 1 || levels.iter().all(|l| self.sorts_alike(c.charset, l)) {
                continue;
            }
            let what = format!(
                "{}: collation {} of column '{}' sorts differently now; \
                 restore the server that wrote the table, or rebuild it from a dump",
                self.name, c.charset, c.name
            );
            return Err(Error::new(ErrorKind::Unsupported, what));
        }
        Ok(())
    }

    /// Whether the weight of a space, and those of the characters of codes, are those of the schema.
    fn sorts_alike(&self, charset: u32, l: &WeightLevel) -> bool {
        let is = |char: u8, weight: &[u8]| {
            let mut now = Vec::new();
            self.sort.weights(charset, l.level, &[char], &mut now);
            now == weight
        };
        let listed = |codes: &Arc<Codes>| {
            let from = 2 - usize::from(codes.width());
            let coded = |c: &Coded| {
                let weight = c.weight.to_be_bytes();
                let capital = c.both_cases.then(|| c.char.to_ascii_uppercase());
                let mut chars = [Some(c.char), capital].into_iter().flatten().filter(|c| *c != 0);
                chars.all(|char| is(char, &weight[from..]))
            };
            codes.list().iter().all(coded)
        };
        (l.space.is_empty() || is(b' ', &l.space)) && l.codes.as_ref().is_none_or(listed)
    }

    /// Encodes the entries of all indexes.
    ///
    /// Errors: `TooBig` for a key above [`MAX_KEY_BYTES`].
    pub fn encode_row(&self, row: &RowInput<'_>, out: &mut Entries) -> Result<()> {
        self.encode_indexes(row, u128::MAX, out)
    }

    /// Encodes the entries of the indexes whose bit is set in `wanted`; the other slots are not
    /// [`Entries::present`], except that slot 0 has its key.
    pub fn encode_indexes(
        &self,
        row: &RowInput<'_>,
        wanted: u128,
        out: &mut Entries,
    ) -> Result<()> {
        self.check_record(row.record.len());
        let mut space = Vec::new();
        let row = &self.layout.whole(row, &mut space);
        out.bytes.clear();
        out.slots.clear();
        for (n, plan) in self.plans.iter().enumerate() {
            if n > 0 && wanted >> n & 1 == 0 {
                out.slots.push(Slot::default());
                continue;
            }
            let start = out.bytes.len();
            let has_null = self.put_user_parts(plan, row, &mut out.bytes, &mut out.scratch)?;
            let user_end = out.bytes.len();
            if n == 0 && self.schema.hidden_primary {
                out.bytes.extend_from_slice(&row.row_id.to_be_bytes());
            } else if n > 0 {
                let primary = out.slots[0];
                out.bytes.extend_from_within(primary.start..primary.key_end);
            }
            let key_end = out.bytes.len();
            if key_end - start > MAX_KEY_BYTES {
                return Err(self.key_too_big(n, key_end - start));
            }
            let present = wanted >> n & 1 == 1;
            if present {
                if let Some(value) = &self.values[n] {
                    value.put(row, &mut out.bytes)?;
                }
                put_extras(&plan.extras, row, &mut out.bytes)?;
            }
            let value_end = out.bytes.len();
            out.slots.push(Slot { start, user_end, key_end, value_end, has_null, present });
        }
        Ok(())
    }

    /// Appends the key of one index alone, with the primary key at its end.
    pub fn encode_key(&self, index: usize, row: &RowInput<'_>, out: &mut Vec<u8>) -> Result<()> {
        self.check_record(row.record.len());
        let mut space = Vec::new();
        let row = &self.layout.whole(row, &mut space);
        let start = out.len();
        let mut scratch = Vec::new();
        self.put_user_parts(&self.plans[index], row, out, &mut scratch)?;
        if index > 0 {
            self.put_user_parts(&self.plans[0], row, out, &mut scratch)?;
        }
        if self.schema.hidden_primary {
            out.extend_from_slice(&row.row_id.to_be_bytes());
        }
        match out.len() - start {
            n if n > MAX_KEY_BYTES => Err(self.key_too_big(index, n)),
            _ => Ok(()),
        }
    }

    #[inline]
    fn put_user_parts(
        &self,
        plan: &IndexPlan,
        row: &RowInput<'_>,
        out: &mut Vec<u8>,
        scratch: &mut Vec<u8>,
    ) -> Result<bool> {
        let mut has_null = false;
        for part in &plan.parts[..plan.user_parts] {
            has_null |= part.put_row(row, &*self.sort, out, scratch)?;
        }
        Ok(has_null)
    }

    /// Appends to `out` the key prefix that stands for the first `parts` parts of a key tuple: per
    /// part [NULL byte if nullable] and the value, fixed-width as in the record, VARCHAR and BLOB
    /// as a two-byte little-endian length and the part's full length of bytes. Parts beyond the
    /// index's own are the primary key's columns that it does not have, in order.
    ///
    /// Every key whose row matches the tuple starts with the result. Errors: `InvalidArgument` for
    /// a tuple that ends early, or more parts than there are.
    pub fn tuple_key(
        &self,
        index: usize,
        mut tuple: &[u8],
        parts: usize,
        out: &mut Vec<u8>,
    ) -> Result<TupleKey> {
        let plan = &self.plans[index];
        let mut scratch = Vec::new();
        let mut has_null = false;
        let own = parts.min(plan.user_parts);
        let mut values = Vec::new();
        for part in &plan.parts[..own] {
            let value = part.take_tuple(&mut tuple)?;
            has_null |= value.is_none();
            part.put_tuple(value, &*self.sort, out, &mut scratch);
            if parts > own {
                values.push(value);
            }
        }
        let mut left = parts - own;
        let mut encoded = own;
        let mut primary = plan.parts[plan.user_parts..].iter();
        while left > 0 {
            let Some(part) = primary.next() else {
                let what = format!("{}: a key tuple of {parts} parts is too long", self.name);
                return Err(Error::new(ErrorKind::InvalidArgument, what));
            };
            let column = part.field.column;
            match plan.parts[..own].iter().position(|p| p.field.column == column) {
                None => {
                    let value = part.take_tuple(&mut tuple)?;
                    has_null |= value.is_none();
                    part.put_tuple(value, &*self.sort, out, &mut scratch);
                    encoded += 1;
                    left -= 1;
                }
                Some(n) if plan.parts[n].whole && part.whole => {
                    part.put_tuple(values[n], &*self.sort, out, &mut scratch);
                }
                Some(_) => break,
            }
        }
        Ok(TupleKey { parts: encoded, has_null })
    }

    /// Bytes of `key` that its first `parts` parts take; the primary key's parts follow the index's
    /// own.
    pub fn prefix_len(&self, index: usize, key: &[u8], parts: usize) -> Result<usize> {
        Ok(self.prefix(index, key, parts)?.0)
    }

    /// As [`RowCodec::prefix_len`], and whether one of the parts is NULL.
    pub fn prefix(&self, index: usize, key: &[u8], parts: usize) -> Result<(usize, bool)> {
        let plan = &self.plans[index];
        let (mut at, mut has_null) = (0, false);
        for part in plan.parts.iter().take(parts) {
            has_null |= part.skip(key, &mut at).map_err(|BadKey| self.bad(index, "key", at))?;
        }
        Ok((at, has_null))
    }

    /// The part of an entry's key that must be unique in a unique index, as [`Entries::unique_prefix`].
    pub fn unique_part<'k>(&self, index: usize, key: &'k [u8]) -> Result<Option<&'k [u8]>> {
        let plan = &self.plans[index];
        let (mut at, mut has_null) = (0, false);
        for part in plan.parts.iter().take(plan.user_parts) {
            has_null |= part.skip(key, &mut at).map_err(|BadKey| self.bad(index, "key", at))?;
        }
        Ok((!has_null).then(|| &key[..at]))
    }

    /// The primary index key inside an entry's key.
    pub fn primary_key<'k>(&self, index: usize, key: &'k [u8]) -> Result<&'k [u8]> {
        match index {
            0 => Ok(key),
            _ => Ok(&key[self.prefix_len(index, key, self.plans[index].user_parts)?..]),
        }
    }

    /// The hidden row id inside an entry's key. The table must have one.
    pub fn row_id(&self, index: usize, key: &[u8]) -> Result<u64> {
        assert!(self.schema.hidden_primary, "row ids are for tables without a primary key");
        match key.last_chunk::<8>() {
            Some(id) => Ok(u64::from_be_bytes(*id)),
            None => Err(self.bad(index, "key", 0)),
        }
    }

    /// Whether entries of `index` have the whole of `column`.
    pub fn covers(&self, index: usize, column: usize) -> bool {
        let in_key = source_of(&self.plans[index].parts, column).is_some();
        in_key || (self.plans[index].rows && self.schema.columns[column].stored)
    }

    /// Bits of the indexes whose entries may differ when a row differs in `changed` columns; all of
    /// them when the primary key is among these.
    pub fn touched(&self, changed: impl Fn(usize) -> bool) -> u128 {
        let mut mask = 1;
        for plan in self.plans.iter() {
            let of_row = |n: usize| self.schema.columns[n].stored && changed(n);
            if plan.parts.iter().any(|p| changed(p.field.column))
                || (plan.rows && (0..self.schema.columns.len()).any(of_row))
            {
                mask |= 1 << plan.index;
            }
        }
        mask
    }

    /// Widths of the key's fields when they are all fixed (rows without NULL), for the run codec;
    /// empty otherwise.
    pub fn key_shape(&self, index: usize) -> Vec<u8> {
        shape_of(&self.plans[index], self.schema.hidden_primary)
    }

    pub(crate) fn check_record(&self, len: usize) {
        assert!(len >= self.layout.record_bytes as usize, "record image shorter than its layout");
    }

    fn key_too_big(&self, index: usize, bytes: usize) -> Error {
        let index = &self.schema.indexes[index].name;
        let what = format!(
            "{}: a key of {bytes} bytes in index '{index}'; the limit is {MAX_KEY_BYTES}",
            self.name
        );
        Error::new(ErrorKind::TooBig, what)
    }

    /// Corruption in an entry of `index`.
    #[cold]
    pub(crate) fn bad(&self, index: usize, what: &str, at: usize) -> Error {
        let index = &self.schema.indexes[index];
        Error::corruption(
            &self.name,
            format_args!("index '{}' (tree {}): bad {what} at byte {at}", index.name, index.tree),
        )
    }
}

pub(crate) fn shape_of(plan: &IndexPlan, hidden_primary: bool) -> Vec<u8> {
    let mut widths = Vec::new();
    if !plan.parts.iter().all(|p| p.shape(&mut widths)) {
        return Vec::new();
    }
    if hidden_primary {
        widths.push(8);
    }
    widths
}

impl Schema {
    /// Whether rows and index entries that were written under `older` can be read under this schema.
    ///
    /// Errors: `Unsupported`, saying what differs.
    pub fn check_reads(&self, older: &Schema) -> Result<()> {
        agree(older, self).map_err(|what| Error::new(ErrorKind::Unsupported, what))
    }

    /// What a row value stores for `column` of a record: its contents without padding or length bytes; `None`
    /// for NULL.
    ///
    /// Errors: `InvalidArgument` when the layout or the record do not fit.
    pub fn content_of(
        &self,
        layout: &RecordLayout,
        column: usize,
        record: &[u8],
        blobs: &dyn Blobs,
    ) -> Result<Option<Vec<u8>>> {
        layout.check(self)?;
        if record.len() < layout.record_bytes as usize || column >= self.columns.len() {
            return Err(Error::new(ErrorKind::InvalidArgument, "a record that is too short"));
        }
        let field = Field::new(column, &self.columns[column], &layout.columns[column]);
        if field.is_null(record) {
            return Ok(None);
        }
        field.content(&RowInput { record, blobs, row_id: 0 }).map(|c| Some(c.to_vec()))
    }

    /// [`RowCodec::key_shape`] without a codec. The schema must be valid.
    pub fn index_key_shape(&self, index: usize) -> Vec<u8> {
        shape_of(
            &index_plan(self, &RecordLayout::compact_of(&self.columns), index),
            self.hidden_primary,
        )
    }
}

/// Rows of `old` can be read as rows of `new`.
fn agree(old: &Schema, new: &Schema) -> std::result::Result<(), String> {
    for o in &old.columns {
        let Some(n) = new.columns.iter().find(|n| n.id == o.id) else { continue };
        let text = o.is_text() && n.is_text();
        let same = if text && Form::of(n) != Form::Fixed {
            true
        } else {
            (o.ty == n.ty && o.bytes == n.bytes) || n.widens(o).is_some()
        };
        if !same {
            return Err(format!("column '{}' changed its type", n.name));
        }
    }
    for o in &old.indexes {
        let Some(n) = new.indexes.iter().find(|n| n.tree == o.tree) else { continue };
        if key_columns(old, o) != key_columns(new, n) || o.clustering != n.clustering {
            return Err(format!("the parts of index '{}' changed", n.name));
        }
    }
    if old.indexes[0].tree != new.indexes[0].tree || old.hidden_primary != new.hidden_primary {
        return Err("the primary key changed".into());
    }
    // Extras have no version: they come in the order of the columns.
    for (n, o) in old.indexes.iter().enumerate() {
        let Some(m) = new.indexes.iter().position(|i| i.tree == o.tree) else { continue };
        if extras_in(old, n) != extras_in(new, m) {
            return Err(format!("the order of the columns of index '{}' changed", o.name));
        }
    }
    Ok(())
}

/// What entries of an index have besides their keys: kinds and column ids.
fn extras_in(schema: &Schema, index: usize) -> Vec<(ExtraKind, u32)> {
    let plan = index_plan(schema, &RecordLayout::compact_of(&schema.columns), index);
    let id = |e: &Extra| (e.kind, schema.columns[e.field.column].id);
    plan.extras.iter().map(id).collect()
}

/// The properties that an index's keys depend on.
fn key_columns(schema: &Schema, index: &Index) -> Vec<(Column, Part)> {
    let parts = index.parts.iter();
    parts
        .map(|p| {
            let mut c = schema.columns[usize::from(p.column)].clone();
            c.name.clear();
            c.default = DefaultValue::Empty;
            if let ColumnType::VarChar { .. } = c.ty {
                // A VARCHAR that became longer has the same keys.
                (c.ty, c.bytes) = (ColumnType::VarChar { length_bytes: 0 }, 0);
            }
            (c, Part { column: 0, ..*p })
        })
        .collect()
}
