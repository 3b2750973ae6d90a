//! The entry: what trees store and runs encode.

use crate::ids::Seq;

/// The largest sequence: a read at `SEQ_MAX` sees everything committed.
pub const SEQ_MAX: Seq = u64::MAX;

/// The longest key, in bytes. No stored format depends on it. It leaves room for an index key and a primary
/// key of 3072 bytes of text each. The weights that a collation makes of such a text take at most 221 KiB
/// (U+FDFA in UCS-2, three levels).
pub const MAX_KEY: usize = 512 << 10;

/// What an entry does to its key. The numbers are part of the file and log formats.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub enum EntryKind {
    /// The key has this value.
    Put = 0,
    /// The key is gone (a tombstone).
    Delete = 1,
}

impl EntryKind {
    /// Decodes the stored number; `None` when no release has written it.
    pub fn from_u8(n: u8) -> Option<EntryKind> {
        match n {
            0 => Some(EntryKind::Put),
            1 => Some(EntryKind::Delete),
            _ => None,
        }
    }
}

/// One entry, borrowed. Keys compare as byte strings; entries of one key are ordered newest first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EntryRef<'a> {
    pub key: &'a [u8],
    pub seq: Seq,
    pub kind: EntryKind,
    pub value: &'a [u8],
}

/// A forward stream of entries in key order, newest first within a key. Errors come from reading.
pub trait EntrySource {
    /// False at the end.
    fn valid(&self) -> bool;
    /// The current entry; requires `valid()`.
    fn entry(&self) -> EntryRef<'_>;
    /// Moves on; requires `valid()`.
    fn advance(&mut self) -> crate::Result<()>;
}

/// A reader's point in commit order: sees entries with `seq <= at`.
pub type ReadAt = Seq;

/// The first eight bytes of `key` as a big-endian number, zero-padded: compares as the key does,
/// except that keys with equal heads may differ.
#[inline]
pub fn key_head(key: &[u8]) -> u64 {
    match key.first_chunk::<8>() {
        Some(b) => u64::from_be_bytes(*b),
        None => {
            let mut b = [0u8; 8];
            b[..key.len()].copy_from_slice(key);
            u64::from_be_bytes(b)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_order_as_keys_do() {
        let keys: [&[u8]; 6] = [b"", b"\0", b"a", b"ab", b"abcdefgh", b"b"];
        for w in keys.windows(2) {
            assert!(key_head(w[0]) <= key_head(w[1]));
        }
        assert!(key_head(b"abcdefgh") < key_head(b"abcdefgi"));
    }
}
