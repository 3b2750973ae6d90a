//! A class of which a server counted only totals: `performance_schema` digests.
//!
//! Invariants:
//!
//! - TT1. Count, sum and, where given, bounds of such a class are exact; the rest is unknown
//!   (`Known`) and stays so when the class is added to others.
//! - TT2. If the total is of one statement, everything is known: its sum is its value.

use std::sync::Arc;

use super::{Class, Known, Sample};
use crate::stats::distribution::Distribution;
use crate::stats::names::NameId;
use crate::stats::top::{Room, Share};
use frond_event::Metric;
use frond_event::{Event, Flag};

/// The total of one attribute, in base units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Total {
    pub metric: Metric,
    pub sum: u64,
}

/// A server's totals of the statements of one class.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Statements; not 0.
    pub count: u64,
    pub errors: u64,
    /// Nanoseconds.
    pub time: u64,
    /// Bounds of one statement's time; `None`: not known.
    pub min: Option<u64>,
    pub max: Option<u64>,
    /// Totals of other attributes; every statement had these attributes.
    pub sums: Vec<Total>,
    /// How often each flag was yes; every statement had these flags.
    pub flags: Vec<(Flag, u64)>,
}

impl Class {
    /// A class of these totals. `event` stands for all statements: text, database, first begin and last end. `db` is
    /// its number in `Table::names`.
    pub(in crate::stats) fn of_totals(
        key: &[u8],
        event: &Event<'_>,
        db: NameId,
        totals: &Totals,
        sample_limit: usize,
    ) -> Class {
        assert!(totals.count > 0, "totals of no statement are no class");
        let mut class = Class::new(key);
        class.count = totals.count;
        class.weight = totals.count;
        if totals.errors > 0 {
            class.rare.get_or_insert_default().errors = totals.errors;
        }
        class.first = event.start;
        class.last = event.end;
        class.begun = event.place;
        class.sample = Sample::of(event, sample_limit);
        // Only the text of the class is known, nothing about a single statement.
        class.sample.time = None;
        let share = Share { id: db, count: totals.count, time: totals.time };
        class.dbs.add_share(share, &Arc::new(Room::default()));
        let mut put = |metric: Metric, sum, min, max| {
            class.always |= 1 << metric.index();
            if sum == 0 {
                return;
            }
            assert!(class.distribution(metric).is_none(), "{} is given once", metric.name());
            let distribution = Distribution::of_total(totals.count, sum, min, max);
            class.put_distribution(metric.index(), distribution);
        };
        put(Metric::QueryTime, totals.time, totals.min, totals.max);
        for total in &totals.sums {
            put(total.metric, total.sum, None, None);
        }
        if !totals.flags.is_empty() {
            let flags = class.flags.get_or_insert_with(|| Box::new([(0, 0); Flag::COUNT]));
            for (flag, yes) in &totals.flags {
                flags[*flag as usize] = (totals.count, (*yes).min(totals.count));
            }
        }
        if totals.count > 1 {
            let (min, max) = (totals.min.is_some(), totals.max.is_some());
            class.known = Known { shape: false, min, max };
        }
        class
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Table;

    fn totals(count: u64, time: u64, bounds: Option<(u64, u64)>) -> Totals {
        Totals {
            count,
            time,
            min: bounds.map(|b| b.0),
            max: bounds.map(|b| b.1),
            sums: vec![Total { metric: Metric::RowsSent, sum: 7 }],
            flags: vec![(Flag::NoIndexUsed, 1)],
            ..Totals::default()
        }
    }

    #[test]
    fn totals_add_up_and_what_is_not_known_is_not_told() {
        let mut table = Table::new(100, 1000);
        let event = Event { sql: b"SELECT ?", db: b"shop", ..Event::default() };
        table.add_totals(b"a", &event, &totals(10, 5_000, Some((100, 900))));
        table.add_totals(b"a", &event, &totals(5, 1_000, Some((150, 1_900))));
        table.add_totals(b"b", &event, &totals(3, 90, None));
        table.add_totals(b"c", &event, &totals(1, 77, None));
        let a = table.classes[0].summary(Metric::QueryTime).unwrap();
        assert_eq!((a.count, a.sum, a.min, a.max), (15, 6_000, 100, 1_900));
        assert_eq!(a.known, Known { shape: false, min: true, max: true });
        assert_eq!(table.classes[0].flag(Flag::NoIndexUsed), (15, 2));
        let rows = table.classes[0].summary(Metric::RowsSent).unwrap();
        assert_eq!((rows.count, rows.sum), (15, 14));
        assert!(!rows.known.max && !rows.known.shape);
        let b = table.classes[1].summary(Metric::QueryTime).unwrap();
        assert!(!b.known.min && b.sum == 90);
        // One statement is known completely.
        let c = table.classes[2].summary(Metric::QueryTime).unwrap();
        assert_eq!((c.known, c.min, c.quantile(0.95)), (Known::ALL, 77, 77));
        let overall = table.overall();
        assert_eq!(overall.count, 19);
        assert!(!overall.summary(Metric::QueryTime).unwrap().known.shape);
        assert_eq!(overall.dbs.sorted()[0].count, 19);
    }
}
