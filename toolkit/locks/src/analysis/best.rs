//! The largest of many, in bounded memory.

/// As many of the largest are kept at least.
pub const MOST: usize = 2_000;

/// Keeps the largest that were added.
pub struct Best<T> {
    kept: Vec<(u64, T)>,
    /// How many were added.
    pub count: u64,
}

impl<T> Default for Best<T> {
    fn default() -> Best<T> {
        Best { kept: Vec::new(), count: 0 }
    }
}

impl<T: Clone> Best<T> {
    pub fn add(&mut self, weight: u64, item: T) {
        self.count += 1;
        self.kept.push((weight, item));
        if self.kept.len() >= 2 * MOST {
            self.cut();
        }
    }

    fn cut(&mut self) {
        // A stable sort: of equal ones the first stay.
        self.kept.sort_by_key(|(weight, _)| std::cmp::Reverse(*weight));
        self.kept.truncate(MOST);
    }

    /// The `n` largest, the largest first.
    pub fn first(&mut self, n: usize) -> Vec<T> {
        self.cut();
        self.kept.iter().take(n).map(|(_, item)| item.clone()).collect()
    }
}
