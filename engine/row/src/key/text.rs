//! Text and byte strings in keys: the bytes, or the weights of their collation, cut to a prefix.
//!
//! A prefix is cut in characters, before the weights are computed: so equal prefixes have equal
//! keys. The encodings are in `order.rs`. Tested by `tests/it`.

use std::sync::Arc;

use crate::codes::{self, Codes};
use crate::order::{
    invert, padded_string, put_escaped, put_padded, put_padded_weights, read_escaped, skip_escaped,
    skip_padded, BadKey, SortKeys,
};
use crate::schema::{Column, ColumnType, Part, Sort, WeightLevel};

#[derive(Clone, Debug)]
pub(crate) struct TextPart {
    /// Only this many characters count.
    chars: Option<usize>,
    /// All characters have one byte.
    narrow: bool,
    /// The image of a CHAR counts with its padding.
    pub(super) padded_image: bool,
    charset: u32,
    pub(super) order: TextOrder,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum TextOrder {
    Escaped,
    Padded,
    Weights(Vec<Level>),
}

/// A level of a collation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Level {
    number: u8,
    /// The weight of a space; empty: NO PAD.
    space: Vec<u8>,
    codes: Option<Arc<Codes>>,
    /// The code of a space; `None` without codes and for NO PAD.
    space_code: Option<u8>,
}

impl Level {
    fn new(l: &WeightLevel) -> Level {
        let space_code = l.codes.as_ref().and_then(|c| c.of_space(&l.space));
        Level { number: l.level, space: l.space.clone(), codes: l.codes.clone(), space_code }
    }

    fn put(&self, weights: &mut Vec<u8>, out: &mut Vec<u8>) {
        if let Some(codes) = &self.codes {
            codes.encode(weights);
            codes::put(out, weights, self.space_code);
        } else if self.space.is_empty() {
            put_escaped(out, weights);
        } else {
            put_padded_weights(out, weights, &self.space);
        }
    }

    fn skip(&self, key: &[u8], at: &mut usize, mask: u8) -> Result<(), BadKey> {
        if self.codes.is_some() {
            codes::skip(key, at, mask, self.space_code)
        } else if self.space.is_empty() {
            skip_escaped(key, at, mask)
        } else {
            skip_padded(key, at, mask, &self.space)
        }
    }

    /// The weights, without trailing spaces, of one part of a key: nothing else, and not inverted.
    fn weights_of(&self, part: &[u8]) -> Result<Vec<u8>, BadKey> {
        let mut weights = match (self.space_code, &*self.space) {
            (Some(code), _) => padded_string(part, &[code])?,
            (None, []) => {
                let mut string = vec![0; part.len()];
                let n = read_escaped(part, &mut 0, 0, &mut string)?;
                string.truncate(n);
                string
            }
            (None, space) => padded_string(part, space)?,
        };
        if let Some(codes) = &self.codes {
            codes.decode(&mut weights, self.space_code)?;
        }
        Ok(weights)
    }
}

impl TextPart {
    pub(super) fn new(c: &Column, part: &Part) -> TextPart {
        let order = match &c.sort {
            Sort::Binary => TextOrder::Escaped,
            Sort::BinaryPadSpace => TextOrder::Padded,
            Sort::Weights(levels) => TextOrder::Weights(levels.iter().map(Level::new).collect()),
        };
        // Without PAD SPACE the padding of a CHAR counts, up to its length in characters.
        let no_pad = match &c.sort {
            Sort::Binary => true,
            Sort::BinaryPadSpace => false,
            Sort::Weights(levels) => levels.iter().any(|l| l.space.is_empty()),
        };
        let padded_image = c.ty == ColumnType::Char && no_pad;
        let wide = usize::from(c.max_char_bytes);
        let chars = match part.prefix {
            Some(prefix) => Some(usize::from(prefix.chars)),
            None if padded_image => Some(c.bytes as usize / wide),
            None => None,
        };
        TextPart { chars, narrow: wide == 1, padded_image, charset: c.charset, order }
    }

    /// The codes from which texts come back, and whether keys lack trailing spaces. A text with the padding of a CHAR in its
    /// key does not come back.
    pub(crate) fn codes(&self) -> Option<(&Arc<Codes>, bool)> {
        let TextOrder::Weights(levels) = &self.order else { return None };
        let first = levels.first()?;
        let codes = first.codes.as_ref().filter(|c| c.has_chars() && !self.padded_image)?;
        Some((codes, first.space_code.is_some()))
    }

    pub(super) fn has_codes(&self) -> bool {
        matches!(&self.order, TextOrder::Weights(levels) if levels.iter().any(|l| l.codes.is_some()))
    }

    /// Whether equal values of both have equal weights, and unequal values unequal ones. [`TextPart::translate`] makes keys
    /// of one from those of the other.
    pub(crate) fn compares_as(&self, other: &TextPart) -> bool {
        let same = match (&self.order, &other.order) {
            (TextOrder::Weights(a), TextOrder::Weights(b)) => {
                let form = |l: &Level| (l.number, l.space.clone());
                a.iter().map(form).eq(b.iter().map(form))
            }
            (a, b) => a == b,
        };
        same && self.charset == other.charset
            && self.padded_image == other.padded_image
            && (!self.padded_image || self.chars == other.chars)
    }

    pub(super) fn put(
        &self,
        src: &[u8],
        mask: u8,
        sort: &dyn SortKeys,
        out: &mut Vec<u8>,
        scratch: &mut Vec<u8>,
    ) {
        let src = match self.chars {
            Some(chars) if src.len() > chars => {
                let cut = if self.narrow {
                    chars
                } else {
                    sort.char_prefix(self.charset, src, chars).min(src.len())
                };
                &src[..cut]
            }
            _ => src,
        };
        let start = out.len();
        match &self.order {
            TextOrder::Escaped => put_escaped(out, src),
            TextOrder::Padded => {
                put_padded(out, src, b' ');
            }
            TextOrder::Weights(levels) => {
                for level in levels {
                    let codes = level.codes.as_ref();
                    if codes.is_some_and(|c| c.put_listed(src, level.space_code, out)) {
                        continue;
                    }
                    scratch.clear();
                    sort.weights(self.charset, level.number, src, scratch);
                    level.put(scratch, out);
                }
            }
        }
        invert(&mut out[start..], mask);
    }

    pub(super) fn skip(
        &self,
        key: &[u8],
        at: &mut usize,
        mask: u8,
    ) -> std::result::Result<(), BadKey> {
        match &self.order {
            TextOrder::Escaped => skip_escaped(key, at, mask),
            TextOrder::Padded => skip_padded(key, at, mask, b" "),
            TextOrder::Weights(levels) => levels.iter().try_for_each(|l| l.skip(key, at, mask)),
        }
    }

    /// Reads a text that comes back from its codes ([`TextPart::codes`]) into `dst`, as [`Codes::read`] does.
    pub(super) fn read_codes(
        &self,
        key: &[u8],
        at: &mut usize,
        mask: u8,
        dst: &mut [u8],
    ) -> Result<Option<usize>, BadKey> {
        let TextOrder::Weights(levels) = &self.order else { return Err(BadKey) };
        let Some((first, others)) = levels.split_first() else { return Err(BadKey) };
        let codes = first.codes.as_ref().ok_or(BadKey)?;
        let len = codes.read(key, at, mask, first.space_code, dst)?;
        others.iter().try_for_each(|l| l.skip(key, at, mask))?;
        Ok(len)
    }

    /// Appends the key part of `to` for the value whose part here is `part`; neither is inverted. Both must compare alike.
    pub(crate) fn translate(
        &self,
        part: &[u8],
        to: &TextPart,
        out: &mut Vec<u8>,
    ) -> Result<(), BadKey> {
        let (TextOrder::Weights(from), TextOrder::Weights(to)) = (&self.order, &to.order) else {
            out.extend_from_slice(part);
            return Ok(());
        };
        let mut at = 0;
        for (from, to) in from.iter().zip(to) {
            let start = at;
            from.skip(part, &mut at, 0)?;
            to.put(&mut from.weights_of(&part[start..at])?, out);
        }
        Ok(())
    }

    /// Whether key parts of both have the same bytes, if they compare alike.
    pub(crate) fn has_keys_of(&self, other: &TextPart) -> bool {
        self.order == other.order
    }
}
