//! Text and byte strings in keys: the bytes, or the weights of their collation, cut to a prefix.
//!
//! A prefix is cut in characters, before the weights are computed: so equal prefixes have equal
//! keys. The encodings are in `order.rs`. Tested by `tests/it`.

use crate::order::{
    invert, put_escaped, put_padded, put_padded_weights, skip_escaped, skip_padded, BadKey,
    SortKeys,
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
    Weights(Vec<WeightLevel>),
}

impl TextPart {
    pub(super) fn new(c: &Column, part: &Part) -> TextPart {
        let order = match &c.sort {
            Sort::Binary => TextOrder::Escaped,
            Sort::BinaryPadSpace => TextOrder::Padded,
            Sort::Weights(levels) => TextOrder::Weights(levels.clone()),
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

    /// Whether equal values of both have equal key bytes, and unequal values unequal ones.
    pub(crate) fn compares_as(&self, other: &TextPart) -> bool {
        self.charset == other.charset
            && self.order == other.order
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
                    scratch.clear();
                    sort.weights(self.charset, level.level, src, scratch);
                    if level.space.is_empty() {
                        put_escaped(out, scratch);
                    } else {
                        put_padded_weights(out, scratch, &level.space);
                    }
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
            TextOrder::Weights(levels) => levels.iter().try_for_each(|level| {
                if level.space.is_empty() {
                    skip_escaped(key, at, mask)
                } else {
                    skip_padded(key, at, mask, &level.space)
                }
            }),
        }
    }
}
