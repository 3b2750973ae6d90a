//! The parts of the report beside the classes: patterns, losses, notes.

use std::collections::HashMap;

use super::builder::{seconds, text, Options};
use super::class::statement;
use crate::report::model;
use crate::run::unanswered::Statement;
use crate::run::{GroupBy, Outcome};
use crate::stats::class::key;
use crate::stats::patterns::{Patterns, Runs};
use crate::stats::{Class, Table};
use frond_capture::Summary;
use frond_event::numbers::{count, duration, plural, time};
use frond_event::Losses;
use frond_event::Metric;
use frond_sqltext::Dialect;

/// Patterns by their classes' names, ordered by time, the largest first.
pub(super) fn patterns(found: &Patterns, outcome: &Outcome, dialect: Dialect) -> model::Patterns {
    let classes = &outcome.table.classes;
    let by_hash: HashMap<u64, usize> =
        classes.iter().enumerate().map(|(i, c)| (frond_sqltext::class_hash(&c.key), i)).collect();
    let item = |class: usize| {
        let mut item = Vec::new();
        frond_sqltext::item(&outcome.table.whole_sql(class), dialect, &mut item);
        if item.is_empty() {
            text(&key::text(&classes[class].key))
        } else {
            text(&item)
        }
    };
    // The classes of each loop; classes that filters left out have none.
    let turn = |turn: &[u64]| -> Option<Vec<usize>> {
        turn.iter().filter(|hash| **hash != 0).map(|hash| by_hash.get(hash).copied()).collect()
    };
    let runs = found.runs.iter().filter_map(|(hash, runs)| Some((turn(&[*hash])?, runs)));
    let loops = found.loops.values().filter_map(|runs| Some((turn(&runs.turn)?, runs)));
    let mut all: Vec<(Vec<usize>, &Runs)> = runs.chain(loops).collect();
    all.sort_by(|a, b| {
        let keys = |turn: &[usize]| turn.iter().map(|i| &classes[*i].key).collect::<Vec<_>>();
        b.1.time
            .cmp(&a.1.time)
            .then_with(|| b.1.statements.cmp(&a.1.statements))
            .then_with(|| keys(&a.0).cmp(&keys(&b.0)))
    });
    all.truncate(20);
    let step = |class: usize| model::Step {
        id: key::id(&classes[class].key).to_string(),
        item: item(class),
    };
    model::Patterns {
        transactions: found.transactions,
        statements_per_transaction: found.statements_in_transactions as f64
            / found.transactions.max(1) as f64,
        repeated: all
            .into_iter()
            .filter_map(|(turn, runs)| {
                let (first, others) = turn.split_first()?;
                let first = step(*first);
                Some(model::Repeated {
                    id: first.id,
                    item: first.item,
                    then: others.iter().map(|class| step(*class)).collect(),
                    runs: runs.runs,
                    statements: runs.statements,
                    longest: runs.longest,
                    time: seconds(runs.time),
                    after: runs
                        .before()
                        .and_then(|b| by_hash.get(&b))
                        .map_or_else(String::new, |c| item(*c)),
                })
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
        capture: outcome.losses.as_ref().map(|losses| capture(losses, outcome, options)),
    }
}

fn capture(losses: &Losses, outcome: &Outcome, options: &Options) -> model::Capture {
    let summary = outcome.traffic.as_ref();
    let of = |what: fn(&Summary) -> u64| summary.map_or(0, what);
    let notes = [
        (losses.encrypted, "encrypted connection", "could not be read"),
        (of(|s| s.hung_up), "connection", "closed by the server during the login: see `Connect`"),
        (
            of(|s| s.not_understood),
            "connection",
            "not understood: another protocol, or too little of it is in the capture",
        ),
        (losses.not_sampled, "connection", "left out by --sample-connections"),
        (of(|s| s.dropped), "packet", "dropped by the capturing machine"),
        (of(|s| s.fragments), "packet", "not read: fragments of IP datagrams"),
        (of(|s| s.unreadable), "packet", "too short to be read: capture with tcpdump -s 0"),
        (of(|s| s.cut), "packet", "cut by the capture: capture with tcpdump -s 0"),
        (of(|s| s.partial), "statement", "seen only in part, too little to tell the class"),
        (of(|s| s.unusable), "packet", "of an unknown link type or without a time"),
        (
            of(|s| s.evicted),
            "connection",
            "given up for want of memory: what was going on there then has no time",
        ),
        (
            of(|s| s.forgotten),
            "prepared statement",
            "forgotten for want of memory: executions of it have no text",
        ),
    ];
    // Where the report already says that connections are encrypted, it does not suspect the port.
    let mut seen = summary.map_or_else(Vec::new, |s| s.ports.clone());
    seen.sort_unstable();
    let nothing = of(|s| s.events + s.cut) == 0 && losses.packets > 0 && losses.encrypted == 0;
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
        packets_cut: of(|s| s.cut),
        connections: losses.connections,
        connections_with_gaps: losses.connections_with_gaps,
        encrypted: losses.encrypted,
        measured: of(|s| s.measured),
        unmeasured: of(|s| s.unmeasured),
        partial: of(|s| s.partial),
        not_sampled: losses.not_sampled,
        // Not the summary's counts: those cover everything that was read, while these cover what
        // the filters chose, like the rest of the report.
        sampling: outcome.sampled.as_ref().map(|sampled| {
            let totals = sampled.overall();
            let ports = if options.ports.is_empty() { seen } else { options.ports.clone() };
            model::SampledConnections {
                one_in: sampled.sampling().one_in().into(),
                statements: totals.queries.total,
                statements_error: totals.queries.error,
                time: totals.seconds.total,
                time_error: totals.seconds.error,
                filter: sampled.sampling().tcpdump_filter(&ports),
            }
        }),
        unanswered: unanswered(outcome, options),
        notes: notes
            .iter()
            .filter(|(n, _, _)| *n > 0)
            .map(|(n, of, what)| format!("{} {what}.", plural(*n, of)))
            .chain(nothing)
            .chain(summary.and_then(silence))
            .collect(),
    }
}

fn unanswered(outcome: &Outcome, options: &Options) -> Option<model::Unanswered> {
    let found = &outcome.unanswered;
    let classes = &outcome.table.classes;
    let id = |hash: u64| {
        let class = classes.iter().find(|c| frond_sqltext::class_hash(&c.key) == hash);
        class.filter(|_| options.group_by == GroupBy::Fingerprint)
    };
    let of = |s: &Statement| model::Waiting {
        at_least: seconds(s.waited),
        id: id(s.class).map_or_else(String::new, |class| key::id(&class.key).to_string()),
        sql: statement(&s.sql, options),
        length: s.length,
        start: s.start,
        db: text(&s.db),
        user: text(&s.user),
        host: text(&s.host),
        thread_id: s.thread_id,
    };
    (found.count > 0).then(|| model::Unanswered {
        count: found.count,
        longest: found.longest.iter().map(of).collect(),
    })
}

/// A note that no connection sent anything for a long time, if statements' times include that
/// silence.
fn silence(summary: &Summary) -> Option<String> {
    let silence = summary.silence;
    let (from, to) = silence.between.filter(|_| silence.statements > 0)?;
    Some(format!(
        "For {} there is no packet of any connection ({} to {} UTC), and {} contain that in their time. If the clock of \
         the capturing machine was set forward there, they took that much less.",
        duration(to.saturating_sub(from) as f64 / 1e6),
        time(from),
        time(to),
        plural(silence.statements, "statement")
    ))
}

/// The number of classes that did not fit.
pub(super) fn folded_note(classes: u64) -> Option<String> {
    (classes > 0).then(|| {
        format!(
            "There are more classes than --max-classes allows: about {}, those with the least time, were counted together. Classes that came back later lack their earlier calls.",
            count(classes as f64)
        )
    })
}

/// Notes on user patterns that match the user of no statement.
pub(super) fn missing_users(table: &Table) -> Vec<String> {
    if table.classes.is_empty() {
        return Vec::new();
    }
    table.missing_users().map(|p| format!("No statement is of a user '{p}'.")).collect()
}

/// A note on the number of outliers that did not fit.
pub(super) fn slow_note(more: usize, options: &Options) -> Option<String> {
    let outliers = options.outliers.filter(|_| more > 0)?;
    let one = more == 1;
    Some(format!(
        "{} that {} not shown {} a 95 % point of {} or more in at least {} calls; a higher --limit shows them.",
        plural(more as u64, "class"),
        if one { "is" } else { "are" },
        if one { "has" } else { "have" },
        duration(outliers.at_least),
        outliers.count
    ))
}

pub(super) fn notes(overall: &Class) -> Vec<String> {
    let mut notes = Vec::new();
    if overall.weight > overall.count {
        notes.push(format!(
            "The log is a sample: {} logged, standing for {} statements. Calls, sums, shares, ranks, rates and charts are scaled to all of them; numbers of events, means, percentiles and extremes are of what was logged.",
            plural(overall.count, "event"),
            count(overall.weight as f64)
        ));
    }
    if overall.count > 0 && overall.present(Metric::QueryTime) == 0 {
        notes.push("The inputs have no durations: classes are ranked by number of calls.".into());
    }
    notes
}
