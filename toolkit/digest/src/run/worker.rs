//! One thread's work: chooses events, finds their class, counts.

use std::sync::Arc;

use super::attributes::Attributes;
use super::order::Order;
use super::outcome::{FileInfo, Outcome};
use super::settings::{GroupBy, Settings};
use super::skips::Skips;
use super::unanswered::Unanswered;
use crate::filter::Scratch;
use crate::stats::batch::Who;
use crate::stats::class::key;
use crate::stats::names::{NameId, Recent};
use crate::stats::patterns::Patterns;
use crate::stats::{Batch, Shared};
use frond_capture::Estimator;
use frond_event::numbers::{plural, time};
use frond_event::Metric;
use frond_event::{Event, Kind, Micros, Place, Sink, Skip, Unmeasured};
use frond_querylog::slowlog;

/// A `Sink` that counts.
pub struct Worker {
    settings: Arc<Settings>,
    slow: Arc<slowlog::Parser>,
    counts: Counts,
    batch: Batch,
    recent: Recent<NameId>,
    recent_users: Recent<(NameId, u8)>,
    key: Vec<u8>,
    scratch: Scratch,
}

/// A worker's counts, which can be added. The team shares the classes.
pub struct Counts {
    shared: Arc<Shared>,
    pub skips: Skips,
    pub events: u64,
    pub left_out: u64,
    /// Those left out because of their times; and the first and last begin of these.
    outside: u64,
    outside_range: Option<(Micros, Micros)>,
    pub patterns: Option<Patterns>,
    pub order: Order,
    /// Number of statements that hold events in a literal, and the place of the first.
    holders: u64,
    first_holder: Option<Place>,
    pub attributes: Attributes,
    /// Kept only for pt-query-digest's report: see `Outcome`.
    pub zoned: bool,
    /// Set only if connections are sampled.
    pub sampled: Option<Estimator>,
    pub unanswered: Unanswered,
}

impl Counts {
    /// Makes the result; the last worker of a team has the counts of all.
    pub fn outcome(self, files: Vec<FileInfo>, zone: Option<i32>) -> Outcome {
        let range = self.outside_range.filter(|_| self.outside == self.events);
        let mut notes = self.order.notes(&files);
        notes.extend(self.first_holder.map(|place| {
            let name = files.get(place.file as usize).map_or("?", |file| &file.name);
            format!(
                "A literal holds what looks like events of a slow log in {}, first in {name} at byte {}. Where no \
                 statement stores logs, a quote was left open there and events behind it are missing here.",
                plural(self.holders, "statement"),
                place.offset
            )
        }));
        notes.extend(range.map(|(first, last)| {
            let [first, last] = [first, last].map(time);
            format!(
                "What was read began {first} to {last} UTC: --since and --until choose nothing of it."
            )
        }));
        Outcome {
            table: self.shared.take(),
            files,
            problems: Vec::new(),
            skips: self.skips,
            losses: None,
            traffic: None,
            unanswered: self.unanswered,
            events: self.events,
            left_out: self.left_out,
            zone,
            patterns: self.patterns,
            sampled: self.sampled,
            notes,
            attributes: self.attributes,
            zoned: self.zoned,
        }
    }

    pub fn merge(&mut self, other: Counts) {
        self.skips.merge(other.skips);
        self.events += other.events;
        self.left_out += other.left_out;
        self.outside += other.outside;
        if let Some(range) = other.outside_range {
            widen(&mut self.outside_range, range);
        }
        self.order.merge(other.order);
        self.holders += other.holders;
        let holders = [self.first_holder, other.first_holder];
        self.first_holder = holders.into_iter().flatten().min();
        self.attributes.merge(other.attributes);
        self.zoned |= other.zoned;
        self.unanswered.merge(other.unanswered);
    }
}

impl Worker {
    pub fn new(settings: Arc<Settings>) -> Worker {
        let shared = settings.shared(1);
        Worker::of_team(settings, Arc::new(shared))
    }

    /// A worker that adds to the same classes as the others of its team.
    pub fn of_team(settings: Arc<Settings>, shared: Arc<Shared>) -> Worker {
        Worker {
            slow: Arc::new(slowlog::Parser::new(settings.slow_log())),
            counts: Counts {
                shared,
                skips: Skips::default(),
                events: 0,
                left_out: 0,
                outside: 0,
                outside_range: None,
                patterns: settings.patterns.then(Patterns::default),
                order: Order::default(),
                holders: 0,
                first_holder: None,
                attributes: Attributes::default(),
                zoned: false,
                sampled: settings
                    .traffic
                    .sampling
                    .map(|sampling| Estimator::new(sampling, settings.max_classes)),
                unanswered: Unanswered::default(),
            },
            batch: Batch::of_events(settings.compat),
            settings,
            recent: Recent::default(),
            recent_users: Recent::default(),
            key: Vec::new(),
            scratch: Scratch::default(),
        }
    }

    /// Starts a piece of an input that is not a slow log.
    pub fn begin(&mut self, place: Place) {
        self.counts.order.begin(place);
    }

    /// Parses a piece, with or without marks of its events; returns the values that the next piece
    /// inherits.
    pub fn slow_log(
        &mut self,
        piece: slowlog::Piece<'_>,
        marks: &[slowlog::split::Mark],
    ) -> slowlog::Carry {
        self.counts.order.begin(piece.place);
        let slow = self.slow.clone();
        slow.parse_marked(piece, marks, self)
    }

    /// As `slow_log` for the beginning of a buffer, as far as its events are certain; also returns
    /// the bytes used.
    pub fn certain_slow_log(&mut self, piece: slowlog::Piece<'_>) -> (usize, slowlog::Carry) {
        self.counts.order.begin(piece.place);
        let slow = self.slow.clone();
        slow.parse_certain(piece, self)
    }

    /// Parses a piece of raw statements.
    pub fn raw_log(&mut self, bytes: &[u8], place: Place) {
        match self.settings.compat {
            true => frond_querylog::rawlog::parse_as_ptqd(bytes, place, self),
            false => frond_querylog::rawlog::parse(bytes, place, self),
        }
    }

    pub fn finish(mut self) -> Counts {
        self.counts.shared.absorb(&mut self.batch);
        if let Some(patterns) = &mut self.counts.patterns {
            patterns.finish();
        }
        self.counts
    }

    /// True if the event is wanted.
    #[inline]
    fn wanted(&mut self, event: &Event<'_>) -> bool {
        let settings = &self.settings;
        if settings.since.is_some() || settings.until.is_some() {
            let Some(start) = event.start else { return false };
            if settings.since.is_some_and(|since| start < since)
                || settings.until.is_some_and(|until| start >= until)
            {
                self.counts.outside += 1;
                widen(&mut self.counts.outside_range, (start, start));
                return false;
            }
        }
        settings.filter.as_ref().is_none_or(|filter| filter.matches(event, None, &mut self.scratch))
    }

    /// Writes the key of the event's class to `key`.
    fn find_key(&mut self, event: &Event<'_>) {
        let key = &mut self.key;
        match &self.settings.group_by {
            GroupBy::Fingerprint => {
                frond_sqltext::fingerprint(event.sql, self.settings.dialect, key);
                let compat = self.settings.compat;
                match event.kind {
                    // These are already changed to the form of pt-query-digest (`event_as_ptqd`).
                    Kind::Execute | Kind::Prepare
                        if compat && event.unmeasured == Some(Unmeasured::NotLogged) => {}
                    Kind::Execute if compat => prefix(key, b"execute "),
                    // Preparing a statement is not executing it.
                    Kind::Prepare => prefix(key, b"prepare "),
                    _ => {}
                }
            }
            GroupBy::Distill => frond_sqltext::distill(event.sql, key),
            GroupBy::Several { parts, .. } => {
                key.clear();
                for (i, part) in parts.iter().enumerate() {
                    if i > 0 {
                        key.extend_from_slice(b", ");
                    }
                    append_key(key, part, event, &mut self.counts.attributes);
                }
            }
            one => {
                key.clear();
                append_key(key, one, event, &mut self.counts.attributes);
            }
        }
    }
}

/// Appends the event's value of `group_by`, which is one attribute.
fn append_key(key: &mut Vec<u8>, group_by: &GroupBy, event: &Event<'_>, seen: &mut Attributes) {
    let before = key.len();
    match group_by {
        GroupBy::Db => key.extend_from_slice(event.db),
        GroupBy::User => key.extend_from_slice(event.user),
        GroupBy::Host => key.extend_from_slice(event.host),
        GroupBy::Ip => key.extend_from_slice(event.ip),
        GroupBy::ThreadId => number(key, event.thread_id),
        GroupBy::Error => number(key, event.error.map(u64::from)),
        GroupBy::Routine => key.extend_from_slice(event.routine),
        GroupBy::Flag(flag) => key.extend_from_slice(match event.flags.get(*flag) {
            Some(true) => b"Yes",
            Some(false) => b"No",
            None => b"",
        }),
        GroupBy::Attribute(name) => {
            let value = event.attribute(name.as_bytes());
            seen.see(name, value.is_some(), event);
            key.extend_from_slice(value.unwrap_or_default());
        }
        GroupBy::Tables => {
            let mut tables = Vec::new();
            frond_sqltext::tables(event.sql, frond_sqltext::SqlMode::default(), &mut tables);
            for table in tables {
                if key.len() > before {
                    key.push(b' ');
                }
                let db = if table.db.is_empty() { event.db } else { table.db };
                if !db.is_empty() {
                    key.extend_from_slice(db);
                    key.push(b'.');
                }
                key.extend_from_slice(table.table);
            }
        }
        GroupBy::Kind => {
            let word = event.sql.trim_ascii_start();
            let end = word.iter().position(|b| !b.is_ascii_alphabetic()).unwrap_or(word.len());
            key.extend(word[..end].iter().map(u8::to_ascii_uppercase));
        }
        // These are not single attributes.
        GroupBy::Fingerprint | GroupBy::Distill | GroupBy::Several { .. } => {}
    }
    if key.len() == before {
        key.extend_from_slice(b"(unknown)");
    }
}

fn widen(range: &mut Option<(Micros, Micros)>, (from, to): (Micros, Micros)) {
    let (first, last) = range.unwrap_or((from, to));
    *range = Some((first.min(from), last.max(to)));
}

fn number(key: &mut Vec<u8>, number: Option<u64>) {
    if let Some(number) = number {
        key.extend_from_slice(number.to_string().as_bytes());
    }
}

/// `administrator command: Close` of `administrator command: Close stmt`.
fn first_word_of_command(sql: &[u8]) -> &[u8] {
    const COMMAND: &[u8] = b"administrator command: ";
    match sql.strip_prefix(COMMAND).and_then(|name| memchr::memchr(b' ', name)) {
        Some(end) => &sql[..COMMAND.len() + end],
        None => sql,
    }
}

fn prefix(key: &mut Vec<u8>, word: &[u8]) {
    key.splice(..0, word.iter().copied());
}

impl Sink for Worker {
    #[inline]
    fn event(&mut self, event: &Event<'_>) {
        #[cfg(test)]
        assert!(!self.settings.panics, "as the test wants it");
        self.counts.events += 1;
        self.counts.order.see(event);
        if !self.wanted(event) {
            self.counts.left_out += 1;
            return;
        }
        if self.settings.compat {
            return self.event_as_ptqd(event);
        }
        self.count(event);
    }

    fn skip(&mut self, skip: Skip) {
        self.counts.skips.add(skip);
    }

    fn holds_events(&mut self, place: Place) {
        self.counts.holders += 1;
        self.counts.first_holder = Some(self.counts.first_holder.map_or(place, |p| p.min(place)));
    }

    fn server_start(&mut self, place: Place, lines: &[u8]) {
        self.counts.order.servers.start(place, lines);
    }

    fn reconnected(&mut self, place: Place, id: u64) {
        self.counts.order.servers.reused(place, id);
    }
}

impl Worker {
    /// Changes an event as pt-query-digest does. For captured traffic: no event without an answer,
    /// and `PREPARE ` or `EXECUTE ` is part of the text. For a general log: only `Query` is a
    /// statement, and only the first word of a command's name is used.
    fn event_as_ptqd(&mut self, event: &Event<'_>) {
        self.counts.zoned |= event.zoned;
        let prepared = matches!(event.kind, Kind::Prepare | Kind::Execute);
        let captured = event.connection > 0;
        if captured && event.query_time().is_none() {
            self.counts.left_out += 1;
        } else if captured && prepared {
            let mut longer = event.clone();
            longer.metrics.set(Metric::QuerySize, event.sql.len() as u64 + 8);
            self.count(&longer);
        } else if event.unmeasured == Some(Unmeasured::NotLogged) {
            let sql: &[u8] = match event.kind {
                Kind::Prepare => b"administrator command: Prepare",
                Kind::Execute => b"administrator command: Execute",
                Kind::Admin => first_word_of_command(event.sql),
                _ => event.sql,
            };
            let mut other = Event { sql, ..event.clone() };
            other.metrics.set(Metric::QuerySize, sql.len() as u64);
            self.count(&other);
        } else {
            self.count(event);
        }
    }

    #[inline]
    fn count(&mut self, event: &Event<'_>) {
        self.find_key(event);
        key::bound(&mut self.key);
        let weight = if event.rate > 1 { event.rate } else { self.settings.rate.unwrap_or(1) };
        let hash = frond_sqltext::class_hash(&self.key);
        if let Some(patterns) = &mut self.counts.patterns {
            patterns.add(hash, event);
        }
        let shared = &self.counts.shared;
        let mut id = |name| self.recent.get(name, |name| shared.name(name));
        let user = self.recent_users.get(event.user, |name| shared.user(name));
        let who = Who::new(id(event.db), user, id(event.host));
        let class = (hash, &self.key[..]);
        let best = || shared.best(hash, &self.key);
        if self.batch.add(class, event, who, weight, shared.sample_limit(), best) {
            shared.absorb(&mut self.batch);
        }
        if let Some(waited) = event.waited {
            let limit = shared.sample_limit();
            self.counts.unanswered.add(waited, hash, event, limit);
        }
        if let (Some(sampled), true) = (&mut self.counts.sampled, event.connection > 0) {
            sampled.add(hash, event.connection, event.query_time());
        }
    }
}
