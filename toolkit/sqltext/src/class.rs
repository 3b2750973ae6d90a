//! Names of classes: the id that people quote, and the key for hash tables.

use md5::{Digest, Md5};
use std::fmt;
use std::str::FromStr;

/// The id of a class: the MD5 of its fingerprint. pt-query-digest prints all of it since 3.0.11
/// (32 digits, upper case). Older versions, and still PMM and go-mysql, use the right-most 16
/// digits. Computing it takes some 300 ns, so it is made once per class, never per statement.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClassId([u8; 16]);

impl ClassId {
    /// The id of the class with this fingerprint.
    pub fn of(fingerprint: &[u8]) -> Self {
        ClassId(Md5::digest(fingerprint).into())
    }

    pub fn bytes(self) -> [u8; 16] {
        self.0
    }

    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        ClassId(bytes)
    }

    /// The right-most 16 digits, as older tools print them.
    pub fn short(self) -> ShortClassId {
        let mut half = [0; 8];
        half.copy_from_slice(&self.0[8..]);
        ShortClassId(half)
    }

    /// Whether the typed `text` means this class: 32 or the right-most 16 digits,
    /// either case, with or without `0x`.
    pub fn matches(self, text: &str) -> bool {
        match ClassIdText::from_str(text) {
            Ok(ClassIdText::Full(id)) => id == self,
            Ok(ClassIdText::Short(id)) => id == self.short(),
            Err(_) => false,
        }
    }
}

impl fmt::Display for ClassId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02X}"))
    }
}

impl fmt::Debug for ClassId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClassId({self})")
    }
}

/// The right half of a `ClassId`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ShortClassId([u8; 8]);

impl fmt::Display for ShortClassId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02X}"))
    }
}

impl fmt::Debug for ShortClassId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ShortClassId({self})")
    }
}

/// A class id as a user typed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClassIdText {
    Full(ClassId),
    Short(ShortClassId),
}

/// Why a text is not a class id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseClassIdError(String);

impl fmt::Display for ParseClassIdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' is no class id: 32 hexadecimal digits, or the last 16 of them", self.0)
    }
}

impl std::error::Error for ParseClassIdError {}

impl FromStr for ClassIdText {
    type Err = ParseClassIdError;

    fn from_str(text: &str) -> Result<Self, ParseClassIdError> {
        let digits = text.strip_prefix("0x").or(text.strip_prefix("0X")).unwrap_or(text);
        if digits.len() == 32 {
            if let Some(id) = hex(digits.as_bytes()) {
                return Ok(ClassIdText::Full(ClassId(id)));
            }
        } else if digits.len() == 16 {
            if let Some(id) = hex(digits.as_bytes()) {
                return Ok(ClassIdText::Short(ShortClassId(id)));
            }
        }
        Err(ParseClassIdError(text.to_string()))
    }
}

/// The `N` bytes that `2 * N` hexadecimal digits denote.
fn hex<const N: usize>(digits: &[u8]) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        let high = char::from(pair[0]).to_digit(16)?;
        let low = char::from(pair[1]).to_digit(16)?;
        *byte = (high * 16 + low) as u8;
    }
    Some(bytes)
}

/// The key under which a class is looked up, once per statement. Not stable across versions, so it
/// is never stored or printed.
pub fn class_hash(fingerprint: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(fingerprint)
}
