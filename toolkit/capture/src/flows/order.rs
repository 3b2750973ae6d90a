//! Connections in the order of their last packets, in two lists: working ones, and those that can
//! be forgotten without loss.

/// The end of a list.
pub(super) const NONE: u32 = u32::MAX;

/// Which list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum List {
    /// Closed, not chosen, not known to be MySQL's, or without a byte so far.
    Cheap = 0,
    Working = 1,
}

#[derive(Clone, Copy, Debug)]
struct Link {
    list: List,
    newer: u32,
    older: u32,
}

#[derive(Clone, Copy, Debug)]
struct Ends {
    newest: u32,
    oldest: u32,
    count: usize,
}

/// Indexes from 0, each in one of the lists.
#[derive(Debug)]
pub(super) struct Order {
    links: Vec<Link>,
    ends: [Ends; 2],
}

impl Order {
    pub(super) fn new() -> Self {
        let ends = Ends { newest: NONE, oldest: NONE, count: 0 };
        Order { links: Vec::new(), ends: [ends, ends] }
    }

    /// Adds an index as the newest of `list`, and returns it.
    pub(super) fn push(&mut self, list: List) -> u32 {
        let index = self.links.len() as u32;
        self.links.push(Link { list, newer: NONE, older: NONE });
        self.link(index, list);
        index
    }

    /// Makes `index` the newest of `list`.
    #[inline]
    pub(super) fn touch(&mut self, index: u32, list: List) {
        if self.ends[list as usize].newest != index {
            self.unlink(index);
            self.link(index, list);
        }
    }

    pub(super) fn newest(&self, list: List) -> u32 {
        self.ends[list as usize].newest
    }

    pub(super) fn oldest(&self, list: List) -> u32 {
        self.ends[list as usize].oldest
    }

    /// The index after `index`, towards the newest of its list.
    pub(super) fn newer(&self, index: u32) -> u32 {
        self.links[index as usize].newer
    }

    pub(super) fn count(&self, list: List) -> usize {
        self.ends[list as usize].count
    }

    fn unlink(&mut self, index: u32) {
        let Link { list, newer, older } = self.links[index as usize];
        let ends = &mut self.ends[list as usize];
        ends.count -= 1;
        match newer {
            NONE => ends.newest = older,
            newer => self.links[newer as usize].older = older,
        }
        match older {
            NONE => ends.oldest = newer,
            older => self.links[older as usize].newer = newer,
        }
    }

    fn link(&mut self, index: u32, list: List) {
        let ends = &mut self.ends[list as usize];
        ends.count += 1;
        let before = std::mem::replace(&mut ends.newest, index);
        match before {
            NONE => ends.oldest = index,
            before => self.links[before as usize].newer = index,
        }
        self.links[index as usize] = Link { list, newer: NONE, older: before };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(order: &Order, list: List) -> Vec<u32> {
        let mut out = Vec::new();
        let mut at = order.oldest(list);
        while at != NONE {
            out.push(at);
            at = order.newer(at);
        }
        assert_eq!((out.len(), out.last()), (order.count(list), out.last()));
        assert_eq!(out.last().copied().unwrap_or(NONE), order.newest(list));
        out
    }

    #[test]
    fn touching_moves_to_the_newest_end_of_either_list() {
        let mut order = Order::new();
        for expected in 0..4 {
            assert_eq!(order.push(List::Cheap), expected);
        }
        for (index, list, cheap, working) in [
            (1, List::Working, &[0, 2, 3][..], &[1][..]),
            (3, List::Working, &[0, 2], &[1, 3]),
            (1, List::Working, &[0, 2], &[3, 1]),
            (0, List::Cheap, &[2, 0], &[3, 1]),
            (0, List::Cheap, &[2, 0], &[3, 1]),
            (3, List::Cheap, &[2, 0, 3], &[1]),
            (1, List::Cheap, &[2, 0, 3, 1], &[]),
        ] {
            order.touch(index, list);
            assert_eq!(listed(&order, List::Cheap), cheap);
            assert_eq!(listed(&order, List::Working), working);
        }
    }
}
