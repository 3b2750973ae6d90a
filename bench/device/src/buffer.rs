//! Random numbers, and memory for direct I/O.

/// More than any direct I/O asks for.
const BUFFER_ALIGNMENT: usize = 64 << 10;

/// xorshift64*: for places and contents, not for secrets.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Evenly from 0 to `bound` - 1, up to a bias of bound / 2^64.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }
}

/// Aligned memory with bytes that no device can compress.
pub struct Buffer {
    memory: Vec<u8>,
    start: usize,
    len: usize,
    stamps: u64,
}

impl Buffer {
    pub fn new(len: usize, random: &mut Random) -> Buffer {
        let mut memory = vec![0u8; len + BUFFER_ALIGNMENT];
        let start = memory.as_ptr().align_offset(BUFFER_ALIGNMENT);
        assert!(start < BUFFER_ALIGNMENT);
        for chunk in memory[start..start + len].chunks_mut(8) {
            chunk.copy_from_slice(&random.next().to_le_bytes()[..chunk.len()]);
        }
        Buffer { memory, start, len, stamps: random.next() }
    }

    pub fn bytes(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.len]
    }

    /// The bytes to write at `offset`. No two blocks of 4 KiB that are ever written are equal, so
    /// no device can deduplicate them.
    pub fn stamped(&mut self, offset: u64) -> &[u8] {
        self.stamps = self.stamps.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let stamp = self.stamps;
        for (i, block) in self.bytes().chunks_mut(4096).enumerate() {
            block[..8].copy_from_slice(&(stamp ^ (offset + i as u64 * 4096)).to_le_bytes());
        }
        self.bytes()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_two_blocks_are_alike_and_buffers_are_aligned() {
        let mut buffer = Buffer::new(16384, &mut Random::new(7));
        assert_eq!(buffer.bytes().as_ptr().align_offset(4096), 0);
        let mut seen = HashSet::new();
        for n in 0..100u64 {
            for block in buffer.stamped(n * 16384).chunks(4096) {
                assert!(seen.insert(block.to_vec()));
            }
        }
    }
}
