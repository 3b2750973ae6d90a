//! Batches: up to a few hundred decoded entries, the unit in which sources feed a merge.
//!
//! Keys are held as `W` big-endian words ("head": the first 8*W bytes, zero-padded) and a length,
//! so that comparing keys is comparing integers: if heads tie and neither key is longer than the
//! head, the shorter key is a prefix of the other one and comes first. Longer keys are compared by
//! their bytes.

use std::cmp::Ordering;
use std::sync::Arc;

use frond_base::{EntryKind, EntryRef, EntrySource, Result, Seq};

use crate::columns::GROUP;
use crate::page::Page;

/// Bytes of keys or values after which a batch of copied entries is full, whatever their number.
const MAX_COPIED: usize = 64 << 10;

/// The first `8 * W` bytes of `key` as big-endian words, zero-padded.
#[inline]
pub(crate) fn head_of<const W: usize>(key: &[u8]) -> [u64; W] {
    let mut head = [0u64; W];
    let mut rest = key;
    for word in &mut head {
        match rest.split_first_chunk::<8>() {
            Some((chunk, behind)) => {
                *word = u64::from_be_bytes(*chunk);
                rest = behind;
            }
            None => {
                *word = rest.iter().fold(0, |w, b| w << 8 | u64::from(*b));
                // `rest` is shorter than eight bytes; an empty one gives 0.
                *word = word.checked_shl(64 - 8 * rest.len() as u32).unwrap_or(0);
                break;
            }
        }
    }
    head
}

/// The first sixteen bytes of a head as one number: one comparison decides nearly all orders, even
/// where a leading field takes few values.
#[inline]
pub(crate) fn wide<const W: usize>(head: &[u64; W]) -> u128 {
    let low = if W > 1 { head[1] } else { 0 };
    u128::from(head[0]) << 64 | u128::from(low)
}

/// Appends the first `len` bytes of a head.
#[inline]
pub(crate) fn head_into(head: &[u64], len: usize, out: &mut Vec<u8>) {
    let start = out.len();
    for word in head {
        out.extend_from_slice(&word.to_be_bytes());
    }
    out.truncate(start + len);
}

/// Decoded entries, in order; those before `pos` are used up.
pub(crate) struct Batch<const W: usize> {
    pub(crate) heads: Vec<[u64; W]>,
    pub(crate) pos: usize,
    /// Length of all keys when they are equal and at most `8 * W`; else 0, and `ends` and `keys`
    /// hold.
    pub(crate) uniform: usize,
    /// Whole keys, concatenated, and where each ends.
    pub(crate) keys: Vec<u8>,
    pub(crate) ends: Vec<u32>,
    /// Empty when all are 0.
    pub(crate) seqs: Vec<Seq>,
    /// Empty when all are puts.
    pub(crate) kinds: Vec<EntryKind>,
    /// Ranges in `copied`, or in the payload of `page` if there is one. Empty when all values are
    /// empty.
    pub(crate) values: Vec<(u32, u32)>,
    pub(crate) copied: Vec<u8>,
    pub(crate) page: Option<Arc<Page>>,
    /// No sequences, no tombstones, no values, and uniform keys: the batch has heads only.
    pub(crate) bare: bool,
}

impl<const W: usize> Batch<W> {
    pub(crate) fn new() -> Batch<W> {
        Batch {
            heads: Vec::with_capacity(GROUP),
            pos: 0,
            uniform: 0,
            keys: Vec::new(),
            ends: Vec::new(),
            seqs: Vec::new(),
            kinds: Vec::new(),
            values: Vec::new(),
            copied: Vec::new(),
            page: None,
            bare: false,
        }
    }

    pub(crate) fn clear(&mut self) {
        self.heads.clear();
        self.pos = 0;
        self.uniform = 0;
        self.keys.clear();
        self.ends.clear();
        self.seqs.clear();
        self.kinds.clear();
        self.values.clear();
        self.copied.clear();
        self.page = None;
    }

    pub(crate) fn len(&self) -> usize {
        self.heads.len()
    }

    /// Sets `bare`, after filling.
    pub(crate) fn note_bare(&mut self) {
        let columns = [self.seqs.is_empty(), self.kinds.is_empty(), self.values.is_empty()];
        self.bare = self.uniform != 0 && columns == [true; 3];
    }

    /// Drops the entries from `n` on.
    pub(crate) fn truncate(&mut self, n: usize) {
        self.heads.truncate(n);
    }

    #[inline]
    pub(crate) fn seq(&self, i: usize) -> Seq {
        self.seqs.get(i).copied().unwrap_or(0)
    }

    #[inline]
    pub(crate) fn kind(&self, i: usize) -> EntryKind {
        self.kinds.get(i).copied().unwrap_or(EntryKind::Put)
    }

    #[inline]
    pub(crate) fn value(&self, i: usize) -> &[u8] {
        match self.values.get(i) {
            None => &[],
            Some(&(from, to)) => {
                let all = self.page.as_ref().map_or(&self.copied[..], |p| p.payload());
                &all[from as usize..to as usize]
            }
        }
    }

    #[inline]
    pub(crate) fn key_len(&self, i: usize) -> usize {
        if self.uniform != 0 {
            return self.uniform;
        }
        let start = if i == 0 { 0 } else { self.ends[i - 1] };
        (self.ends[i] - start) as usize
    }

    /// The whole key; only when keys are not uniform.
    pub(crate) fn long_key(&self, i: usize) -> &[u8] {
        let start = if i == 0 { 0 } else { self.ends[i - 1] };
        &self.keys[start as usize..self.ends[i] as usize]
    }

    /// Replaces `out` by the key.
    pub(crate) fn key_into(&self, i: usize, out: &mut Vec<u8>) {
        out.clear();
        if self.uniform != 0 {
            head_into(&self.heads[i], self.uniform, out);
        } else {
            out.extend_from_slice(self.long_key(i));
        }
    }

    /// Orders two entries with equal heads by their keys.
    #[inline]
    pub(crate) fn compare_tied(&self, i: usize, other: &Batch<W>, j: usize) -> Ordering {
        let (a, b) = (self.key_len(i), other.key_len(j));
        if a > 8 * W && b > 8 * W {
            return self.long_key(i)[8 * W..].cmp(&other.long_key(j)[8 * W..]);
        }
        a.cmp(&b)
    }

    #[inline]
    pub(crate) fn compare(&self, i: usize, other: &Batch<W>, j: usize) -> Ordering {
        for (a, b) in self.heads[i].iter().zip(&other.heads[j]) {
            if a != b {
                return a.cmp(b);
            }
        }
        self.compare_tied(i, other, j)
    }

    /// Whether the entries from `from` on are in source order.
    pub(crate) fn in_order(&self, from: usize) -> bool {
        // No early exit: the usual answer is yes.
        let heads = &self.heads[from..];
        let ascending = |all: bool, w: &[[u64; W]]| all & (wide(&w[0]) < wide(&w[1]));
        if heads.windows(2).fold(true, ascending) {
            return true;
        }
        (from + 1..self.len()).all(|i| match self.compare(i - 1, self, i) {
            Ordering::Less => true,
            Ordering::Equal => self.seq(i - 1) > self.seq(i),
            Ordering::Greater => false,
        })
    }
}

/// Feeds a merge. One dynamic call per batch.
pub(crate) trait BatchSource<const W: usize> {
    /// Replaces `batch` by the next entries in order; leaves it empty at the end.
    fn fill(&mut self, batch: &mut Batch<W>) -> Result<()>;
}

/// Gives a list, if it is shorter, `n` items.
#[inline]
fn pad<T: Clone>(list: &mut Vec<T>, n: usize, item: T) {
    if list.len() < n {
        list.resize(n, item);
    }
}

/// Any entry source, copied batch by batch.
pub(crate) struct Copied<S>(pub(crate) S);

impl<const W: usize, S: EntrySource> BatchSource<W> for Copied<S> {
    fn fill(&mut self, batch: &mut Batch<W>) -> Result<()> {
        batch.clear();
        if self.0.valid() {
            batch.uniform = match self.0.entry().key.len() {
                n if n <= 8 * W => n,
                _ => 0,
            };
        }
        while self.0.valid() && batch.len() < GROUP {
            let EntryRef { key, seq, kind, value } = self.0.entry();
            let i = batch.len();
            if batch.uniform != key.len() && batch.uniform != 0 {
                // The first key of another length: from here on keys are kept whole.
                for j in 0..i {
                    head_into(&batch.heads[j], batch.uniform, &mut batch.keys);
                    batch.ends.push(batch.keys.len() as u32);
                }
                batch.uniform = 0;
            }
            if batch.uniform == 0 {
                batch.keys.extend_from_slice(key);
                batch.ends.push(batch.keys.len() as u32);
            }
            batch.heads.push(head_of(key));
            if seq != 0 || !batch.seqs.is_empty() {
                pad(&mut batch.seqs, i, 0);
                batch.seqs.push(seq);
            }
            if kind != EntryKind::Put || !batch.kinds.is_empty() {
                pad(&mut batch.kinds, i, EntryKind::Put);
                batch.kinds.push(kind);
            }
            if !value.is_empty() || !batch.values.is_empty() {
                let from = batch.copied.len() as u32;
                pad(&mut batch.values, i, (from, from));
                batch.copied.extend_from_slice(value);
                batch.values.push((from, batch.copied.len() as u32));
            }
            self.0.advance()?;
            if batch.copied.len().max(batch.keys.len()) > MAX_COPIED {
                break;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_compare_as_keys_do() {
        let keys: [&[u8]; 8] = [
            b"a",
            b"a\0",
            b"abcdefgh",
            b"abcdefgh\0",
            b"abcdefghijklmnop",
            b"abcdefghijklmnop\0",
            b"abcdefghijklmnopq",
            b"abcdefghijklmnoz",
        ];
        let mut batch = Batch::<2>::new();
        for key in keys {
            batch.heads.push(head_of(key));
            batch.keys.extend_from_slice(key);
            batch.ends.push(batch.keys.len() as u32);
        }
        for i in 0..keys.len() {
            for j in 0..keys.len() {
                assert_eq!(batch.compare(i, &batch, j), keys[i].cmp(keys[j]), "{i} {j}");
            }
        }
    }
}
