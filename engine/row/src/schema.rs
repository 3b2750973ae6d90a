//! The persisted description of a table: what its columns are, how they sort, which indexes exist.
//!
//! Invariants (checked by [`Schema::validate`], which decoding runs too):
//! - SD1. `indexes[0]` is the primary index; with `hidden_primary` it has no parts and its key is an
//!   eight-byte row id.
//! - SD2. Column ids are unique in a schema and never reused in the life of the table; tree numbers
//!   of indexes likewise.
//! - SD3. A column's `bytes` is its length in the record image and fits its type.
//! - SD4. Primary key parts are not NULL, stored columns.
//! - SD5. The primary index has the rows by itself: only others are marked as clustering.

use std::fmt;
use std::sync::Arc;

use frond_base::{Error, ErrorKind, IndexNo, Result};

use crate::codes::Codes;

/// The longest key a tree takes.
pub const MAX_KEY_BYTES: usize = frond_base::MAX_KEY;

/// Limits against absurd tables in hostile bytes.
pub(crate) const MAX_COLUMNS: usize = 8192;
pub(crate) const MAX_INDEXES: usize = 130;
pub(crate) const MAX_PARTS: usize = 64;
pub(crate) const MAX_IMAGE_BYTES: u32 = 1 << 17;
pub(crate) const MAX_RECORD_BYTES: u64 = 1 << 24;

/// A column's type as it lies in the record image. The image length is [`Column::bytes`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ColumnType {
    /// Little-endian integer of 1, 2, 3, 4 or 8 bytes.
    Int { unsigned: bool },
    /// Four-byte IEEE float, little-endian.
    Float,
    /// Eight-byte IEEE float, little-endian.
    Double,
    /// Packed decimal; its bytes compare as its values.
    Decimal { precision: u8, scale: u8 },
    /// One byte, years since 1900, 0 = year zero.
    Year,
    /// Three bytes little-endian: day + 32 * month + 512 * year.
    Date,
    /// Big-endian, offset binary, `fsp` fractional digits.
    Time { fsp: u8 },
    /// Big-endian, offset binary, `fsp` fractional digits.
    DateTime { fsp: u8 },
    /// Big-endian seconds since 1970, UTC, `fsp` fractional digits.
    Timestamp { fsp: u8 },
    /// Four bytes little-endian: year * 10000 + month * 100 + day.
    OldDate,
    /// Three bytes little-endian, signed: hhmmss as a decimal number.
    OldTime,
    /// Eight bytes little-endian: yyyymmddhhmmss as a decimal number.
    OldDateTime,
    /// Four bytes little-endian: seconds since 1970.
    OldTimestamp,
    /// Any other temporal image whose bytes compare as its values.
    OldTemporal,
    /// A bit string, big-endian, whole bytes.
    Bit { bits: u8 },
    /// Little-endian number of the member, 1 or 2 bytes.
    Enum,
    /// Little-endian bit set of 1, 2, 3, 4 or 8 bytes.
    Set,
    /// Fixed-length text padded with spaces.
    Char,
    /// Fixed-length bytes padded with zeros.
    Binary,
    /// Text or bytes behind a little-endian length of 1 or 2 bytes.
    VarChar { length_bytes: u8 },
    /// A little-endian length of 1 to 4 bytes, then an eight-byte pointer to text or bytes.
    Blob { length_bytes: u8 },
    /// 16 bytes as they compare. `swapped`: always stored in swapped order.
    Uuid { swapped: bool },
    /// 16 bytes as they compare.
    Inet6,
    /// 4 bytes as they compare.
    Inet4,
    /// An image only [`crate::SortKeys::opaque`] can order; its sort key has `key_bytes` bytes.
    Opaque { key_bytes: u16 },
}

/// One level of a collation's weights.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WeightLevel {
    /// The number passed to [`crate::SortKeys::weights`].
    pub level: u8,
    /// PAD SPACE: the weight of a space at this level (1 to 4 bytes). Empty: NO PAD.
    pub space: Vec<u8>,
    /// Keys have these codes instead of the weights.
    pub codes: Option<Arc<Codes>>,
}

impl WeightLevel {
    /// A level whose weights are in keys as they are.
    pub fn plain(level: u8, space: &[u8]) -> WeightLevel {
        WeightLevel { level, space: space.to_vec(), codes: None }
    }
}

/// How values of a text or byte column compare. Ignored for other types.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Sort {
    /// By bytes; a prefix sorts first.
    Binary,
    /// By bytes as if followed by endless spaces (0x20).
    BinaryPadSpace,
    /// By the weights of the column's collation, level after level.
    Weights(Vec<WeightLevel>),
}

impl Sort {
    /// Whether values compare in the same way, with the same codes or not.
    pub fn compares_as(&self, other: &Sort) -> bool {
        match (self, other) {
            (Sort::Weights(a), Sort::Weights(b)) => {
                let plain = |all: &[WeightLevel]| -> Vec<_> {
                    all.iter().map(|l| WeightLevel::plain(l.level, &l.space)).collect()
                };
                plain(a) == plain(b)
            }
            _ => self == other,
        }
    }
}

/// The value, in older rows, of a column that was added without rewriting the table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DefaultValue {
    /// NULL for nullable columns; zero or empty for others.
    Empty,
    /// The value's bytes as the row value stores them: the image for fixed-width types, the
    /// contents without length bytes for the others.
    Bytes(Vec<u8>),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Column {
    /// Names the column through schema changes (SD2).
    pub id: u32,
    pub name: String,
    pub ty: ColumnType,
    /// Length in the record image, length bytes and pointers included.
    pub bytes: u32,
    pub nullable: bool,
    /// Collation number, passed to [`crate::SortKeys`]; also used when rows are printed.
    pub charset: u32,
    /// Longest character in bytes (1 for byte strings and numbers).
    pub max_char_bytes: u8,
    /// Shortest character in bytes.
    pub min_char_bytes: u8,
    pub sort: Sort,
    /// False: computed on reading; in indexes, but not in row values.
    pub stored: bool,
    /// Not stored yet, each row has its default: a column that is being added while an index of it is built
    /// (`added_columns.rs`).
    pub coming: bool,
    pub default: DefaultValue,
}

impl Column {
    /// A NOT NULL column of `ty` with plain settings: id 0, byte order, no default. The caller
    /// changes the others.
    pub fn new(name: &str, ty: ColumnType, bytes: u32) -> Column {
        Column {
            id: 0,
            name: name.to_string(),
            ty,
            bytes,
            nullable: false,
            charset: 63,
            max_char_bytes: 1,
            min_char_bytes: 1,
            sort: Sort::Binary,
            stored: true,
            coming: false,
            default: DefaultValue::Empty,
        }
    }

    /// `Some` if `self` is an integer with room for all values of `was`, an integer of fewer bytes: whether
    /// `was` is signed.
    pub fn widens(&self, was: &Column) -> Option<bool> {
        use ColumnType::Int;
        match (was.ty, self.ty) {
            (Int { unsigned: before }, Int { unsigned: now }) if was.bytes < self.bytes => {
                (before || !now).then_some(!before)
            }
            _ => None,
        }
    }

    /// The column's value in rows that are older than the column. `was` is its definition until
    /// now.
    pub fn default_as(&self, was: &Column) -> DefaultValue {
        match (&was.default, self.widens(was)) {
            (DefaultValue::Bytes(content), Some(signed)) => {
                let mut image = vec![0; self.bytes as usize];
                widen(content, signed, &mut image);
                DefaultValue::Bytes(image)
            }
            (default, _) => default.clone(),
        }
    }

    /// Whether the type is text or bytes, so that [`Column::sort`] says how it compares.
    pub fn is_text(&self) -> bool {
        use ColumnType::{Binary, Blob, Char, VarChar};
        matches!(self.ty, Char | Binary | VarChar { .. } | Blob { .. })
    }

    fn check(&self) -> std::result::Result<(), String> {
        use ColumnType::*;
        if self.coming && self.stored {
            return Err("it is stored and is still to come".into());
        }
        let b = self.bytes;
        let fits = match self.ty {
            Int { .. } | Set => matches!(b, 1 | 2 | 3 | 4 | 8),
            Float | OldDate | OldTimestamp | Inet4 => b == 4,
            Double | OldDateTime => b == 8,
            Decimal { precision, scale } => {
                precision <= 65 && scale <= precision && b == decimal_bytes(precision, scale)
            }
            Year => b == 1,
            Date | OldTime => b == 3,
            Time { fsp } => fsp <= 6 && b == 3 + u32::from(fsp).div_ceil(2),
            DateTime { fsp } => fsp <= 6 && b == 5 + u32::from(fsp).div_ceil(2),
            Timestamp { fsp } => fsp <= 6 && b == 4 + u32::from(fsp).div_ceil(2),
            OldTemporal => (1..=8).contains(&b),
            Bit { bits } => (1..=64).contains(&bits) && b == u32::from(bits).div_ceil(8),
            Enum => matches!(b, 1 | 2),
            Char | Binary => b <= MAX_IMAGE_BYTES,
            VarChar { length_bytes: n } => {
                matches!(n, 1 | 2) && b >= u32::from(n) && b - u32::from(n) < 1 << (8 * n)
            }
            Blob { length_bytes: n } => matches!(n, 1..=4) && b == u32::from(n) + 8,
            Uuid { .. } | Inet6 => b == 16,
            Opaque { key_bytes } => b <= MAX_IMAGE_BYTES && key_bytes >= 1,
        };
        if !fits {
            return Err(format!("an image of {b} bytes does not fit {:?}", self.ty));
        }
        if !matches!(self.max_char_bytes, 1..=8) || !(1..=4).contains(&self.min_char_bytes) {
            return Err("impossible character width".into());
        }
        if self.sort == Sort::BinaryPadSpace && self.min_char_bytes != 1 {
            return Err("its spaces are no single bytes: it needs weights".into());
        }
        if let Sort::Weights(levels) = &self.sort {
            let good = !levels.is_empty() && levels.iter().all(|l| l.space.len() <= 4);
            if !good || levels.len() > 8 {
                return Err("impossible collation weights".into());
            }
            let no_space = |l: &WeightLevel| {
                let codes = l.codes.as_ref().filter(|_| !l.space.is_empty());
                codes.is_some_and(|c| c.of_space(&l.space).is_none())
            };
            if levels.iter().any(no_space) {
                return Err("a space has no code".into());
            }
        }
        Ok(())
    }
}

/// Puts a little-endian integer of fewer bytes into `image`.
#[inline]
pub(crate) fn widen(content: &[u8], signed: bool, image: &mut [u8]) {
    let negative = signed && content.last().is_some_and(|top| top & 0x80 != 0);
    let n = content.len().min(image.len());
    image[..n].copy_from_slice(&content[..n]);
    image[n..].fill(if negative { 0xff } else { 0 });
}

/// Bytes of a packed decimal.
pub(crate) fn decimal_bytes(precision: u8, scale: u8) -> u32 {
    const PARTIAL: [u32; 9] = [0, 1, 1, 2, 2, 3, 3, 4, 4];
    let part = |digits: u8| u32::from(digits / 9) * 4 + PARTIAL[usize::from(digits % 9)];
    part(precision.saturating_sub(scale)) + part(scale)
}

/// Only the start of a text column is in the key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PartPrefix {
    /// Length of the part in a key tuple.
    pub bytes: u16,
    /// Characters kept.
    pub chars: u16,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part {
    /// Position in [`Schema::columns`].
    pub column: u16,
    /// `None`: the whole column.
    pub prefix: Option<PartPrefix>,
    pub descending: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Index {
    /// The tree that holds the index; stable when other indexes come and go.
    pub tree: IndexNo,
    pub name: String,
    pub unique: bool,
    /// Whether its entries have whole rows. Those of the primary index always do, so that one is
    /// never marked.
    pub clustering: bool,
    pub parts: Vec<Part>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Schema {
    /// Grows with every change; row values carry the version that wrote them.
    pub version: u32,
    pub columns: Vec<Column>,
    /// The primary index first (SD1).
    pub indexes: Vec<Index>,
    /// The table has no primary key of its own.
    pub hidden_primary: bool,
    /// Position of the AUTO_INCREMENT column.
    pub auto_increment: Option<u16>,
}

impl Schema {
    /// Checks SD1 to SD5 and every number in the description.
    pub fn validate(&self) -> Result<()> {
        self.check().map_err(|what| {
            Error::new(ErrorKind::InvalidArgument, format!("schema {}: {what}", self.version))
        })
    }

    /// Whether entries of the index have whole rows.
    pub fn has_rows(&self, index: usize) -> bool {
        index == 0 || self.indexes[index].clustering
    }

    /// Position of the column called `name`, ignoring ASCII case.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|c| c.name.eq_ignore_ascii_case(name))
    }

    pub(crate) fn check(&self) -> std::result::Result<(), String> {
        if self.columns.len() > MAX_COLUMNS || self.indexes.len() > MAX_INDEXES {
            return Err("too many columns or indexes".into());
        }
        let mut ids: Vec<u32> = self.columns.iter().map(|c| c.id).collect();
        ids.sort_unstable();
        if ids.windows(2).any(|w| w[0] == w[1]) {
            return Err("two columns have one id".into());
        }
        for c in &self.columns {
            c.check().map_err(|what| format!("column '{}': {what}", c.name))?;
        }
        if self.columns.iter().map(|c| u64::from(c.bytes)).sum::<u64>() > MAX_RECORD_BYTES {
            return Err("a record too long".into());
        }
        let Some(primary) = self.indexes.first() else { return Err("no primary index".into()) };
        if self.hidden_primary != primary.parts.is_empty() {
            return Err("a primary index has parts exactly when it is not hidden".into());
        }
        if primary.clustering {
            return Err("the primary index is clustering by itself (SD5)".into());
        }
        for (n, index) in self.indexes.iter().enumerate() {
            let named = |what: &str| format!("index '{}': {what}", index.name);
            if self.indexes[..n].iter().any(|other| other.tree == index.tree) {
                return Err(named("shares its tree with another index"));
            }
            if (n > 0 && index.parts.is_empty()) || index.parts.len() > MAX_PARTS {
                return Err(named("has no parts or too many"));
            }
            for part in &index.parts {
                self.check_part(part, n == 0).map_err(|what| named(&what))?;
            }
        }
        match self.auto_increment {
            Some(n) if usize::from(n) >= self.columns.len() => {
                Err("the auto-increment column does not exist".into())
            }
            _ => Ok(()),
        }
    }

    fn check_part(&self, part: &Part, primary: bool) -> std::result::Result<(), String> {
        let Some(c) = self.columns.get(usize::from(part.column)) else {
            return Err("a part names a column that does not exist".into());
        };
        if c.bytes == 0 || part.prefix.is_some_and(|p| p.bytes == 0 || p.chars == 0) {
            return Err(format!("a part of column '{}' is empty", c.name));
        }
        if primary && (c.nullable || !c.stored) {
            return Err(format!("column '{}' may be NULL or is not stored", c.name));
        }
        if part.prefix.is_some() && !c.is_text() {
            return Err(format!("column '{}' has no prefixes", c.name));
        }
        if part.prefix.is_none() && matches!(c.ty, ColumnType::Blob { .. }) {
            return Err(format!("column '{}' needs a prefix length", c.name));
        }
        Ok(())
    }
}

impl fmt::Display for Schema {
    /// One line per column and index, for tools.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "schema version {}", self.version)?;
        for c in &self.columns {
            let null = if c.nullable { "" } else { " not null" };
            writeln!(f, "  column {} '{}' {:?} bytes {}{null}", c.id, c.name, c.ty, c.bytes)?;
        }
        for (n, i) in self.indexes.iter().enumerate() {
            let kind = match (n, i.unique) {
                (0, _) => "primary",
                (_, true) => "unique",
                _ => "index",
            };
            write!(f, "  {kind} '{}' tree {} (", i.name, i.tree)?;
            for (k, p) in i.parts.iter().enumerate() {
                let comma = if k > 0 { ", " } else { "" };
                let name = self.columns.get(usize::from(p.column)).map_or("?", |c| &c.name);
                write!(f, "{comma}{name}")?;
                if let Some(prefix) = p.prefix {
                    write!(f, "({})", prefix.chars)?;
                }
                if p.descending {
                    write!(f, " desc")?;
                }
            }
            writeln!(f, "){}", if i.clustering { " clustering" } else { "" })?;
        }
        Ok(())
    }
}
