//! Statistics over everything, more exact than those of classes: how often each user, host
//! and database occurs, since there are few (`Names`), and a series with finer steps.

use super::class::Class;
use super::names::NameId;
use super::record::{Record, NO_TIME};
use super::series::{Clock, Series};
use super::top::{Share, Top};

/// Number of intervals of the series.
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
    /// Adds the records of a batch, and how many statements each stands for. Threads' batches are from different times,
    /// and a series is slow to add values older than the last. So the batch's own series are built first, one for each
    /// weight (there are few weights), and added as a whole.
    pub(super) fn add<'r>(&mut self, records: impl Iterator<Item = (Record<'r>, u32)>) {
        let mut by_weight: Vec<(u32, Series<Clock>)> = Vec::new();
        for (record, weight) in records {
            let (time, n) = (record.time(), u64::from(weight));
            let [db, user, host] = record.who();
            for (sums, id) in
                [(&mut self.dbs, db), (&mut self.users, user), (&mut self.hosts, host)]
            {
                add(sums, id, n, time.saturating_mul(n));
            }
            if record.end == NO_TIME {
                continue;
            }
            let known = by_weight.iter().position(|w| w.0 == weight);
            let at = known.unwrap_or_else(|| {
                by_weight.push((weight, self.series.beside()));
                by_weight.len() - 1
            });
            by_weight[at].1.add(record.end as i64, time, TIMELINE_LIMIT);
        }
        for (weight, mut series) in by_weight {
            series.multiply(weight);
            self.series.merge(&series, TIMELINE_LIMIT);
        }
    }

    /// Adds the counts of a class; they are complete only if the class's counts are exact.
    pub(super) fn add_class(&mut self, class: &Class) {
        let lists = [&class.dbs, &class.users, &class.hosts];
        for (sums, top) in [&mut self.dbs, &mut self.users, &mut self.hosts].into_iter().zip(lists)
        {
            top.sorted().iter().for_each(|s| add(sums, s.id, s.count, s.time));
        }
    }

    /// Adds the counts of `other`; `map` translates its numbers of names to this one's.
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

    /// Copies the breakdowns into the class of everything.
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
