//! What there is of everything only, more exactly than of classes: how often each user, host and database occurs, of
//! which there are not many strings (`Names`), and a series of finer steps.

use super::batch::{Record, NO_TIME};
use super::class::Class;
use super::names::NameId;
use super::series::{Clock, Series};
use super::top::{Share, Top};

/// Intervals over time.
pub const TIMELINE_LIMIT: usize = 480;

/// Count and nanoseconds by a string's number.
type Sums = Vec<(u64, u64)>;

/// See the module's text.
#[derive(Debug, Default)]
pub struct Breakdowns {
    dbs: Sums,
    users: Sums,
    hosts: Sums,
    pub(super) series: Series<Clock>,
}

fn add(sums: &mut Sums, id: NameId, count: u64, time: u64) {
    let at = id as usize;
    if at >= sums.len() {
        sums.resize(at + 1, (0, 0));
    }
    let sum = &mut sums[at];
    sum.0 = sum.0.saturating_add(count);
    sum.1 = sum.1.saturating_add(time);
}

impl Breakdowns {
    /// Adds a batch. Threads' batches are of different times, and a series adds slowly what is older than the last: so
    /// that of the batch is made apart.
    pub(super) fn add<'r>(&mut self, records: impl Iterator<Item = Record<'r>>) {
        let mut series = self.series.beside();
        for record in records {
            let time = record.time();
            let [db, user, host] = record.who();
            add(&mut self.dbs, db, 1, time);
            add(&mut self.users, user, 1, time);
            add(&mut self.hosts, host, 1, time);
            if record.end != NO_TIME {
                series.add(record.end as i64, time, TIMELINE_LIMIT);
            }
        }
        self.series.merge(&series, TIMELINE_LIMIT);
    }

    /// Adds what is known of a class, which is everything only if its counts are exact.
    pub(super) fn add_class(&mut self, class: &Class) {
        let lists = [&class.dbs, &class.users, &class.hosts];
        for (sums, top) in [&mut self.dbs, &mut self.users, &mut self.hosts].into_iter().zip(lists)
        {
            top.sorted().iter().for_each(|s| add(sums, s.id, s.count, s.time));
        }
    }

    /// Adds what was counted apart; `map` gives this one's number of the other's.
    pub(super) fn merge(&mut self, other: &Breakdowns, mut map: impl FnMut(NameId) -> NameId) {
        self.series.merge(&other.series, TIMELINE_LIMIT);
        let theirs = [&other.dbs, &other.users, &other.hosts];
        for (sums, theirs) in
            [&mut self.dbs, &mut self.users, &mut self.hosts].into_iter().zip(theirs)
        {
            for (id, (count, time)) in theirs.iter().enumerate().filter(|(_, sum)| sum.0 > 0) {
                add(sums, map(id as NameId), *count, *time);
            }
        }
    }

    /// Gives them to the class of everything.
    pub(super) fn tell(&self, overall: &mut Class) {
        let top = |sums: &Sums| {
            let numbered = sums.iter().zip(0..);
            Top::of(numbered.map(|(&(count, time), id)| Share { id, count, time }))
        };
        overall.dbs = top(&self.dbs);
        overall.users = top(&self.users);
        overall.hosts = top(&self.hosts);
    }
}
