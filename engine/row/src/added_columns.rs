//! Columns that are being added while an index of them is built: rows do not store them, and each row has their defaults.

use frond_base::{Error, ErrorKind, Result};

use crate::blobs::OwnedBlobs;
use crate::field::{Field, Form};
use crate::layout::{ColumnPlace, RecordLayout};
use crate::schema::{DefaultValue, Schema};

impl RecordLayout {
    /// The same records as rows of `schema`, which may have more columns at its end: in each row these have their
    /// defaults. For indexes that are built together with columns that are added.
    ///
    /// Errors: `InvalidArgument` for a default that does not fit its column, or of a BLOB, and for columns that are not [`Column::coming`].
    pub(crate) fn with_defaults(&self, schema: &Schema) -> Result<RecordLayout> {
        let mut all = self.clone();
        all.columns.truncate(self.own);
        let added = schema.columns.get(self.own..).unwrap_or_default();
        let behind = RecordLayout::compact_of(added);
        all.defaults = vec![0; behind.record_bytes as usize];
        for (n, (c, place)) in added.iter().zip(&behind.columns).enumerate() {
            if !c.coming {
                let what = format!("records lack column '{}'", c.name);
                return Err(Error::new(ErrorKind::InvalidArgument, what));
            }
            let field = Field::new(self.own + n, c, place);
            let fits = match &c.default {
                DefaultValue::Empty => {
                    field.put_null(&mut all.defaults);
                    true
                }
                DefaultValue::Bytes(_) if matches!(field.form, Form::Blob { .. }) => false,
                DefaultValue::Bytes(value) => {
                    field.put(&mut all.defaults, value, &mut OwnedBlobs::default()).is_ok()
                }
            };
            if !fits {
                let what = format!("the default of column '{}' does not fit it", c.name);
                return Err(Error::new(ErrorKind::InvalidArgument, what));
            }
            let null = place.null.map(|(byte, mask)| (byte + self.record_bytes, mask));
            all.columns.push(ColumnPlace { offset: place.offset + self.record_bytes, null });
        }
        Ok(all)
    }
}
