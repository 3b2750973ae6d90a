//! One class of the document.

use super::builder::{seconds, span, text, Builder, Options};
use crate::report::model;
use crate::report::rank::Reason;
use crate::run::GroupBy;
use crate::stats::class::key;
use crate::stats::{Class, Sample, Summary};
use frond_event::Flag;
use frond_event::Metric;
use frond_sqltext::{SqlMode, StatementKind, TableRef};

impl Builder<'_> {
    pub(super) fn class(&self, class: &Class, rank: u64, reason: Reason) -> model::Class {
        let of_fingerprints = self.options.group_by == GroupBy::Fingerprint;
        let span = span(class.first, class.last);
        let all_time = class.scaled_sum(Metric::QueryTime);
        let (per_second, concurrency) = self.rates(class, all_time, span);
        let time = class.summary(Metric::QueryTime);
        let total = self.totals[Metric::QueryTime.index()];
        let sql: &[u8] = &class.sample.sql;
        let mut item = Vec::new();
        frond_sqltext::item(sql, self.options.dialect, &mut item);
        let kind = StatementKind::of(sql);
        // The sample can stand for the class only where all statements of the class are alike.
        let (one_kind, one_list) = match self.options.group_by {
            GroupBy::Fingerprint | GroupBy::Distill => (true, true),
            GroupBy::Kind => (true, false),
            GroupBy::Tables => (false, true),
            _ => (false, false),
        };
        model::Class {
            rank,
            rank_value: None,
            id: if of_fingerprints { key::id(&class.key).to_string() } else { String::new() },
            key: text(&key::text(&class.key)),
            item: if of_fingerprints && !item.is_empty() {
                text(&item)
            } else {
                text(&key::text(&class.key))
            },
            kind: if one_kind { kind.name().into() } else { String::new() },
            tables: if one_list { tables(sql) } else { Vec::new() },
            user_class: class.waiting().name().into(),
            reason: if reason == Reason::Outlier { "outlier".into() } else { String::new() },
            events: class.count,
            statements: class.weight,
            share_of_events: class.weight as f64 / self.overall.weight.max(1) as f64,
            share_of_time: if total == 0 { 0.0 } else { all_time as f64 / total as f64 },
            per_second,
            concurrency,
            first: class.first,
            last: class.last,
            variance_to_mean: time
                .as_ref()
                .filter(|t| t.known.shape)
                .map(Summary::variance_to_mean),
            rows_examined_per_row: examined_per_row(class),
            metrics: self.metrics(class, |m| class.scaled_sum(m)),
            flags: flags(class),
            errors: class.rare().errors,
            error: class.rare().error,
            unmeasured: class.rare().unmeasured,
            prepares: class.rare().prepares,
            executes: class.rare().executes,
            times: times(class),
            series: self.series(class),
            narrow: self.narrow(class),
            users: self.shares(&class.users, |n| class.scaled(n)),
            hosts: self.shares(&class.hosts, |n| class.scaled(n)),
            dbs: self.shares(&class.dbs, |n| class.scaled(n)),
            sample: (class.count > 0).then(|| self.sample(&class.sample)),
            plans: plans(class),
            sampled: self.sampled.and_then(|s| s.class(frond_sqltext::class_hash(&class.key))).map(
                |totals| model::SampledClass {
                    statements: totals.queries.total,
                    statements_error: totals.queries.error,
                    time: totals.seconds.total,
                    time_error: totals.seconds.error,
                    few_connections: totals.few_connections,
                },
            ),
        }
    }

    fn sample(&self, sample: &Sample) -> model::Sample {
        model::Sample {
            sql: statement(&sample.sql, self.options),
            length: sample.length,
            time: sample.time.map(seconds),
            start: sample.start,
            end: sample.end,
            db: text(sample.db()),
            user: text(sample.user()),
            host: text(sample.host()),
            thread_id: sample.thread_id,
            file: self.files.get(sample.place.file as usize).cloned().unwrap_or_default(),
            offset: sample.place.offset,
            plan: plan(sample.plan()),
            warnings: lines(sample.warnings(), b"# "),
            routine: text(sample.routine()),
            error: sample.error().filter(|e| *e != 0),
            error_text: text(sample.error_text()),
        }
    }
}

/// A statement's text as the report shows it.
pub(super) fn statement(sql: &[u8], options: &Options) -> String {
    // Masked texts are shortened later (`redact`).
    if options.sample_bytes == 0 || options.redact {
        return text(sql);
    }
    let mut short = Vec::new();
    frond_sqltext::shorten(sql, options.sample_bytes, &mut short);
    text(&short)
}

pub(super) fn flags(class: &Class) -> Vec<model::Flag> {
    Flag::ALL
        .iter()
        .map(|flag| (flag, class.flag(*flag)))
        .filter(|(_, (logged, _))| *logged > 0)
        .map(|(flag, (count, yes))| model::Flag {
            name: flag.name().into(),
            label: flag.label().into(),
            count,
            yes,
        })
        .collect()
}

pub(super) fn times(class: &Class) -> model::Histogram {
    let Some(summary) = class.summary(Metric::QueryTime) else {
        return model::Histogram::default();
    };
    if !summary.known.shape {
        return model::Histogram::default();
    }
    let buckets = summary
        .histogram()
        .into_iter()
        .map(|(low, high, count)| model::Bucket { low: low / 1e9, high: high / 1e9, count })
        .collect();
    model::Histogram { decades: summary.decades(), buckets }
}

pub(super) fn tables(sql: &[u8]) -> Vec<model::Table> {
    let mut found: Vec<TableRef<'_>> = Vec::new();
    frond_sqltext::tables(sql, SqlMode::default(), &mut found);
    found.iter().map(|t| model::Table { db: text(t.db), table: text(t.table) }).collect()
}

fn examined_per_row(class: &Class) -> Option<f64> {
    if class.present(Metric::RowsExamined) == 0 {
        return None;
    }
    let rows = class.sum(Metric::RowsSent).max(class.sum(Metric::RowsAffected));
    (rows > 0).then(|| class.sum(Metric::RowsExamined) as f64 / rows as f64)
}

fn plans(class: &Class) -> Vec<model::PlanCount> {
    let of_sample =
        (!class.sample.plan().is_empty()).then(|| crate::stats::plan_hash(class.sample.plan()));
    let mut plans: Vec<_> = class
        .rare()
        .plans
        .iter()
        .map(|(hash, count)| model::PlanCount {
            id: format!("{hash:016x}"),
            count: *count,
            of_sample: Some(*hash) == of_sample,
        })
        .collect();
    plans.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.id.cmp(&b.id)));
    plans
}

/// Lines without a prefix.
fn lines(bytes: &[u8], prefix: &[u8]) -> Vec<String> {
    bytes
        .split(|b| *b == b'\n')
        .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
        .map(|line| text(line.strip_prefix(prefix).unwrap_or(line)))
        .filter(|line| !line.is_empty())
        .collect()
}

/// A logged plan as a table.
fn plan(bytes: &[u8]) -> Option<model::Plan> {
    let mut rows = lines(bytes, b"# explain: ")
        .into_iter()
        .map(|line| line.split('\t').map(str::to_owned).collect::<Vec<String>>());
    let columns = rows.next()?;
    Some(model::Plan { columns, rows: rows.collect() })
}
