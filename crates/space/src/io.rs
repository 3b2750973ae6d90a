//! Whole transfers of unaligned byte strings, with direct I/O hidden.
//!
//! Tested by `tests/space` over a file that insists on alignment.

use std::io;

use frond_base::{Error, Result};
use frond_vfs::{AlignedBuf, VfsFile, DIRECT_ALIGN};

/// Direct writes of memory that is not aligned are copied in pieces of this size.
const PIECE: usize = 1 << 20;

/// Writes `bytes` at `offset` (aligned) and zeros up to the next unit.
pub fn write_padded(file: &dyn VfsFile, name: &str, bytes: &[u8], offset: u64) -> Result<()> {
    let failed = |e: io::Error| Error::io("write to", name, e);
    let padding = bytes.len().next_multiple_of(DIRECT_ALIGN) - bytes.len();
    if !file.is_direct() {
        file.write_all_at(bytes, offset).map_err(failed)?;
        let zeros = [0u8; DIRECT_ALIGN];
        return file.write_all_at(&zeros[..padding], offset + bytes.len() as u64).map_err(failed);
    }
    if padding == 0 && (bytes.as_ptr() as usize).is_multiple_of(DIRECT_ALIGN) {
        return file.write_all_at(bytes, offset).map_err(failed);
    }
    let mut piece = AlignedBuf::with_capacity(PIECE.min(bytes.len() + padding));
    for (i, part) in bytes.chunks(PIECE).enumerate() {
        piece.clear();
        piece.extend_from_slice(part);
        piece.pad_to_align();
        file.write_all_at(&piece, offset + (i * PIECE) as u64).map_err(failed)?;
    }
    Ok(())
}

/// Reads `len` bytes at `offset`. The end of the file within them is [`frond_base::ErrorKind::Corruption`]:
/// whoever asks has it from a block map that says the bytes exist.
pub fn read(file: &dyn VfsFile, name: &str, offset: u64, len: usize) -> Result<Vec<u8>> {
    let failed = |e: io::Error| match e.kind() {
        io::ErrorKind::UnexpectedEof => Error::corruption(
            name,
            format_args!("the file ends within the {len} bytes at offset {offset}"),
        ),
        _ => Error::io("read", name, e),
    };
    if !file.is_direct() {
        let mut bytes = vec![0; len];
        file.read_exact_at(&mut bytes, offset).map_err(failed)?;
        return Ok(bytes);
    }
    let skip = (offset % DIRECT_ALIGN as u64) as usize;
    let mut units = AlignedBuf::zeroed((skip + len).next_multiple_of(DIRECT_ALIGN));
    file.read_exact_at(&mut units, offset - skip as u64).map_err(failed)?;
    Ok(units[skip..skip + len].to_vec())
}
