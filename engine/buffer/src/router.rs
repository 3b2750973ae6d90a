//! The router: which chunk or shelf holds a key.
//!
//! The leftmost fence is the same in all routers and is not stored: one without other fences owns no memory. Heads
//! are taken after the bytes that the first and the last fence share; targets outside that range are decided by comparing
//! those bytes first.

use std::cmp::Ordering;
use std::sync::Arc;

use frond_base::Seq;

use crate::fence::{common_prefix, head_after, Fence};

#[derive(Clone, Default)]
pub(crate) struct Router {
    heads: Vec<u64>,
    /// Without the leftmost.
    fences: Vec<Arc<Fence>>,
    skip: usize,
}

impl Router {
    /// The number of the last fence at or before (`key`, `seq`); the leftmost is number 0.
    #[inline]
    pub fn route(&self, key: &[u8], seq: Seq) -> usize {
        let Some(first) = self.fences.first() else { return 0 };
        if self.skip > 0 {
            match key[..key.len().min(self.skip)].cmp(&first.key[..self.skip]) {
                Ordering::Less => return 0,
                Ordering::Greater => return self.fences.len(),
                Ordering::Equal => {}
            }
        }
        let head = head_after(key, self.skip);
        let at = self.heads.partition_point(|&h| h < head);
        if self.heads.get(at) != Some(&head) {
            return at;
        }
        let tied = self.heads[at..].partition_point(|&h| h == head);
        at + self.fences[at..at + tied].partition_point(|f| f.at_or_before(key, seq))
    }

    /// Adds `fence` so that it becomes number `at`.
    pub fn insert(&mut self, at: usize, fence: Arc<Fence>) {
        debug_assert!(at > 0);
        self.heads.insert(at - 1, head_after(&fence.key, self.skip));
        self.fences.insert(at - 1, fence);
        self.see_from_fences();
    }

    /// Removes fence number `at`, not the leftmost.
    pub fn remove(&mut self, at: usize) {
        debug_assert!(at > 0);
        self.heads.remove(at - 1);
        self.fences.remove(at - 1);
        self.see_from_fences();
    }

    /// The first or the last fence has changed.
    fn see_from_fences(&mut self) {
        let skip = match (self.fences.first(), self.fences.last()) {
            (Some(first), Some(last)) => common_prefix(&first.key, &last.key),
            _ => 0,
        };
        if skip != self.skip {
            self.skip = skip;
            self.heads = self.fences.iter().map(|f| head_after(&f.key, skip)).collect();
        }
    }

    pub fn memory(&self) -> usize {
        self.heads.capacity() * 8 + self.fences.capacity() * 8
    }
}
