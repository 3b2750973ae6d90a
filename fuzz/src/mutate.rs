//! Changes of bytes that find more than noise does: few at a time, at places that hold lengths and counts,
//! with values at the edges of what numbers can say.

use frond_run::testing::TestRng;

/// Values that lengths, counts and offsets break at, as varints and as numbers of one to eight bytes.
const EDGES: [u64; 14] = [
    0,
    1,
    2,
    0x7f,
    0x80,
    0xff,
    0x1000,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    1 << 62,
    u64::MAX >> 1,
    u64::MAX,
];

/// The longest input that mutation makes of shorter ones.
const LONGEST: usize = 1 << 20;

/// Changes `bytes`, sometimes with parts of `other`, another sound input.
pub fn mutate(rng: &mut TestRng, bytes: &mut Vec<u8>, other: &[u8]) {
    for _ in 0..1 + rng.below(4) {
        let at = place(rng, bytes.len());
        match rng.below(12) {
            0 => bytes.truncate(at),
            1 => {
                let n = 1 + rng.below(16) as usize;
                let new = rng.bytes(n);
                bytes.splice(at..at, new);
            }
            2 => {
                let end = (at + 1 + rng.below(16) as usize).min(bytes.len());
                bytes.drain(at..end);
            }
            3 if !other.is_empty() => {
                let from = rng.below(other.len() as u64) as usize;
                let n = (1 + rng.below(64) as usize).min(other.len() - from);
                let end = (at + n).min(bytes.len());
                bytes.splice(at..end, other[from..from + n].iter().copied());
            }
            4 => {
                // The same piece again: counts that are right, things that are there twice.
                let end = (at + 1 + rng.below(64) as usize).min(bytes.len());
                let piece = bytes[at..end].to_vec();
                bytes.splice(at..at, piece);
            }
            5 => {
                // A varint in place of what is most likely one.
                let mut varint = Vec::new();
                frond_base::put_varint(&mut varint, edge(rng));
                let old = bytes[at..].iter().take_while(|b| **b >= 0x80).count();
                let end = (at + old + 1).min(bytes.len());
                bytes.splice(at..end, varint);
            }
            6 | 7 => {
                let width = 1 << rng.below(4);
                let number = edge(rng).to_le_bytes();
                for (to, from) in bytes.iter_mut().skip(at).zip(&number[..width]) {
                    *to = *from;
                }
            }
            8 => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = byte.wrapping_add(1 + rng.below(3) as u8).wrapping_sub(2);
                }
            }
            9 => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << rng.below(8);
                }
            }
            _ => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = rng.next_u64() as u8;
                }
            }
        }
    }
    bytes.truncate(LONGEST);
}

/// A place in `len` bytes, more often near the ends, where headers and lengths are.
fn place(rng: &mut TestRng, len: usize) -> usize {
    let near = len.min(64) as u64;
    let any = rng.below(len as u64 + 1) as usize;
    match rng.below(4) {
        0 => rng.below(near + 1) as usize,
        1 => len - rng.below(near + 1) as usize,
        _ => any,
    }
}

fn edge(rng: &mut TestRng) -> u64 {
    let edge = EDGES[rng.below(EDGES.len() as u64) as usize];
    match rng.below(3) {
        0 => edge.wrapping_add(rng.below(5)).wrapping_sub(2),
        1 => rng.below(300),
        _ => edge,
    }
}
