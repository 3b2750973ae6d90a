//! Index entries from stored rows: for building an index, for checking one, and for a table that gets other keys.

use std::sync::Arc;

use frond_base::{Error, ErrorKind, Result};

use crate::blobs::OwnedBlobs;
use crate::codec::RowCodec;
use crate::entries::Entries;
use crate::project::Projection;
use crate::row_input::RowInput;

/// Turns entries of the primary index into entries of other indexes. One per thread.
pub struct Deriver {
    codec: Arc<RowCodec>,
    /// Encodes the entries, if not `codec`.
    anew: Option<Arc<RowCodec>>,
    wanted: u128,
    projection: Projection,
    record: Vec<u8>,
    blobs: OwnedBlobs,
}

impl Deriver {
    /// For the indexes whose bit is set in `wanted`.
    ///
    /// Errors: `Unsupported` when one of them has a computed column, which only the server can
    /// compute.
    pub fn new(codec: Arc<RowCodec>, wanted: u128) -> Result<Deriver> {
        let wanted = wanted & !1;
        let plans = || codec.plans.iter().filter(|p| wanted >> p.index & 1 == 1);
        let mut needed: Vec<usize> =
            plans().flat_map(|p| p.parts.iter().map(|part| part.field.column)).collect();
        if plans().any(|p| p.rows) {
            let columns = codec.schema.columns.iter().enumerate();
            needed.extend(columns.filter(|(_, c)| c.stored).map(|(n, _)| n));
        }
        let primary = &codec.plans[0].parts;
        // The others have their defaults.
        needed.retain(|column| *column < codec.columns());
        let projection = codec
            .project(0, |c| needed.contains(&c) || primary.iter().any(|p| p.field.column == c));
        if let Some(n) = projection.missing().first() {
            let column = &codec.schema.columns[usize::from(*n)].name;
            let what = format!("{}: column '{column}' is computed by the server", codec.name);
            return Err(Error::new(ErrorKind::Unsupported, what));
        }
        let record = vec![0; codec.layout.record_bytes as usize];
        let (anew, blobs) = Default::default();
        Ok(Deriver { codec, anew, wanted, projection, record, blobs })
    }

    /// Decodes rows by `from`, and encodes all their entries by `to`. Both have the same columns and the same layout.
    ///
    /// Errors: `Unsupported` when an index of `to` has a computed column.
    pub fn anew(from: Arc<RowCodec>, to: Arc<RowCodec>) -> Result<Deriver> {
        assert_eq!(
            from.layout, to.layout,
            "rows are encoded from other records than they are decoded to"
        );
        let mut parts = to.plans.iter().flat_map(|p| &p.parts);
        if let Some(part) = parts.find(|p| !to.schema.columns[p.field.column].stored) {
            let column = &to.schema.columns[part.field.column].name;
            let what = format!("{}: column '{column}' is computed by the server", to.name);
            return Err(Error::new(ErrorKind::Unsupported, what));
        }
        let projection = from.project(0, |c| from.schema.columns[c].stored);
        let record = vec![0; from.layout.record_bytes as usize];
        let blobs = OwnedBlobs::default();
        Ok(Deriver { codec: from, anew: Some(to), wanted: u128::MAX, projection, record, blobs })
    }

    /// The entries for one entry of the primary index. Slots as in [`RowCodec::encode_indexes`].
    pub fn derive(&mut self, key: &[u8], value: &[u8], out: &mut Entries) -> Result<()> {
        self.blobs.clear();
        self.codec.decode(&self.projection, key, value, &mut self.record, &mut self.blobs)?;
        let row_id = match self.codec.schema.hidden_primary {
            true => self.codec.row_id(0, key)?,
            false => 0,
        };
        let row = RowInput { record: &self.record, blobs: &self.blobs, row_id };
        self.anew.as_ref().unwrap_or(&self.codec).encode_indexes(&row, self.wanted, out)
    }
}
