//! From the analysis to the document.

use super::tree;
use super::{
    Blocker, Deadlocks, Locks, Member, Options, Place, Point, Record, Report, Totals, Transaction,
    Wait, VERSION,
};
use crate::analysis::{Analysis, Group, Key, Seen, SeenWait};
use crate::graph::Unknown;
use crate::model::{Clock, Lock, Mode, Page, Span};

fn seconds(micros: u64) -> f64 {
    micros as f64 / 1e6
}

pub(super) fn time(at: Option<i64>) -> Option<String> {
    at.map(|at| Clock(at).to_string())
}

fn some(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

pub(super) fn place(lock: &Lock, options: &Options) -> Place {
    Place {
        lock: lock.kind(),
        table: lock.table.to_string(),
        index: lock.page.as_ref().map(|page| page.index.to_string()),
        key: lock.key.clone().filter(|_| options.keys),
    }
}

pub(super) fn word(unknown: Unknown) -> &'static str {
    match unknown {
        Unknown::NotPrinted => "not-printed",
        Unknown::Cut => "cut",
        Unknown::Gone => "gone",
    }
}

impl Report {
    pub fn of(analysis: &mut Analysis, sources: Vec<String>, options: &Options) -> Report {
        analysis.end_of_server();
        let limit = options.limit;
        let waits = &mut analysis.waits;
        let mut report = Report {
            version: VERSION,
            sources,
            dumps: analysis.dumps,
            incomplete: analysis.incomplete,
            first: time(analysis.first),
            last: time(analysis.last),
            tree: analysis.worst.as_ref().map(|(_, dump, waits)| tree::tree(dump, waits, options)),
            waits: Totals {
                count: waits.ended.count,
                seconds: seconds(waits.micros),
                without_blocker: waits.unknown,
            },
            longest_waits: waits
                .ended
                .sorted()
                .take(limit)
                .map(|seen| wait(seen, options))
                .collect(),
            transactions: analysis.transactions.ended.count,
            deadlocks: analysis.deadlocks.count,
            ..Report::default()
        };
        let longest = analysis.transactions.ended.sorted().take(limit);
        report.longest_transactions = longest.map(transaction).collect();
        report.blockers = blockers(analysis, limit);
        report.records = records(analysis, options);
        report.locks = locks(analysis, limit);
        let mut groups: Vec<&Group> = analysis.deadlocks.groups.values().collect();
        groups.sort_by_key(|group| std::cmp::Reverse((group.count, group.last)));
        report.deadlock_groups =
            groups.into_iter().take(limit).map(|group| deadlocks(group, options)).collect();
        report.series = analysis
            .series
            .points
            .iter()
            .map(|p| Point {
                at: time(p.at),
                history: p.history,
                checkpoint_age: p.checkpoint_age,
                lsn: p.lsn,
                active: p.active,
                waiting: p.waiting,
                row_locks: p.row_locks,
            })
            .collect();
        report.notes = notes(analysis);
        report
    }
}

fn notes(analysis: &Analysis) -> Vec<String> {
    let mut notes = Vec::new();
    if analysis.counts.hidden > 0 {
        notes.push(format!(
            "Of {} transactions (counted in each dump) not all locks are printed: the lock monitor is off \
             (innodb_status_output_locks), or it stopped at ten locks of a transaction. Blockers among them cannot be named.",
            analysis.counts.hidden
        ));
    }
    if analysis.incomplete > 0 {
        notes.push(format!(
            "{} of {} dumps are cut, or the server left something out.",
            analysis.incomplete, analysis.dumps
        ));
    }
    notes
}

fn wait(seen: &SeenWait, options: &Options) -> Wait {
    let ids = |holds: bool| {
        let ids = seen.by.iter().filter(|(_, held)| *held == holds).map(|((id, _), _)| id.clone());
        ids.collect::<Vec<_>>()
    };
    Wait {
        transaction: seen.waiter.0.clone(),
        connection: seen.waiter.1,
        user: seen.user.clone(),
        host: seen.host.clone(),
        seconds: seconds(seen.micros),
        first: time(seen.first),
        last: time(seen.last),
        wants: seen.lock.as_ref().map(|lock| place(lock, options)),
        statement: seen.class.to_string(),
        held_by: ids(true),
        queued_behind: ids(false),
        roots: seen.roots.iter().map(|(id, _)| id.clone()).collect(),
        unknown: seen.unknown.map(word),
    }
}

fn transaction(seen: &Seen) -> Transaction {
    let flags = [
        (seen.idle > 0, "idle in transaction"),
        (seen.waiting > 0, "waits for a lock"),
        (seen.read_view, "read view"),
        (seen.prepared, "prepared"),
        (seen.rolling_back, "rolling back"),
    ];
    Transaction {
        transaction: seen.id.clone(),
        connection: seen.thread,
        user: seen.user.clone(),
        host: seen.host.clone(),
        open_seconds: seen.seconds,
        first: time(seen.first),
        last: time(seen.last),
        dumps: seen.dumps,
        idle_dumps: seen.idle,
        waiting_dumps: seen.waiting,
        row_locks: seen.row_locks,
        undo_entries: seen.undo,
        lock_structs: seen.lock_structs,
        tables_locked: seen.tables_locked,
        state: seen.state.clone(),
        flags: flags.iter().filter(|(on, _)| *on).map(|(_, name)| *name).collect(),
        statements: seen.classes.iter().rev().map(|class| class.to_string()).collect(),
    }
}

fn blockers(analysis: &Analysis, limit: usize) -> Vec<Blocker> {
    let mut roots: Vec<(&Key, _)> = analysis.waits.roots.iter().collect();
    roots.sort_by(|(a, x), (b, y)| (y.micros, y.waits, a).cmp(&(x.micros, x.waits, b)));
    let of = roots.into_iter().take(limit).map(|(key, root)| Blocker {
        transaction: key.0.clone(),
        connection: key.1,
        user: root.user.clone(),
        host: root.host.clone(),
        waits: root.waits,
        blocked_seconds: seconds(root.micros),
        open_seconds: root.seconds,
        dumps: root.dumps,
        idle_dumps: root.idle,
        statement: root.class.to_string(),
    });
    of.collect()
}

fn records(analysis: &Analysis, options: &Options) -> Vec<Record> {
    let mut hot: Vec<_> = analysis.waits.hot.iter().collect();
    hot.sort_by(|(a, x), (b, y)| (y.micros, y.waits, a).cmp(&(x.micros, x.waits, b)));
    let of =
        hot.into_iter().take(options.limit).map(|((table, index, space, page, heap, key), hot)| {
            Record {
                table: table.to_string(),
                index: some(index),
                key: some(key).filter(|_| options.keys),
                space: *space,
                page: *page,
                heap: *heap,
                waits: hot.waits,
                seconds: seconds(hot.micros),
                at_once: hot.at_once,
            }
        });
    of.collect()
}

/// The kind of a lock in the words of `Lock::kind`.
fn kind(mode: Mode, span: Span, insert_intention: bool, is_table: bool) -> String {
    let page = Page { index: "".into(), space: 0, page: 0 };
    let lock = Lock {
        table: "".into(),
        page: (!is_table).then_some(page),
        heaps: Vec::new(),
        mode,
        span,
        insert_intention,
        waiting: false,
        owner: String::new(),
        key: None,
    };
    lock.kind()
}

fn locks(analysis: &Analysis, limit: usize) -> Vec<Locks> {
    let mut kinds: Vec<_> = analysis.counts.kinds.iter().collect();
    kinds.sort_by(|(a, x), (b, y)| (y.records.max(y.locks), a).cmp(&(x.records.max(x.locks), b)));
    let of =
        kinds.into_iter().take(limit).map(|((table, index, mode, span, insert, waiting), n)| {
            Locks {
                table: table.to_string(),
                index: some(index),
                lock: kind(*mode, *span, *insert, index.is_empty()),
                waiting: *waiting,
                locks: n.locks,
                records: n.records,
                transactions: n.transactions,
                dumps: n.dumps,
            }
        });
    of.collect()
}

fn deadlocks(group: &Group, options: &Options) -> Deadlocks {
    let member = |(at, member): (usize, &crate::analysis::DeadlockMember)| Member {
        transaction: member.id.clone(),
        connection: member.thread,
        user: member.user.clone(),
        host: member.host.clone(),
        wants: Place {
            lock: member.part.kind.clone(),
            table: member.part.table.to_string(),
            index: some(&member.part.index),
            key: some(&member.key).filter(|_| options.keys),
        },
        held_by: member.behind.iter().map(|at| group.members[*at].id.clone()).collect(),
        rolled_back: group.victim == Some(at),
        statement: member.part.class.to_string(),
    };
    Deadlocks {
        count: group.count,
        first: time(group.first),
        last: time(group.last),
        members: group.members.iter().enumerate().map(member).collect(),
        hint: group.hint,
    }
}
