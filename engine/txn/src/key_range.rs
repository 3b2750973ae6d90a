//! Ranges of keys of a tree.

/// Keys from `from` on and below `to`; without `to`, all from `from` on. An empty `from` is below every key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyRange {
    pub from: Vec<u8>,
    pub to: Option<Vec<u8>>,
}

impl KeyRange {
    /// One key.
    pub fn point(key: &[u8]) -> KeyRange {
        KeyRange { from: key.to_vec(), to: Some(after(key)) }
    }

    pub fn all() -> KeyRange {
        KeyRange { from: Vec::new(), to: None }
    }

    pub fn is_empty(&self) -> bool {
        self.to.as_ref().is_some_and(|to| *to <= self.from)
    }

    pub fn overlaps(&self, other: &KeyRange) -> bool {
        below(&self.from, &other.to) && below(&other.from, &self.to)
    }

    /// Whether they overlap or one begins where the other ends.
    pub fn touches(&self, other: &KeyRange) -> bool {
        let meets = |from: &Vec<u8>, to: &Option<Vec<u8>>| to.as_ref().is_none_or(|to| from <= to);
        meets(&self.from, &other.to) && meets(&other.from, &self.to)
    }

    pub fn covers(&self, other: &KeyRange) -> bool {
        let reaches = match (&self.to, &other.to) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(to), Some(other)) => other <= to,
        };
        self.from <= other.from && reaches
    }

    /// The least range that covers both.
    pub fn span(&self, other: &KeyRange) -> KeyRange {
        let from = self.from.clone().min(other.from.clone());
        let to = match (&self.to, &other.to) {
            (Some(a), Some(b)) => Some(a.max(b).clone()),
            _ => None,
        };
        KeyRange { from, to }
    }

    /// Memory of both ends.
    pub(crate) fn bytes(&self) -> usize {
        self.from.len() + self.to.as_ref().map_or(0, Vec::len)
    }
}

/// The least key above `key`.
pub fn after(key: &[u8]) -> Vec<u8> {
    let mut next = Vec::with_capacity(key.len() + 1);
    next.extend_from_slice(key);
    next.push(0);
    next
}

fn below(key: &[u8], to: &Option<Vec<u8>>) -> bool {
    to.as_ref().is_none_or(|to| key < to.as_slice())
}
