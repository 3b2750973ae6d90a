//! Lock modes and their compatibility.

/// How a row is locked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum RowMode {
    /// Shared with other readers that lock.
    S,
    /// For one owner alone.
    X,
}

/// How a tree is locked. Row locks take the intention by themselves.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum TreeMode {
    /// Some rows are locked S.
    IS,
    /// Some rows are locked X.
    IX,
    /// Every row is locked S.
    S,
    /// Every row is locked X.
    X,
}

/// A mode of either kind, for status lists.
pub type LockMode = TreeMode;

impl From<RowMode> for TreeMode {
    fn from(m: RowMode) -> TreeMode {
        match m {
            RowMode::S => TreeMode::S,
            RowMode::X => TreeMode::X,
        }
    }
}

impl RowMode {
    /// The lock on the tree that is needed first.
    pub(crate) fn intention(self) -> TreeMode {
        match self {
            RowMode::S => TreeMode::IS,
            RowMode::X => TreeMode::IX,
        }
    }
}

impl TreeMode {
    /// Whether two owners may hold these at the same time.
    #[inline]
    pub fn goes_with(self, other: TreeMode) -> bool {
        use TreeMode::*;
        matches!((self, other), (IS, IS | IX | S) | (IX, IS | IX) | (S, IS | S))
    }

    /// Whether `self` includes `other`.
    #[inline]
    pub fn covers(self, other: TreeMode) -> bool {
        use TreeMode::*;
        match self {
            X => true,
            S => matches!(other, S | IS),
            IX => matches!(other, IX | IS),
            IS => other == IS,
        }
    }

    /// The weakest mode that covers both. S and IX together become X: this rare pair is not worth a
    /// mode of its own.
    pub(crate) fn join(self, other: TreeMode) -> TreeMode {
        if self.covers(other) {
            self
        } else if other.covers(self) {
            other
        } else {
            TreeMode::X
        }
    }
}

#[cfg(test)]
mod tests {
    use super::TreeMode::*;

    #[test]
    fn compatibility_is_symmetric_and_stronger_modes_allow_less() {
        let all = [IS, IX, S, X];
        for a in all {
            for b in all {
                assert_eq!(a.goes_with(b), b.goes_with(a));
                assert!(a.join(b).covers(a) && a.join(b).covers(b));
                for c in all {
                    assert!(!a.covers(b) || !a.goes_with(c) || b.goes_with(c));
                }
            }
        }
        assert!(IX.goes_with(IX) && !IX.goes_with(S) && !X.goes_with(IS));
    }
}
