//! A statement kept as an example.
//!
//! Every class has one, so data that few statements have are kept separately.

use crate::stats::spill::{Spill, Stored};
use frond_event::{Event, Micros, Place};

/// Samples with more text than this go to disk when there are many.
const SHORT: usize = 256;

/// The part of a statement on disk that stays in memory.
const BEGIN: usize = 64;

/// The part of a text that stays in memory when it does not fit on disk.
const CUT: usize = 512;

/// Time and place of a class's slowest statement: the greatest is the sample.
pub type Best = (u64, Place);

/// See the module's text.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// Only the beginning if the rest is on disk: see `Table::whole`.
    pub sql: Box<[u8]>,
    /// Length of the whole statement.
    pub length: u64,
    /// Nanoseconds.
    pub time: Option<u64>,
    pub start: Option<Micros>,
    pub end: Option<Micros>,
    pub thread_id: Option<u64>,
    pub place: Place,
    /// User, host and database, one behind the other, and the ends of the first two.
    who: Box<[u8]>,
    ends: [u16; 2],
    more: Option<Box<More>>,
}

/// Data that few statements have.
#[derive(Clone, Debug, Default)]
struct More {
    stored: Option<OnDisk>,
    plan: Box<[u8]>,
    warnings: Box<[u8]>,
    routine: Box<[u8]>,
    error: Option<u32>,
    error_text: Box<[u8]>,
}

/// Statement, plan and warnings, one behind the other, and the ends of the first two.
#[derive(Clone, Copy, Debug)]
struct OnDisk {
    stored: Stored,
    ends: [u32; 2],
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

    /// The stored routine in which it ran.
    pub fn routine(&self) -> &[u8] {
        self.more.as_ref().map_or(b"", |more| &more.routine)
    }

    pub fn error(&self) -> Option<u32> {
        self.more.as_ref().and_then(|more| more.error)
    }

    pub fn error_text(&self) -> &[u8] {
        self.more.as_ref().map_or(b"", |more| &more.error_text)
    }

    /// Its rank: the sample with the greatest is kept.
    pub(in crate::stats) fn best(&self) -> Best {
        (self.time.unwrap_or(0), self.place)
    }

    /// Puts long texts on disk; the statement's begin stays.
    pub(in crate::stats) fn spill(&mut self, spill: &Spill) {
        if self.text() <= SHORT || self.is_stored() {
            return;
        }
        let texts = [&self.sql[..], self.plan(), self.warnings()];
        let ends = [texts[0].len() as u32, (texts[0].len() + texts[1].len()) as u32];
        let stored = spill.store(&texts.concat()).map(|stored| OnDisk { stored, ends });
        let (sql, others) = if stored.is_some() { (BEGIN, 0) } else { (CUT, CUT) };
        self.sql = begin(&self.sql, sql).into();
        let more = self.more.get_or_insert_default();
        more.stored = stored;
        more.plan = begin(&more.plan, others).into();
        more.warnings = begin(&more.warnings, others).into();
    }

    pub(in crate::stats) fn is_stored(&self) -> bool {
        self.more.as_ref().is_some_and(|more| more.stored.is_some())
    }

    /// The whole statement, if it is on disk and can be read.
    pub(in crate::stats) fn read(&self, spill: &Spill) -> Option<Box<[u8]>> {
        let on_disk = self.more.as_ref()?.stored?;
        let texts = spill.read(on_disk.stored)?;
        Some(texts[..on_disk.ends[0] as usize].into())
    }

    /// Makes the texts whole again.
    pub(in crate::stats) fn restore(&mut self, spill: &Spill) {
        let Some(more) = &mut self.more else { return };
        let Some(OnDisk { stored, ends: [sql, plan] }) = more.stored.take() else { return };
        let Some(texts) = spill.read(stored) else { return };
        let (sql, plan) = (sql as usize, plan as usize);
        self.sql = texts[..sql].into();
        more.plan = texts[sql..plan].into();
        more.warnings = texts[plan..].into();
    }

    /// Bytes of its texts that are in memory but could be on disk.
    pub(in crate::stats) fn text(&self) -> usize {
        self.sql.len() + self.plan().len() + self.warnings().len()
    }

    /// Approximate memory in bytes, besides the struct itself.
    pub fn memory(&self) -> usize {
        let more = self.more.as_ref().map_or(0, |more| {
            std::mem::size_of::<More>() + more.routine.len() + more.error_text.len()
        });
        self.text() + self.who.len() + more
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
