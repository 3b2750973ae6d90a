//! Byte codecs: little-endian fixed-width numbers, LEB128 varints, length-prefixed byte strings.

use std::fmt;

/// The input ended early or a length in it is impossible. Callers add file and place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShortInput {
    /// Offset within the input at which decoding stopped.
    pub at: usize,
}

impl fmt::Display for ShortInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bytes end or make no sense at offset {}", self.at)
    }
}

/// Appends `n` as an unsigned LEB128 varint (1 to 10 bytes).
#[inline]
pub fn put_varint(out: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

/// Bytes that [`put_varint`] appends for `n`.
pub fn varint_len(n: u64) -> usize {
    (64 - (n | 1).leading_zeros() as usize).div_ceil(7)
}

/// Appends a varint length and the bytes.
#[inline]
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Reads hostile bytes front to back. No method panics or allocates.
#[derive(Clone)]
pub struct ByteReader<'a> {
    all: &'a [u8],
    at: usize,
}

impl<'a> ByteReader<'a> {
    pub fn new(all: &'a [u8]) -> Self {
        ByteReader { all, at: 0 }
    }

    /// Offset of the next unread byte.
    pub fn position(&self) -> usize {
        self.at
    }

    pub fn remaining(&self) -> usize {
        self.all.len() - self.at
    }

    fn short(&self) -> ShortInput {
        ShortInput { at: self.at }
    }

    /// The next `n` bytes.
    #[inline]
    pub fn take(&mut self, n: usize) -> Result<&'a [u8], ShortInput> {
        let end = self.at.checked_add(n).ok_or(self.short())?;
        let got = self.all.get(self.at..end).ok_or(self.short())?;
        self.at = end;
        Ok(got)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], ShortInput> {
        let at = self.at;
        self.take(N)?.try_into().map_err(|_| ShortInput { at })
    }

    #[inline]
    pub fn u8(&mut self) -> Result<u8, ShortInput> {
        Ok(self.array::<1>()?[0])
    }

    #[inline]
    pub fn u16(&mut self) -> Result<u16, ShortInput> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    #[inline]
    pub fn u32(&mut self) -> Result<u32, ShortInput> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    #[inline]
    pub fn u64(&mut self) -> Result<u64, ShortInput> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// An unsigned LEB128 varint; an encoding longer than 64 bits is an error.
    #[inline]
    pub fn varint(&mut self) -> Result<u64, ShortInput> {
        let at = self.at;
        let mut n = 0u64;
        for shift in (0..64).step_by(7) {
            let b = self.u8()?;
            if shift == 63 && b > 1 {
                break;
            }
            n |= u64::from(b & 0x7f) << shift;
            if b < 0x80 {
                return Ok(n);
            }
        }
        Err(ShortInput { at })
    }

    /// A varint that must fit in 32 bits.
    pub fn u32_varint(&mut self) -> Result<u32, ShortInput> {
        let at = self.at;
        u32::try_from(self.varint()?).map_err(|_| ShortInput { at })
    }

    /// A varint that must fit in `usize` and not exceed what is left: a count of things of at least
    /// one byte each, or a length. Keeps hostile counts from causing large allocations.
    #[inline]
    pub fn bounded_len(&mut self) -> Result<usize, ShortInput> {
        let at = self.at;
        let n = self.varint()?;
        match usize::try_from(n) {
            Ok(n) if n <= self.remaining() => Ok(n),
            _ => Err(ShortInput { at }),
        }
    }

    /// A byte string written by [`put_bytes`].
    #[inline]
    pub fn bytes(&mut self) -> Result<&'a [u8], ShortInput> {
        let n = self.bounded_len()?;
        self.take(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_round_trip_and_know_their_length() {
        for shift in 0..64 {
            for n in [1u64 << shift, (1u64 << shift) - 1, u64::MAX >> shift] {
                let mut out = Vec::new();
                put_varint(&mut out, n);
                assert_eq!(out.len(), varint_len(n));
                let mut r = ByteReader::new(&out);
                assert_eq!(r.varint(), Ok(n));
                assert_eq!(r.remaining(), 0);
            }
        }
    }

    #[test]
    fn overlong_varint_is_refused() {
        assert!(ByteReader::new(&[0xff; 11]).varint().is_err());
        let mut over = [0x80u8; 10];
        over[9] = 2;
        assert!(ByteReader::new(&over).varint().is_err());
    }

    #[test]
    fn lengths_beyond_the_input_are_refused() {
        let mut out = Vec::new();
        put_varint(&mut out, u64::MAX);
        out.extend_from_slice(b"xyz");
        assert!(ByteReader::new(&out).bytes().is_err());
        assert!(ByteReader::new(&[3, 1, 2]).bytes().is_err());
        assert_eq!(ByteReader::new(&[2, 1, 2]).bytes(), Ok(&[1u8, 2][..]));
    }
}
