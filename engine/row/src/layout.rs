//! The positions of columns in a record image. Known only while a table is open: a server may place
//! columns differently after an upgrade, so positions are not stored.

use frond_base::{Error, ErrorKind, Result};

use crate::row_input::RowInput;
use crate::schema::{Column, Schema};

/// One column's place in the record image.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ColumnPlace {
    pub offset: u32,
    /// Byte and bit that are set when the column is NULL. `None` for NOT NULL columns.
    pub null: Option<(u32, u8)>,
}

/// The record image: its length and a place per column, in schema order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecordLayout {
    pub record_bytes: u32,
    pub columns: Vec<ColumnPlace>,
    /// The values of the last columns, which records do not have: they follow the record (`added_columns.rs`).
    pub(crate) defaults: Vec<u8>,
    /// Columns that records have.
    pub(crate) own: usize,
}

impl RecordLayout {
    pub fn new(record_bytes: u32, columns: Vec<ColumnPlace>) -> RecordLayout {
        let own = columns.len();
        RecordLayout { record_bytes, columns, defaults: Vec::new(), own }
    }

    /// A layout of our own: null bits first, then the columns back to back. For callers without a
    /// server's record: tools, index builds, embedding programs.
    ///
    /// Records do not have the columns that are coming.
    pub fn compact(schema: &Schema) -> RecordLayout {
        let own = schema.columns.iter().position(|c| c.coming).unwrap_or(schema.columns.len());
        RecordLayout::compact_of(&schema.columns[..own])
    }

    pub(crate) fn compact_of(of: &[Column]) -> RecordLayout {
        let nullable = of.iter().filter(|c| c.nullable).count() as u32;
        let mut offset = nullable.div_ceil(8);
        let mut bit = 0u32;
        let mut columns = Vec::with_capacity(of.len());
        for c in of {
            let null = c.nullable.then(|| {
                bit += 1;
                ((bit - 1) / 8, 1u8 << ((bit - 1) % 8))
            });
            columns.push(ColumnPlace { offset, null });
            offset += c.bytes;
        }
        RecordLayout::new(offset, columns)
    }

    /// Number of columns that records have.
    pub fn own_columns(&self) -> usize {
        self.own
    }

    /// `row` with the values that follow it, in `space`.
    #[inline]
    pub(crate) fn whole<'a>(&self, row: &RowInput<'a>, space: &'a mut Vec<u8>) -> RowInput<'a> {
        if self.defaults.is_empty() {
            return *row;
        }
        space.extend_from_slice(&row.record[..self.record_bytes as usize]);
        space.extend_from_slice(&self.defaults);
        RowInput { record: space, ..*row }
    }

    /// Every column and null bit lies inside the record, and NULL bits match the schema.
    pub(crate) fn check(&self, schema: &Schema) -> Result<()> {
        let wrong = |what: String| Err(Error::new(ErrorKind::InvalidArgument, what));
        if self.columns.len() != schema.columns.len() {
            return wrong(format!(
                "record layout has {} columns, the schema {}",
                self.columns.len(),
                schema.columns.len()
            ));
        }
        let bytes = u64::from(self.record_bytes) + self.defaults.len() as u64;
        for (place, c) in self.columns.iter().zip(&schema.columns) {
            let end = u64::from(place.offset) + u64::from(c.bytes);
            let null_inside = place
                .null
                .is_none_or(|(byte, mask)| u64::from(byte) < bytes && mask.count_ones() == 1);
            if end > bytes || !null_inside {
                return wrong(format!("column '{}' lies outside the record", c.name));
            }
            if c.nullable != place.null.is_some() {
                return wrong(format!("column '{}': layout and schema differ on NULL", c.name));
            }
        }
        Ok(())
    }
}
