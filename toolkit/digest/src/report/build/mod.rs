//! Makes the document from counted classes.

mod builder;
mod class;
mod found;

use std::collections::HashMap;

use super::model::{self, Report};
use super::rank::{rank_among, Order, Reason};
use super::redact;
use crate::run::{GroupBy, Outcome};
use crate::stats::distribution::base_units;
use crate::stats::names;
use crate::stats::series::{Series, Widths};
use crate::stats::top::{self, Top};
use crate::stats::waiting::Waiting;
use crate::stats::{Class, Summary, Table};
pub use builder::Options;
use builder::{seconds, span, text, Builder};
use class::{flags, times};
use found::{folded_note, loss, missing_users, notes, patterns, slow_note};
use frond_event::{Metric, Unit};

/// Outliers that are shown for each group of users, although the limit leaves them out.
const MOST_OUTLIERS: usize = 100;

/// Names per breakdown, and the name for all others together.
const MAX_SHARES: usize = 20;
pub(super) const OTHERS: &str = "(others)";

/// A series with intervals of at least `width` seconds; `scaled` converts a number of events to one of
/// statements.
fn series<W: Widths>(series: &Series<W>, width: i64, scaled: impl Fn(u64) -> u64) -> model::Series {
    let point = |(at, interval): (i64, crate::stats::series::Interval)| model::Point {
        at,
        count: scaled(interval.count.into()),
        time: seconds(scaled(interval.time)),
    };
    let points = series.at_width(width).into_iter().map(point).collect();
    model::Series { width: series.width_from(width), points }
}

/// Makes the document, and takes the table out of `outcome`.
pub fn build(outcome: &mut Outcome, options: &Options) -> Report {
    let overall = outcome.table.overall();
    let mut order = options.order;
    if !options.order_given && overall.present(Metric::QueryTime) == 0 {
        order = Order { metric: Metric::QueryTime, aggregate: super::rank::Aggregate::Count };
    }
    let span = span(overall.first, overall.last);
    // No class has more intervals than everything together, so this is the least width that all can have.
    let width = overall.series.width();
    let builder = Builder {
        options,
        names: &outcome.table.names,
        overall: &overall,
        files: outcome.files.iter().map(|f| f.name.clone()).collect(),
        width,
        sampled: outcome.sampled.as_ref(),
        totals: totals(&outcome.table, &overall),
    };
    let all = &outcome.table.classes;
    let (shown, hidden, slow) = builder.ranked(all, order);
    let classes: Vec<model::Class> = shown
        .iter()
        .enumerate()
        .map(|(i, (class, reason))| {
            let value = order.value(&all[*class]);
            let class = builder.class(&outcome.table.whole(*class), i as u64 + 1, *reason);
            // A negative value means that the class has no such number.
            model::Class { rank_value: Some(value).filter(|v| *v >= 0.0), ..class }
        })
        .collect();
    let rest = builder.rest(hidden.iter().map(|i| &all[*i]), &outcome.table.rest);
    let mut report = Report {
        schema: model::SCHEMA,
        generator: concat!("frond digest ", env!("CARGO_PKG_VERSION")).into(),
        generated: options.generated,
        inputs: outcome
            .files
            .iter()
            .map(|f| model::Input {
                name: f.name.clone(),
                format: f.format.map_or("empty", |f| f.name()).into(),
                bytes: f.bytes,
            })
            .collect(),
        selection: model::Selection {
            filter: options.filter.clone(),
            since: options.since,
            until: options.until,
            group_by: options.group_by.name().to_owned(),
            dialect: options.dialect.name().into(),
            order: order.describe(),
            order_unit: unit_name(order.unit()).into(),
            order_title: order.title().unwrap_or_default(),
            redacted: false,
        },
        overall: builder.overall(outcome, span),
        classes,
        rest,
        loss: loss(outcome, options),
        notes: {
            let slow = slow_note(slow, options);
            let all = outcome.notes.iter().cloned().chain(notes(&overall)).chain(slow);
            all.chain(folded_note(outcome.table.folded()))
                .chain(missing_users(&outcome.table))
                .collect()
        },
        patterns: outcome.patterns.as_ref().map(|p| patterns(p, outcome, options.dialect)),
    };
    if options.redact {
        redact::apply(&mut report, options.sample_bytes);
    }
    report
}

impl Builder<'_> {
    /// The classes that are shown, and the others. Each group of users has the whole limit for
    /// itself; otherwise classes of batch users could displace those of interactive users. The third
    /// result is the number of outliers among the others. Only some of those are shown, as nearly all
    /// classes of a log of slow statements are outliers.
    fn ranked(&self, classes: &[Class], order: Order) -> (Vec<(usize, Reason)>, Vec<usize>, usize) {
        let options = self.options;
        let mut slow = 0;
        let waiting: Vec<Waiting> = classes.iter().map(Class::waiting).collect();
        let (mut shown, mut hidden) = (Vec::new(), Vec::new());
        for group in [Waiting::Interactive, Waiting::Unknown, Waiting::Batch] {
            let among = (0..classes.len()).filter(|i| waiting[*i] == group);
            let (ranked, reasons) =
                rank_among(classes, among, order, options.limit, options.outliers);
            hidden.extend_from_slice(&ranked[reasons.len()..]);
            let mut outliers = 0;
            for (class, reason) in ranked.into_iter().zip(reasons) {
                outliers += usize::from(reason == Reason::Outlier);
                match reason == Reason::Outlier && outliers > MOST_OUTLIERS {
                    true => hidden.push(class),
                    false => shown.push((class, reason)),
                }
            }
            slow += outliers.saturating_sub(MOST_OUTLIERS);
        }
        (shown, hidden, slow)
    }

    fn overall(&self, outcome: &Outcome, span: Option<f64>) -> model::Overall {
        let all = self.overall;
        let folded = outcome.table.folded();
        let time = self.totals[Metric::QueryTime.index()];
        let (per_second, concurrency) = self.rates(all, time, span);
        model::Overall {
            events: all.count,
            left_out: outcome.left_out,
            statements: all.weight,
            classes: outcome.table.classes.len() as u64 + folded,
            folded,
            first: all.first,
            last: all.last,
            seconds: span,
            per_second,
            concurrency,
            zone: outcome.zone,
            metrics: self.metrics(all, |m| self.totals[m.index()]),
            flags: flags(all),
            errors: all.rare().errors,
            unmeasured: all.rare().unmeasured,
            times: times(all),
            // In this series, and in users, hosts and databases, each event already counts as all
            // statements that it stands for.
            series: series(outcome.table.timeline(), 1, |n| n),
            users: self.shares(&all.users, |n| n),
            hosts: self.shares(&all.hosts, |n| n),
            dbs: self.shares(&all.dbs, |n| n),
            tables: self.tables(&outcome.table),
        }
    }

    /// The share of each table: the tables of each class's sample, in each database in which the class ran.
    fn tables(&self, table: &Table) -> Vec<model::Share> {
        if self.options.group_by != GroupBy::Fingerprint {
            return Vec::new();
        }
        let mut sums: HashMap<String, (u64, u64)> = HashMap::new();
        let mut add = |db: &str, table: &str, count: u64, time: u64| {
            let dot = if db.is_empty() { "" } else { "." };
            let sum = sums.entry(format!("{db}{dot}{table}")).or_default();
            sum.0 = sum.0.saturating_add(count);
            sum.1 = sum.1.saturating_add(time);
        };
        for (i, class) in table.classes.iter().enumerate() {
            let mut sql = table.whole_sql(i);
            if self.options.redact {
                let mut masked = Vec::new();
                frond_sqltext::mask(&sql, &mut masked);
                sql = masked.into();
            }
            let tables = class::tables(&sql);
            let (named, unnamed): (Vec<_>, Vec<_>) = tables.iter().partition(|t| !t.db.is_empty());
            for table in named {
                let time = class.scaled_sum(Metric::QueryTime);
                add(&table.db, &table.table, class.scaled(class.count), time);
            }
            if unnamed.is_empty() {
                continue;
            }
            // The sample has the database of one statement; the class's others count in their own.
            for share in class.dbs.sorted() {
                // Databases that did not fit into the class's list have no names.
                let db =
                    if share.id == names::OTHERS { "" } else { &*text(self.names.name(share.id)) };
                for table in &unnamed {
                    add(db, &table.table, class.scaled(share.count), class.scaled(share.time));
                }
            }
        }
        let mut shares: Vec<model::Share> = sums
            .into_iter()
            .map(|(name, (count, time))| model::Share { name, count, time: seconds(time) })
            .collect();
        shares.sort_by(|a, b| {
            b.time
                .total_cmp(&a.time)
                .then_with(|| b.count.cmp(&a.count))
                .then_with(|| a.name.cmp(&b.name))
        });
        with_others(shares, Vec::new())
    }

    /// Calls per second and concurrency of a class whose statements took `time` together.
    fn rates(&self, class: &Class, time: u64, span: Option<f64>) -> (Option<f64>, Option<f64>) {
        // Stamps may be whole seconds: a rate over less than a second would mean nothing.
        let span = span.filter(|s| *s >= 1.0);
        let per_second = span.map(|s| class.weight as f64 / s);
        let timed = class.present(Metric::QueryTime) > 0;
        (per_second, span.filter(|_| timed).map(|s| seconds(time) / s))
    }

    /// `sum` returns the sum for all statements that the events stand for.
    fn metrics(&self, class: &Class, sum: impl Fn(Metric) -> u64) -> Vec<model::Metric> {
        Metric::ALL
            .iter()
            .filter_map(|m| class.summary(*m))
            .map(|s| metric(&s, sum(s.metric), self.totals[s.metric.index()]))
            .collect()
    }

    fn series(&self, class: &Class) -> model::Series {
        series(&class.series, self.width, |n| class.scaled(n))
    }

    /// A series with finer steps for this class, if the report's steps show little of it.
    fn narrow(&self, class: &Class) -> Option<model::Series> {
        const LITTLE: usize = 12;
        let own = class.series.width();
        let little = own < self.width && class.series.at_width(self.width).len() < LITTLE;
        little.then(|| series(&class.series, own, |n| class.scaled(n)))
    }

    fn shares(&self, top: &Top, scaled: impl Fn(u64) -> u64) -> Vec<model::Share> {
        let share = |s: top::Share| model::Share {
            name: text(self.names.name(s.id)),
            count: scaled(s.count),
            time: seconds(scaled(s.time)),
        };
        let (others, named): (Vec<_>, Vec<_>) =
            top.sorted().into_iter().partition(|s| s.id == names::OTHERS);
        let mut shares: Vec<model::Share> = named.into_iter().map(share).collect();
        shares.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.name.cmp(&b.name)));
        let mut shares = with_others(shares, others.into_iter().map(share).collect());
        // Nothing is known, so nothing is shown.
        if shares.len() == 1 && shares[0].name.is_empty() {
            shares.clear();
        }
        shares
    }

    fn rest<'b>(
        &self,
        hidden: impl Iterator<Item = &'b Class>,
        folded: &'b Class,
    ) -> Option<model::Rest> {
        let total = self.totals[Metric::QueryTime.index()];
        let mut rest = model::Rest::default();
        let mut time = 0_u64;
        let has_folded = folded.count > 0;
        for class in hidden.chain(has_folded.then_some(folded)) {
            rest.classes += 1;
            rest.events += class.count;
            rest.statements += class.weight.max(class.count);
            time = time.saturating_add(class.scaled_sum(Metric::QueryTime));
        }
        rest.time = seconds(time);
        rest.share_of_time = if total == 0 { 0.0 } else { time as f64 / total as f64 };
        (rest.classes > 0).then_some(rest)
    }
}

/// The first shares; those left out and `others`, which were not told apart, become one share at the end.
fn with_others(mut shares: Vec<model::Share>, others: Vec<model::Share>) -> Vec<model::Share> {
    let left_out = shares.split_off(shares.len().min(MAX_SHARES));
    let rest = left_out.into_iter().chain(others).reduce(|sum, s| model::Share {
        name: String::new(),
        count: sum.count.saturating_add(s.count),
        time: sum.time + s.time,
    });
    shares.extend(rest.map(|rest| model::Share { name: OTHERS.into(), ..rest }));
    shares
}

fn unit_name(unit: Unit) -> &'static str {
    match unit {
        Unit::Time => "seconds",
        Unit::Bytes => "bytes",
        Unit::Count => "count",
    }
}

fn metric(summary: &Summary, sum: u64, total: u64) -> model::Metric {
    let unit = summary.metric.unit();
    let base = base_units(unit);
    let value = |v: u64| v as f64 / base;
    let known = summary.known;
    let quantile = |q| if known.shape { value(summary.quantile(q)) } else { f64::NAN };
    model::Metric {
        name: summary.metric.name().into(),
        label: summary.metric.label().into(),
        unit: unit_name(unit).into(),
        count: summary.count,
        sum: value(sum),
        min: if known.min { value(summary.min) } else { f64::NAN },
        max: if known.max { value(summary.max) } else { f64::NAN },
        mean: summary.mean() / base,
        p50: quantile(0.5),
        p95: quantile(0.95),
        p99: quantile(0.99),
        p999: quantile(0.999),
        quantile_error: summary.quantile_error(),
        stddev: if known.shape { summary.stddev / base } else { f64::NAN },
        share: if total == 0 { 0.0 } else { sum as f64 / total as f64 },
    }
}

/// The sums over everything, for the classes' shares.
fn totals(table: &Table, overall: &Class) -> [u64; Metric::COUNT] {
    let mut totals = [0_u64; Metric::COUNT];
    for metric in Metric::ALL {
        totals[metric.index()] = if overall.weight > overall.count {
            // Each class counts at its own rate.
            let classes = table.classes.iter().chain([&table.rest]);
            classes.fold(0, |sum, class| sum.saturating_add(class.scaled_sum(*metric)))
        } else {
            overall.sum(*metric)
        };
    }
    totals
}

#[cfg(test)]
mod tests;
