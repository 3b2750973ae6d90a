//! Codes: the weights of a collation's common characters in one byte each, and the text that comes back from them.
//!
//! - CDS1. Codes of weights compare as the weights do, as byte strings; no code is a prefix of another. So what is said of
//!   weights in `order.rs` holds for them, with the code of a space as the unit of padding.
//! - CDS2. The leads follow from the list, and the list is stored: how they follow never changes.
//! - CDS3. The code of a listed weight, and a lead, is none of the bytes that the escaped and the padded form put between codes (0 to 3).
//!   A weight of one byte that is not listed may be.
//! - CDS4. A character of the list is printable ASCII. A text of such characters alone has their codes, one after the other.
//!
//! Format and reasons: docs/rfcs/0022-text-keys.md. Tested here and by `tests/it`.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::order::{
    put_escaped, put_padded, skip_escaped, skip_padded, trim_spaces, BadKey, END, GREATER, LESS,
};

/// A weight that is common, and its character.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Coded {
    pub weight: u16,
    /// Printable ASCII; of two letters that differ in case alone, the small one. 0: not known.
    pub char: u8,
    /// The capital letter has the weight, too.
    pub both_cases: bool,
}

/// The codes of a collation's first level. The same list gives the same object.
pub struct Codes {
    /// Bytes of a weight, 1 or 2.
    width: u8,
    /// Whether texts of ASCII characters alone need no collation, and come back from their keys.
    has_chars: bool,
    list: Box<[Coded]>,
    /// Code by byte of a text; 0: none.
    by_char: [u8; 256],
    /// Character by code; 0: none.
    chars: [u8; 256],
    /// What comes back for a byte of a text: the character of its code, which differs in case at most; or all bits inverted.
    back: [u8; 256],
    /// Ascending; a weight belongs to the last one that begins at it or below. None for weights of one byte.
    ranges: Box<[Range]>,
}

#[derive(Clone, Copy)]
struct Range {
    from: u16,
    lead: u8,
    /// Low bytes of the weight that follow: 0, 1 or 2.
    tail: u8,
}

/// What the value of an entry says of a text whose key has codes: nothing if the characters of the codes are it.
///
/// ```text
/// difference = varint(n + 1) bits*   n trailing spaces; a bit for each character, lowest first: 1 = the capital letter.
///                                    Zeros at the end are left out
///            | 0 text
/// ```
const TEXT: u8 = 0;

pub(crate) const MAX_CODED: usize = 95;
const FIRST_LEAD: u8 = GREATER + 1;
/// CJK characters have weights of this page in the Unicode algorithm.
const CJK_PAGE: u16 = 0xfb00;

static KNOWN: Mutex<Vec<Weak<Codes>>> = Mutex::new(Vec::new());

impl Codes {
    /// Codes of weights of `width` bytes. `list` ascends by weight; no character comes twice.
    ///
    /// # Errors
    /// What is wrong with the list.
    pub fn new(width: u8, list: &[Coded]) -> std::result::Result<Arc<Codes>, String> {
        check(width, list)?;
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|k| k.strong_count() > 0);
        let same = |c: &Arc<Codes>| c.width == width && *c.list == *list;
        if let Some(found) = known.iter().filter_map(Weak::upgrade).find(same) {
            return Ok(found);
        }
        let made = Arc::new(Codes::make(width, list));
        known.push(Arc::downgrade(&made));
        Ok(made)
    }

    fn make(width: u8, list: &[Coded]) -> Codes {
        let ranges = if width == 2 { ranges_of(list) } else { Vec::new() };
        let mut codes = Codes {
            width,
            has_chars: list.iter().any(|c| c.char != 0),
            list: list.into(),
            by_char: [0; 256],
            chars: [0; 256],
            back: std::array::from_fn(|b| !(b as u8)),
            ranges: ranges.into(),
        };
        for c in list.iter().filter(|c| c.char != 0) {
            let code = codes.of_listed(c.weight);
            codes.chars[usize::from(code)] = c.char;
            let capital = if c.both_cases { c.char.to_ascii_uppercase() } else { c.char };
            for char in [c.char, capital] {
                codes.by_char[usize::from(char)] = code;
                codes.back[usize::from(char)] = c.char;
            }
        }
        codes
    }

    pub fn width(&self) -> u8 {
        self.width
    }

    pub fn list(&self) -> &[Coded] {
        &self.list
    }

    /// Whether texts can come back from keys.
    pub(crate) fn has_chars(&self) -> bool {
        self.has_chars
    }

    fn range(&self, weight: u16) -> Range {
        // The first range begins at 0.
        self.ranges[self.ranges.partition_point(|r| r.from <= weight) - 1]
    }

    /// The code of a weight that is in the list.
    fn of_listed(&self, weight: u16) -> u8 {
        match self.width {
            1 => weight as u8,
            _ => self.range(weight).lead,
        }
    }

    /// The code of a space, whose weight is `space`.
    pub(crate) fn of_space(&self, space: &[u8]) -> Option<u8> {
        let weight = match *space {
            [one] if self.width == 1 => u16::from(one),
            [a, b] if self.width == 2 => u16::from_be_bytes([a, b]),
            _ => return None,
        };
        self.list.iter().any(|c| c.weight == weight).then(|| self.of_listed(weight))
    }

    /// Appends the key part of a text of listed characters, without two spaces in a row; false, and nothing is appended, for
    /// others. `space` as for [`Codes::read`].
    #[inline]
    pub(crate) fn put_listed(&self, src: &[u8], space: Option<u8>, out: &mut Vec<u8>) -> bool {
        if !self.has_chars {
            return false;
        }
        let start = out.len();
        let done = match space {
            None => {
                out.extend(src.iter().map(|b| self.by_char[usize::from(*b)]));
                let listed = !out[start..].contains(&0);
                // No code of a character has to be escaped.
                out.push(0);
                listed
            }
            Some(space) => self.put_padded(trim_spaces(src), space, out),
        };
        if !done {
            out.truncate(start);
        }
        done
    }

    /// The same for the padded form. Where spaces are cannot be predicted, so no branch depends on it.
    #[inline]
    fn put_padded(&self, body: &[u8], space: u8, out: &mut Vec<u8>) -> bool {
        let start = out.len();
        out.resize(start + 2 * body.len() + 2, 0);
        let dst = &mut out[start..];
        let (mut end, mut after_space, mut other) = (0, false, false);
        for b in body {
            let code = self.by_char[usize::from(*b)];
            let is_space = code == space;
            // Stays if a space is before it.
            dst[end] = if code < space { LESS } else { GREATER };
            end += usize::from(after_space);
            dst[end] = code;
            end += 1;
            other |= (code == 0) | (is_space & after_space);
            after_space = is_space;
        }
        (dst[end], dst[end + 1]) = (space, END);
        out.truncate(start + end + 2);
        !other
    }

    /// Replaces weights by their codes.
    pub(crate) fn encode(&self, weights: &mut Vec<u8>) {
        if self.width == 1 {
            return;
        }
        let end = weights.len();
        weights.reserve(2 * end);
        for at in (0..end).step_by(2) {
            // No known collation has half a weight at the end.
            let weight = [weights[at], if at + 1 < end { weights[at + 1] } else { 0 }];
            let range = self.range(u16::from_be_bytes(weight));
            weights.push(range.lead);
            weights.extend_from_slice(&weight[2 - usize::from(range.tail)..]);
        }
        weights.drain(..end);
    }

    /// Replaces codes by their weights. The padded form has lost the bytes at the end that are like a space, which may belong to
    /// a code: `space` as for [`Codes::read`].
    pub(crate) fn decode(&self, codes: &mut Vec<u8>, space: Option<u8>) -> Result<(), BadKey> {
        if self.width == 1 {
            return Ok(());
        }
        let mut weights = Vec::with_capacity(2 * codes.len());
        let mut rest = codes.iter().copied();
        while let Some(lead) = rest.next() {
            let range =
                self.ranges.get(usize::from(lead.wrapping_sub(FIRST_LEAD))).ok_or(BadKey)?;
            let [mut high, mut low] = range.from.to_be_bytes();
            if range.tail == 2 {
                high = rest.next().or(space).ok_or(BadKey)?;
            }
            if range.tail >= 1 {
                low = rest.next().or(space).ok_or(BadKey)?;
            }
            weights.extend_from_slice(&[high, low]);
        }
        *codes = weights;
        Ok(())
    }

    /// Reads a text's key part into `dst`; returns its length, or `None` when it has other than listed characters, or more than
    /// there is room for: then the value has the text. `space`: the code of a space, for the padded form.
    pub(crate) fn read(
        &self,
        key: &[u8],
        at: &mut usize,
        mask: u8,
        space: Option<u8>,
        dst: &mut [u8],
    ) -> Result<Option<usize>, BadKey> {
        let part = key.get(*at..).ok_or(BadKey)?;
        let Some(space) = space else {
            let len = part.iter().position(|b| *b == mask).ok_or(BadKey)?;
            *at += len + 1;
            let Some(dst) = dst.get_mut(..len) else { return Ok(None) };
            for (to, b) in dst.iter_mut().zip(part) {
                *to = self.chars[usize::from(b ^ mask)];
            }
            return Ok((!dst.contains(&0)).then_some(len));
        };
        // Where spaces are cannot be predicted, so only the end is a branch that depends on them.
        let (mut len, mut other, mut bad, mut last) = (0, false, false, 0);
        for (n, b) in part.iter().map(|b| b ^ mask).enumerate() {
            // The byte behind a space, or behind the last byte of another code that is like one.
            let is_marker = last == space;
            if is_marker & (b == END) {
                *at += n + 1;
                // The space before the end is none of the text.
                return match (bad, other || len - 1 > dst.len()) {
                    (true, _) => Err(BadKey),
                    (false, true) => Ok(None),
                    (false, false) => Ok(Some(len - 1)),
                };
            }
            let char = self.chars[usize::from(b)];
            if let Some(to) = dst.get_mut(len) {
                *to = char;
            }
            len += usize::from(!is_marker);
            other |= (char == 0) & !is_marker;
            bad |= is_marker & (b != LESS) & (b != GREATER);
            last = b;
        }
        Err(BadKey)
    }

    /// Appends how a text differs from the characters of its codes; nothing if it does not. `padded`: the key lacks trailing spaces.
    pub(crate) fn put_difference(&self, text: &[u8], padded: bool, out: &mut Vec<u8>) {
        let body = if padded { trim_spaces(text) } else { text };
        let back = |b: u8| self.back[usize::from(b)];
        let spaces = text.len() - body.len();
        let differing = body.iter().fold(0, |all, b| all | (back(*b) ^ b));
        if differing == 0 && spaces == 0 {
            return;
        }
        if differing & 0x80 != 0 {
            out.push(TEXT);
            out.extend_from_slice(text);
            return;
        }
        frond_base::put_varint(out, spaces as u64 + 1);
        for chars in body.chunks(8) {
            let bits = chars.iter().enumerate().map(|(n, b)| u8::from(back(*b) != *b) << n);
            out.push(bits.fold(0, |all, bit| all | bit));
        }
        // The first byte is not 0.
        while out.last() == Some(&0) {
            out.pop();
        }
    }

    /// Applies a difference to the characters of the codes: `body` has room for the longest text, `len` of it is filled, or `None`
    /// if [`Codes::read`] said so. Returns the length of the text; `None`: the difference does not fit.
    pub(crate) fn apply(difference: &[u8], body: &mut [u8], len: Option<usize>) -> Option<usize> {
        if let Some((&TEXT, text)) = difference.split_first() {
            body.get_mut(..text.len())?.copy_from_slice(text);
            return Some(text.len());
        }
        let len = len?;
        let mut r = frond_base::ByteReader::new(difference);
        let spaces = if difference.is_empty() { 0 } else { r.varint().ok()?.checked_sub(1)? };
        let bits = r.take(r.remaining()).ok()?;
        for (n, byte) in bits.iter().enumerate() {
            let set = (0..8).filter(|bit| byte >> bit & 1 == 1);
            for at in set.map(|bit| 8 * n + bit) {
                let letter = body.get_mut(..len)?.get_mut(at).filter(|b| b.is_ascii_lowercase())?;
                *letter = letter.to_ascii_uppercase();
            }
        }
        let end = len.checked_add(usize::try_from(spaces).ok()?)?;
        body.get_mut(len..end)?.fill(b' ');
        Some(end)
    }
}

/// Skips the rest of a key part; `space` as for [`Codes::read`].
pub(crate) fn skip(key: &[u8], at: &mut usize, mask: u8, space: Option<u8>) -> Result<(), BadKey> {
    match space {
        Some(space) => skip_padded(key, at, mask, &[space]),
        None => skip_escaped(key, at, mask),
    }
}

/// Puts codes as a key part; `space` as for [`Codes::read`].
pub(crate) fn put(out: &mut Vec<u8>, codes: &[u8], space: Option<u8>) {
    match space {
        Some(space) => {
            put_padded(out, codes, space);
        }
        None => put_escaped(out, codes),
    }
}

impl PartialEq for Codes {
    fn eq(&self, other: &Codes) -> bool {
        self.width == other.width && self.list == other.list
    }
}

impl Eq for Codes {}

impl std::fmt::Debug for Codes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "codes of {} weights of {} bytes", self.list.len(), self.width)
    }
}

fn check(width: u8, list: &[Coded]) -> std::result::Result<(), String> {
    if list.is_empty() || list.len() > MAX_CODED || !matches!(width, 1 | 2) {
        return Err("a list of codes is empty, too long, or not for weights of 1 or 2 bytes".into());
    }
    let mut seen = [false; 128];
    for (n, c) in list.iter().enumerate() {
        if n > 0 && list[n - 1].weight >= c.weight
            || width == 1 && !(u16::from(FIRST_LEAD)..256).contains(&c.weight)
        {
            return Err(format!("the weight {:#x} has no place in a list of codes", c.weight));
        }
        let printable = c.char == 0 || (b' '..=b'~').contains(&c.char);
        if !printable || c.both_cases && !c.char.is_ascii_lowercase() {
            return Err(format!("a code stands for the byte {}", c.char));
        }
        let capital = c.both_cases.then(|| c.char.to_ascii_uppercase());
        for char in [c.char].into_iter().chain(capital).filter(|c| *c != 0) {
            if std::mem::replace(&mut seen[usize::from(char)], true) {
                return Err(format!("two codes stand for {:?}", char::from(char)));
            }
        }
    }
    Ok(())
}

/// CDS2.
fn ranges_of(list: &[Coded]) -> Vec<Range> {
    let mut ranges: Vec<Range> = Vec::new();
    let mut add = |from: u32, tail: u8| {
        let (Ok(from), n) = (u16::try_from(from), ranges.len()) else { return 0 };
        ranges.push(Range { from, lead: FIRST_LEAD + n as u8, tail });
        // Leads that are left.
        usize::from(u8::MAX - FIRST_LEAD) - n
    };
    let mut next = 0u32;
    for c in list {
        if u32::from(c.weight) > next {
            add(next, 2);
        }
        add(c.weight.into(), 0);
        next = u32::from(c.weight) + 1;
    }
    let cjk = u32::from(CJK_PAGE);
    if next <= cjk {
        while add(next, 1) > 3 && next | 0xff != cjk - 1 {
            next = (next | 0xff) + 1;
        }
        next = (next | 0xff) + 1;
        if next < cjk {
            add(next, 2);
        }
        add(cjk, 1);
        next = cjk + 0x100;
    }
    add(next, 2);
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    type Weights<'a> = &'a [(u16, u8, bool)];

    fn list(weights: Weights<'_>) -> Vec<Coded> {
        weights
            .iter()
            .map(|&(weight, char, both_cases)| Coded { weight, char, both_cases })
            .collect()
    }

    fn pairs() -> Arc<Codes> {
        let list = list(&[
            (0x209, b' ', false),
            (0x20a, b'_', false),
            (0xe33, b'a', true),
            (0x106a, b'z', true),
        ]);
        Codes::new(2, &list).unwrap()
    }

    fn encoded(codes: &Codes, weights: &[u16]) -> Vec<u8> {
        let mut bytes: Vec<u8> = weights.iter().flat_map(|w| w.to_be_bytes()).collect();
        codes.encode(&mut bytes);
        bytes
    }

    #[test]
    fn codes_compare_as_weights_and_come_back() {
        // The second list leaves no leads for pages of weights, the third has weights at both ends.
        let every_second: Vec<_> = (0..95).map(|n| (2 * n + 1, 0, false)).collect();
        let ends = [(0, 0, false), (0xfb80, 0, false), (0xffff, 0, false)];
        for codes in [
            pairs(),
            Codes::new(2, &list(&every_second)).unwrap(),
            Codes::new(2, &list(&ends)).unwrap(),
        ] {
            let mut last = Vec::new();
            for weight in 0..=u16::MAX {
                let code = encoded(&codes, &[weight]);
                assert!(code > last && !code.starts_with(&last) || weight == 0, "{weight:#x}");
                assert!(code.len() <= 3 && code[0] >= FIRST_LEAD);
                let mut back = code.clone();
                codes.decode(&mut back, None).unwrap();
                assert_eq!(back, weight.to_be_bytes());
                last = code;
            }
        }
    }

    #[test]
    fn common_weights_take_one_byte_and_others_two_or_three() {
        let len = |weight| encoded(&pairs(), &[weight]).len();
        assert_eq!([0x209, 0x20a, 0xe33, 0x106a].map(len), [1; 4]);
        assert_eq!([0x106b, 0x10ff, 0x1100, 0x7000, 0xfb40].map(len), [2; 5]);
        assert_eq!([0x208, 0x20b, 0xe32, 0xfc00, 0xffff].map(len), [3; 5]);
    }

    #[test]
    fn texts_differ_by_case_and_spaces() {
        let codes = pairs();
        let difference = |text: &[u8], padded| {
            let mut out = Vec::new();
            codes.put_difference(text, padded, &mut out);
            out
        };
        assert_eq!(difference(b"az_ a", true), b"");
        assert_eq!(difference(b"", true), b"");
        assert_eq!(difference(b"aZ  ", true), [3, 2]);
        assert_eq!(difference(b"az ", true), [2]);
        assert_eq!(difference(b"az ", false), b"");
        assert_eq!(difference(b"az b", true), b"\0az b");
        assert_eq!(difference(b"aaaaaaaaA", true), [1, 0, 1]);
        let apply = |difference: &[u8], text: &[u8], len| {
            let mut body = [0; 9];
            body[..text.len()].copy_from_slice(text);
            Codes::apply(difference, &mut body, len).map(|n| body[..n].to_vec())
        };
        assert_eq!(apply(&[3, 2], b"az", Some(2)).unwrap(), b"aZ  ");
        assert_eq!(apply(b"\0b", b"", None).unwrap(), b"b");
        for (bad, len) in [
            (&[3, 1 << 2][..], Some(2)),
            (&[1], None),
            (&[], None),
            (&[9], Some(2)),
            (&[0; 11], None),
        ] {
            assert_eq!(apply(bad, b"az", len), None, "{bad:?}");
        }
        assert_eq!(apply(&[1, 1], b"_", Some(1)), None, "no letter");
    }

    #[test]
    fn lists_that_cannot_be_are_refused() {
        let bad: &[(u8, Weights<'_>)] = &[
            (2, &[]),
            (3, &[(5, b'a', false)]),
            (1, &[(1, b'a', false)]),
            (1, &[(256, b'a', false)]),
            (2, &[(5, b'a', false), (5, b'b', false)]),
            (2, &[(5, b'a', true), (6, b'A', false)]),
            (2, &[(5, b'A', true)]),
            (2, &[(5, 0x1f, false)]),
            (2, &[(5, 0x7f, false)]),
        ];
        for (width, weights) in bad {
            assert!(Codes::new(*width, &list(weights)).is_err(), "{width} {weights:?}");
        }
    }
}
