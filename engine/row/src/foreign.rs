//! Foreign keys: a key of one index as the key of another, and columns copied from one table's record
//! to another's.
//!
//! Equal values of two columns of the same type and collation have the same key bytes, except for the
//! NULL byte, the inversion of descending parts, and codes of weights, which tables of earlier releases lack. So the key of a child row becomes the key of its
//! parent without the row's values and without a call to a collation.

use frond_base::{Error, ErrorKind, Result};

use crate::blobs::BlobSink;
use crate::codec::RowCodec;
use crate::field::{Field, Form};
use crate::key::{KeyPart, PartKind};
use crate::layout::RecordLayout;
use crate::order::{invert, BadKey};
use crate::row_input::RowInput;
use crate::schema::{Column, Part, Schema};

/// Turns the first parts of one index's keys into those of another index.
#[derive(Debug)]
pub struct KeyBridge {
    parts: Vec<(KeyPart, KeyPart)>,
}

/// Why there is no bridge: the position of the first part whose columns differ in type, length, sign
/// or collation, or that is not a whole column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadBridge {
    pub part: usize,
}

impl KeyBridge {
    /// A bridge for the first `parts` parts of index `from.1` of schema `from.0` to those of `to`. Both
    /// schemas are valid, and both indexes have at least `parts` parts.
    pub fn new(
        from: (&Schema, usize),
        to: (&Schema, usize),
        parts: usize,
    ) -> std::result::Result<KeyBridge, BadBridge> {
        let compile = |(schema, index): (&Schema, usize), n: usize| {
            let part: &Part = &schema.indexes[index].parts[n];
            let at = usize::from(part.column);
            let column = schema.columns[at].clone();
            let place = RecordLayout::compact_of(&schema.columns).columns[at];
            (KeyPart::new(Field::new(at, &column, &place), &column, part), column)
        };
        let mut bridge = KeyBridge { parts: Vec::with_capacity(parts) };
        for part in 0..parts {
            let ((a, a_column), (b, b_column)) = (compile(from, part), compile(to, part));
            if !(a.whole && b.whole && same_keys(&a, &a_column, &b, &b_column)) {
                return Err(BadBridge { part });
            }
            bridge.parts.push((a, b));
        }
        Ok(bridge)
    }

    /// Translates the first parts of `key`: replaces `out` by the bytes with which matching keys of the
    /// other index begin. False when a part is NULL: such a key matches nothing.
    ///
    /// # Errors
    /// Corruption when the key ends inside a part.
    pub fn cross(&self, key: &[u8], out: &mut Vec<u8>) -> Result<bool> {
        let bad = |at: usize| {
            Error::corruption("index", format_args!("bad key of a foreign key at byte {at}"))
        };
        out.clear();
        let mut at = 0;
        for (from, to) in &self.parts {
            let value_at = at + usize::from(from.nullable);
            let is_null = from.skip(key, &mut at).map_err(|BadKey| bad(at))?;
            if is_null {
                return Ok(false);
            }
            if to.nullable {
                out.push(1 ^ to.mask);
            }
            let part = &key[value_at..at];
            match (&from.kind, &to.kind) {
                (PartKind::Text(f), PartKind::Text(t)) if !f.has_keys_of(t) => {
                    let part: Vec<u8> = part.iter().map(|b| b ^ from.mask).collect();
                    let start = out.len();
                    f.translate(&part, t, out).map_err(|BadKey| bad(value_at))?;
                    invert(&mut out[start..], to.mask);
                }
                _ => {
                    let mask = from.mask ^ to.mask;
                    out.extend(part.iter().map(|b| b ^ mask));
                }
            }
        }
        Ok(true)
    }
}

/// Whether [`KeyBridge::cross`] makes equal key bytes of equal values, and unequal ones of unequal values.
fn same_keys(a: &KeyPart, a_column: &Column, b: &KeyPart, b_column: &Column) -> bool {
    match (&a.kind, &b.kind) {
        (PartKind::Text(x), PartKind::Text(y)) => {
            x.compares_as(y) && a_column.min_char_bytes == b_column.min_char_bytes
        }
        (PartKind::Text(_) | PartKind::Opaque { .. }, _)
        | (_, PartKind::Text(_) | PartKind::Opaque { .. }) => false,
        _ => a_column.ty == b_column.ty && a_column.bytes == b_column.bytes,
    }
}

impl RowCodec {
    fn field(&self, column: usize) -> Field {
        Field::new(column, &self.schema.columns[column], &self.layout.columns[column])
    }

    /// Whether two rows have the same value in `column`, byte for byte; comparing as equal is not
    /// enough.
    pub fn same_value(&self, column: usize, a: &RowInput<'_>, b: &RowInput<'_>) -> Result<bool> {
        let field = self.field(column);
        match (field.is_null(a.record), field.is_null(b.record)) {
            (true, true) => Ok(true),
            (false, false) => Ok(field.content(a)? == field.content(b)?),
            _ => Ok(false),
        }
    }

    /// Sets `column` to NULL; false when it cannot be NULL.
    pub fn put_null(&self, column: usize, record: &mut [u8]) -> bool {
        let field = self.field(column);
        if field.null.is_some() {
            field.put_null(record);
        }
        field.null.is_some()
    }

    /// Copies `column` of `row` to column `to_column` of `record`, which is of `to`'s layout; the columns are
    /// of types that [`KeyBridge`] allows. False when the value does not fit there.
    pub fn copy_value(
        &self,
        (column, row): (usize, &RowInput<'_>),
        to: &RowCodec,
        (to_column, record, sink): (usize, &mut [u8], &mut dyn BlobSink),
    ) -> Result<bool> {
        let (from, target) = (self.field(column), to.field(to_column));
        if from.is_null(row.record) {
            return Ok(to.put_null(to_column, record));
        }
        if matches!(target.form, Form::Blob { .. }) {
            return Err(Error::new(ErrorKind::InvalidArgument, "a foreign key has no blobs"));
        }
        let content = from.content(row)?;
        let c = &to.schema.columns[to_column];
        if c.is_text() && !to.holds(c, &target, content) {
            return Ok(false);
        }
        target.set_null(record, false);
        Ok(target.put(record, content, sink).is_ok())
    }

    /// Whether a text has no more characters than its column takes.
    fn holds(&self, c: &Column, target: &Field, content: &[u8]) -> bool {
        let length = match target.form {
            Form::VarChar { length } => length,
            _ => 0,
        };
        let chars = (target.bytes - length) / usize::from(c.max_char_bytes);
        if content.len() <= chars {
            return true;
        }
        c.max_char_bytes > 1
            && self.sort_keys().char_prefix(c.charset, content, chars) >= content.len()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{ColumnType, Index, Sort};

    fn schema(ty: ColumnType, bytes: u32, nullable: bool, descending: bool) -> Schema {
        let mut column = Column::new("a", ty, bytes);
        column.nullable = nullable;
        if column.is_text() {
            column.sort = Sort::BinaryPadSpace;
        }
        let part = |column| Part { column, prefix: None, descending };
        let index =
            |tree, parts| Index { tree, name: "i".into(), unique: false, clustering: false, parts };
        Schema {
            version: 1,
            columns: vec![column],
            indexes: vec![index(0, vec![]), index(1, vec![part(0)])],
            hidden_primary: true,
            auto_increment: None,
        }
    }

    fn bridge(from: &Schema, to: &Schema) -> std::result::Result<KeyBridge, BadBridge> {
        KeyBridge::new((from, 1), (to, 1), 1)
    }

    #[test]
    fn null_bytes_and_inverted_parts_are_translated() {
        let int = ColumnType::Int { unsigned: false };
        let (child, parent) = (schema(int, 4, true, true), schema(int, 4, false, false));
        let down = bridge(&child, &parent).unwrap();
        let mut out = Vec::new();
        // -2 descending behind its NULL byte, and the row id.
        let key = [0xfe, 0x80, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 9];
        assert!(down.cross(&key, &mut out).unwrap());
        assert_eq!(out, [0x7f, 0xff, 0xff, 0xfe]);
        let mut back = Vec::new();
        assert!(bridge(&parent, &child).unwrap().cross(&out, &mut back).unwrap());
        assert_eq!(back, key[..5]);
        assert!(!down.cross(&[0xff, 0, 0], &mut out).unwrap(), "NULL matches nothing");
        assert!(down.cross(&key[..3], &mut out).is_err());
    }

    #[test]
    fn weights_and_codes_are_translated() {
        use crate::{Coded, Codes, WeightLevel};
        let coded = |weight, char| Coded { weight, char, both_cases: false };
        let codes = Codes::new(2, &[coded(0x20, b' '), coded(0x41, b'a')]).unwrap();
        let table = |space: &[u8], codes: Option<&Arc<Codes>>, descending| {
            let mut table = schema(ColumnType::VarChar { length_bytes: 1 }, 21, false, descending);
            let level = WeightLevel { codes: codes.cloned(), ..WeightLevel::plain(0, space) };
            table.columns[0].sort = Sort::Weights(vec![level]);
            table
        };
        // "a a", with a character that has no code of one byte: 0041 0020 1234.
        // Codes that end in 5, which is that of a space, are cut there.
        let weights: [(&[u8], &[u8]); 4] = [
            (&[0, 0x20], &[0, 0x41, 0x12, 5, 0, 0x20, 2]),
            (&[0, 0x20], &[0, 0x40, 0x05, 5, 0, 0x20, 2]),
            (&[0, 0x20], &[0, 0x41, 0, 0x20, 3, 0x12, 0x34, 0, 0x20, 2]),
            (&[], &[1, 1, 0x41, 1, 1, 0x20, 0x12, 0x34, 0]),
        ];
        for (space, key) in weights {
            let (child, parent) = (table(space, None, false), table(space, Some(&codes), true));
            let mut there = Vec::new();
            assert!(bridge(&child, &parent).unwrap().cross(key, &mut there).unwrap());
            assert!(there.len() < key.len());
            let mut back = Vec::new();
            assert!(bridge(&parent, &child).unwrap().cross(&there, &mut back).unwrap());
            assert_eq!(back, key);
            let end = there.len() - 1;
            assert!(bridge(&parent, &child).unwrap().cross(&there[..end], &mut back).is_err());
        }
    }

    #[test]
    fn columns_that_compare_differently_have_no_bridge() {
        let int = |bytes, unsigned| schema(ColumnType::Int { unsigned }, bytes, false, false);
        let bad = Some(BadBridge { part: 0 });
        assert_eq!(bridge(&int(4, false), &int(8, false)).err(), bad);
        assert_eq!(bridge(&int(4, false), &int(4, true)).err(), bad);
        assert_eq!(bridge(&int(4, true), &int(4, true)).err(), None);
        let text = schema(ColumnType::VarChar { length_bytes: 1 }, 21, false, false);
        let long = schema(ColumnType::VarChar { length_bytes: 2 }, 402, true, false);
        assert!(bridge(&text, &long).is_ok(), "lengths may differ");
        let mut other = long.clone();
        other.columns[0].charset = 8;
        assert_eq!(bridge(&text, &other).err(), bad);
        assert_eq!(bridge(&text, &int(4, true)).err(), bad);
    }
}
