//! Statements of captured traffic that were never answered and so have no time.
//!
//! Invariants:
//!
//! - UA1. At most [`KEPT`] statements are kept, those that waited longest, each up to the limit of a sample.
//! - UA2. `waited` is a lower bound and never added to a time.

use frond_event::{Event, Micros};

/// How many are kept.
const KEPT: usize = 10;

/// One statement without an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// Nanoseconds that it had waited: a lower bound.
    pub waited: u64,
    /// `class_hash` of its class.
    pub class: u64,
    /// The text, perhaps shortened.
    pub sql: Box<[u8]>,
    /// Length of the whole text.
    pub length: u64,
    pub start: Option<Micros>,
    pub db: Box<[u8]>,
    pub user: Box<[u8]>,
    pub host: Box<[u8]>,
    pub thread_id: Option<u64>,
}

/// See the module's text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unanswered {
    pub count: u64,
    /// The longest first.
    pub longest: Vec<Statement>,
}

impl Unanswered {
    /// `limit`: bytes of a text that are kept.
    #[cold]
    pub fn add(&mut self, waited: u64, class: u64, event: &Event<'_>, limit: usize) {
        self.count += 1;
        // Of equal ones, the first stays in front.
        let at = self.longest.partition_point(|s| s.waited >= waited);
        if at >= KEPT {
            return;
        }
        let statement = Statement {
            waited,
            class,
            sql: event.sql[..event.sql.len().min(limit)].into(),
            length: event.sql.len() as u64,
            start: event.start,
            db: event.db.into(),
            user: event.user.into(),
            host: event.host.into(),
            thread_id: event.thread_id,
        };
        self.longest.insert(at, statement);
        self.longest.truncate(KEPT);
    }

    pub fn merge(&mut self, other: Unanswered) {
        self.count += other.count;
        self.longest.extend(other.longest);
        self.longest.sort_by_key(|s| std::cmp::Reverse(s.waited));
        self.longest.truncate(KEPT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_are_kept_and_all_are_counted() {
        let event = Event { sql: b"select 'long'", ..Event::default() };
        let add = |waits: std::ops::Range<u64>| {
            let mut some = Unanswered::default();
            waits.for_each(|waited| some.add(waited * 7 % 101, 1, &event, 8));
            some
        };
        let (mut parts, rest) = (add(0..40), add(40..101));
        parts.merge(rest);
        assert_eq!(parts, add(0..101));
        let waited: Vec<u64> = parts.longest.iter().map(|s| s.waited).collect();
        assert_eq!((parts.count, waited), (101, (91..=100).rev().collect()));
        assert_eq!((&*parts.longest[0].sql, parts.longest[0].length), (&b"select '"[..], 13));
    }
}
