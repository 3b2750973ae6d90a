//! The largest of many, in bounded memory.

/// Keeps at least the `most` largest that were added.
#[derive(Debug)]
pub struct Best<T> {
    kept: Vec<(u64, T)>,
    most: usize,
    /// How many were added.
    pub count: u64,
}

impl<T: Clone> Best<T> {
    pub fn new(most: usize) -> Best<T> {
        Best { kept: Vec::new(), most, count: 0 }
    }

    pub fn add(&mut self, weight: u64, item: T) {
        self.count += 1;
        self.kept.push((weight, item));
        if self.kept.len() >= 2 * self.most {
            self.cut();
        }
    }

    fn cut(&mut self) {
        // A stable sort: of equal ones the first stay.
        self.kept.sort_by_key(|(weight, _)| std::cmp::Reverse(*weight));
        self.kept.truncate(self.most);
    }

    /// The `n` largest, the largest first.
    pub fn first(&mut self, n: usize) -> Vec<T> {
        self.cut();
        self.kept.iter().take(n).map(|(_, item)| item.clone()).collect()
    }
}
