//! Stored rows as text, for tools: no server, no record layout from outside.

use std::sync::Arc;

use frond_base::Result;

use crate::blobs::{Blobs, OwnedBlobs};
use crate::codec::RowCodec;
use crate::field::{read_le, trim_spaces, Field, Form};
use crate::layout::RecordLayout;
use crate::order::PlainSortKeys;
use crate::project::Projection;
use crate::schema::Schema;
use crate::text_value::{put_value, Value};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TextStyle {
    /// Values between tabs; NULL is `\N`; tab, newline, carriage return, NUL and backslash in text
    /// are escaped with a backslash; bytes that are no UTF-8 are `0x` and hex digits. Columns an
    /// index does not hold are left out.
    Tabs,
    /// One JSON object. Decimals, dates and hex are strings.
    Json,
}

/// Prints entries of one table.
pub struct RowText {
    codec: RowCodec,
    projections: Vec<Projection>,
    record: Vec<u8>,
    blobs: OwnedBlobs,
}

impl RowText {
    /// `history`: older schemas that rows may carry the versions of.
    pub fn new(name: &str, schema: Arc<Schema>, history: Vec<Arc<Schema>>) -> Result<RowText> {
        schema.validate()?;
        let layout = RecordLayout::compact(&schema);
        let record = vec![0; layout.record_bytes as usize];
        let codec = RowCodec::bind(name, schema, layout, history, Arc::new(PlainSortKeys))?;
        let projections = (0..codec.schema.indexes.len())
            .map(|n| codec.project(n, |column| codec.covers(n, column)))
            .collect();
        Ok(RowText { codec, projections, record, blobs: OwnedBlobs::default() })
    }

    /// Names of the columns that [`RowText::row_to_text`] prints for `index`, between tabs; empty
    /// for JSON.
    pub fn header(&self, index: usize, style: TextStyle) -> String {
        if style == TextStyle::Json {
            return String::new();
        }
        let columns = self.codec.schema.columns.iter().enumerate();
        let held = columns.filter(|(n, _)| self.codec.covers(index, *n));
        let names: Vec<&str> = held.map(|(_, c)| c.name.as_str()).collect();
        names.join("\t")
    }

    /// Appends the columns that an entry of `index` holds, in schema order, without a line end. A
    /// hidden row id is printed in JSON only, as `_rowid`.
    pub fn row_to_text(
        &mut self,
        index: usize,
        key: &[u8],
        value: &[u8],
        style: TextStyle,
        out: &mut String,
    ) -> Result<()> {
        self.blobs.clear();
        let projection = &self.projections[index];
        self.codec.decode(projection, key, value, &mut self.record, &mut self.blobs)?;
        let schema = Arc::clone(&self.codec.schema);
        let mut first = true;
        if style == TextStyle::Json {
            out.push('{');
            if schema.hidden_primary {
                out.push_str(&format!("\"_rowid\":{}", self.codec.row_id(index, key)?));
                first = false;
            }
        }
        for (n, c) in schema.columns.iter().enumerate() {
            if !self.codec.covers(index, n) {
                continue;
            }
            let field = Field::new(n, c, &self.codec.layout.columns[n]);
            let image = field.image(&self.record);
            let value = if field.is_null(&self.record) {
                Value::Null
            } else {
                let content = match field.form {
                    Form::Fixed => image,
                    Form::Char => trim_spaces(image),
                    Form::Blob { .. } => self.blobs.blob(n, image),
                    Form::VarChar { length } => {
                        let end = length + read_le(&image[..length]) as usize;
                        image.get(length..end).unwrap_or(&[])
                    }
                };
                Value::of(c, content)
            };
            if !first {
                out.push(if style == TextStyle::Json { ',' } else { '\t' });
            }
            first = false;
            if style == TextStyle::Json {
                put_value(&Value::Text(c.name.clone()), style, out);
                out.push(':');
            }
            put_value(&value, style, out);
        }
        if style == TextStyle::Json {
            out.push('}');
        }
        Ok(())
    }
}
