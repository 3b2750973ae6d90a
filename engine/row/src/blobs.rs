//! Access to the values to which a record image points.
//!
//! A blob column's field is a little-endian length and an eight-byte pointer. Safe code cannot
//! follow the pointer; the owner of the record does.

/// Reads blob columns of one record.
pub trait Blobs {
    /// The blob whose field image (length bytes, then eight bytes) is `field`; `column` is its
    /// position in the schema. Not called for NULL.
    fn blob<'a>(&'a self, column: usize, field: &'a [u8]) -> &'a [u8];
}

/// Receives blob columns while a record is decoded.
pub trait BlobSink {
    /// Stores a pointer to `bytes`, or to a copy of them, in the last eight bytes of `field`. The
    /// length bytes are already written. `bytes` are borrowed from the entry's value: a sink that
    /// does not copy must keep that value alive as long as the record is used.
    fn put_blob(&mut self, column: usize, field: &mut [u8], bytes: &[u8]);
}

/// For tables without blob columns.
pub struct NoBlobs;

impl Blobs for NoBlobs {
    fn blob<'a>(&'a self, column: usize, _: &'a [u8]) -> &'a [u8] {
        panic!("column {column} is a blob, but the caller said the table has none");
    }
}

impl BlobSink for NoBlobs {
    fn put_blob(&mut self, column: usize, _: &mut [u8], _: &[u8]) {
        panic!("column {column} is a blob, but the caller said the table has none");
    }
}

/// Blobs kept in a vector; the "pointer" in the record is a position in it.
#[derive(Default)]
pub struct OwnedBlobs {
    blobs: Vec<Vec<u8>>,
}

impl OwnedBlobs {
    /// Forgets all blobs; records decoded before must not be used any more.
    pub fn clear(&mut self) {
        self.blobs.clear();
    }

    /// Keeps `bytes` and returns the eight bytes that stand for them.
    pub fn add(&mut self, bytes: &[u8]) -> [u8; 8] {
        self.blobs.push(bytes.to_vec());
        (self.blobs.len() as u64 - 1).to_le_bytes()
    }
}

impl Blobs for OwnedBlobs {
    fn blob<'a>(&'a self, _: usize, field: &'a [u8]) -> &'a [u8] {
        let mut pointer = [0u8; 8];
        pointer.copy_from_slice(&field[field.len() - 8..]);
        self.blobs.get(u64::from_le_bytes(pointer) as usize).map_or(&[], |b| b)
    }
}

impl BlobSink for OwnedBlobs {
    fn put_blob(&mut self, _: usize, field: &mut [u8], bytes: &[u8]) {
        let pointer = self.add(bytes);
        let at = field.len() - 8;
        field[at..].copy_from_slice(&pointer);
    }
}
