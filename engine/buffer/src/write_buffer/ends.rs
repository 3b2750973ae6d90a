//! The ends of a buffer: a key that none of its keys is below, and one that none exceeds.
//!
//! Every INSERT asks whether its key is beyond all others; a search for the last entry would cost as much as the rest
//! of the engine's work for that INSERT.
//!
//! - EK1. Both keys were inserted into the buffer, as puts or as tombstones, and are noted before they are
//!   inserted. Dropping versions and removing rows does not change them. (Asserted by
//!   [`crate::WriteBuffer::check`].)

use parking_lot::RwLock;

#[derive(Default)]
pub(crate) struct Ends {
    /// First and last key; both are empty, which no key is, while there are no entries.
    keys: RwLock<(EndKey, EndKey)>,
}

/// Keys up to this length are in the buffer itself. A commit may ask thousands of buffers, which are in no cache of the processor.
const SHORT: usize = 22;

enum EndKey {
    Short(u8, [u8; SHORT]),
    Long(Box<[u8]>),
}

impl Default for EndKey {
    fn default() -> EndKey {
        EndKey::Short(0, [0; SHORT])
    }
}

impl EndKey {
    #[inline]
    fn get(&self) -> &[u8] {
        match self {
            EndKey::Short(len, key) => &key[..usize::from(*len)],
            EndKey::Long(key) => key,
        }
    }

    #[inline]
    fn is_empty(&self) -> bool {
        matches!(self, EndKey::Short(0, _))
    }

    fn set(&mut self, key: &[u8]) {
        if let EndKey::Long(long) = self {
            if long.len() == key.len() {
                // Keys that only grow move an end with each batch.
                return long.copy_from_slice(key);
            }
        }
        let mut short = [0; SHORT];
        *self = match short.get_mut(..key.len()) {
            Some(front) => {
                front.copy_from_slice(key);
                EndKey::Short(key.len() as u8, short)
            }
            None => EndKey::Long(key.into()),
        };
    }
}

impl Ends {
    /// Notes the first and the last key of some entries.
    #[inline]
    pub fn note(&self, first: &[u8], last: &[u8]) {
        let known = self.keys.read();
        let before = *first < *known.0.get() || known.0.is_empty();
        let beyond = *last > *known.1.get();
        drop(known);
        if before || beyond {
            self.move_to(first, last);
        }
    }

    fn move_to(&self, first: &[u8], last: &[u8]) {
        let mut known = self.keys.write();
        if *first < *known.0.get() || known.0.is_empty() {
            known.0.set(first);
        }
        if *last > *known.1.get() {
            known.1.set(last);
        }
    }

    /// Reads from the cache line of the latch.
    #[inline]
    pub fn fetch(&self) -> u64 {
        u64::from(self.keys.is_locked())
    }

    /// Calls `read` with the first and the last key, if there is any.
    #[inline]
    pub fn read(&self, read: impl FnOnce(&[u8], &[u8])) {
        let known = self.keys.read();
        if !known.1.is_empty() {
            read(known.0.get(), known.1.get());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_only_move_outwards() {
        let ends = Ends::default();
        let list = |ends: &Ends| {
            let mut keys = Vec::new();
            ends.read(|a, b| keys = vec![a.to_vec(), b.to_vec()]);
            keys
        };
        assert!(list(&ends).is_empty());
        ends.note(b"m", b"m");
        assert_eq!(list(&ends), [b"m", b"m"]);
        ends.note(b"n", b"p");
        assert_eq!(list(&ends), [b"m", b"p"]);
        ends.note(b"a", b"b");
        assert_eq!(list(&ends), [b"a", b"p"]);
        ends.note(b"c", b"d");
        assert_eq!(list(&ends), [b"a", b"p"]);
    }

    #[test]
    fn ends_of_any_length_come_back() {
        let ends = Ends::default();
        for (n, len) in [1, SHORT, SHORT + 1, SHORT + 1, 3000, SHORT + 2, 1].into_iter().enumerate()
        {
            let (first, last) = (vec![100 - n as u8; len], vec![101 + n as u8; len]);
            ends.note(&first, &last);
            let mut seen = false;
            ends.read(|a, b| seen = *a == first && *b == last);
            assert!(seen, "{len}");
        }
    }
}
