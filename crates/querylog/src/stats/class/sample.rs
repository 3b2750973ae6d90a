//! A statement kept as an example.
//!
//! Every class has one, so what few statements have is apart.

use crate::event::{Event, Micros, Place};
use crate::stats::batch::Best;
use crate::stats::spill::{Spill, Stored};

/// What stays in memory of a statement on disk.
const SHORT: usize = 1 << 10;

/// See the module's text.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// Only its begin if the rest is on disk: see `Table::whole`.
    pub sql: Box<[u8]>,
    /// The whole length.
    pub length: u64,
    /// Nanoseconds.
    pub time: Option<u64>,
    pub start: Option<Micros>,
    pub end: Option<Micros>,
    pub thread_id: Option<u64>,
    pub place: Place,
    /// User, host and database, one behind the other, and where the first two end.
    who: Box<[u8]>,
    ends: [u16; 2],
    more: Option<Box<More>>,
}

/// What few statements have.
#[derive(Clone, Debug, Default)]
struct More {
    stored: Option<Stored>,
    plan: Box<[u8]>,
    warnings: Box<[u8]>,
    routine: Box<[u8]>,
    error: Option<u32>,
    error_text: Box<[u8]>,
}

fn begin(bytes: &[u8], limit: usize) -> &[u8] {
    &bytes[..bytes.len().min(limit)]
}

impl Sample {
    pub(in crate::stats) fn of(event: &Event<'_>, limit: usize) -> Sample {
        let [user, host, db] = [event.user, event.host, event.db].map(|name| begin(name, 256));
        let is_plain = event.plan.is_empty()
            && event.warnings.is_empty()
            && event.routine.is_empty()
            && event.error.is_none()
            && event.error_text.is_empty();
        let more = || {
            Box::new(More {
                stored: None,
                plan: begin(event.plan, 16 << 10).into(),
                warnings: begin(event.warnings, 4 << 10).into(),
                routine: begin(event.routine, 256).into(),
                error: event.error,
                error_text: begin(event.error_text, 512).into(),
            })
        };
        Sample {
            sql: begin(event.sql, limit).into(),
            length: event.sql.len() as u64,
            time: event.query_time(),
            start: event.start,
            end: event.end,
            thread_id: event.thread_id,
            place: event.place,
            who: [user, host, db].concat().into(),
            ends: [user.len() as u16, (user.len() + host.len()) as u16],
            more: (!is_plain).then(more),
        }
    }

    pub fn user(&self) -> &[u8] {
        &self.who[..usize::from(self.ends[0])]
    }

    pub fn host(&self) -> &[u8] {
        &self.who[usize::from(self.ends[0])..usize::from(self.ends[1])]
    }

    pub fn db(&self) -> &[u8] {
        &self.who[usize::from(self.ends[1])..]
    }

    /// The rows of its plan, as logged.
    pub fn plan(&self) -> &[u8] {
        self.more.as_ref().map_or(b"", |more| &more.plan)
    }

    /// The lines of its warnings, as logged.
    pub fn warnings(&self) -> &[u8] {
        self.more.as_ref().map_or(b"", |more| &more.warnings)
    }

    /// The stored routine it ran in.
    pub fn routine(&self) -> &[u8] {
        self.more.as_ref().map_or(b"", |more| &more.routine)
    }

    pub fn error(&self) -> Option<u32> {
        self.more.as_ref().and_then(|more| more.error)
    }

    pub fn error_text(&self) -> &[u8] {
        self.more.as_ref().map_or(b"", |more| &more.error_text)
    }

    /// How it compares to others: the greatest is kept.
    pub(in crate::stats) fn best(&self) -> Best {
        (self.time.unwrap_or(0), self.place)
    }

    /// Puts a long statement on disk; its begin stays.
    pub(in crate::stats) fn spill(&mut self, spill: &Spill) {
        if self.sql.len() > SHORT && !self.is_stored() {
            self.more.get_or_insert_default().stored = spill.store(&self.sql);
            self.sql = begin(&self.sql, SHORT).into();
        }
    }

    pub(in crate::stats) fn is_stored(&self) -> bool {
        self.more.as_ref().is_some_and(|more| more.stored.is_some())
    }

    /// The whole statement, if it is on disk and can be read.
    pub(in crate::stats) fn read(&self, spill: &Spill) -> Option<Box<[u8]>> {
        self.more.as_ref()?.stored.and_then(|stored| spill.read(stored))
    }

    /// Makes the statement whole again.
    pub(in crate::stats) fn restore(&mut self, spill: &Spill) {
        let stored = self.more.as_mut().and_then(|more| more.stored.take());
        if let Some(sql) = stored.and_then(|stored| spill.read(stored)) {
            self.sql = sql;
        }
    }

    /// Bytes it takes besides itself, about.
    pub fn memory(&self) -> usize {
        let more = self
            .more
            .as_ref()
            .map_or(0, |more| std::mem::size_of::<More>() + more.plan.len() + more.warnings.len());
        self.sql.len() + self.who.len() + more
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_has_what_its_event_has() {
        let plain =
            Event { sql: b"select 1", user: b"web", host: b"h1", db: b"shop", ..Event::default() };
        let failed = Event {
            plan: b"p",
            warnings: b"w",
            routine: b"r",
            error: Some(7),
            error_text: b"e",
            ..plain.clone()
        };
        for (event, limit) in [(&plain, 100), (&failed, 3), (&Event::default(), 0)] {
            let sample = Sample::of(event, limit);
            assert_eq!(*sample.sql, event.sql[..event.sql.len().min(limit)]);
            assert_eq!(sample.length, event.sql.len() as u64);
            assert_eq!(
                [sample.user(), sample.host(), sample.db()],
                [event.user, event.host, event.db]
            );
            assert_eq!(
                [sample.plan(), sample.warnings(), sample.routine(), sample.error_text()],
                [event.plan, event.warnings, event.routine, event.error_text]
            );
            assert_eq!(sample.error(), event.error);
        }
        assert!(Sample::of(&plain, 100).more.is_none());
    }
}
