//! One column of a record image: its NULL bit, its contents, and putting contents back.

use frond_base::{Error, ErrorKind, Result};

use crate::blobs::BlobSink;
use crate::layout::ColumnPlace;
use crate::order::trim_spaces;
use crate::row_input::RowInput;
use crate::schema::{Column, ColumnType};

/// The layout of a column's contents in its image.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    /// The image is the contents.
    Fixed,
    /// Contents padded with spaces to the image's length.
    Char,
    /// `length` little-endian length bytes, then the contents.
    VarChar { length: usize },
    /// `length` little-endian length bytes, then a pointer to the contents.
    Blob { length: usize },
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Field {
    pub column: usize,
    pub offset: usize,
    pub bytes: usize,
    pub null: Option<(usize, u8)>,
    pub form: Form,
}

/// Stands in a record for a text that does not come back from its key part, until the value is read: no text that comes back
/// has this byte.
pub(crate) const ELSEWHERE: u8 = 0;

/// The contents do not fit the column. Callers add the place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Misfit;

impl Form {
    pub fn of(c: &Column) -> Form {
        match c.ty {
            // Padding of wider characters (UTF-16, UTF-32) is not one byte: it is kept.
            ColumnType::Char if c.min_char_bytes == 1 => Form::Char,
            ColumnType::VarChar { length_bytes } => Form::VarChar { length: length_bytes.into() },
            ColumnType::Blob { length_bytes } => Form::Blob { length: length_bytes.into() },
            _ => Form::Fixed,
        }
    }
}

#[inline]
pub(crate) fn read_le(bytes: &[u8]) -> u64 {
    match *bytes {
        [a] => u64::from(a),
        [a, b] => u64::from(u16::from_le_bytes([a, b])),
        [a, b, c, d] => u64::from(u32::from_le_bytes([a, b, c, d])),
        _ => {
            let mut n = [0u8; 8];
            n[..bytes.len()].copy_from_slice(bytes);
            u64::from_le_bytes(n)
        }
    }
}

impl Field {
    pub fn new(column: usize, c: &Column, place: &ColumnPlace) -> Field {
        Field {
            column,
            offset: place.offset as usize,
            bytes: c.bytes as usize,
            null: place.null.map(|(byte, mask)| (byte as usize, mask)),
            form: Form::of(c),
        }
    }

    #[inline]
    pub fn is_null(&self, record: &[u8]) -> bool {
        self.null.is_some_and(|(byte, mask)| record[byte] & mask != 0)
    }

    #[inline]
    pub fn image<'a>(&self, record: &'a [u8]) -> &'a [u8] {
        &record[self.offset..self.offset + self.bytes]
    }

    /// The contents, without padding or length bytes. Not for NULL.
    #[inline]
    pub fn content<'a>(&self, row: &RowInput<'a>) -> Result<&'a [u8]> {
        let image = self.image(row.record);
        match self.form {
            Form::Fixed => Ok(image),
            Form::Char => Ok(trim_spaces(image)),
            Form::VarChar { length } => {
                let n = read_le(&image[..length]) as usize;
                image[length..].get(..n).ok_or_else(|| {
                    Error::new(
                        ErrorKind::InvalidArgument,
                        format!("column {} claims {n} bytes of {}", self.column, self.bytes),
                    )
                })
            }
            Form::Blob { .. } => Ok(row.blobs.blob(self.column, image)),
        }
    }

    /// Sets or clears the NULL bit.
    #[inline]
    pub fn set_null(&self, record: &mut [u8], is_null: bool) {
        if let Some((byte, mask)) = self.null {
            if is_null {
                record[byte] |= mask;
            } else {
                record[byte] &= !mask;
            }
        }
    }

    /// Makes the field NULL, its image zero, so that equal rows have equal images. In a column that
    /// is NOT NULL this leaves zero or empty.
    pub fn put_null(&self, record: &mut [u8]) {
        self.set_null(record, true);
        let length = match self.form {
            Form::VarChar { length } => length,
            _ => self.bytes,
        };
        let fill = if self.form == Form::Char && self.null.is_none() { b' ' } else { 0 };
        record[self.offset..self.offset + length].fill(fill);
    }

    /// Writes contents into the image; the caller sets the NULL bit.
    #[inline]
    pub fn put(
        &self,
        record: &mut [u8],
        content: &[u8],
        sink: &mut dyn BlobSink,
    ) -> std::result::Result<(), Misfit> {
        let image = &mut record[self.offset..self.offset + self.bytes];
        match self.form {
            Form::Fixed => {
                if content.len() != self.bytes {
                    return Err(Misfit);
                }
                image.copy_from_slice(content);
            }
            Form::Char => {
                image.get_mut(..content.len()).ok_or(Misfit)?.copy_from_slice(content);
                image[content.len()..].fill(b' ');
            }
            Form::VarChar { length } => {
                let body = image[length..].get_mut(..content.len()).ok_or(Misfit)?;
                body.copy_from_slice(content);
                self.put_length(record, content.len());
            }
            Form::Blob { length } => {
                if length < 4 && content.len() >> (8 * length) > 0 {
                    return Err(Misfit);
                }
                image[..length].copy_from_slice(&(content.len() as u64).to_le_bytes()[..length]);
                sink.put_blob(self.column, image, content);
            }
        }
        Ok(())
    }

    /// The place of a text in its image, and the text's length.
    pub fn text<'a>(&self, image: &'a mut [u8]) -> (&'a mut [u8], usize) {
        match self.form {
            Form::VarChar { length } => {
                let (length, body) = image.split_at_mut(length);
                (body, read_le(length) as usize)
            }
            _ => {
                let len = trim_spaces(image).len();
                (image, len)
            }
        }
    }

    /// Whether the text's key part has left it to the value.
    pub fn is_elsewhere(&self, record: &[u8]) -> bool {
        let image = self.image(record);
        match self.form {
            Form::VarChar { length } => {
                read_le(&image[..length]) == 1 && image.get(length) == Some(&ELSEWHERE)
            }
            _ => image.first() == Some(&ELSEWHERE),
        }
    }

    /// Writes the length bytes of a VARCHAR whose contents are already in place.
    #[inline]
    pub fn put_length(&self, record: &mut [u8], n: usize) {
        if let Form::VarChar { length } = self.form {
            let n = (n as u64).to_le_bytes();
            record[self.offset..self.offset + length].copy_from_slice(&n[..length]);
        }
    }
}
