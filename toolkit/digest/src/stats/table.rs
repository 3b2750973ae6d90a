//! Classes by their keys.
//!
//! Invariants:
//!
//! - TA1. Two events are in one class if and only if their keys are equal: the hash only finds candidates.
//! - TA2. Never more than `max_classes` classes. When there would be more, the quarter with the least time (then the fewest
//!   events) is folded into `rest`, which has no key. So a class that takes much of the server's time stays. A folded class
//!   that occurs again starts from nothing.
//! - TA3. Texts of samples (statements, plans, warnings) take at most `SAMPLES` bytes of memory and 256 bytes per class; when
//!   they take more, further long ones go to disk at once.
//! - TA4. `overall` is the sum over all classes and `rest`; no event is added twice or lost.
//! - TA5. `breakdowns` has the names of all events; `rest` has none.

use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use super::batch::{Batch, Taker, Who, GROUP};
use super::breakdowns::Breakdowns;
use super::bucket::Buckets;
use super::class::Best;
use super::class::{Class, Totals};
use super::distinct::Distinct;
use super::names::{NameId, Names, OTHERS};
use super::record::{Local, Records};
use super::series::{Clock, Series};
use super::spill::Spill;
use super::top::Room;
use super::waiting::Groups;
use frond_event::Event;
use frond_event::Metric;

/// A hasher for keys that are hashes already.
#[derive(Default)]
struct Identity(u64);

impl Hasher for Identity {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }
}

/// See the module's text.
pub struct Table {
    buckets: Buckets,
    by_hash: HashMap<u64, u32, BuildHasherDefault<Identity>>,
    pub classes: Vec<Class>,
    /// The classes that did not fit, folded together.
    pub rest: Class,
    /// Classes that were folded into `rest`, some of which may have come back.
    folded: Distinct,
    max_classes: usize,
    sample_limit: usize,
    pub names: Names,
    pub(super) breakdowns: Breakdowns,
    pub(super) groups: Groups,
    /// The batch of `add`; empty between calls.
    batch: Batch,
    /// Bytes of samples' texts in memory, and the most there may be.
    samples: usize,
    samples_limit: usize,
    spill: Arc<Spill>,
    room: Arc<Room>,
}

/// Bytes of samples in memory above which long ones go to disk.
pub(super) const SAMPLES: usize = 16 << 20;

impl Table {
    /// `max_classes` is at least 16.
    pub fn new(max_classes: usize, sample_limit: usize) -> Table {
        Table {
            buckets: Buckets::default(),
            by_hash: HashMap::default(),
            classes: Vec::new(),
            rest: Class::new(b""),
            folded: Distinct::default(),
            max_classes: max_classes.max(16),
            sample_limit,
            names: Names::default(),
            breakdowns: Breakdowns::default(),
            groups: Groups::default(),
            batch: Batch::default(),
            samples: 0,
            samples_limit: SAMPLES,
            spill: Arc::default(),
            room: Arc::default(),
        }
    }

    /// One of `parts` tables that keep the invariants together.
    pub(super) fn part(
        max_classes: usize,
        sample_limit: usize,
        parts: usize,
        (spill, room): (Arc<Spill>, Arc<Room>),
    ) -> Table {
        let table = Table::new(max_classes.div_ceil(parts), sample_limit);
        Table { samples_limit: SAMPLES / parts, spill, room, ..table }
    }

    /// A class with the whole texts of its sample, for a report.
    pub fn whole(&self, class: usize) -> Cow<'_, Class> {
        let mut whole = Cow::Borrowed(&self.classes[class]);
        if whole.sample.is_stored() {
            whole.to_mut().sample.restore(&self.spill);
        }
        whole
    }

    /// The whole statement of a class's sample.
    pub fn whole_sql(&self, class: usize) -> Cow<'_, [u8]> {
        let sample = &self.classes[class].sample;
        sample.read(&self.spill).map_or(Cow::Borrowed(&sample.sql), |sql| Cow::Owned(sql.into()))
    }

    /// Adds an event that stands for `weight` statements to the class of `key`. Many events are better collected in
    /// a `Batch`.
    pub fn add(&mut self, key: &[u8], event: &Event<'_>, weight: u32) {
        let [db, user, host] = [event.db, event.user, event.host].map(|n| self.names.id(n));
        let who = Who::new(db, (user, self.groups.bits(event.user)), host);
        let hash = frond_sqltext::class_hash(key);
        let mut batch = std::mem::take(&mut self.batch);
        batch.add((hash, key), event, who, weight, self.sample_limit, || self.best(hash, key));
        batch.sort();
        batch.break_down(&mut self.breakdowns);
        self.absorb(&mut batch, |_| true);
        batch.clear();
        self.batch = batch;
    }

    /// The rank of the sample of the class of `key`, if that class exists.
    pub(super) fn best(&self, hash: u64, key: &[u8]) -> Option<Best> {
        self.find(hash, key).ok().map(|class| self.classes[class].best())
    }

    /// Adds the classes of a sorted batch that `wanted` accepts.
    pub(super) fn absorb(&mut self, batch: &mut Batch, wanted: impl Fn(u64) -> bool) {
        batch.each(wanted, self);
    }

    /// Adds statements for which a server counted only totals; `event` stands for them.
    pub fn add_totals(&mut self, key: &[u8], event: &Event<'_>, totals: &Totals) {
        let mut bounded = key.to_vec();
        super::class::key::bound(&mut bounded);
        let key = &bounded[..];
        let db = self.names.id(event.db);
        let class = Class::of_totals(key, event, db, totals, self.sample_limit);
        let at = self.find_or_insert(frond_sqltext::class_hash(key), key);
        self.breakdowns.add_class(&class);
        self.classes[at].merge_names(&class, |id| id, &self.room);
        self.classes[at].merge(self.buckets, &class);
    }

    /// Adds totals of statements whose class is unknown.
    pub fn add_unknown(&mut self, event: &Event<'_>, totals: &Totals) {
        let class = Class::of_totals(b"", event, super::names::UNKNOWN, totals, self.sample_limit);
        self.breakdowns.add_class(&class);
        self.rest.merge(self.buckets, &class);
    }

    /// The class of `key`, or the hash under which it is to be inserted.
    #[inline]
    fn find(&self, hash: u64, key: &[u8]) -> Result<usize, u64> {
        let mut hash = hash;
        loop {
            match self.by_hash.get(&hash) {
                Some(&class) if *self.classes[class as usize].key == *key => {
                    return Ok(class as usize)
                }
                // Another key has this hash (TA1): try the next.
                Some(_) => hash = hash.wrapping_add(1),
                None => return Err(hash),
            }
        }
    }

    #[inline]
    fn find_or_insert(&mut self, hash: u64, key: &[u8]) -> usize {
        match self.find(hash, key) {
            Ok(class) => class,
            Err(free) => self.insert(free, key),
        }
    }

    #[inline(never)]
    fn insert(&mut self, hash: u64, key: &[u8]) -> usize {
        if self.classes.len() >= self.max_classes {
            self.fold();
            return self.find_or_insert(frond_sqltext::class_hash(key), key);
        }
        let class = self.classes.len();
        self.by_hash.insert(hash, class as u32);
        self.classes.push(Class::new(key));
        self.room.class_comes();
        class
    }

    /// Approximate number of classes that are in `rest` and not in `classes`.
    pub fn folded(&self) -> u64 {
        let ever = self.folded.count();
        if ever == 0 {
            return 0;
        }
        let mut all = self.folded.clone();
        for class in &self.classes {
            all.add(frond_sqltext::class_hash(&class.key));
        }
        all.count().saturating_sub(self.classes.len() as u64).clamp(1, ever)
    }

    /// Folds classes into `rest` (TA2).
    fn fold(&mut self) {
        let mut order: Vec<(u64, u64, u32)> = self
            .classes
            .iter()
            .enumerate()
            .map(|(i, c)| (c.sum(Metric::QueryTime), c.count, i as u32))
            .collect();
        order.sort_unstable();
        let mut goes = vec![false; self.classes.len()];
        for (_, _, i) in &order[..order.len() / 4 + 1] {
            goes[*i as usize] = true;
        }
        let classes = std::mem::take(&mut self.classes);
        for (class, goes) in classes.into_iter().zip(goes) {
            if goes {
                self.samples = self.samples.saturating_sub(class.sample.text());
                self.rest.merge(self.buckets, &class);
                self.room.class_goes();
                self.folded.add(frond_sqltext::class_hash(&class.key));
            } else {
                self.classes.push(class);
            }
        }
        self.rehash();
    }

    fn rehash(&mut self) {
        self.by_hash.clear();
        for (i, class) in self.classes.iter().enumerate() {
            let mut hash = frond_sqltext::class_hash(&class.key);
            while self.by_hash.contains_key(&hash) {
                hash = hash.wrapping_add(1);
            }
            self.by_hash.insert(hash, i as u32);
        }
    }

    /// Adds the counts of `other`.
    pub fn merge(&mut self, mut other: Table) {
        let (ours, theirs) = (&mut self.names, &other.names);
        let mut map = |id: NameId| match id > OTHERS {
            true => ours.id(theirs.name(id)),
            false => id,
        };
        self.breakdowns.merge(&other.breakdowns, &mut map);
        let numbers: Vec<NameId> = (0..theirs.len() as NameId).map(map).collect();
        for class in &mut other.classes {
            class.sample.restore(&other.spill);
        }
        // One by one, so that their memory is freed on the way.
        for class in std::mem::take(&mut other.classes) {
            let ours = self.find_or_insert(frond_sqltext::class_hash(&class.key), &class.key);
            let map = |id| numbers.get(id as usize).copied().unwrap_or(OTHERS);
            self.classes[ours].merge_names(&class, map, &self.room);
            self.classes[ours].merge(self.buckets, &class);
        }
        self.rest.merge(self.buckets, &other.rest);
        self.folded.merge(&other.folded);
    }

    /// Adds the classes of `other`. This table must have none of them, and both must use the same numbers of names and the
    /// same `spill`.
    pub(super) fn append(&mut self, other: Table) {
        self.rest.merge(self.buckets, &other.rest);
        self.folded.merge(&other.folded);
        if self.classes.is_empty() {
            (self.classes, self.by_hash) = (other.classes, other.by_hash);
            return;
        }
        self.classes.extend(other.classes);
        self.rehash();
    }

    /// The sum of all classes (TA4).
    pub fn overall(&self) -> Class {
        let mut overall = Class::new(b"");
        for class in &self.classes {
            overall.merge(self.buckets, class);
        }
        overall.merge(self.buckets, &self.rest);
        self.breakdowns.tell(&mut overall);
        overall
    }

    /// All events over time, in finer steps than `overall` has.
    pub fn timeline(&self) -> &Series<Clock> {
        &self.breakdowns.series
    }

    /// User patterns that matched nobody who sent a statement.
    pub fn missing_users(&self) -> impl Iterator<Item = &str> {
        self.groups.missing()
    }

    pub fn memory(&self) -> usize {
        self.classes.iter().map(Class::memory).sum::<usize>() + self.by_hash.capacity() * 16
    }
}

impl Taker for Table {
    /// Reads a little of all memory that `take` will change. With thousands of classes none of it is in
    /// the processor's cache. One class after the other would mean one wait after the other, but
    /// independent loads are waited for together. Each loop uses the data that the loop before
    /// has loaded.
    fn fetch(&self, hashes: &[u64]) {
        let mut classes = [None; GROUP];
        for (class, hash) in classes.iter_mut().zip(hashes) {
            *class = self.by_hash.get(hash).map(|at| &self.classes[*at as usize]);
        }
        let classes = || classes.iter().flatten();
        let mut read = 0;
        read ^= classes().fold(0, |read, class| read ^ class.touch());
        read ^= classes().fold(0, |read, class| read ^ class.touch_parts());
        read ^= classes().fold(0, |read, class| read ^ class.touch_histograms());
        std::hint::black_box(read);
    }

    fn take(&mut self, key: &[u8], local: &mut Local, records: Records<'_>) {
        let class = self.find_or_insert(local.hash, key);
        let class = &mut self.classes[class];
        let before = class.sample.text();
        class.absorb(self.buckets, &self.room, local, records);
        if self.samples > self.samples_limit {
            class.sample.spill(&self.spill);
        }
        self.samples = (self.samples + class.sample.text()).saturating_sub(before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use frond_event::{Flag, Place};

    /// Event number `i` of a stream with a few classes, users and times.
    fn with_event(i: u64, each: &mut dyn FnMut(&[u8], &Event<'_>)) {
        let key = format!("select {}", i * i % 17);
        let user = format!("user{}", i % 5);
        let mut event = Event { sql: key.as_bytes(), user: user.as_bytes(), ..Event::default() };
        event.place = Place { file: 0, offset: i };
        event.metrics.set(Metric::QueryTime, i % 13 * 1_000_000);
        event.metrics.set(Metric::RowsSent, i % 3);
        if i.is_multiple_of(4) {
            event.metrics.set(Metric::BytesSent, i);
        }
        event.flags.set(Flag::FullScan, i.is_multiple_of(2));
        event.end = Some(i as i64 * 1_000_000);
        each(key.as_bytes(), &event);
    }

    fn table(from: u64, step: usize, max: usize) -> Table {
        let mut table = Table::new(max, 1000);
        for i in (from..2000).step_by(step) {
            with_event(i, &mut |key, event| table.add(key, event, 1));
        }
        table
    }

    fn shown(table: &Table) -> Vec<String> {
        let mut all: Vec<String> = table
            .classes
            .iter()
            .map(|c| {
                let summaries: Vec<_> = Metric::ALL
                    .iter()
                    .filter_map(|m| c.summary(*m))
                    .map(|s| {
                        format!(
                            "{:?} {} {} {} {} {:?}",
                            s.metric,
                            s.count,
                            s.sum,
                            s.min,
                            s.max,
                            s.histogram()
                        )
                    })
                    .collect();
                let users: Vec<_> = c
                    .users
                    .sorted()
                    .iter()
                    .map(|s| (table.names.name(s.id).to_vec(), s.count))
                    .collect();
                format!(
                    "{:?} {} {:?} {:?} {:?} {:?} {:?} {}",
                    c.key,
                    c.count,
                    summaries,
                    c.flag(Flag::FullScan),
                    c.first,
                    c.last,
                    c.series.at_width(1),
                    c.sample.place.offset
                ) + &format!("{:?}", {
                    let mut u = users;
                    u.sort();
                    u
                })
            })
            .collect();
        all.sort();
        all
    }

    #[test]
    fn threads_give_what_one_gives() {
        let one = table(0, 1, 1000);
        let mut merged = table(1, 3, 1000);
        merged.merge(table(0, 3, 1000));
        merged.merge(table(2, 3, 1000));
        assert_eq!(shown(&one), shown(&merged));
        assert_eq!(one.classes.iter().map(|c| c.count).sum::<u64>(), 2000);
    }

    #[test]
    fn long_samples_go_to_disk_and_come_back() {
        // Long statements; short ones with long plans and warnings.
        for lengths in [[60_000, 0, 0], [200, 12_000, 3_000]] {
            let mut table = Table::new(2000, 64 << 10);
            let texts = |i: u64| lengths.map(|length| vec![b'a' + (i % 26) as u8; length]);
            for i in 0..2000 {
                let [sql, plan, warnings] = &texts(i);
                let mut event = Event { sql, plan, warnings, ..Event::default() };
                event.metrics.set(Metric::QueryTime, 1 + i % 7);
                table.add(&i.to_le_bytes(), &event, 1);
            }
            assert!(table.memory() < SAMPLES + 2000 * 2048, "{}", table.memory());
            let last = table.classes.len() - 1;
            assert_eq!(table.classes[last].sample.text(), 64);
            for class in [3, last] {
                let sample = &table.whole(class).sample;
                let [sql, plan, warnings] = &texts(class as u64);
                assert!([&*sample.sql, sample.plan(), sample.warnings()] == [sql, plan, warnings]);
                assert!(*table.whole_sql(class) == **sql);
            }
        }
    }

    #[test]
    fn folding_keeps_the_heavy_classes_and_every_event() {
        let mut table = Table::new(16, 100);
        for i in 0..5000_u64 {
            let heavy = i % 10 == 0;
            let key = if heavy { "heavy".to_owned() } else { format!("light {i}") };
            let mut event = Event::default();
            event.metrics.set(Metric::QueryTime, if heavy { 1_000_000 } else { 10 });
            table.add(key.as_bytes(), &event, 1);
        }
        let all = table.classes.len() as u64 + table.folded();
        assert!(table.classes.len() <= 16 && (4300..=4700).contains(&all), "{all}");
        let heavy = table.classes.iter().find(|c| &*c.key == b"heavy").map(|c| c.count);
        assert_eq!(heavy, Some(500));
        let overall = table.overall();
        assert_eq!(overall.count, 5000);
        assert_eq!(overall.sum(Metric::QueryTime), 500 * 1_000_000 + 4500 * 10);
    }
}
