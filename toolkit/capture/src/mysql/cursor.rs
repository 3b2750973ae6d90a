//! Reads the protocol's fields from untrusted bytes: every read past the end returns `None`.

use crate::bytes::{le16, le24, le32, le64};

#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Cursor { rest: bytes }
    }

    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(super) fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(taken)
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.bytes(1).map(|b| b[0])
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        le16(self.bytes(2)?, 0)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        le32(self.bytes(4)?, 0)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        le64(self.bytes(8)?, 0)
    }

    /// A length-encoded integer; `None` for the byte for NULL (0xfb) and for 0xff.
    pub(super) fn length(&mut self) -> Option<u64> {
        match self.u8()? {
            0xfb | 0xff => None,
            0xfc => self.u16().map(u64::from),
            0xfd => le24(self.bytes(3)?, 0).map(u64::from),
            0xfe => self.u64(),
            small => Some(u64::from(small)),
        }
    }

    /// Bytes behind their length-encoded count.
    pub(super) fn string(&mut self) -> Option<&'a [u8]> {
        let count = self.length()?;
        self.bytes(usize::try_from(count).ok()?)
    }

    /// Bytes up to a NUL, which is consumed, or to the end.
    pub(super) fn until_nul(&mut self) -> &'a [u8] {
        let end = memchr::memchr(0, self.rest).unwrap_or(self.rest.len());
        let text = &self.rest[..end];
        self.rest = self.rest.get(end + 1..).unwrap_or_default();
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_have_four_forms_and_end_with_the_bytes() {
        let read = |bytes: &[u8]| Cursor::new(bytes).length();
        assert_eq!(read(&[250]), Some(250));
        assert_eq!(read(&[0xfc, 1, 2]), Some(0x201));
        assert_eq!(read(&[0xfd, 1, 2, 3]), Some(0x30201));
        assert_eq!(read(&[0xfe, 1, 0, 0, 0, 0, 0, 0, 1]), Some(1 << 56 | 1));
        for cut in [&[][..], &[0xfb], &[0xff, 1], &[0xfc, 1], &[0xfd, 1, 2], &[0xfe, 1]] {
            assert_eq!(read(cut), None);
        }
        assert_eq!(
            Cursor::new(&[0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]).string(),
            None
        );
        let mut cursor = Cursor::new(b"ab\0cd");
        assert_eq!((cursor.until_nul(), cursor.until_nul()), (&b"ab"[..], &b"cd"[..]));
        assert_eq!(cursor.until_nul(), b"");
    }
}
