//! The statistics of one class.
//!
//! Invariants:
//!
//! - CE1. An attribute that was zero in every event costs nothing; one that had one value costs 64 bytes.
//! - CE2. `merge` of parts equals adding all events to one, whatever the order (except as `top` says for names).
//! - CE3. The worst sample is that of the longest time, the last in the input among equals.
//! - CE4. Events are added in batches (`batch`): it is faster to fetch a class's distributions once for several
//!   events.

use std::sync::Arc;

use super::bucket::Buckets;
use super::distribution::{Distribution, Known, Summary};
use super::names::NameId;
use super::record::{Local, Records, LOGGED_AT, NO_TIME, YES_AT};
use super::series::Series;
use super::top::{Room, Top};
use super::waiting::Waiting;
use frond_event::Metric;
use frond_event::{Flag, Micros, Place};

pub mod key;
mod rare;
mod sample;
#[cfg(test)]
mod size;
mod totals;
mod touch;

pub use rare::Rare;
pub(super) use sample::Best;
pub use sample::Sample;
pub use totals::{Total, Totals};

/// Intervals per class.
pub const SERIES_LIMIT: usize = 40;

/// Statements are kept up to this length; the rest is only counted.
pub const SAMPLE_LIMIT: usize = 64 << 10;

/// See the module's text.
#[derive(Clone, Debug)]
pub struct Class {
    /// The common property of its events: the fingerprint, or the value they are grouped by; shortened (`key`).
    pub key: Box<[u8]>,
    pub count: u64,
    /// The number of statements for which the events stand.
    pub weight: u64,
    /// Attributes that every event has.
    always: u64,
    /// Number of events with each attribute; only if that differs between attributes.
    counts: Option<Box<[u64; Metric::COUNT]>>,
    /// Attributes that were not always zero, and their distributions in the order of the bits.
    nonzero: u64,
    distributions: Vec<Distribution>,
    /// (logged, yes) by flag; only if some flag was logged.
    flags: Option<Box<[(u64, u64); Flag::COUNT]>>,
    rare: Option<Box<Rare>>,
    pub first: Option<Micros>,
    pub last: Option<Micros>,
    /// First and last `Event::stamp`.
    pub first_stamp: Option<Micros>,
    pub last_stamp: Option<Micros>,
    pub dbs: Top,
    pub users: Top,
    pub hosts: Top,
    pub series: Series,
    /// Where its first event is in the inputs.
    pub begun: Place,
    pub sample: Sample,
    /// What is known of the distribution of its durations; not everything if totals were added.
    known: Known,
    /// User groups, as bits of `waiting`.
    waiting: u8,
}

fn widen(
    first: &mut Option<Micros>,
    last: &mut Option<Micros>,
    from: Option<Micros>,
    to: Option<Micros>,
) {
    if let Some(from) = from {
        *first = Some(first.map_or(from, |f| f.min(from)));
    }
    if let Some(to) = to {
        *last = Some(last.map_or(to, |l| l.max(to)));
    }
}

impl Class {
    pub fn new(key: &[u8]) -> Class {
        Class {
            key: key.into(),
            count: 0,
            weight: 0,
            always: 0,
            counts: None,
            nonzero: 0,
            distributions: Vec::new(),
            flags: None,
            rare: None,
            first: None,
            last: None,
            first_stamp: None,
            last_stamp: None,
            dbs: Top::default(),
            users: Top::default(),
            hosts: Top::default(),
            series: Series::default(),
            begun: Place { file: u32::MAX, offset: u64::MAX },
            sample: Sample::default(),
            known: Known::ALL,
            waiting: 0,
        }
    }

    /// Adds a batch's data of the class, and takes its sample if that is the better one.
    pub(super) fn absorb(
        &mut self,
        buckets: Buckets,
        room: &Arc<Room>,
        local: &mut Local,
        records: Records<'_>,
    ) {
        self.weight += local.weight;
        if Rare::is_in(local) {
            self.rare.get_or_insert_default().absorb(local);
        }
        self.begun = self.begun.min(local.begun);
        let (from, to) = local.times.ends();
        widen(&mut self.first, &mut self.last, from, to);
        let (from, to) = local.stamps.ends();
        widen(&mut self.first_stamp, &mut self.last_stamp, from, to);
        if let Some(sample) = local.sample.take() {
            if self.count == 0 || sample.best() >= self.best() {
                self.sample = *sample;
            }
        }
        for record in records.iter() {
            self.count_present(record.first & ((1 << Metric::COUNT) - 1));
            let logged = (record.first >> LOGGED_AT) as u16 & ((1 << Flag::COUNT) - 1);
            if logged != 0 {
                self.count_flags(logged, (record.first >> YES_AT) as u16);
            }
            let mut left = record.nonzero;
            for value in record.values {
                let index = left.trailing_zeros() as usize;
                left &= left - 1;
                self.put_value(buckets, index, *value);
            }
            let nanos = record.time();
            let [db, user, host] = record.who();
            self.dbs.add(db, nanos, room);
            self.users.add(user, nanos, room);
            self.hosts.add(host, nanos, room);
            self.waiting |= record.waiting();
            if record.end != NO_TIME {
                self.series.add(record.end as i64, nanos, SERIES_LIMIT);
            }
        }
    }

    /// Index of an attribute's distribution, or where it would be inserted.
    #[inline]
    fn slot(&self, index: usize) -> usize {
        (self.nonzero & ((1 << index) - 1)).count_ones() as usize
    }

    #[inline]
    fn distribution(&self, metric: Metric) -> Option<&Distribution> {
        match self.nonzero >> metric.index() & 1 {
            0 => None,
            _ => self.distributions.get(self.slot(metric.index())),
        }
    }

    #[inline]
    fn put_value(&mut self, buckets: Buckets, index: usize, value: u64) {
        if self.nonzero >> index & 1 == 0 {
            return self.put_distribution(index, Distribution::new(value));
        }
        let slot = self.slot(index);
        self.distributions[slot].add(buckets, Metric::from_index(index), value);
    }

    /// Rank of the sample.
    pub(super) fn best(&self) -> Best {
        self.sample.best()
    }

    /// Adds the first value of an attribute that is not zero.
    #[inline(never)]
    fn put_distribution(&mut self, index: usize, distribution: Distribution) {
        if self.distributions.len() == self.distributions.capacity() {
            let more = if self.distributions.is_empty() { 4 } else { 2 };
            self.distributions.reserve_exact(more);
        }
        self.distributions.insert(self.slot(index), distribution);
        self.nonzero |= 1 << index;
    }

    /// Counts an event, and the attributes that it has.
    #[inline]
    fn count_present(&mut self, present: u64) {
        if self.count == 0 {
            self.always = present;
        } else if self.counts.is_some() || present != self.always {
            self.count_apart(present);
        }
        self.count += 1;
    }

    fn count_apart(&mut self, present: u64) {
        let (always, counted) = (self.always, self.count);
        let counts = self.counts.get_or_insert_with(|| {
            let mut counts = Box::new([0; Metric::COUNT]);
            for (index, c) in counts.iter_mut().enumerate() {
                *c = if always >> index & 1 == 1 { counted } else { 0 };
            }
            counts
        });
        let mut left = present;
        while left != 0 {
            counts[left.trailing_zeros() as usize] += 1;
            left &= left - 1;
        }
        self.always &= present;
    }

    #[inline]
    fn count_flags(&mut self, logged: u16, yes: u16) {
        let flags = self.flags.get_or_insert_with(|| Box::new([(0, 0); Flag::COUNT]));
        let mut left = logged;
        while left != 0 {
            let index = left.trailing_zeros() as usize;
            left &= left - 1;
            flags[index].0 += 1;
            flags[index].1 += u64::from(yes >> index & 1);
        }
    }

    /// How many events had the attribute.
    pub fn present(&self, metric: Metric) -> u64 {
        match &self.counts {
            Some(counts) => counts[metric.index()],
            None if self.always >> metric.index() & 1 == 1 => self.count,
            None => 0,
        }
    }

    /// The attribute's statistics; `None` if no event had it.
    pub fn summary(&self, metric: Metric) -> Option<Summary> {
        let present = self.present(metric);
        if present == 0 {
            return None;
        }
        Some(match self.distribution(metric) {
            None => Summary::zeros(metric, present),
            Some(distribution) => {
                let summary = distribution.summary(metric, present);
                summary.knowing(if metric == Metric::QueryTime {
                    self.known
                } else {
                    self.known.of_others()
                })
            }
        })
    }

    /// The sum of an attribute in base units.
    pub fn sum(&self, metric: Metric) -> u64 {
        self.distribution(metric).map_or(0, Distribution::sum)
    }

    /// Scales `value`, a number or a sum over events, to all statements that they stand for. Where
    /// the rate changed within the class, its mean rate is used.
    pub fn scaled(&self, value: u64) -> u64 {
        if self.weight <= self.count {
            return value;
        }
        let product = u128::from(value) * u128::from(self.weight);
        let count = u128::from(self.count);
        u64::try_from((product + count / 2) / count).unwrap_or(u64::MAX)
    }

    /// The sum of an attribute in base units, for all statements that the events stand for.
    pub fn scaled_sum(&self, metric: Metric) -> u64 {
        self.scaled(self.sum(metric))
    }

    /// Data that few classes have.
    pub fn rare(&self) -> &Rare {
        self.rare.as_deref().unwrap_or(&rare::NOTHING)
    }

    /// Events where the flag was logged, and where it said yes.
    pub fn flag(&self, flag: Flag) -> (u64, u64) {
        self.flags.as_ref().map_or((0, 0), |flags| flags[flag as usize])
    }

    /// The group of its users, interactive or batch.
    pub fn waiting(&self) -> Waiting {
        Waiting::of(self.waiting)
    }

    /// Adds the names of `other`; `map` translates its numbers to this class's.
    pub(super) fn merge_names(
        &mut self,
        other: &Class,
        mut map: impl FnMut(NameId) -> NameId,
        room: &Arc<Room>,
    ) {
        self.dbs.merge(&other.dbs, &mut map, room);
        self.users.merge(&other.users, &mut map, room);
        self.hosts.merge(&other.hosts, &mut map, room);
    }

    /// Adds the events of `other`, but not its names.
    pub fn merge(&mut self, buckets: Buckets, other: &Class) {
        self.merge_counts(other);
        self.waiting |= other.waiting;
        self.known = self.known.and(other.known);
        for metric in Metric::ALL {
            let index = metric.index();
            let Some(theirs) = other.distribution(*metric) else { continue };
            match self.nonzero >> index & 1 {
                0 => self.put_distribution(index, theirs.clone()),
                _ => {
                    let slot = self.slot(index);
                    self.distributions[slot].merge(buckets, *metric, theirs);
                }
            }
        }
        if let Some(theirs) = &other.flags {
            let flags = self.flags.get_or_insert_with(|| Box::new([(0, 0); Flag::COUNT]));
            for (ours, theirs) in flags.iter_mut().zip(theirs.iter()) {
                ours.0 += theirs.0;
                ours.1 += theirs.1;
            }
        }
        widen(&mut self.first, &mut self.last, other.first, other.last);
        widen(&mut self.first_stamp, &mut self.last_stamp, other.first_stamp, other.last_stamp);
        self.series.merge(&other.series, SERIES_LIMIT);
        self.begun = self.begun.min(other.begun);
        if let Some(theirs) = &other.rare {
            self.rare.get_or_insert_default().merge(theirs);
        }
        if other.best() >= self.best() {
            self.sample = other.sample.clone();
        }
    }

    fn merge_counts(&mut self, other: &Class) {
        if self.count == 0 {
            self.always = other.always;
            self.counts = other.counts.clone();
        } else if self.counts.is_some() || other.counts.is_some() || self.always != other.always {
            let mut counts = Box::new([0; Metric::COUNT]);
            for metric in Metric::ALL {
                counts[metric.index()] = self.present(*metric) + other.present(*metric);
            }
            self.counts = Some(counts);
            self.always &= other.always;
        }
        self.count += other.count;
        self.weight += other.weight;
    }

    /// Approximate memory in bytes.
    pub fn memory(&self) -> usize {
        std::mem::size_of::<Class>()
            + self.key.len()
            + self.counts.as_ref().map_or(0, |_| Metric::COUNT * 8)
            + self.flags.as_ref().map_or(0, |_| Flag::COUNT * 16)
            + self.distributions.iter().map(Distribution::memory).sum::<usize>()
            + (self.distributions.capacity() - self.distributions.len())
                * std::mem::size_of::<Distribution>()
            + self.dbs.memory()
            + self.users.memory()
            + self.hosts.memory()
            + self.series.memory()
            + self.sample.memory()
            + self.rare.as_ref().map_or(0, |rare| rare.memory())
    }
}
