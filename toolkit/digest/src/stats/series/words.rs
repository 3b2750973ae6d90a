//! Numbers in as few bytes as they need.

/// Seven bits in a byte, the low ones first; the eighth says that more follow.
pub(super) fn put_word(bytes: &mut Vec<u8>, word: u64) {
    let mut word = word;
    while word > 0x7f {
        bytes.push(word as u8 | 0x80);
        word >>= 7;
    }
    bytes.push(word as u8);
}

pub(super) fn word(bytes: &[u8], at: &mut usize) -> u64 {
    let (mut word, mut shift) = (0, 0);
    while let Some(byte) = bytes.get(*at) {
        *at += 1;
        word |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 0x80 == 0 {
            break;
        }
    }
    word
}
