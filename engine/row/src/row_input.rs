//! What is encoded.

use crate::blobs::Blobs;

/// A row to encode.
#[derive(Clone, Copy)]
pub struct RowInput<'a> {
    /// The record image, at least the layout's `record_bytes` long.
    pub record: &'a [u8],
    pub blobs: &'a dyn Blobs,
    /// The hidden primary key; ignored by tables with a primary key of their own.
    pub row_id: u64,
}
