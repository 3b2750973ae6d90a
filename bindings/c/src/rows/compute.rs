//! Entries with virtual columns, for the check: the server computes the columns of each row.

use std::sync::Arc;

use frond_base::{Error, ErrorKind, Result};
use frond_engine::rows::Computer;
use frond_row::{BlobSink, Entries, Projection, RowCodec, RowInput};

use super::bind::ServerBlobs;
use crate::abi::frond_row_computer;

/// Decodes rows into the server's record, has it computed, and encodes entries from it.
pub struct ServerComputer<'a> {
    codec: Arc<RowCodec>,
    projection: Projection,
    server: &'a frond_row_computer,
}

impl<'a> ServerComputer<'a> {
    pub fn new(codec: &Arc<RowCodec>, server: &'a frond_row_computer) -> ServerComputer<'a> {
        let projection = codec.project(0, |column| codec.covers(0, column));
        ServerComputer { codec: codec.clone(), projection, server }
    }
}

/// Pointers to where the bytes are: the row outlives the use of the record.
struct Pointers;

impl BlobSink for Pointers {
    fn put_blob(&mut self, _column: usize, field: &mut [u8], bytes: &[u8]) {
        if let Some(pointer) = field.last_chunk_mut::<8>() {
            *pointer = (bytes.as_ptr() as usize).to_ne_bytes();
        }
    }
}

impl Computer for ServerComputer<'_> {
    fn entries(&mut self, key: &[u8], row: &[u8], wanted: u128, out: &mut Entries) -> Result<()> {
        let len = self.codec.layout().record_bytes as usize;
        {
            // SAFETY: A2, the record has the length that the table was opened with, and the server does not
            // touch it before `compute`.
            let record = unsafe { std::slice::from_raw_parts_mut(self.server.record, len) };
            self.codec.decode(&self.projection, key, row, record, &mut Pointers)?;
        }
        if self.server.compute.is_none_or(|f| f(self.server.ctx) != 0) {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "the server cannot compute its columns",
            ));
        }
        let row_id = match self.codec.schema().hidden_primary {
            true => self.codec.row_id(0, key)?,
            false => 0,
        };
        // SAFETY: A2, as above; `compute` has returned.
        let record = unsafe { std::slice::from_raw_parts(self.server.record, len) };
        let input = RowInput { record, blobs: &ServerBlobs, row_id };
        self.codec.encode_indexes(&input, wanted, out)
    }
}
