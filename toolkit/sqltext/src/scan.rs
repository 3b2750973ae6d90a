//! Processes eight bytes at a time: the ends of words, lower case, the next quote.
//!
//! Statements consist of words of a few letters, so most time goes into finding the end of each
//! word and copying it. Byte by byte this takes a badly predicted branch per word and a call of
//! `memcpy` for five bytes; with a word in a register it is arithmetic. Groups of eight bytes are
//! little-endian, the first byte lowest.
//!
//! Invariant: masks have bit 7 of each byte set or clear and all other bits clear.

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;
const LOW: u64 = !HIGH;

/// The eight bytes from `at`; past the end they are zero, which belongs to no word or number.
#[inline(always)]
pub(super) fn load(text: &[u8], at: usize) -> u64 {
    match text.get(at..at.wrapping_add(8)) {
        Some(group) => u64::from_le_bytes(group.try_into().unwrap_or_default()),
        None => load_end(text, at),
    }
}

fn load_end(text: &[u8], at: usize) -> u64 {
    if let Some(last) = text.last_chunk::<8>() {
        // Bytes that are missing from the last eight are shifted in as zeros.
        let missing = (at - (text.len() - 8)).min(8);
        return u64::from_le_bytes(*last).checked_shr(8 * missing as u32).unwrap_or(0);
    }
    let rest = text.get(at..).unwrap_or_default();
    rest.iter().rev().fold(0, |group, b| group << 8 | u64::from(*b))
}

/// Writes `group` to `buffer[at..at + 8]`, which must exist.
#[inline(always)]
pub(super) fn store(buffer: &mut [u8], at: usize, group: u64) {
    buffer[at..at + 8].copy_from_slice(&group.to_le_bytes());
}

/// Marks bytes from `first` to `last`, both below 0x80.
#[inline(always)]
fn between(group: u64, first: u8, last: u8) -> u64 {
    let low = group & LOW;
    let from = low + ONES * u64::from(0x80 - first);
    let past = low + ONES * u64::from(0x7f - last);
    from & !past & !group & HIGH
}

/// Marks bytes equal to `b`.
#[inline(always)]
fn equal(group: u64, b: u8) -> u64 {
    let differ = group ^ (ONES * u64::from(b));
    !(((differ & LOW) + LOW) | differ) & HIGH
}

/// Number of leading bytes that are in `mask`.
#[inline(always)]
pub(super) fn run(mask: u64) -> usize {
    ((!mask & HIGH).trailing_zeros() / 8) as usize
}

/// Marks ASCII letters and the underscore.
#[inline(always)]
pub(super) fn letters(group: u64) -> u64 {
    between(group | (ONES * 0x20), b'a', b'z') & !(group & HIGH) | equal(group, b'_')
}

/// Marks bytes of names: letters, digits, `_`, `$`, and all from 0x80 on.
#[inline(always)]
pub(super) fn name_bytes(group: u64) -> u64 {
    letters(group) | between(group, b'0', b'9') | equal(group, b'$') | group & HIGH
}

/// The end of the run of bytes of names at `at`.
#[inline(always)]
pub(super) fn name_end(text: &[u8], mut at: usize) -> usize {
    loop {
        let size = run(name_bytes(load(text, at)));
        at += size;
        if size < 8 {
            return at;
        }
    }
}

/// The end of the run of digits at `at`.
#[inline(always)]
pub(super) fn digits_end(text: &[u8], mut at: usize) -> usize {
    loop {
        let size = run(between(load(text, at), b'0', b'9'));
        at += size;
        if size < 8 {
            return at;
        }
    }
}

/// `group` with ASCII letters in lower case.
#[inline(always)]
pub(super) fn lower(group: u64) -> u64 {
    group | between(group, b'A', b'Z') >> 2
}

/// The lowest `bytes` bytes of `group`, at most eight; zero above.
#[inline(always)]
pub(super) fn first_bytes(group: u64, bytes: usize) -> u64 {
    if bytes >= 8 {
        group
    } else {
        group & ((1 << (8 * bytes)) - 1)
    }
}

/// A word of at most eight bytes as `first_bytes` gives it.
pub(super) const fn word(text: &str) -> u64 {
    let text = text.as_bytes();
    assert!(text.len() <= 8);
    let mut group = 0;
    let mut i = text.len();
    while i > 0 {
        i -= 1;
        group = group << 8 | text[i] as u64;
    }
    group
}

/// The next place of `b` at or after `from`. Short distances, which are the usual case, cost no
/// call.
#[inline(always)]
pub(super) fn find(text: &[u8], from: usize, b: u8) -> Option<usize> {
    let mut at = from;
    while at < from + 24 {
        let Some(group) = text.get(at..at + 8) else { break };
        let group = group.try_into().map_or(0, u64::from_le_bytes);
        let hit = equal(group, b);
        if hit != 0 {
            return Some(at + (hit.trailing_zeros() / 8) as usize);
        }
        at += 8;
    }
    text.get(at..).and_then(|rest| memchr::memchr(b, rest)).map(|n| at + n)
}

/// The next place of `a` or `b` at or after `from`.
#[inline(always)]
pub(super) fn find2(text: &[u8], from: usize, a: u8, b: u8) -> Option<usize> {
    let mut at = from;
    while at < from + 24 {
        let Some(group) = text.get(at..at + 8) else { break };
        let group = group.try_into().map_or(0, u64::from_le_bytes);
        let hit = equal(group, a) | equal(group, b);
        if hit != 0 {
            return Some(at + (hit.trailing_zeros() / 8) as usize);
        }
        at += 8;
    }
    text.get(at..).and_then(|rest| memchr::memchr2(a, b, rest)).map(|n| at + n)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_agree_with_the_standard_library_for_every_byte_in_every_place() {
        for place in 0..8 {
            for b in 0..=255u8 {
                let mut bytes = [b'x'; 8];
                bytes[place] = b;
                let group = u64::from_le_bytes(bytes);
                let is_letter = b.is_ascii_alphabetic() || b == b'_';
                assert_eq!(run(letters(group)), if is_letter { 8 } else { place }, "{b:#x}");
                let in_name = is_letter || b.is_ascii_digit() || b == b'$' || b >= 0x80;
                assert_eq!(run(name_bytes(group)), if in_name { 8 } else { place }, "{b:#x}");
                let mut lowered = bytes;
                lowered.make_ascii_lowercase();
                assert_eq!(lower(group), u64::from_le_bytes(lowered), "{b:#x}");
            }
        }
    }

    #[test]
    fn what_is_searched_is_found_at_any_distance() {
        for distance in 0..80 {
            let mut text = vec![b'a'; 80];
            text[distance] = b'\'';
            assert_eq!(find(&text, 0, b'\''), Some(distance));
            assert_eq!(find2(&text, 0, b'\\', b'\''), Some(distance));
            assert_eq!(find(&text, distance + 1, b'\''), None);
            assert_eq!(load(&text, distance) & 0xff, u64::from(b'\''));
        }
        assert_eq!(load(b"ab", 1), u64::from(b'b'));
        assert_eq!(load(b"ab", 5), 0);
        assert_eq!(first_bytes(load(b"limit 5", 0), 5), word("limit"));
    }
}
