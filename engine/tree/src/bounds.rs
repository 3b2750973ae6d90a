//! A range of keys, as callers give it.

use std::ops::Bound;

/// Keys from a lower to an upper bound.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    pub(crate) lo: Vec<u8>,
    pub(crate) hi: Option<Vec<u8>>,
}

/// The smallest key above `key`.
pub(crate) fn successor(key: &[u8]) -> Vec<u8> {
    let mut next = Vec::with_capacity(key.len() + 1);
    next.extend_from_slice(key);
    next.push(0);
    next
}

impl Bounds {
    pub fn all() -> Bounds {
        Bounds::default()
    }

    pub fn new(lo: Bound<&[u8]>, hi: Bound<&[u8]>) -> Bounds {
        let lo = match lo {
            Bound::Included(key) => key.to_vec(),
            Bound::Excluded(key) => successor(key),
            Bound::Unbounded => Vec::new(),
        };
        let hi = match hi {
            Bound::Included(key) => Some(successor(key)),
            Bound::Excluded(key) => Some(key.to_vec()),
            Bound::Unbounded => None,
        };
        Bounds { lo, hi }
    }

    /// All keys that start with `prefix`.
    pub fn prefix(prefix: &[u8]) -> Bounds {
        let mut hi = prefix.to_vec();
        while hi.last() == Some(&0xff) {
            hi.pop();
        }
        let hi = match hi.last_mut() {
            Some(last) => {
                *last += 1;
                Some(hi)
            }
            None => None,
        };
        Bounds { lo: prefix.to_vec(), hi }
    }
}
