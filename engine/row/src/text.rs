//! Stored rows as text, for tools: no server, no record layout from outside.

use std::sync::Arc;

use frond_base::Result;

use crate::blobs::{Blobs, OwnedBlobs};
use crate::codec::RowCodec;
use crate::field::{read_le, Field, Form};
use crate::history::History;
use crate::layout::RecordLayout;
use crate::order::{trim_spaces, PlainSortKeys};
use crate::project::Projection;
use crate::schema::Schema;
use crate::text_value::{put_value, TextStyle, Value};

/// Prints entries of one table.
pub struct RowText {
    codec: RowCodec,
    projections: Vec<Projection>,
    record: Vec<u8>,
    blobs: OwnedBlobs,
}

impl RowText {
    /// `history`: older schemas whose versions rows may have.
    pub fn new(name: &str, schema: Arc<Schema>, history: Vec<Arc<Schema>>) -> Result<RowText> {
        schema.validate()?;
        let layout = RecordLayout::compact(&schema);
        let record = vec![0; layout.record_bytes as usize];
        let history = History::new(name, &schema, history)?;
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

    /// A key of `index`, or its first parts, for people: `a=7, b="text"`. Weights of a collation are printed as
    /// `~"text"`, in which the case of letters says nothing: as the characters of their codes, and where they have
    /// no codes, if they look like text; otherwise in hexadecimal.
    pub fn key_to_text(&mut self, index: usize, key: &[u8]) -> String {
        let schema = Arc::clone(&self.codec.schema);
        let plan = Arc::clone(&self.codec.plans[index]);
        let mut out = String::new();
        let mut at = 0;
        for part in &plan.parts {
            if at >= key.len() {
                break;
            }
            let c = &schema.columns[part.field.column];
            let from = at;
            let text = match part.read(key, &mut at, &mut self.record) {
                Err(_) => return out + &loose_text(&key[from..]),
                Ok(true) => "NULL".to_string(),
                Ok(false) if part.has_codes() => match part.listed(&key[from..at]) {
                    // The case of letters is in the value.
                    Some(text) => format!("~{:?}", String::from_utf8_lossy(&text)),
                    None => hex(&key[from..at]),
                },
                Ok(false) if !part.reversible => loose_text(&key[from..at]),
                Ok(false) => {
                    let image = part.field.image(&self.record);
                    let content = match part.field.form {
                        Form::Fixed => image,
                        Form::Char => trim_spaces(image),
                        Form::Blob { .. } => &[],
                        Form::VarChar { length } => {
                            let end = length + read_le(&image[..length]) as usize;
                            image.get(length..end).unwrap_or(&[])
                        }
                    };
                    let mut text = String::new();
                    put_value(&Value::of(c, content), TextStyle::Json, &mut text);
                    text
                }
            };
            let comma = if out.is_empty() { "" } else { ", " };
            out.push_str(&format!("{comma}{}={text}", c.name));
        }
        if schema.hidden_primary && index == 0 {
            let row = self.codec.row_id(0, key).map_or_else(|_| loose_text(key), |n| n.to_string());
            out.push_str(&format!("row {row}"));
        }
        out
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

/// Weights of simple collations, without codes, are capital letters, perhaps with zeros between them, and marks at
/// their ends.
fn loose_text(bytes: &[u8]) -> String {
    let letters: Vec<u8> = bytes.iter().copied().filter(|b| *b > 3).collect();
    if !letters.is_empty() && letters.iter().all(|b| (0x20..0x7f).contains(b)) {
        return format!("~{:?}", String::from_utf8_lossy(&letters).trim_end());
    }
    hex(bytes)
}

fn hex(bytes: &[u8]) -> String {
    const SHOWN: usize = 64;
    let digits: String = bytes.iter().take(SHOWN).map(|b| format!("{b:02x}")).collect();
    format!("0x{digits}{}", if bytes.len() > SHOWN { "..." } else { "" })
}
