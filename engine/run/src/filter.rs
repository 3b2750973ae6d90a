//! A blocked bloom filter over whole keys: 10 bits per key, one cache line per question.
//!
//! Format: number of 64-byte blocks (u32), then the blocks. A key's 64-bit hash picks the block by
//! its high half and six bits of the block's 512 by the low half. About 1 % of absent keys pass.

use frond_base::checksum64;

const BLOCK_BYTES: usize = 64;
const BITS_PER_KEY: usize = 10;
const PROBES: u32 = 6;

/// The hash that filters use; duplicates of a key need not be added.
pub(crate) fn hash(key: &[u8]) -> u64 {
    checksum64(key)
}

/// A filter, in the form in which it is stored.
pub(crate) struct Filter {
    bits: Box<[u8]>,
}

fn blocks_for(keys: usize) -> usize {
    (keys * BITS_PER_KEY).div_ceil(8 * BLOCK_BYTES).max(1)
}

#[inline]
fn block_of(hash: u64, blocks: usize) -> usize {
    (((hash >> 32) * blocks as u64) >> 32) as usize * BLOCK_BYTES
}

/// The bits of `hash` within its block: (byte, mask) pairs.
#[inline]
fn probes(hash: u64) -> impl Iterator<Item = (usize, u8)> {
    let mut h = (hash as u32).wrapping_mul(0x9e37_79b1);
    (0..PROBES).map(move |_| {
        let bit = (h >> 23) as usize;
        h = h.wrapping_mul(0x9e37_79b1).rotate_left(7) ^ 0x5bd1_e995;
        (bit / 8, 1u8 << (bit % 8))
    })
}

/// Appends a filter of the keys with these hashes.
pub(crate) fn encode(hashes: &[u64], out: &mut Vec<u8>) {
    let blocks = blocks_for(hashes.len());
    out.extend_from_slice(&(blocks as u32).to_le_bytes());
    let start = out.len();
    out.resize(start + blocks * BLOCK_BYTES, 0);
    let bits = &mut out[start..];
    for hash in hashes {
        let block = &mut bits[block_of(*hash, blocks)..][..BLOCK_BYTES];
        for (byte, mask) in probes(*hash) {
            block[byte] |= mask;
        }
    }
}

impl Filter {
    /// Reads what [`encode`] wrote; `None` when the length does not fit.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Filter> {
        let (count, bits) = bytes.split_first_chunk::<4>()?;
        let blocks = u32::from_le_bytes(*count) as usize;
        let sound = blocks > 0 && bits.len() == blocks * BLOCK_BYTES;
        sound.then(|| Filter { bits: bits.into() })
    }

    /// False when no key with this hash was added.
    pub(crate) fn may_contain(&self, hash: u64) -> bool {
        let at = block_of(hash, self.bits.len() / BLOCK_BYTES);
        let block = &self.bits[at..at + BLOCK_BYTES];
        probes(hash).all(|(byte, mask)| block[byte] & mask != 0)
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.bits.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn added_keys_pass_and_few_others_do() {
        for n in [1usize, 100, 20_000] {
            let hashes: Vec<u64> = (0..n as u64).map(|i| hash(&i.to_be_bytes())).collect();
            let mut out = Vec::new();
            encode(&hashes, &mut out);
            let filter = Filter::parse(&out).unwrap();
            assert!(hashes.iter().all(|h| filter.may_contain(*h)));
            let others = (1u64 << 40..(1 << 40) + 20_000).map(|i| hash(&i.to_be_bytes()));
            let passed = others.filter(|h| filter.may_contain(*h)).count();
            assert!(passed < 400, "{passed} of 20000 absent keys pass among {n}");
        }
    }

    #[test]
    fn cut_filters_are_refused() {
        let mut out = Vec::new();
        encode(&[1, 2, 3], &mut out);
        assert!(Filter::parse(&out[..out.len() - 1]).is_none());
        assert!(Filter::parse(&[0; 4]).is_none());
        assert!(Filter::parse(&[]).is_none());
    }
}
