//! Whole transfers of unaligned byte strings, with direct I/O hidden.
//!
//! Tested by `tests/it` over a file that insists on alignment.

use std::io;

use frond_base::{Error, Result};
use frond_vfs::{AlignedBuf, ReadAt, VfsFile, DIRECT_ALIGN};

/// Direct writes of memory that is not aligned are copied in pieces of this size.
const PIECE: usize = 1 << 20;

/// Writes `bytes` at `offset` (aligned) and zeros up to the next unit.
pub fn write_padded(file: &dyn VfsFile, name: &str, bytes: &[u8], offset: u64) -> Result<()> {
    let failed = |e: io::Error| Error::io("write to", name, e);
    let padding = bytes.len().next_multiple_of(DIRECT_ALIGN) - bytes.len();
    if file.direct().is_none() {
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

/// Reads `len` bytes at `offset`. The end of the file within them is
/// [`frond_base::ErrorKind::Corruption`]: a block map said that the bytes exist.
pub fn read(file: &dyn VfsFile, name: &str, offset: u64, len: usize) -> Result<Vec<u8>> {
    let Some(align) = file.direct() else {
        let mut bytes = vec![0; len];
        let done = file.read_exact_at(&mut bytes, offset);
        return done.map(|()| bytes).map_err(|e| failed(e, name, offset, len));
    };
    let mut units = Units::new(align, offset, len);
    let done = file.read_exact_at(&mut units.buf, units.offset);
    done.map(|()| units.bytes()).map_err(|e| failed(e, name, offset, len))
}

/// As [`read`] for each place, offset and length, all at once where the file can.
pub fn read_together(
    file: &dyn VfsFile,
    name: &str,
    places: &[(u64, usize)],
) -> Vec<Result<Vec<u8>>> {
    let one = |&(offset, len): &(u64, usize)| read(file, name, offset, len);
    let Some(align) = file.direct().filter(|_| places.len() > 1) else {
        return places.iter().map(one).collect();
    };
    let mut units: Vec<Units> =
        places.iter().map(|(offset, len)| Units::new(align, *offset, *len)).collect();
    let mut reads: Vec<ReadAt<'_>> = units.iter_mut().map(Units::read).collect();
    file.read_together(&mut reads);
    let done: Vec<_> = reads.into_iter().map(|r| r.done).collect();
    let finish = |((mut units, done), &(offset, len)): ((Units, Done), &(u64, usize))| {
        let whole = match done {
            Some(Ok(n)) if n == units.buf.len() => Ok(()),
            Some(Err(e)) if e.kind() != io::ErrorKind::Interrupted => Err(e),
            // Short reads are rare: the read is repeated.
            _ => file.read_exact_at(&mut units.buf, units.offset),
        };
        whole.map(|()| units.bytes()).map_err(|e| failed(e, name, offset, len))
    };
    units.into_iter().zip(done).zip(places).map(finish).collect()
}

/// The outcome of one of several reads.
type Done = Option<io::Result<usize>>;

fn failed(e: io::Error, name: &str, offset: u64, len: usize) -> Error {
    match e.kind() {
        io::ErrorKind::UnexpectedEof => Error::corruption(
            name,
            format_args!("the file ends within the {len} bytes at offset {offset}"),
        ),
        _ => Error::io("read", name, e),
    }
}

/// The aligned units around some bytes of a direct file.
struct Units {
    buf: AlignedBuf,
    offset: u64,
    skip: usize,
    len: usize,
}

impl Units {
    fn new(align: usize, offset: u64, len: usize) -> Units {
        let skip = (offset % align as u64) as usize;
        let buf = AlignedBuf::zeroed((skip + len).next_multiple_of(align));
        Units { buf, offset: offset - skip as u64, skip, len }
    }

    fn read(&mut self) -> ReadAt<'_> {
        ReadAt { buf: &mut self.buf, offset: self.offset, done: None }
    }

    fn bytes(&self) -> Vec<u8> {
        self.buf[self.skip..self.skip + self.len].to_vec()
    }
}
