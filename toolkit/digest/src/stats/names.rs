//! Strings that repeat (users, hosts, databases), as small numbers. How often each occurs is in `top` and `breakdowns`.
//!
//! Invariant: at most `MAX_NAMES` different strings are kept; later ones count as `OTHERS`.

use std::collections::HashMap;

/// A string's number; 0 is unknown (empty), 1 is all strings that did not fit.
pub type NameId = u32;

pub const UNKNOWN: NameId = 0;
pub const OTHERS: NameId = 1;

const MAX_NAMES: usize = 1 << 17;
const MAX_LENGTH: usize = 256;

/// Bits of a string's number.
pub(super) const NAME_BITS: u32 = 18;
const _: () = assert!(MAX_NAMES <= 1 << NAME_BITS, "a string's number has its bits");

/// The numbers of strings, as one thread assigns them.
#[derive(Debug)]
pub struct Names {
    ids: HashMap<Box<[u8]>, NameId, xxhash_rust::xxh3::Xxh3DefaultBuilder>,
    names: Vec<Box<[u8]>>,
}

impl Default for Names {
    fn default() -> Self {
        Names { ids: HashMap::default(), names: vec![Box::default(), b"(others)"[..].into()] }
    }
}

impl Names {
    /// The number of `name`, which is cut at 256 bytes.
    pub fn id(&mut self, name: &[u8]) -> NameId {
        if name.is_empty() {
            return UNKNOWN;
        }
        let name = &name[..name.len().min(MAX_LENGTH)];
        if let Some(id) = self.ids.get(name) {
            return *id;
        }
        if self.names.len() >= MAX_NAMES {
            return OTHERS;
        }
        let id = self.names.len() as NameId;
        self.names.push(name.into());
        self.ids.insert(name.into(), id);
        id
    }

    pub fn name(&self, id: NameId) -> &[u8] {
        self.names.get(id as usize).map_or(b"", |name| name)
    }

    pub fn len(&self) -> usize {
        self.names.len()
    }

    pub fn is_empty(&self) -> bool {
        false
    }
}

/// A thread's recent look-ups of strings, so that it need not look up each string in the shared table.
#[derive(Debug)]
pub struct Recent<T> {
    slots: Vec<(Vec<u8>, Option<T>)>,
}

const RECENT: usize = 512;

impl<T: Copy> Default for Recent<T> {
    fn default() -> Self {
        Recent { slots: vec![(Vec::new(), None); RECENT] }
    }
}

impl<T: Copy> Recent<T> {
    /// The number of `name`. Calls `ask` if `name` was not looked up recently.
    #[inline]
    pub fn get(&mut self, name: &[u8], ask: impl FnOnce(&[u8]) -> T) -> T {
        let slot = &mut self.slots[xxhash_rust::xxh3::xxh3_64(name) as usize % RECENT];
        match slot.1 {
            Some(answer) if slot.0 == name => answer,
            _ => {
                let answer = ask(name);
                slot.0.clear();
                slot.0.extend_from_slice(&name[..name.len().min(MAX_LENGTH)]);
                slot.1 = Some(answer);
                answer
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_bounded_and_found_again() {
        let mut names = Names::default();
        let shop = names.id(b"shop");
        assert_eq!(names.id(b""), UNKNOWN);
        assert_eq!(names.id(b"shop"), shop);
        assert_eq!(names.name(shop), b"shop");
        assert_eq!(names.id(&[b'x'; 1000]), names.id(&[b'x'; 2000]));
    }
}
