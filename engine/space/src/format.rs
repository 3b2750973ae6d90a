//! The bytes of a table file: the only place that describes, encodes and decodes them.
//!
//! Numbers are little-endian. The file is a row of 4096-byte units:
//!
//! ```text
//! 0      header slot 0     checkpoints with even sequence numbers
//! 4096   header slot 1     checkpoints with odd sequence numbers
//! 8192.. extents           runs, packs of nodes and checkpoint images, each a whole number of units
//! ```
//!
//! Header (one unit):
//!
//! ```text
//! 0    8  magic "FrondTbl"
//! 8    4  format version (1)
//! 12   4  required features (0): a reader that does not know a set bit refuses the file
//! 16   8  database
//! 24   4  table
//! 28   4  zero
//! 32   8  checkpoint sequence; its lowest bit is the slot
//! 40   8  checkpoint LSN: the log is replayed from here
//! 48   8  image offset   (0: no image, only in sequences 0 and 1, which create the file)
//! 56   8  image length in bytes (the extent is that, rounded up to units)
//! 64   8  image checksum, seeded with database, table and sequence
//! 72      zeros
//! 504  8  checksum of the 504 bytes before, seeded with the slot
//! 512     unused: zeros when written, not looked at
//! ```
//!
//! All used bytes are in the slot's first sector, which a crash leaves old or new (V5 of the vfs),
//! never torn. So a header that does not verify is damaged. Rejected: a checksum over the whole
//! unit. A torn header would then look like a damaged one; when the log was already trimmed beyond
//! the other header's LSN (no change of the table in between), opening would have to refuse after a
//! mere crash.
//!
//! Magic, version and the place of the checksum are the same in every version of this format, so
//! that a reader can tell a newer release's file from a damaged one.
//!
//! Image:
//!
//! ```text
//! 0    8  magic "FrondImg"
//! 8    8  database
//! 16   4  table
//! 20   4  zero
//! 24   8  checkpoint sequence
//! 32   8  next block id
//! 40   8  number of blocks
//! 48   8  length of the block map in bytes
//! 56   8  length of the caller's bytes
//! 64      block map: per block, ids ascending, varints: id minus the previous id (the first: minus 0),
//!         offset in units, length in units
//! ..      the caller's bytes, to the end
//! ```
//!
//! Decoding never panics and allocates no more than the input's size in order of magnitude.
//!
//! Tested by the unit tests below and by `tests/it/damage.rs`.

use frond_base::{
    checksum64_seeded, put_varint, BlockId, ByteReader, Error, ErrorKind, Lsn, Result, TableId,
};

use crate::extent::{aligned, Extent, EXTENT_ALIGN};

/// Bytes of one header slot.
pub const HEADER_BYTES: usize = 4096;
/// The newer of the two headers that creation writes. Both slots verify from then on, so that a
/// slot of zeros is damage, never a slot that no checkpoint has used yet.
pub const CREATED: u64 = 1;
/// Where extents begin.
pub const FIRST_EXTENT: u64 = 2 * HEADER_BYTES as u64;
/// No extent ends behind this (1 PiB): keeps sums of hostile offsets far from overflow.
pub const MAX_FILE: u64 = 1 << 50;
/// Largest image in bytes. It lies in the file, so a reader allocates no more than the file's length.
pub const MAX_IMAGE: u64 = 16 << 30;
/// Checkpoints and blocks are counted upwards from 1; forged numbers must not overflow.
pub const MAX_NUMBER: u64 = 1 << 62;
/// Fixed front of an image.
pub const IMAGE_FRONT: usize = 64;

const MAGIC: &[u8; 8] = b"FrondTbl";
const IMAGE_MAGIC: &[u8; 8] = b"FrondImg";
const VERSION: u32 = 1;
const KNOWN_FEATURES: u32 = 0;
/// A sector, so that a header is never torn.
const HEADER_SECTOR: usize = 512;
const CHECKSUM_AT: usize = HEADER_SECTOR - 8;

/// Identifies a file: its database and its table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Identity {
    pub database: u64,
    pub table: TableId,
}

/// Where an image is, and the checksum of its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ImageRef {
    pub offset: u64,
    /// Exact length, bytes.
    pub len: u64,
    pub checksum: u64,
}

impl ImageRef {
    pub fn extent(&self) -> Extent {
        Extent { offset: self.offset, len: aligned(self.len).unwrap_or(MAX_FILE) }
    }
}

/// A header that verified.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    pub seq: u64,
    pub lsn: Lsn,
    pub image: Option<ImageRef>,
}

/// What one header slot holds.
pub enum Slot {
    Valid(Header),
    /// Damaged; the text says why, for messages.
    Invalid(String),
}

/// The slot a checkpoint sequence is written to.
pub fn slot_of(seq: u64) -> usize {
    (seq & 1) as usize
}

fn header_checksum(bytes: &[u8], slot: usize) -> u64 {
    checksum64_seeded(&bytes[..CHECKSUM_AT], 0x6672_6f6e_6468_6472 + slot as u64)
}

/// The checksum of an image; `id` and `seq` are part of it.
pub fn image_checksum(bytes: &[u8], id: Identity, seq: u64) -> u64 {
    let table = u64::from(id.table.0).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    checksum64_seeded(bytes, id.database ^ table ^ seq.rotate_left(32))
}

/// The unit that goes to slot [`slot_of`]`(header.seq)`.
pub fn encode_header(header: &Header, id: Identity) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER_BYTES);
    let image = header.image.unwrap_or(ImageRef { offset: 0, len: 0, checksum: 0 });
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&VERSION.to_le_bytes());
    out.extend_from_slice(&0u32.to_le_bytes());
    out.extend_from_slice(&id.database.to_le_bytes());
    out.extend_from_slice(&u64::from(id.table.0).to_le_bytes());
    for n in [header.seq, header.lsn, image.offset, image.len, image.checksum] {
        out.extend_from_slice(&n.to_le_bytes());
    }
    out.resize(CHECKSUM_AT, 0);
    let sum = header_checksum(&out, slot_of(header.seq));
    out.extend_from_slice(&sum.to_le_bytes());
    out.resize(HEADER_BYTES, 0);
    out
}

/// Both slots of a copy whose newest header is `header`. The older header has to verify, too, or the copy
/// would look damaged. Its own image is not copied, so it names the newer header's image. It is used only
/// when the newer header is damaged, and then that image does not verify: an image's checksum includes the
/// sequence.
pub fn front(header: &Header, id: Identity) -> Vec<u8> {
    let seq = header.seq.saturating_sub(1);
    let image = header.image.filter(|_| seq > CREATED);
    let older = encode_header(&Header { seq, lsn: header.lsn, image }, id);
    let newer = encode_header(header, id);
    match slot_of(header.seq) {
        0 => [newer, older].concat(),
        _ => [older, newer].concat(),
    }
}

/// Decodes one header slot (exactly [`HEADER_BYTES`] bytes). A slot that does not verify is
/// [`Slot::Invalid`]: the other slot decides. A slot that verifies but is of a newer format, of
/// another file or impossible is an error, as no crash produces it.
pub fn decode_header(bytes: &[u8], slot: usize, id: Identity, file: &str) -> Result<Slot> {
    assert_eq!(bytes.len(), HEADER_BYTES);
    let at = slot * HEADER_BYTES;
    let bad = |what: &str| Error::corruption(file, format_args!("header at offset {at}: {what}"));
    let short = |e: frond_base::ShortInput| e.in_file(file, "header");
    if bytes.iter().all(|b| *b == 0) {
        return Ok(Slot::Invalid("never written".into()));
    }
    if &bytes[..8] != MAGIC {
        return Ok(Slot::Invalid("not a Frond table file header".into()));
    }
    let stored = ByteReader::new(&bytes[CHECKSUM_AT..]).u64().map_err(short)?;
    if stored != header_checksum(bytes, slot) {
        return Ok(Slot::Invalid("checksum does not match".into()));
    }
    let mut r = ByteReader::new(&bytes[8..CHECKSUM_AT]);
    let version = r.u32().map_err(short)?;
    let features = r.u32().map_err(short)?;
    if version > VERSION || features & !KNOWN_FEATURES != 0 {
        return Err(Error::new(
            ErrorKind::UnsupportedFormat,
            format!(
                "{file}: written by a newer release (format version {version}, features \
                 {features:#x}; this release reads version {VERSION}); open it with that release"
            ),
        ));
    }
    if version == 0 {
        return Err(bad("format version 0 never existed"));
    }
    let database = r.u64().map_err(short)?;
    let table = r.u32().map_err(short)?;
    let zero = r.u32().map_err(short)?;
    if database != id.database {
        return Err(bad(&format!(
            "belongs to database {database:#018x}, not to {:#018x}; the file was copied here from \
             another database",
            id.database
        )));
    }
    if table != id.table.0 {
        return Err(bad(&format!("belongs to table {table}, not to table {}", id.table)));
    }
    let seq = r.u64().map_err(short)?;
    let lsn = r.u64().map_err(short)?;
    let image = ImageRef {
        offset: r.u64().map_err(short)?,
        len: r.u64().map_err(short)?,
        checksum: r.u64().map_err(short)?,
    };
    if zero != 0 || bytes[8 + r.position()..CHECKSUM_AT].iter().any(|b| *b != 0) {
        return Err(bad("bytes that must be zero are not"));
    }
    if seq > MAX_NUMBER {
        return Err(bad(&format!("impossible checkpoint number {seq}")));
    }
    if slot_of(seq) != slot {
        return Err(bad(&format!("checkpoint {seq} is in the wrong slot")));
    }
    if seq <= CREATED {
        if image != (ImageRef { offset: 0, len: 0, checksum: 0 }) {
            return Err(bad("a header of the file's creation names an image"));
        }
        return Ok(Slot::Valid(Header { seq, lsn, image: None }));
    }
    if image.len < IMAGE_FRONT as u64
        || image.len > MAX_IMAGE
        || image.offset < FIRST_EXTENT
        || image.offset > MAX_FILE - MAX_IMAGE
        || !image.offset.is_multiple_of(EXTENT_ALIGN)
    {
        return Err(bad(&format!("impossible image [{}, +{}]", image.offset, image.len)));
    }
    Ok(Slot::Valid(Header { seq, lsn, image: Some(image) }))
}

/// A decoded image. `blocks` is ascending by id.
#[derive(PartialEq, Eq, Debug)]
pub struct Image {
    pub next_block: BlockId,
    pub blocks: Vec<(BlockId, Extent)>,
    pub caller: Vec<u8>,
}

/// Encodes an image; `blocks` ascending by id, all below `next_block`.
pub fn encode_image(
    id: Identity,
    seq: u64,
    next_block: BlockId,
    blocks: &[(BlockId, Extent)],
    caller: &[u8],
) -> Vec<u8> {
    let mut map = Vec::with_capacity(blocks.len() * 8);
    let mut previous = 0;
    for (i, (block, extent)) in blocks.iter().enumerate() {
        assert!((i == 0 || *block > previous) && *block < next_block, "blocks ascend");
        put_varint(&mut map, block - previous);
        put_varint(&mut map, extent.offset / EXTENT_ALIGN);
        put_varint(&mut map, extent.len / EXTENT_ALIGN);
        previous = *block;
    }
    let mut out = Vec::with_capacity(IMAGE_FRONT + map.len() + caller.len());
    out.extend_from_slice(IMAGE_MAGIC);
    out.extend_from_slice(&id.database.to_le_bytes());
    out.extend_from_slice(&u64::from(id.table.0).to_le_bytes());
    for n in [seq, next_block, blocks.len() as u64, map.len() as u64, caller.len() as u64] {
        out.extend_from_slice(&n.to_le_bytes());
    }
    assert_eq!(out.len(), IMAGE_FRONT);
    out.extend_from_slice(&map);
    out.extend_from_slice(caller);
    out
}

/// Lengths of the two parts of an image, checked against its total length. `front` is at least
/// [`IMAGE_FRONT`] bytes. The front is read and checked first, so that a header that points
/// elsewhere does not make the reader fetch up to [`MAX_IMAGE`] bytes.
struct Front {
    next_block: BlockId,
    blocks: u64,
    map_len: usize,
}

fn decode_front(
    front: &[u8],
    total: u64,
    id: Identity,
    seq: u64,
    bad: &dyn Fn(&str) -> Error,
) -> Result<Front> {
    let mut r = ByteReader::new(front);
    let magic = r.take(8).map_err(|_| bad("too short"))?;
    if magic != IMAGE_MAGIC {
        return Err(bad("does not begin with the image magic"));
    }
    let mut next = || r.u64().map_err(|_| bad("too short"));
    let (database, table, image_seq) = (next()?, next()?, next()?);
    if database != id.database || table != u64::from(id.table.0) || image_seq != seq {
        return Err(bad("belongs to another file or checkpoint"));
    }
    let (next_block, blocks, map_len, caller_len) = (next()?, next()?, next()?, next()?);
    let whole = (IMAGE_FRONT as u64).checked_add(map_len).and_then(|n| n.checked_add(caller_len));
    if whole != Some(total) {
        return Err(bad("lengths of its parts do not add up"));
    }
    if next_block > MAX_NUMBER {
        return Err(bad("impossible next block id"));
    }
    // A block takes at least three bytes of the map.
    if blocks > map_len / 3 {
        return Err(bad("more blocks than the block map has room for"));
    }
    let map_len = usize::try_from(map_len).map_err(|_| bad("too long"))?;
    Ok(Front { next_block, blocks, map_len })
}

/// Checks the first unit of an image before the rest is read.
pub fn check_image_front(
    front: &[u8],
    at: &ImageRef,
    id: Identity,
    seq: u64,
    file: &str,
) -> Result<()> {
    let bad =
        |what: &str| Error::corruption(file, format_args!("image at offset {}: {what}", at.offset));
    decode_front(front, at.len, id, seq, &bad).map(drop)
}

/// Verifies and decodes a whole image. Extents are in range, aligned, not empty; the caller finds
/// overlaps when it puts them into the allocator.
pub fn decode_image(
    bytes: &[u8],
    at: &ImageRef,
    id: Identity,
    seq: u64,
    file: &str,
) -> Result<Image> {
    let bad =
        |what: &str| Error::corruption(file, format_args!("image at offset {}: {what}", at.offset));
    if bytes.len() as u64 != at.len || image_checksum(bytes, id, seq) != at.checksum {
        return Err(bad("checksum does not match"));
    }
    let front = decode_front(bytes, at.len, id, seq, &bad)?;
    let (map, caller) = bytes[IMAGE_FRONT..].split_at(front.map_len);
    let mut r = ByteReader::new(map);
    let mut blocks = Vec::with_capacity(front.blocks as usize);
    let mut previous = 0u64;
    for i in 0..front.blocks {
        let place = r.position() + IMAGE_FRONT;
        let bad_block = |what: &str| bad(&format!("block map entry {i} at byte {place}: {what}"));
        let mut next = || r.varint().map_err(|_| bad_block("cut short"));
        let (delta, offset, len) = (next()?, next()?, next()?);
        let block = previous.checked_add(delta).filter(|b| *b < front.next_block);
        let block = block.ok_or_else(|| bad_block("block id out of range"))?;
        if delta == 0 && i > 0 {
            return Err(bad_block("block ids do not ascend"));
        }
        let extent =
            checked_extent(offset.saturating_mul(EXTENT_ALIGN), len.saturating_mul(EXTENT_ALIGN));
        blocks.push((block, extent.ok_or_else(|| bad_block("impossible extent"))?));
        previous = block;
    }
    if r.remaining() > 0 {
        return Err(bad("bytes behind the last block of the block map"));
    }
    Ok(Image { next_block: front.next_block, blocks, caller: caller.to_vec() })
}

/// The extent, when it is aligned, not empty, behind the headers and below [`MAX_FILE`].
pub fn checked_extent(offset: u64, len: u64) -> Option<Extent> {
    let end = offset.checked_add(len)?;
    let fits = len > 0 && offset >= FIRST_EXTENT && end <= MAX_FILE;
    let whole = offset.is_multiple_of(EXTENT_ALIGN) && len.is_multiple_of(EXTENT_ALIGN);
    (fits && whole).then_some(Extent { offset, len })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rng;

    const ID: Identity = Identity { database: 0x1234_5678_9abc_def0, table: TableId(17) };

    fn some_blocks() -> Vec<(BlockId, Extent)> {
        [(0, 2, 1), (1, 9, 3), (300, 3, 6), (70_000, 1 << 30, 256)]
            .map(|(b, o, l)| (b, Extent { offset: o * EXTENT_ALIGN, len: l * EXTENT_ALIGN }))
            .to_vec()
    }

    fn image_ref(bytes: &[u8], seq: u64) -> ImageRef {
        let checksum = image_checksum(bytes, ID, seq);
        ImageRef { offset: 8192, len: bytes.len() as u64, checksum }
    }

    #[test]
    fn headers_and_images_round_trip() {
        let image = Some(ImageRef { offset: 81920, len: 5000, checksum: 99 });
        for header in
            [Header { seq: 1, lsn: 7, image: None }, Header { seq: 5, lsn: 1 << 40, image }]
        {
            let bytes = encode_header(&header, ID);
            match decode_header(&bytes, slot_of(header.seq), ID, "17.frd").unwrap() {
                Slot::Valid(got) => assert_eq!(got, header),
                Slot::Invalid(why) => panic!("{why}"),
            }
        }
        let bytes = encode_image(ID, 9, 70_001, &some_blocks(), b"trunk");
        let got = decode_image(&bytes, &image_ref(&bytes, 9), ID, 9, "17.frd").unwrap();
        assert_eq!(got.blocks, some_blocks());
        assert_eq!((got.next_block, &got.caller[..]), (70_001, &b"trunk"[..]));
    }

    #[test]
    fn an_image_of_another_file_or_checkpoint_is_refused() {
        let bytes = encode_image(ID, 9, 70_001, &some_blocks(), b"trunk");
        let at = image_ref(&bytes, 9);
        for (id, seq) in [
            (Identity { database: 1, ..ID }, 9),
            (Identity { table: TableId(18), ..ID }, 9),
            (ID, 10),
        ] {
            let e = decode_image(&bytes, &at, id, seq, "17.frd").unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Corruption);
            assert!(check_image_front(&bytes, &at, id, seq, "17.frd").is_err());
        }
        assert!(check_image_front(&bytes, &at, ID, 9, "17.frd").is_ok());
    }

    #[test]
    fn any_damaged_byte_of_a_headers_sector_invalidates_it() {
        let image = Some(ImageRef { offset: 81920, len: 5000, checksum: 99 });
        let good = encode_header(&Header { seq: 5, lsn: 77, image }, ID);
        for i in 0..HEADER_SECTOR {
            let mut bytes = good.clone();
            bytes[i] ^= 0x10;
            assert!(matches!(decode_header(&bytes, 1, ID, "f"), Ok(Slot::Invalid(_))), "byte {i}");
        }
        // Intact, but in the other slot.
        assert!(matches!(decode_header(&good, 0, ID, "f"), Ok(Slot::Invalid(_))));
    }

    #[test]
    fn hostile_images_with_a_right_checksum_never_panic() {
        let mut rng = Rng(5);
        let good = encode_image(ID, 9, 70_001, &some_blocks(), b"trunk");
        let mut refused = 0;
        for _ in 0..200_000 {
            let mut bytes = good.clone();
            for _ in 0..1 + rng.below(3) {
                let at = 24 + rng.below(bytes.len() as u64 - 24) as usize;
                bytes[at] = match rng.below(3) {
                    0 => 0xff,
                    1 => rng.draw() as u8,
                    _ => bytes[at].wrapping_add(1),
                };
            }
            bytes.truncate(bytes.len() - rng.below(2) as usize * rng.below(9) as usize);
            let got = decode_image(&bytes, &image_ref(&bytes, 9), ID, 9, "17.frd");
            refused += usize::from(got.is_err());
            for (_, e) in got.map(|i| i.blocks).unwrap_or_default() {
                assert_eq!(checked_extent(e.offset, e.len), Some(e));
            }
        }
        assert!(refused > 100_000);
    }
}
