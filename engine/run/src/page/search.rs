//! Searches in a page: the first entry whose key is not below a given one.
//!
//! Entries with fixed keys ascend column by column: the numbers of the first column ascend, and those of each further one
//! among entries that are alike in all columns before it. So a search halves one column after the other, and unpacks only
//! numbers of the column that decides. Which group to look at is mostly said by the headers alone: the smallest number of the
//! first column, its base there, is that of the group's first entry. Rejected: comparing whole keys in each step, which
//! walks a group's header for every group that it looks at.

use std::ops::Deref;

use super::fields::Target;
use super::reader::Reader;
use super::Page;
use crate::columns::{partition, GROUP};
use crate::layout::BLOCK;

impl Page {
    /// The first position whose key is not below `key` (its newest version); `len()` when there is
    /// none.
    pub fn lower_bound(&self, key: &[u8]) -> usize {
        Reader::new(self).lower_bound(key, 0)
    }

    /// Whether the first key of group `g` is below `target`.
    #[inline]
    fn begins_below(&self, g: usize, target: &Target) -> bool {
        let order = target.compare_first(self.layout.first_base(self.payload(), g));
        if order.is_ne() {
            return order.is_lt();
        }
        let n = self.layout.group_len(g);
        let mut header = self.layout.walk(self.payload(), g);
        target.compare(|_| header.next_column(n).get(self.column_data(), 0)).is_lt()
    }
}

impl<P: Deref<Target = Page>> Reader<P> {
    /// The first position at or behind `from` whose key is not below `key`; `len()` when there is none. What is
    /// near `from` costs least. `from` is a position, or `len()`.
    pub fn lower_bound(&mut self, key: &[u8], from: usize) -> usize {
        let layout = &self.page().layout;
        if from >= layout.n {
            return layout.n;
        }
        if layout.variable {
            return self.lower_bound_variable(key).max(from);
        }
        let target = Target::new(key, self.page().key_widths());
        let (near, groups) = (from / GROUP, layout.groups());
        // The last group that begins below the key has the entry, or is followed by it.
        let mut behind = near + 1;
        if behind < groups && self.page().begins_below(behind, &target) {
            let page = self.page();
            behind = partition(behind + 1, groups, |g| page.begins_below(g, &target));
        }
        let start = (behind - 1) * GROUP;
        let begin = if behind - 1 == near { from } else { start };
        let from = self.enter(begin);
        let n = self.page().layout.group_len(behind - 1);
        start + self.narrow(&target, from, n)
    }

    /// The same within the group that was entered, among its entries `from..to`.
    fn narrow(&self, target: &Target, mut from: usize, mut to: usize) -> usize {
        let data = self.page().column_data();
        for (c, field) in target.fields().iter().enumerate() {
            (from, to) = self.group().column(c).alike(data, from, to, *field);
            if from == to {
                return from;
            }
        }
        if target.tie.is_lt() {
            to
        } else {
            from
        }
    }

    fn lower_bound_variable(&mut self, key: &[u8]) -> usize {
        let n = self.page().layout.n;
        let b = partition(0, n.div_ceil(BLOCK), |b| self.compare_key(b * BLOCK, key).is_lt());
        if b == 0 {
            return 0;
        }
        let end = (b * BLOCK).min(n);
        partition((b - 1) * BLOCK + 1, end, |i| self.compare_key(i, key).is_lt())
    }
}
