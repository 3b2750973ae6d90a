//! The head prefix of a shelf: bytes with which many of its keys begin. Heads are the bytes after it.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::fence::head_after;

/// Keys that begin otherwise have the lowest or the highest head, so heads never contradict the order
/// of the keys.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(crate) struct HeadPrefix(Arc<[u8]>);

impl HeadPrefix {
    pub fn new(prefix: &[u8]) -> HeadPrefix {
        HeadPrefix(prefix.into())
    }

    #[inline]
    pub fn head(&self, key: &[u8]) -> u64 {
        let skip = self.0.len();
        if skip == 0 {
            return head_after(key, 0);
        }
        match key[..key.len().min(skip)].cmp(&self.0) {
            Ordering::Less => 0,
            Ordering::Equal => head_after(key, skip),
            Ordering::Greater => u64::MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_prefix_never_contradicts_the_order_of_keys() {
        let mut keys: Vec<&[u8]> = vec![
            b"a",
            b"ab",
            b"abc",
            b"abc\0",
            b"abcd",
            b"abd",
            b"b",
            b"",
            &[0xff; 20],
            b"abc\xff",
        ];
        keys.sort();
        for prefix in [&b""[..], b"a", b"abc", b"abcdefghij", &[0xff; 3]] {
            let head_prefix = HeadPrefix::new(prefix);
            let heads: Vec<u64> = keys.iter().map(|k| head_prefix.head(k)).collect();
            assert!(heads.is_sorted(), "{prefix:?} {heads:?}");
        }
        assert!(HeadPrefix::new(b"abc").head(b"abcd") > HeadPrefix::new(b"abc").head(b"abc"));
    }
}
