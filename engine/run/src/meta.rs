//! Run metadata: what a reader must know of a run before it reads its bytes. It is stored in trunk
//! edits and checkpoint images, never in the run itself.
//!
//! Format (varints unless said otherwise): table, block, number of key fields and one byte each,
//! bytes, pages, entries, tombstones, logical bytes, min key, max key (length-prefixed), max
//! sequence, tail offset, tail length, tail checksum (8 bytes), flags (1 byte; bit 0: the tail
//! holds a filter; bit 1: one sequence).
//!
//! *One sequence*: the run was written before its entries had a sequence, by a transaction that got
//! it at its commit. All entries have the largest sequence, whatever the pages say, and each key has
//! one version.

use frond_base::{put_bytes, put_varint, BlockId, ByteReader, Seq, ShortInput, TableId};

use crate::format::{KeyShape, RunIdentity, MAX_KEY};

/// Where a run's tail (fences, then the filter) is within its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TailExtent {
    pub offset: u64,
    pub len: u32,
    pub checksum: u64,
}

/// The metadata of one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunMeta {
    pub id: RunIdentity,
    /// The shape that its fixed-layout pages use.
    pub shape: KeyShape,
    /// Length of the run's bytes, padded to 4096.
    pub bytes: u64,
    pub pages: u32,
    /// Versions, tombstones included.
    pub entries: u64,
    pub tombstones: u64,
    /// Key and value bytes before encoding.
    pub logical_bytes: u64,
    pub min_key: Box<[u8]>,
    pub max_key: Box<[u8]>,
    /// The largest sequence; 0 when all sequences were dropped.
    pub max_seq: Seq,
    pub index: TailExtent,
    pub has_filter: bool,
    /// All entries have the sequence `max_seq`; sequences in the pages are ignored.
    pub one_seq: bool,
}

const FLAG_FILTER: u8 = 1;
const FLAG_ONE_SEQ: u8 = 2;

impl RunMeta {
    pub fn block(&self) -> BlockId {
        self.id.block
    }

    /// A reader at `at` sees nothing of the run: it needs no page.
    #[inline]
    pub fn is_after(&self, at: Seq) -> bool {
        self.one_seq && self.max_seq > at
    }

    /// The run with all its entries committed at `seq`. Its pages carry no sequences.
    pub fn committed_at(self, seq: Seq) -> RunMeta {
        assert!(self.max_seq == 0 && seq > 0, "a run gets its one sequence once");
        RunMeta { max_seq: seq, one_seq: true, ..self }
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, u64::from(self.id.table.0));
        put_varint(out, self.id.block);
        put_bytes(out, self.shape.widths());
        put_varint(out, self.bytes);
        put_varint(out, u64::from(self.pages));
        put_varint(out, self.entries);
        put_varint(out, self.tombstones);
        put_varint(out, self.logical_bytes);
        put_bytes(out, &self.min_key);
        put_bytes(out, &self.max_key);
        put_varint(out, self.max_seq);
        put_varint(out, self.index.offset);
        put_varint(out, u64::from(self.index.len));
        out.extend_from_slice(&self.index.checksum.to_le_bytes());
        let filter = if self.has_filter { FLAG_FILTER } else { 0 };
        out.push(filter | if self.one_seq { FLAG_ONE_SEQ } else { 0 });
    }

    /// Reads what [`Self::encode`] wrote; numbers that contradict each other are an error.
    pub fn decode(r: &mut ByteReader<'_>) -> Result<RunMeta, ShortInput> {
        let start = ShortInput { at: r.position() };
        let narrow = |n: u64| u32::try_from(n).map_err(|_| start);
        let table = TableId(narrow(r.varint()?)?);
        let block = r.varint()?;
        let shape = KeyShape::checked(r.bytes()?).ok_or(start)?;
        let bytes = r.varint()?;
        let pages = narrow(r.varint()?)?;
        let entries = r.varint()?;
        let tombstones = r.varint()?;
        let logical_bytes = r.varint()?;
        let min_key: Box<[u8]> = r.bytes()?.into();
        let max_key: Box<[u8]> = r.bytes()?.into();
        let max_seq = r.varint()?;
        let index =
            TailExtent { offset: r.varint()?, len: narrow(r.varint()?)?, checksum: r.u64()? };
        let flags = r.u8()?;
        let keys_fit = |k: &[u8]| !k.is_empty() && k.len() <= MAX_KEY;
        let tail_end = index.offset.checked_add(u64::from(index.len)).ok_or(start)?;
        let one_seq = flags & FLAG_ONE_SEQ != 0;
        let sound = flags <= FLAG_FILTER | FLAG_ONE_SEQ
            && (max_seq > 0 || !one_seq)
            && pages > 0
            && entries >= u64::from(pages)
            && tombstones <= entries
            && keys_fit(&min_key)
            && keys_fit(&max_key)
            && min_key <= max_key
            && tail_end <= bytes;
        if !sound {
            return Err(start);
        }
        Ok(RunMeta {
            id: RunIdentity { table, block },
            shape,
            bytes,
            pages,
            entries,
            tombstones,
            logical_bytes,
            min_key,
            max_key,
            max_seq,
            index,
            has_filter: flags & FLAG_FILTER != 0,
            one_seq,
        })
    }

    /// Bytes of memory that this takes.
    pub fn memory_bytes(&self) -> usize {
        std::mem::size_of::<RunMeta>() + self.min_key.len() + self.max_key.len()
    }
}
