//! Events of one thread that wait to be added to their classes.
//!
//! A class and its distributions do not stay in the processor's cache from one of its events to the next, and
//! threads that share a table must not lock it for every event. So a thread gathers some thousand events,
//! groups them with a small table that stays in the cache, and adds them class by class.
//!
//! Invariants:
//!
//! - BA1. A batch borrows nothing: it copies the kept parts of an event, the statement only if it
//!   may become the sample.
//! - BA2. Its memory is bounded: `EVENTS` events, and keys and samples of about `TEXT_BYTES`, unless one is longer.
//! - BA3. Adding batches in any order, from any thread, gives the same classes (except as `top` says).

use super::breakdowns::Breakdowns;
use super::class::Best;
use super::class::Sample;
use super::names::{NameId, NAME_BITS};
use super::record::{
    put_plan, Local, Record, Records, Span, LOGGED_AT, NO_TIME, WAITING_AT, YES_AT,
};
use frond_event::{Event, Kind, Place};

/// Events in a batch. With more events, more of them are of one class, which is then fetched once for all of them:
/// four times as many as fit into the second-level cache took a sixth less processor time with 5000 classes.
const EVENTS: usize = 8192;

/// A batch with longer keys or samples is full.
const TEXT_BYTES: usize = 512 << 10;

/// Slots of the table, more than events, and a power of 2.
const SLOTS: usize = 16384;
/// The strings of an event by which classes are broken down, as numbers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Who {
    pub db: NameId,
    pub user: NameId,
    pub host: NameId,
    /// Bits of `Groups`.
    pub(super) waiting: u8,
}

impl Who {
    /// `user`: the user's number, and the bits of the user's groups.
    pub fn new(db: NameId, user: (NameId, u8), host: NameId) -> Who {
        Who { db, user: user.0, host, waiting: user.1 }
    }
}

/// Classes that are fetched from memory together.
pub(super) const GROUP: usize = 16;

/// Receives the classes of a batch.
pub(super) trait Taker {
    /// Announces the hashes of the next classes, at most `GROUP`.
    fn fetch(&self, hashes: &[u64]);

    /// Receives a batch's data of the class of `key`.
    fn take(&mut self, key: &[u8], local: &mut Local, records: Records<'_>);
}

/// See the module's text.
#[derive(Debug)]
pub struct Batch {
    locals: Vec<Local>,
    /// Index of a local plus 1; 0 is free.
    slots: Box<[u16; SLOTS]>,
    keys: Vec<u8>,
    /// Bytes of samples.
    samples: usize,
    /// Records, one behind the other: present metrics and flags, metrics that are not 0, names, end, and the metrics'
    /// values.
    words: Vec<u64>,
    /// (local, begin of the record) for each event.
    events: Vec<(u16, u32)>,
    /// The number of statements for which each event stands; empty if all stand for one.
    weights: Vec<u32>,
    /// Breakdowns count events instead of the statements that they stand for.
    unweighted: bool,
    /// Begins of the records, sorted by local.
    sorted: Vec<u32>,
    /// Scratch of `each`: the chosen locals.
    chosen: Vec<u16>,
}

impl Default for Batch {
    fn default() -> Self {
        Batch {
            locals: Vec::new(),
            slots: Box::new([0; SLOTS]),
            keys: Vec::new(),
            samples: 0,
            words: Vec::new(),
            events: Vec::new(),
            weights: Vec::new(),
            unweighted: false,
            sorted: Vec::new(),
            chosen: Vec::new(),
        }
    }
}

impl Batch {
    /// A batch whose breakdowns count events, as pt-query-digest does, instead of the statements that they stand for.
    pub fn of_events(unweighted: bool) -> Batch {
        Batch { unweighted, ..Batch::default() }
    }

    /// Adds an event, which stands for `weight` statements, to the class of `key`, whose hash is
    /// `hash`. `best` is the class's sample so far, if there is one. True if the batch is full.
    #[inline]
    pub fn add(
        &mut self,
        (hash, key): (u64, &[u8]),
        event: &Event<'_>,
        who: Who,
        weight: u32,
        sample_limit: usize,
        best: impl FnOnce() -> Option<Best>,
    ) -> bool {
        let number = match self.find(hash, key) {
            Some(number) => number,
            None => self.insert(hash, key, best()),
        };
        if (weight != 1 || !self.weights.is_empty()) && !self.unweighted {
            self.weights.resize(self.events.len(), 1);
            self.weights.push(weight);
        }
        self.events.push((number, self.words.len() as u32));
        let local = &mut self.locals[usize::from(number)];
        let time = event.query_time();
        local.count += 1;
        local.weight += u64::from(weight);
        local.unmeasured += u32::from(time.is_none());
        local.times.widen(event.start, event.end.or(event.start));
        local.stamps.widen(event.stamp, event.stamp);
        local.begun = local.begun.min(event.place);
        match event.kind {
            Kind::Prepare => local.prepares += 1,
            Kind::Execute => local.executes += 1,
            _ => {}
        }
        if let Some(error) = event.error.filter(|e| *e != 0) {
            local.errors += 1;
            local.error = local.error.max((event.place, error));
        }
        if !event.plan.is_empty() {
            put_plan(&mut local.plans, super::plan_hash(event.plan), 1);
        }
        let mine = (time.unwrap_or(0), event.place);
        if local.best.is_none_or(|best| mine >= best) {
            let sample = Box::new(Sample::of(event, sample_limit));
            self.samples += std::mem::size_of::<Sample>() + sample.memory();
            local.best = Some(mine);
            local.sample = Some(sample);
        }
        self.append(event, who);
        self.events.len() == EVENTS || self.keys.len().max(self.samples) > TEXT_BYTES
    }

    #[inline]
    fn find(&self, hash: u64, key: &[u8]) -> Option<u16> {
        let mut slot = hash as usize % SLOTS;
        loop {
            let number = self.slots[slot].checked_sub(1)?;
            let local = &self.locals[usize::from(number)];
            if local.hash == hash && self.key_of(local) == key {
                return Some(number);
            }
            slot = (slot + 1) % SLOTS;
        }
    }

    #[inline(never)]
    fn insert(&mut self, hash: u64, key: &[u8], best: Option<Best>) -> u16 {
        let mut slot = hash as usize % SLOTS;
        while self.slots[slot] != 0 {
            slot = (slot + 1) % SLOTS;
        }
        let number = self.locals.len() as u16;
        self.slots[slot] = number + 1;
        self.locals.push(Local {
            hash,
            key: (self.keys.len() as u32, key.len() as u32),
            count: 0,
            unmeasured: 0,
            prepares: 0,
            executes: 0,
            errors: 0,
            records: 0,
            weight: 0,
            times: Span::default(),
            stamps: Span::default(),
            begun: Place { file: u32::MAX, offset: u64::MAX },
            error: (Place::default(), 0),
            best,
            sample: None,
            plans: Vec::new(),
        });
        self.keys.extend_from_slice(key);
        number
    }

    /// Appends the record of an event.
    #[inline]
    fn append(&mut self, event: &Event<'_>, who: Who) {
        let (logged, yes) = event.flags.bits();
        let end = event.end.or(event.start).map_or(NO_TIME, |t| t as u64);
        let first =
            event.metrics.present() | u64::from(logged) << LOGGED_AT | u64::from(yes) << YES_AT;
        let names = u64::from(who.db)
            | u64::from(who.user) << NAME_BITS
            | u64::from(who.host) << (2 * NAME_BITS)
            | u64::from(who.waiting) << WAITING_AT;
        let at = self.words.len();
        self.words.extend_from_slice(&[first, 0, names, end]);
        let mut nonzero = 0;
        for (index, value) in event.metrics.iter() {
            if value != 0 {
                nonzero |= 1 << index;
                self.words.push(value);
            }
        }
        self.words[at + 1] = nonzero;
    }

    fn key_of(&self, local: &Local) -> &[u8] {
        &self.keys[local.key.0 as usize..][..local.key.1 as usize]
    }

    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Adds the names to the breakdowns of everything.
    pub(super) fn break_down(&self, breakdowns: &mut Breakdowns) {
        let weights = self.weights.iter().copied().chain(std::iter::repeat(1));
        let events = self.events.iter().zip(weights);
        breakdowns.add(events.filter_map(|((_, at), n)| Some((Record::at(&self.words, *at)?, n))));
    }

    /// Puts the records of each local side by side.
    pub(super) fn sort(&mut self) {
        let mut behind = 0;
        for local in &mut self.locals {
            local.records = behind;
            behind += local.count;
        }
        self.sorted.clear();
        self.sorted.resize(self.events.len(), 0);
        for (number, record) in &self.events {
            let local = &mut self.locals[usize::from(*number)];
            self.sorted[local.records as usize] = *record;
            local.records += 1;
        }
    }

    /// Yields the data of each class whose hash `wanted` accepts. The batch must be sorted.
    pub(super) fn each(&mut self, wanted: impl Fn(u64) -> bool, taker: &mut impl Taker) {
        let Batch { locals, keys, words, sorted, chosen, .. } = self;
        chosen.clear();
        chosen.extend((0..locals.len() as u16).filter(|at| wanted(locals[usize::from(*at)].hash)));
        for group in chosen.chunks(GROUP) {
            let mut hashes = [0; GROUP];
            for (hash, at) in hashes.iter_mut().zip(group) {
                *hash = locals[usize::from(*at)].hash;
            }
            taker.fetch(&hashes[..group.len()]);
            for at in group {
                let local = &mut locals[usize::from(*at)];
                let end = local.records as usize;
                let begins = &sorted[end - local.count as usize..end];
                let key = &keys[local.key.0 as usize..][..local.key.1 as usize];
                taker.take(key, local, Records { words, begins });
            }
        }
    }

    /// Empties it, but keeps its memory unless that is unusually large.
    pub(super) fn clear(&mut self) {
        self.locals.clear();
        self.slots.fill(0);
        self.keys.clear();
        self.keys.shrink_to(2 * TEXT_BYTES);
        self.samples = 0;
        self.words.clear();
        self.weights.clear();
        self.events.clear();
    }
}
