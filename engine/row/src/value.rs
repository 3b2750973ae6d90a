//! Entry values: the columns, and parts of columns, that the key lacks.
//!
//! ```text
//! value of an index with rows = version:varint nulls fixed* variable* extras
//!   nulls     one bit per stored nullable column, in the order below, lowest bit first; 1 = NULL
//!   fixed     images of columns of fixed width: the NOT NULL ones in schema order, then the
//!             nullable ones in schema order; nothing for NULL
//!   variable  length:varint contents, in schema order; CHAR without padding, blobs in line;
//!             nothing for NULL
//!   Columns that come back from the index's key (RK4) and computed columns are left out.
//!   Indexes with rows are the primary and clustering ones.
//! value of any other index   = extras
//! extras = one item per column that the parts (primary key included) have whole but with losses:
//!          first all originals, then all differences, then the others
//!   original    length:varint contents    collated text, opaque images; empty for NULL
//!   difference  length:varint contents    text whose key has codes: how it differs from their characters (codes.rs)
//!   spaces      n:varint                  trailing spaces the key dropped
//!   zero sign   1 if -0.0, else 0
//!   Items at the end that are 0 are left out, so most values of an index are empty.
//! ```
//! An index with rows has originals of computed columns only: the row itself has all other columns.

use std::sync::Arc;

use frond_base::{put_varint, Result};

use crate::codes::Codes;
use crate::field::{Field, Form};
use crate::key::KeyPart;
use crate::layout::RecordLayout;
use crate::order::trim_spaces;
use crate::row_input::RowInput;
use crate::schema::Schema;

/// One column in a row value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stored {
    pub column: usize,
    /// Bytes of a fixed-width column; `None` for a variable one.
    pub fixed: Option<usize>,
    /// Its bit in the NULL bitmap.
    pub bit: Option<usize>,
}

/// The columns of a row value of `schema` in their order, and how many NULL bits it has; `parts` are those of
/// the index.
pub(crate) fn stored_columns(schema: &Schema, parts: &[KeyPart]) -> (Vec<Stored>, usize) {
    let from_key = |n: usize| parts.iter().any(|p| p.field.column == n && p.reversible);
    let mut ranked: Vec<(u8, usize)> = Vec::new();
    for (n, c) in schema.columns.iter().enumerate() {
        if c.stored && !from_key(n) {
            let variable = Form::of(c) != Form::Fixed;
            ranked.push((if variable { 2 } else { u8::from(c.nullable) }, n));
        }
    }
    ranked.sort_unstable();
    let mut bits = 0;
    let columns = ranked
        .into_iter()
        .map(|(rank, column)| {
            let c = &schema.columns[column];
            let bit = c.nullable.then(|| {
                bits += 1;
                bits - 1
            });
            Stored { column, fixed: (rank < 2).then_some(c.bytes as usize), bit }
        })
        .collect();
    (columns, bits)
}

#[derive(Clone, Debug)]
enum PutOp {
    /// NOT NULL fixed columns that follow each other in record and value alike.
    Copy {
        from: usize,
        bytes: usize,
    },
    Fixed {
        field: Field,
        bit: usize,
    },
    Variable {
        field: Field,
        bit: Option<usize>,
    },
}

/// Writes row values.
#[derive(Debug)]
pub(crate) struct ValuePlan {
    version: u32,
    bitmap_bytes: usize,
    ops: Vec<PutOp>,
}

impl ValuePlan {
    pub fn new(schema: &Schema, layout: &RecordLayout, parts: &[KeyPart]) -> ValuePlan {
        let (columns, bits) = stored_columns(schema, parts);
        let mut ops: Vec<PutOp> = Vec::new();
        for s in columns {
            let field = Field::new(s.column, &schema.columns[s.column], &layout.columns[s.column]);
            match (s.fixed, s.bit, ops.last_mut()) {
                (Some(n), None, Some(PutOp::Copy { from, bytes }))
                    if *from + *bytes == field.offset =>
                {
                    *bytes += n;
                }
                (Some(bytes), None, _) => ops.push(PutOp::Copy { from: field.offset, bytes }),
                (Some(_), Some(bit), _) => ops.push(PutOp::Fixed { field, bit }),
                (None, bit, _) => ops.push(PutOp::Variable { field, bit }),
            }
        }
        ValuePlan { version: schema.version, bitmap_bytes: bits.div_ceil(8), ops }
    }

    pub fn put(&self, row: &RowInput<'_>, out: &mut Vec<u8>) -> Result<()> {
        put_varint(out, u64::from(self.version));
        let bitmap = out.len();
        out.resize(bitmap + self.bitmap_bytes, 0);
        for op in &self.ops {
            match op {
                PutOp::Copy { from, bytes } => {
                    out.extend_from_slice(&row.record[*from..from + bytes]);
                }
                PutOp::Fixed { field, bit } => {
                    if field.is_null(row.record) {
                        out[bitmap + bit / 8] |= 1 << (bit % 8);
                    } else {
                        out.extend_from_slice(field.image(row.record));
                    }
                }
                PutOp::Variable { field, bit } => match bit {
                    Some(bit) if field.is_null(row.record) => {
                        out[bitmap + bit / 8] |= 1 << (bit % 8);
                    }
                    _ => {
                        let content = field.content(row)?;
                        put_varint(out, content.len() as u64);
                        out.extend_from_slice(content);
                    }
                },
            }
        }
        Ok(())
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum ExtraKind {
    Original,
    Difference,
    Spaces,
    ZeroSign,
}

/// Information that an index key loses and its value keeps.
#[derive(Clone, Debug)]
pub(crate) struct Extra {
    pub kind: ExtraKind,
    pub field: Field,
    /// Of a difference: the codes, and whether the key lacks trailing spaces.
    pub codes: Option<(Arc<Codes>, bool)>,
}

impl Extra {
    /// Applies a difference ([`Codes::put_difference`]) to the text that its key part left in the record. `None`: it does not fit.
    pub fn differ(&self, record: &mut [u8], difference: &[u8]) -> Option<()> {
        let field = &self.field;
        let is_elsewhere = field.is_elsewhere(record);
        if !is_elsewhere && difference.is_empty() {
            return Some(());
        }
        let image = &mut record[field.offset..field.offset + field.bytes];
        let (body, len) = field.text(image);
        let len = Codes::apply(difference, body, (!is_elsewhere).then_some(len))?;
        match field.form {
            Form::VarChar { .. } => field.put_length(record, len),
            _ => body[len..].fill(b' '),
        }
        Some(())
    }
}

/// The extras of an index with these parts (its own, then the primary key's). Each column
/// once. `rows`: its values are rows.
pub(crate) fn extras_of(schema: &Schema, parts: &[KeyPart], rows: bool) -> Vec<Extra> {
    let mut extras = Vec::new();
    for column in 0..schema.columns.len() {
        let Some(part) = source_of(parts, column) else { continue };
        let kind = if !part.reversible {
            if rows && schema.columns[column].stored {
                continue;
            }
            ExtraKind::Original
        } else if part.codes().is_some() {
            ExtraKind::Difference
        } else if part.loses_spaces() {
            ExtraKind::Spaces
        } else if part.loses_zero_sign() {
            ExtraKind::ZeroSign
        } else {
            continue;
        };
        let codes = part.codes().map(|(codes, padded)| (Arc::clone(codes), padded));
        extras.push(Extra { kind, field: part.field, codes });
    }
    extras.sort_by_key(|e| e.kind);
    extras
}

/// The part to read `column` from: the first that has it whole.
pub(crate) fn source_of(parts: &[KeyPart], column: usize) -> Option<&KeyPart> {
    parts.iter().find(|p| p.field.column == column && p.whole)
}

pub(crate) fn put_extras(extras: &[Extra], row: &RowInput<'_>, out: &mut Vec<u8>) -> Result<()> {
    let mut keep = out.len();
    for extra in extras {
        let start = out.len();
        let is_null = extra.field.is_null(row.record);
        let n = match extra.kind {
            _ if is_null => 0,
            ExtraKind::Original => extra.field.content(row)?.len(),
            ExtraKind::Difference => {
                if let Some((codes, padded)) = &extra.codes {
                    codes.put_difference(extra.field.content(row)?, *padded, out);
                }
                out.len() - start
            }
            ExtraKind::Spaces => {
                let content = extra.field.content(row)?;
                content.len() - trim_spaces(content).len()
            }
            ExtraKind::ZeroSign => {
                let image = extra.field.image(row.record);
                let (top, rest) = (image[image.len() - 1], &image[..image.len() - 1]);
                usize::from(top == 0x80 && rest.iter().all(|b| *b == 0))
            }
        };
        put_varint(out, n as u64);
        if n > 0 {
            match extra.kind {
                ExtraKind::Original => out.extend_from_slice(extra.field.content(row)?),
                // The length comes first.
                ExtraKind::Difference => out[start..].rotate_left(n),
                _ => {}
            }
            keep = out.len();
        }
    }
    out.truncate(keep);
    Ok(())
}
