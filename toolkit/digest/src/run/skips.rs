//! Unreadable input: counts by reason, and the first places.

use std::collections::BTreeMap;

use frond_event::{Skip, SkipReason};

const FIRST: usize = 20;

/// See the module's text. Merging keeps the places that come first in the inputs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Skips {
    /// (number, bytes) by reason.
    pub by_reason: BTreeMap<SkipReason, (u64, u64)>,
    /// Ascending by place.
    pub first: Vec<Skip>,
}

impl Skips {
    pub fn add(&mut self, skip: Skip) {
        let entry = self.by_reason.entry(skip.why).or_default();
        entry.0 += 1;
        entry.1 += skip.bytes;
        if self.first.len() < FIRST || self.first.last().is_some_and(|last| skip.place < last.place)
        {
            self.first.push(skip);
            self.shorten();
        }
    }

    fn shorten(&mut self) {
        self.first.sort_by_key(|s| s.place);
        self.first.truncate(FIRST);
    }

    pub fn merge(&mut self, other: Skips) {
        for (why, (count, bytes)) in other.by_reason {
            let entry = self.by_reason.entry(why).or_default();
            entry.0 += count;
            entry.1 += bytes;
        }
        self.first.extend(other.first);
        self.shorten();
    }

    pub fn count(&self) -> u64 {
        self.by_reason.values().map(|(count, _)| count).sum()
    }
}
