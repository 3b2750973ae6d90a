//! What stands beside the classes: patterns, losses, notes.

use std::collections::HashMap;

use super::{seconds, text, Options};
use crate::digest::Outcome;
use crate::event::Losses;
use crate::fingerprint;
use crate::metric::Metric;
use crate::net::Summary;
use crate::report::model;
use crate::stats::class::key;
use crate::stats::patterns::Patterns;
use crate::stats::Class;

/// Patterns by their classes' names; the ones that took most time first.
pub(super) fn patterns(found: &Patterns, outcome: &Outcome) -> model::Patterns {
    let classes = &outcome.table.classes;
    let by_hash: HashMap<u64, usize> =
        classes.iter().enumerate().map(|(i, c)| (fingerprint::class_hash(&c.key), i)).collect();
    let item = |class: usize| {
        let mut item = Vec::new();
        fingerprint::distill(&outcome.table.whole_sql(class), &mut item);
        if item.is_empty() {
            text(&key::text(&classes[class].key))
        } else {
            text(&item)
        }
    };
    let mut runs: Vec<_> =
        found.runs.iter().filter_map(|(hash, runs)| Some((*by_hash.get(hash)?, runs))).collect();
    runs.sort_by(|a, b| {
        b.1.time
            .cmp(&a.1.time)
            .then_with(|| b.1.statements.cmp(&a.1.statements))
            .then_with(|| classes[a.0].key.cmp(&classes[b.0].key))
    });
    runs.truncate(20);
    model::Patterns {
        transactions: found.transactions,
        statements_per_transaction: found.statements_in_transactions as f64
            / found.transactions.max(1) as f64,
        repeated: runs
            .into_iter()
            .map(|(class, runs)| model::Repeated {
                id: key::id(&classes[class].key).to_string(),
                item: item(class),
                runs: runs.runs,
                statements: runs.statements,
                longest: runs.longest,
                time: seconds(runs.time),
                after: runs
                    .before()
                    .and_then(|b| by_hash.get(&b))
                    .map_or_else(String::new, |c| item(*c)),
            })
            .collect(),
    }
}

pub(super) fn loss(outcome: &Outcome, options: &Options) -> model::Loss {
    let name_of =
        |file: u32| outcome.files.get(file as usize).map(|f| f.name.clone()).unwrap_or_default();
    model::Loss {
        problems: outcome
            .problems
            .iter()
            .map(|p| model::Problem { input: p.name.clone(), what: p.what.clone() })
            .collect(),
        skips: outcome
            .skips
            .by_reason
            .iter()
            .map(|(why, (count, bytes))| model::SkipCount {
                why: why.describe().into(),
                count: *count,
                bytes: *bytes,
            })
            .collect(),
        places: outcome
            .skips
            .first
            .iter()
            .map(|s| model::SkipPlace {
                why: s.why.describe().into(),
                input: name_of(s.place.file),
                offset: s.place.offset,
                bytes: s.bytes,
            })
            .collect(),
        capture: outcome.losses.as_ref().map(|l| capture(l, outcome.traffic.as_ref(), options)),
    }
}

fn capture(losses: &Losses, summary: Option<&Summary>, options: &Options) -> model::Capture {
    let of = |what: fn(&Summary) -> u64| summary.map_or(0, what);
    let unmeasured = of(|s| s.unmeasured);
    let notes = [
        (losses.encrypted, "connections are encrypted and cannot be read"),
        (losses.not_sampled, "connections were left out by --sample-connections"),
        (of(|s| s.dropped), "packets were dropped by the capturing machine"),
        (of(|s| s.fragments), "packets are fragments of IP datagrams and were not read"),
        (of(|s| s.unreadable), "packets are too short to be read: capture with tcpdump -s 0"),
        (of(|s| s.unusable), "packets are of an unknown link type or have no time"),
        (of(|s| s.evicted), "connections were given up for want of memory: what they were doing then has no time"),
        (of(|s| s.forgotten), "prepared statements were forgotten for want of memory: executions of them have no text"),
    ];
    let nothing = of(|s| s.events) == 0 && losses.packets > 0;
    let nothing = nothing.then(|| {
        let ports: Vec<String> = options.ports.iter().map(u16::to_string).collect();
        let looked = if ports.is_empty() { "3306".into() } else { ports.join(", ") };
        format!(
            "No statement was found in these packets: the server's port is {looked}, unless --port says another, or \
             the connections are encrypted."
        )
    });
    model::Capture {
        packets: losses.packets,
        gaps: losses.gaps,
        bytes_missing: losses.bytes_missing,
        packets_lost: of(Summary::packets_lost),
        statements_lost: of(Summary::requests_lost),
        connections: losses.connections,
        connections_with_gaps: losses.connections_with_gaps,
        encrypted: losses.encrypted,
        measured: of(|s| s.events).saturating_sub(unmeasured),
        unmeasured,
        not_sampled: losses.not_sampled,
        sampling: summary.zip(options.sampling).map(|(summary, sampling)| {
            let (statements, time) = summary.estimate(sampling);
            model::SampledConnections {
                one_in: sampling.one_in().into(),
                statements: statements.total,
                statements_error: statements.error,
                time: time.total,
                time_error: time.error,
                filter: sampling.tcpdump_filter(&options.ports),
            }
        }),
        notes: notes
            .iter()
            .filter(|(n, _)| *n > 0)
            .map(|(n, what)| format!("{n} {what}."))
            .chain(nothing)
            .collect(),
    }
}

pub(super) fn notes(overall: &Class) -> Vec<String> {
    let mut notes = Vec::new();
    if overall.weight > overall.count {
        notes.push(format!(
            "The log is a sample: {} events stand for {} statements. Calls, sums, shares, ranks, rates and charts are scaled to all of them; numbers of events, means, percentiles and extremes are of what was logged.",
            overall.count, overall.weight
        ));
    }
    if overall.count > 0 && overall.present(Metric::QueryTime) == 0 {
        notes.push("The inputs have no durations: classes are ranked by number of calls.".into());
    }
    notes
}
