//! Memcomparable, prefix-free encodings of byte strings, and the interface to collations.
//!
//! *Escaped* (NO PAD; a prefix sorts first): bytes 0x00 and 0x01 become `01 01` and `01 02`, every
//! other byte stands for itself, 0x00 ends. The end is below every continuation, `01 xx` below
//! every plain byte, and `01 01 < 01 02`; so order is kept, and no encoding is a prefix of another.
//! The more usual end has two bytes (00 00 with 00 -> 00 FF); one is shorter, as most strings have
//! neither byte.
//!
//! *Padded* (PAD SPACE): a string stands for itself followed by endless spaces. It is cut into
//! units as long as the weight of a space, and loses its trailing spaces. A unit that is no space
//! is written as it is; a space unit is followed by a byte that says how the rest, from the next
//! unit that is no space, compares with spaces: 1 less, 3 greater; the end is a space unit followed
//! by 2. Where two encodings first differ, either the units differ, and order the strings, or the
//! bytes after a space do, and order them too, since both rests were compared with the same spaces.
//! Rejected: fixed segments with a comparison byte each (nine bytes for a one-letter word; this
//! form takes three).
//!
//! Descending parts have all their bytes inverted; readers take the inversion as a mask.

/// Collations and type orders that only a server knows. Implementations must be deterministic for
/// the life of a table: the bytes they produce are stored.
pub trait SortKeys: Send + Sync {
    /// Appends the weights of `src` at `level` in collation `charset`, with no padding and no
    /// terminator. Trailing spaces have weights too; the codec removes them where they do not
    /// count.
    fn weights(&self, charset: u32, level: u8, src: &[u8], out: &mut Vec<u8>);

    /// Length in bytes of the first `chars` characters of `src`, at most `src.len()`.
    fn char_prefix(&self, charset: u32, src: &[u8], chars: usize) -> usize;

    /// Appends the sort key of an opaque column's image: exactly its type's `key_bytes` bytes.
    fn opaque(&self, column: usize, image: &[u8], out: &mut Vec<u8>);
}

/// For schemas without collations and opaque types: characters are UTF-8.
pub struct PlainSortKeys;

impl SortKeys for PlainSortKeys {
    fn weights(&self, charset: u32, _: u8, _: &[u8], _: &mut Vec<u8>) {
        panic!("collation {charset} needs the server's weights");
    }

    fn char_prefix(&self, _: u32, src: &[u8], chars: usize) -> usize {
        let starts = src.iter().enumerate().filter(|(_, b)| **b & 0xc0 != 0x80);
        starts.map(|(at, _)| at).nth(chars).unwrap_or(src.len())
    }

    fn opaque(&self, column: usize, _: &[u8], _: &mut Vec<u8>) {
        panic!("column {column} needs the server's sort order");
    }
}

/// Turns a key prefix into the smallest byte string above every key that starts with it. False (and
/// `key` empty): there is none, the range is open.
pub fn prefix_end(key: &mut Vec<u8>) -> bool {
    while let Some(last) = key.pop() {
        if last < 0xff {
            key.push(last + 1);
            return true;
        }
    }
    false
}

/// The bytes do not encode a string, or end early. Callers add the place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BadKey;

pub(crate) const LESS: u8 = 1;
pub(crate) const END: u8 = 2;
pub(crate) const GREATER: u8 = 3;
const SPACE: u8 = b' ';

pub(crate) fn put_escaped(out: &mut Vec<u8>, mut src: &[u8]) {
    out.reserve(src.len() + 1);
    while let Some(n) = src.iter().position(|b| *b <= 1) {
        out.extend_from_slice(&src[..n]);
        out.extend_from_slice(&[1, src[n] + 1]);
        src = &src[n + 1..];
    }
    out.extend_from_slice(src);
    out.push(0);
}

/// A text without trailing spaces.
pub(crate) fn trim_spaces(image: &[u8]) -> &[u8] {
    // Eight at a time: columns of wide characters are mostly padding.
    let mut end = image.len();
    while end >= 8 && image[end - 8..end] == [b' '; 8] {
        end -= 8;
    }
    while end > 0 && image[end - 1] == b' ' {
        end -= 1;
    }
    &image[..end]
}

/// Length without trailing `unit`s.
fn trimmed(src: &[u8], unit: &[u8]) -> usize {
    let mut end = src.len() - src.len() % unit.len();
    if end < src.len() {
        return src.len();
    }
    while end > 0 && &src[end - unit.len()..end] == unit {
        end -= unit.len();
    }
    end
}

/// Padded form with one-byte units: text that compares by bytes, and one-byte weights. Returns how
/// many trailing spaces were dropped.
pub(crate) fn put_padded(out: &mut Vec<u8>, src: &[u8], space: u8) -> usize {
    let end = src.iter().rposition(|b| *b != space).map_or(0, |n| n + 1);
    let mut rest = &src[..end];
    out.reserve(rest.len() + 2);
    while let Some(n) = rest.iter().position(|b| *b == space) {
        out.extend_from_slice(&rest[..n]);
        let run = rest[n..].iter().take_while(|b| **b == space).count();
        // A byte that is no space follows: trailing spaces are cut off already.
        let marker = if rest[n + run] < space { LESS } else { GREATER };
        for _ in 0..run {
            out.extend_from_slice(&[space, marker]);
        }
        rest = &rest[n + run..];
    }
    out.extend_from_slice(rest);
    out.extend_from_slice(&[space, END]);
    src.len() - end
}

/// Padded form of weights whose space is `space` (1 to 4 bytes).
pub(crate) fn put_padded_weights(out: &mut Vec<u8>, src: &[u8], space: &[u8]) {
    let whole = match *space {
        [one] => {
            put_padded(out, src, one);
            true
        }
        [a, b] => put_padded_units(out, src, [a, b]),
        [a, b, c] => put_padded_units(out, src, [a, b, c]),
        [a, b, c, d] => put_padded_units(out, src, [a, b, c, d]),
        _ => false,
    };
    if !whole {
        put_padded_any(out, src, space);
    }
}

/// As [`put_padded_any`], for weights that are whole units; false, and nothing is done, for others.
fn put_padded_units<const N: usize>(out: &mut Vec<u8>, src: &[u8], space: [u8; N]) -> bool {
    let (units, []) = src.as_chunks::<N>() else { return false };
    let end = units.iter().rposition(|u| *u != space).map_or(0, |n| n + 1);
    let mut rest = &units[..end];
    out.reserve(rest.as_flattened().len() + N + 1);
    while let Some(n) = rest.iter().position(|u| *u == space) {
        out.extend_from_slice(rest[..n].as_flattened());
        let run = rest[n..].iter().take_while(|u| **u == space).count();
        // A unit that is no space follows: trailing spaces are cut off already.
        let marker = if rest[n + run] < space { LESS } else { GREATER };
        for _ in 0..run {
            out.extend_from_slice(&space);
            out.push(marker);
        }
        rest = &rest[n + run..];
    }
    out.extend_from_slice(rest.as_flattened());
    out.extend_from_slice(&space);
    out.push(END);
    true
}

/// Padded form of weights that may end within a unit.
fn put_padded_any(out: &mut Vec<u8>, src: &[u8], space: &[u8]) {
    let unit = space.len();
    let src = &src[..trimmed(src, space)];
    let mut chunks = src.chunks_exact(unit);
    let mut at = 0;
    for chunk in chunks.by_ref() {
        out.extend_from_slice(chunk);
        at += unit;
        if chunk == space {
            let next = src[at..].chunks(unit).find(|c| *c != space);
            let less = next.is_some_and(|c| c < &space[..c.len()]);
            out.push(if less { LESS } else { GREATER });
        }
    }
    let partial = chunks.remainder();
    if !partial.is_empty() {
        // No known collation produces a partial unit. It is padded so that units stay aligned.
        let mut whole = [0u8; 4];
        whole[..unit].copy_from_slice(space);
        whole[..partial.len()].copy_from_slice(partial);
        out.extend_from_slice(&whole[..unit]);
        if &whole[..unit] == space {
            out.push(GREATER);
        }
    }
    out.extend_from_slice(space);
    out.push(END);
}

/// One byte of a key, with the inversion removed.
#[inline]
fn byte(key: &[u8], at: &mut usize, mask: u8) -> Result<u8, BadKey> {
    let b = *key.get(*at).ok_or(BadKey)?;
    *at += 1;
    Ok(b ^ mask)
}

/// Reads an escaped string into `dst`; returns its length.
pub(crate) fn read_escaped(
    key: &[u8],
    at: &mut usize,
    mask: u8,
    dst: &mut [u8],
) -> Result<usize, BadKey> {
    let mut len = 0;
    loop {
        let b = match byte(key, at, mask)? {
            0 => return Ok(len),
            1 => match byte(key, at, mask)? {
                b @ 1..=2 => b - 1,
                _ => return Err(BadKey),
            },
            b => b,
        };
        *dst.get_mut(len).ok_or(BadKey)? = b;
        len += 1;
    }
}

pub(crate) fn skip_escaped(key: &[u8], at: &mut usize, mask: u8) -> Result<(), BadKey> {
    let rest = key.get(*at..).ok_or(BadKey)?;
    let n = rest.iter().position(|b| *b == mask).ok_or(BadKey)?;
    *at += n + 1;
    Ok(())
}

/// Reads a string in padded form (byte units, space 0x20) into `dst`; returns its length.
pub(crate) fn read_padded(
    key: &[u8],
    at: &mut usize,
    mask: u8,
    dst: &mut [u8],
) -> Result<usize, BadKey> {
    let mut len = 0;
    loop {
        let b = byte(key, at, mask)?;
        if b == SPACE {
            match byte(key, at, mask)? {
                END => return Ok(len),
                LESS | GREATER => {}
                _ => return Err(BadKey),
            }
        }
        *dst.get_mut(len).ok_or(BadKey)? = b;
        len += 1;
    }
}

/// The string of one part in padded form, not inverted, with units like `space`.
pub(crate) fn padded_string(part: &[u8], space: &[u8]) -> Result<Vec<u8>, BadKey> {
    let mut string = Vec::with_capacity(part.len());
    let mut at = 0;
    loop {
        let unit = part.get(at..at + space.len()).ok_or(BadKey)?;
        at += space.len();
        if unit == space {
            match byte(part, &mut at, 0)? {
                END => return Ok(string),
                LESS | GREATER => {}
                _ => return Err(BadKey),
            }
        }
        string.extend_from_slice(unit);
    }
}

pub(crate) fn skip_padded(
    key: &[u8],
    at: &mut usize,
    mask: u8,
    space: &[u8],
) -> Result<(), BadKey> {
    match *space {
        [a] => skip_padded_units(key, at, mask, [a]),
        [a, b] => skip_padded_units(key, at, mask, [a, b]),
        [a, b, c] => skip_padded_units(key, at, mask, [a, b, c]),
        [a, b, c, d] => skip_padded_units(key, at, mask, [a, b, c, d]),
        _ => Err(BadKey),
    }
}

fn skip_padded_units<const N: usize>(
    key: &[u8],
    at: &mut usize,
    mask: u8,
    space: [u8; N],
) -> Result<(), BadKey> {
    let space = space.map(|b| b ^ mask);
    loop {
        let (units, _) = key.get(*at..).ok_or(BadKey)?.as_chunks::<N>();
        let n = units.iter().position(|u| *u == space).ok_or(BadKey)?;
        *at += (n + 1) * N;
        match byte(key, at, mask)? {
            END => return Ok(()),
            LESS | GREATER => {}
            _ => return Err(BadKey),
        }
    }
}

/// Bytes of a descending part: all bits inverted; `mask` is 0 for an ascending one.
#[inline]
pub(crate) fn invert(bytes: &mut [u8], mask: u8) {
    if mask != 0 {
        bytes.iter_mut().for_each(|b| *b ^= mask);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cmp::Ordering;

    /// Every string over `letters` of at most four letters.
    fn words(letters: &[u8]) -> Vec<Vec<u8>> {
        let mut all = vec![Vec::new()];
        let mut last = 0;
        for _ in 0..4 {
            let end = all.len();
            for n in last..end {
                for l in letters {
                    let mut w = all[n].clone();
                    w.push(*l);
                    all.push(w);
                }
            }
            last = end;
        }
        all
    }

    fn compare_with_endless(a: &[u8], b: &[u8], space: &[u8]) -> Ordering {
        let n = a.len().max(b.len()) + space.len();
        let at = |w: &[u8], i: usize| w.get(i).copied().unwrap_or(space[i % space.len()]);
        (0..n).map(|i| at(a, i).cmp(&at(b, i))).find(|o| o.is_ne()).unwrap_or(Ordering::Equal)
    }

    fn assert_prefix_free(a: &[u8], b: &[u8]) {
        assert!(a == b || !(a.starts_with(b) || b.starts_with(a)), "{a:x?} {b:x?}");
    }

    #[test]
    fn escaped_strings_keep_order_and_are_prefix_free() {
        let words = words(&[0, 1, 2, 0xfe, 0xff]);
        let keys: Vec<Vec<u8>> = words
            .iter()
            .map(|w| {
                let mut k = Vec::new();
                put_escaped(&mut k, w);
                k
            })
            .collect();
        for (a, ka) in words.iter().zip(&keys) {
            let mut dst = [0; 8];
            let mut at = 0;
            let n = read_escaped(ka, &mut at, 0, &mut dst).unwrap();
            assert_eq!((&dst[..n], at), (&a[..], ka.len()));
            let mut at = 0;
            skip_escaped(ka, &mut at, 0).unwrap();
            assert_eq!(at, ka.len());
            for (b, kb) in words.iter().zip(&keys) {
                assert_eq!(a.cmp(b), ka.cmp(kb));
                assert_prefix_free(ka, kb);
            }
        }
    }

    #[test]
    fn padded_strings_compare_as_if_followed_by_spaces() {
        let words = words(b"\t az");
        let keys: Vec<Vec<u8>> = words
            .iter()
            .map(|w| {
                let mut k = Vec::new();
                put_padded(&mut k, w, b' ');
                k
            })
            .collect();
        for (a, ka) in words.iter().zip(&keys) {
            let mut dst = [0; 8];
            let n = read_padded(ka, &mut 0, 0, &mut dst).unwrap();
            assert_eq!(&dst[..n], a.trim_ascii_end_spaces());
            for (b, kb) in words.iter().zip(&keys) {
                assert_eq!(compare_with_endless(a, b, b" "), ka.cmp(kb), "{a:x?} {b:x?}");
                assert_prefix_free(ka, kb);
            }
        }
    }

    trait TrimSpaces {
        fn trim_ascii_end_spaces(&self) -> &[u8];
    }

    impl TrimSpaces for Vec<u8> {
        fn trim_ascii_end_spaces(&self) -> &[u8] {
            &self[..self.iter().rposition(|b| *b != b' ').map_or(0, |n| n + 1)]
        }
    }

    #[test]
    fn padded_weights_of_two_and_three_bytes_keep_order() {
        for space in [&[0u8, 2][..], &[0, 0, 2], &[2, 0, 2]] {
            let unit = space.len();
            let words: Vec<Vec<u8>> = words(&[0, 1, 2, 3])
                .into_iter()
                .map(|w| w.iter().flat_map(|b| [2, 0, *b][3 - unit..].to_vec()).collect())
                .collect();
            for a in &words {
                for b in &words {
                    let (mut ka, mut kb) = (Vec::new(), Vec::new());
                    put_padded_weights(&mut ka, a, space);
                    put_padded_weights(&mut kb, b, space);
                    assert_eq!(compare_with_endless(a, b, space), ka.cmp(&kb), "{a:x?} {b:x?}");
                    assert_prefix_free(&ka, &kb);
                    let mut at = 0;
                    skip_padded(&ka, &mut at, 0, space).unwrap();
                    assert_eq!(at, ka.len());
                }
            }
        }
    }

    #[test]
    fn weights_of_whole_units_are_padded_as_any_others() {
        for space in [&[0u8, 2][..], &[2, 2], &[0, 0, 2], &[2, 0, 2], &[1, 2, 0, 2]] {
            let unit = space.len();
            // Weights of up to six units, each below, at or above a space, some cut within the last unit.
            for n in 0..4usize.pow(6) {
                let digits = (0..6).map(|i| n >> (2 * i) & 3).take_while(|d| *d > 0);
                let mut src: Vec<u8> = digits
                    .flat_map(|d| {
                        let mut one = space.to_vec();
                        one[unit - 1] = one[unit - 1] + d as u8 - 2;
                        one
                    })
                    .collect();
                for _ in 0..2 {
                    let (mut fast, mut any) = (vec![7], vec![7]);
                    put_padded_weights(&mut fast, &src, space);
                    put_padded_any(&mut any, &src, space);
                    assert_eq!(fast, any, "{src:x?} with the space {space:x?}");
                    src.pop();
                }
            }
        }
    }

    #[test]
    fn prefix_end_is_above_every_extension() {
        let mut k = vec![1, 0xff, 0xff];
        assert!(prefix_end(&mut k));
        assert_eq!(k, [2]);
        assert!(!prefix_end(&mut vec![0xff, 0xff]));
    }
}
