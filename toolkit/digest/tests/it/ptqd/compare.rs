//! Our report in pt-query-digest's terms, and the comparison. "The peer" is pt-query-digest.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use frond_digest::report::ptqd_numbers::bucketed;
use frond_digest::report::rank::{rank, Aggregate, Limit, Order};
use frond_digest::run::{run, Settings};
use frond_digest::stats::distribution::base_units;
use frond_event::Flag;
use frond_event::Metric;
use frond_querylog::input::{Format, Origin};
use frond_sqltext::{ClassId, Dialect};

use super::peer::{Class, Numbers};

pub fn digest(file: &Path, kind: &str) -> Vec<Class> {
    let format = match kind {
        "slowlog" => Format::SlowLog,
        "genlog" => Format::GeneralLog,
        "tcpdump" => Format::TcpdumpText,
        _ => Format::Raw,
    };
    let settings = Settings {
        format: Some(format),
        dialect: Dialect::Ptqd32,
        compat: true,
        traffic: frond_capture::Options { compat_names: true, ..Default::default() },
        threads: 2,
        ..Settings::default()
    };
    let outcome = run(&[Origin::of(file)], &Arc::new(settings), &mut |_| {})
        .unwrap_or_else(|p| panic!("{p:?}"));
    let classes = &outcome.table.classes;
    let order = if matches!(kind, "slowlog" | "tcpdump") {
        Order::default()
    } else {
        Order { metric: Metric::QueryTime, aggregate: Aggregate::Count }
    };
    let (ranked, _) = rank(classes, order, Limit { share: 1.0, most: usize::MAX }, None);
    ranked
        .into_iter()
        .map(|i| {
            let class = &classes[i];
            let mut metrics = BTreeMap::new();
            for summary in Metric::ALL.iter().filter_map(|m| class.summary(*m)) {
                let base = match summary.metric {
                    // Logged in milliseconds, which the peer takes for seconds
                    // (`known::engine_times_are_milliseconds`).
                    Metric::EngineTime | Metric::PagesReadTime => 1e6,
                    other => base_units(other.unit()),
                };
                let from_buckets = bucketed(&summary);
                let numbers = Numbers {
                    sum: summary.sum as f64 / base,
                    min: summary.min as f64 / base,
                    max: summary.max as f64 / base,
                    p95: from_buckets.p95 / base,
                    median: from_buckets.median / base,
                    stddev: from_buckets.stddev / base,
                };
                let name = match summary.metric {
                    Metric::QuerySize => "query_length".to_owned(),
                    other => other.name().to_ascii_lowercase(),
                };
                metrics.insert(name, numbers);
            }
            let yes = Flag::ALL
                .iter()
                .filter(|f| class.flag(**f).0 > 0)
                .map(|f| (f.name().to_ascii_lowercase(), class.flag(*f).1 as f64))
                .collect();
            Class {
                id: ClassId::of(&class.key).to_string(),
                fingerprint: String::from_utf8_lossy(&class.key).into_owned(),
                count: class.count,
                metrics,
                yes,
            }
        })
        .collect()
}

/// Equal as printed: six decimals for times, none or six for other numbers.
fn equal(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1.01e-6 + 1e-9 * a.abs()
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 0.05 * a.abs().max(b.abs()) + 1.01e-6
}

/// The disagreements, one sentence each.
pub fn differences(peer: &[Class], ours: &[Class]) -> Vec<String> {
    let mut found = Vec::new();
    // Ranks are compared among the classes that both have; a missing class is reported once.
    let both: Vec<&Class> = ours.iter().filter(|c| peer.iter().any(|p| p.id == c.id)).collect();
    let mut rank = 0;
    for theirs in peer {
        let Some(at) = both.iter().position(|c| c.id == theirs.id) else {
            found.push(format!("class {} `{}` is missing", theirs.id, theirs.fingerprint));
            continue;
        };
        let class = both[at];
        // The peer orders equal classes as its hash table does.
        let by = |c: &Class| match c.metrics.get("query_time") {
            Some(time) if time.sum > 0.0 => time.sum,
            _ => c.count as f64,
        };
        if at != rank && both.get(rank).is_none_or(|there| !equal(by(there), by(class))) {
            found.push(format!(
                "rank of {} `{}`: peer {}, ours {}",
                class.id,
                class.fingerprint,
                rank + 1,
                at + 1
            ));
        }
        rank += 1;
        if class.count != theirs.count {
            found.push(format!(
                "count of {} `{}`: peer {}, ours {}",
                class.id, class.fingerprint, theirs.count, class.count
            ));
        }
        compare_class(theirs, class, &mut found);
    }
    for class in ours {
        if !peer.iter().any(|c| c.id == class.id) {
            found.push(format!("class {} `{}` is ours only", class.id, class.fingerprint));
        }
    }
    found
}

fn compare_class(theirs: &Class, ours: &Class, found: &mut Vec<String>) {
    for (name, peer) in &theirs.metrics {
        let Some(numbers) = ours.metrics.get(name) else {
            // Where a log has no durations the peer prints zero, and likewise for rows and warnings
            // that the first packet of the answer lacks.
            if matches!(name.as_str(), "query_time" | "warning_count" | "rows_affected")
                && peer.sum == 0.0
            {
                continue;
            }
            found.push(format!("`{}` has no {name}: peer {peer:?}", ours.fingerprint));
            continue;
        };
        // If not all events have an attribute, the peer's figures cover those that have it; so do ours.
        for (what, a, b) in [
            ("sum", peer.sum, numbers.sum),
            ("min", peer.min, numbers.min),
            ("max", peer.max, numbers.max),
        ] {
            if !equal(a, b) {
                found.push(format!(
                    "{what} of {name} of `{}`: peer {a}, ours {b}",
                    ours.fingerprint
                ));
            }
        }
        for (what, a, b) in [
            ("95%", peer.p95, numbers.p95),
            ("median", peer.median, numbers.median),
            ("stddev", peer.stddev, numbers.stddev),
        ] {
            // The peer cuts off the fraction of everything that is not a time.
            let cut =
                !name.ends_with("time") && !name.ends_with("wait") && (a - b.trunc()).abs() < 1e-9;
            // Milliseconds taken for seconds fall into other buckets, which the deviation of a few values shows.
            let other =
                what == "stddev" && matches!(name.as_str(), "engine_time" | "pages_read_time");
            if !near(a, b) && !cut && !other {
                found.push(format!(
                    "{what} of {name} of `{}`: peer {a}, ours {b}",
                    ours.fingerprint
                ));
            }
        }
    }
    for (name, yes) in &theirs.yes {
        let value = ours.yes.get(name).copied().unwrap_or(0.0);
        if !equal(*yes, value) {
            found
                .push(format!("yes of {name} of `{}`: peer {yes}, ours {value}", ours.fingerprint));
        }
    }
}
