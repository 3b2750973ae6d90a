//! The router: which chunk or shelf holds a key.
//!
//! Heads are taken after the bytes that the second and the last fence share (the first fence is the
//! empty key); targets outside that range are decided by comparing those bytes first.

use std::cmp::Ordering;
use std::sync::Arc;

use frond_base::Seq;

use crate::fence::{common_prefix, head_after, Fence};

#[derive(Clone)]
pub(crate) struct Router {
    heads: Vec<u64>,
    fences: Vec<Arc<Fence>>,
    skip: usize,
}

impl Router {
    pub fn new() -> Router {
        Router { heads: vec![0], fences: vec![Arc::new(Fence::leftmost())], skip: 0 }
    }

    pub fn len(&self) -> usize {
        self.fences.len()
    }

    /// The index of the last fence at or before (`key`, `seq`).
    #[inline]
    pub fn route(&self, key: &[u8], seq: Seq) -> usize {
        let last = self.len() - 1;
        if last == 0 {
            return 0;
        }
        if self.skip > 0 {
            let shared = &self.fences[1].key[..self.skip];
            match key[..key.len().min(self.skip)].cmp(shared) {
                Ordering::Less => return 0,
                Ordering::Greater => return last,
                Ordering::Equal => {}
            }
        }
        let head = head_after(key, self.skip);
        let at = 1 + self.heads[1..].partition_point(|&h| h < head);
        if at > last || self.heads[at] != head {
            return at - 1;
        }
        let tied = self.heads[at..].partition_point(|&h| h == head);
        at + self.fences[at..at + tied].partition_point(|f| f.at_or_before(key, seq)) - 1
    }

    /// Adds `fence` so that it becomes number `at`.
    pub fn insert(&mut self, at: usize, fence: Arc<Fence>) {
        debug_assert!(at > 0);
        self.heads.insert(at, head_after(&fence.key, self.skip));
        self.fences.insert(at, fence);
        self.see_from_fences();
    }

    /// Removes fence number `at`, not the first one.
    pub fn remove(&mut self, at: usize) {
        debug_assert!(at > 0);
        self.heads.remove(at);
        self.fences.remove(at);
        self.see_from_fences();
    }

    /// The second or the last fence has changed.
    fn see_from_fences(&mut self) {
        let Some(second) = self.fences.get(1) else {
            self.skip = 0;
            return;
        };
        let skip = common_prefix(&second.key, &self.fences[self.len() - 1].key);
        if skip != self.skip {
            self.skip = skip;
            self.heads = self.fences.iter().map(|f| head_after(&f.key, skip)).collect();
        }
    }

    pub fn memory(&self) -> usize {
        self.heads.capacity() * 8 + self.fences.capacity() * 8
    }
}
