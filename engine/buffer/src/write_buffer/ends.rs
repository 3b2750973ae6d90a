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
    keys: RwLock<(Vec<u8>, Vec<u8>)>,
}

impl Ends {
    /// Notes the first and the last key of some entries.
    #[inline]
    pub fn note(&self, first: &[u8], last: &[u8]) {
        let known = self.keys.read();
        let (before, beyond) = (*first < *known.0 || known.0.is_empty(), *last > *known.1);
        drop(known);
        if before || beyond {
            self.move_to(first, last);
        }
    }

    fn move_to(&self, first: &[u8], last: &[u8]) {
        let mut known = self.keys.write();
        let set = |to: &mut Vec<u8>, key: &[u8]| {
            to.clear();
            to.extend_from_slice(key);
        };
        if *first < *known.0 || known.0.is_empty() {
            set(&mut known.0, first);
        }
        if *last > *known.1 {
            set(&mut known.1, last);
        }
    }

    /// Calls `read` with the first and the last key, if there is any.
    #[inline]
    pub fn read(&self, read: impl FnOnce(&[u8], &[u8])) {
        let known = self.keys.read();
        if !known.1.is_empty() {
            read(&known.0, &known.1);
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
}
