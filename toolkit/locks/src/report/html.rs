//! The document as a page: the tree with bars of waiting time, the lists, deadlocks, and what happened over time.

use std::io::{self, Write};

use frond_event::numbers::{duration, plural};
use frond_page::{
    Body, Card, Chart, Column, Document, Fact, Line, Node as Shape, Section, Shown, Tile,
};
use serde_json::{json, Value};

use super::text::{account, connection, place};
use super::{Deadlocks, Node, Point, Report};

impl Report {
    /// One file, to be opened without a network.
    pub fn write_html(&self, generator: String, out: &mut dyn Write) -> io::Result<()> {
        let span = match (&self.first, &self.last) {
            (Some(a), Some(b)) if a != b => format!("{a} to {b}, by the server's clock"),
            (Some(a), _) => format!("{a}, by the server's clock"),
            _ => String::new(),
        };
        let tile = |value: Value, shown, label, more| Tile { value, shown, label, more };
        let some = |n: u64, what: &str| (n > 0).then(|| format!("{n} {what}"));
        let page = Document {
            title: "Who waits for whom",
            command: "locks",
            generator,
            zone: "",
            lines: vec![self.sources.join(", "), span],
            notes: self.notes.iter().chain(&self.problems).cloned().collect(),
            tiles: vec![
                tile(
                    json!(self.waits.count),
                    Shown::Count,
                    "waits",
                    some(self.waits.without_blocker, "without a blocker that is printed"),
                ),
                tile(json!(self.waits.seconds), Shown::Seconds, "waited in all", None),
                tile(json!(self.transactions), Shown::Count, "open transactions", None),
                tile(json!(self.deadlocks), Shown::Count, "deadlocks", None),
                tile(json!(self.dumps), Shown::Count, "dumps", some(self.incomplete, "incomplete")),
            ],
            sections: self.sections(),
        };
        page.write(out)
    }

    fn sections(&self) -> Vec<Section> {
        let mut all = Vec::new();
        if let Some(tree) = self.tree.as_ref().filter(|tree| !tree.nodes.is_empty()) {
            all.push(Section {
                title: "Who waits for whom".into(),
                text: tree.at.as_ref().map(|at| format!("At {at}, when most was waited for.")),
                body: Body::Tree { nodes: tree.nodes.iter().map(node).collect() },
            });
        }
        if self.series.len() > 1 {
            let charts = vec![
                chart(&self.series, "Waiting transactions", Shown::Count, &|p| Some(p.waiting)),
                chart(&self.series, "Open transactions", Shown::Count, &|p| Some(p.active)),
                chart(&self.series, "Row locks", Shown::Count, &|p| Some(p.row_locks)),
                chart(&self.series, "History list", Shown::Count, &|p| p.history),
                chart(&self.series, "Checkpoint age", Shown::Bytes, &|p| p.checkpoint_age),
            ];
            let body = Body::Charts { charts };
            all.push(Section { title: "As time went by".into(), text: None, body });
        }
        if !self.deadlock_groups.is_empty() {
            let cards = self.deadlock_groups.iter().flat_map(deadlock).collect();
            let body = Body::Cards { cards };
            all.push(Section { title: "Deadlocks".into(), text: None, body });
        }
        all.extend(self.lists().into_iter().filter(
            |section| !matches!(&section.body, Body::Table { rows, .. } if rows.is_empty()),
        ));
        all
    }

    fn lists(&self) -> [Section; 4] {
        let blockers = self.blockers.iter().map(|b| {
            let idle = if b.idle_dumps > 0 { "idle" } else { "" };
            vec![
                json!(connection(b.connection, &b.transaction)),
                json!(account(&b.user, &b.host)),
                json!(b.blocked_seconds),
                json!(b.waits),
                json!(b.open_seconds),
                json!(idle),
                json!(b.statement),
            ]
        });
        let transactions = self.longest_transactions.iter().map(|t| {
            vec![
                json!(connection(t.connection, &t.transaction)),
                json!(account(&t.user, &t.host)),
                json!(t.open_seconds),
                json!(t.row_locks),
                json!(t.undo_entries),
                json!(t.flags.join(", ")),
                json!(t.statements.first()),
            ]
        });
        let records = self.records.iter().map(|r| {
            let (index, key) = (r.index.as_deref().unwrap_or("(the table)"), r.key.as_deref());
            vec![
                json!(r.table),
                json!(index),
                json!(key),
                json!(r.seconds),
                json!(r.waits),
                json!(r.at_once),
            ]
        });
        let locks = self.locks.iter().map(|l| {
            let waiting = if l.waiting { "waiting" } else { "" };
            vec![
                json!(l.table),
                json!(l.index),
                json!(l.lock),
                json!(waiting),
                json!(l.locks),
                json!(l.records),
                json!(l.transactions),
            ]
        });
        use Shown::{Code, Count, Seconds, SecondsBar, Text};
        [
            table(
                "Root blockers: what they made others wait, directly or not",
                &[
                    ("Transaction", Text),
                    ("Account", Text),
                    ("Blocked", SecondsBar),
                    ("Waits", Count),
                    ("Open", Seconds),
                    ("", Text),
                    ("Statement", Code),
                ],
                blockers.collect(),
            ),
            table(
                "Longest transactions",
                &[
                    ("Transaction", Text),
                    ("Account", Text),
                    ("Open", SecondsBar),
                    ("Row locks", Count),
                    ("Changes", Count),
                    ("", Text),
                    ("Last statement", Code),
                ],
                transactions.collect(),
            ),
            table(
                "What is waited for",
                &[
                    ("Table", Text),
                    ("Index", Text),
                    ("Key", Code),
                    ("Waited", SecondsBar),
                    ("Waits", Count),
                    ("At once", Count),
                ],
                records.collect(),
            ),
            table(
                "Locks: the most at once",
                &[
                    ("Table", Text),
                    ("Index", Text),
                    ("Lock", Text),
                    ("", Text),
                    ("Locks", Count),
                    ("Records", Count),
                    ("Transactions", Count),
                ],
                locks.collect(),
            ),
        ]
    }
}

fn table(title: &str, columns: &[(&'static str, Shown)], rows: Vec<Vec<Value>>) -> Section {
    let columns = columns.iter().map(|(title, shown)| Column { title, shown: *shown }).collect();
    Section { title: title.into(), text: None, body: Body::Table { columns, rows } }
}

fn node(node: &Node) -> Shape {
    let mut facts = vec![account(&node.user, &node.host)];
    facts.extend(node.open_seconds.map(|s| format!("open {}", duration(s as f64))));
    facts.retain(|fact| !fact.is_empty());
    let wants = node.wants.as_ref().map(|wants| format!("for {}", place(wants)));
    let also = (!node.also_behind.is_empty())
        .then(|| format!("; also behind {}", node.also_behind.join(", ")));
    let note = node.note.map(|note| format!(" ({note})"));
    let text = [wants, also, note].into_iter().flatten().collect::<String>();
    Shape {
        depth: node.depth,
        name: connection(node.connection, &node.transaction),
        badges: node.idle.then_some("idle in transaction").into_iter().collect(),
        facts: facts.join(", "),
        seconds: node.waits_seconds,
        text: (!text.is_empty()).then_some(text),
        code: node.statement.clone(),
    }
}

/// Points whose time is known; a clock face is taken for UTC, and shown as it is.
fn chart(series: &[Point], title: &str, shown: Shown, of: &dyn Fn(&Point) -> Option<u64>) -> Chart {
    let points = series.iter().filter_map(|p| {
        let (stamp, _) = frond_event::text::stamp(p.at.as_deref()?.as_bytes())?;
        Some((stamp.utc(0) as f64 / 1e6, of(p)? as f64))
    });
    Chart { title: title.into(), shown, points: points.collect() }
}

fn deadlock(group: &Deadlocks) -> Vec<Card> {
    let times = match (&group.first, &group.last) {
        (Some(a), Some(b)) if a != b => format!(", {a} to {b}"),
        (Some(a), _) => format!(", {a}"),
        _ => String::new(),
    };
    let title = format!("{}{times}: {}", plural(group.count, "deadlock"), group.hint);
    let cards = group.members.iter().map(|m| {
        let behind = match m.held_by.is_empty() {
            true => String::new(),
            false => format!(", which {} has", m.held_by.join(", ")),
        };
        Card {
            group: title.clone(),
            badge: if m.rolled_back { "rolled back" } else { "went on" }.into(),
            bad: m.rolled_back,
            name: format!(
                "{} {}",
                connection(m.connection, &m.transaction),
                account(&m.user, &m.host)
            ),
            facts: vec![
                Fact { label: "waits for", line: Line::Text(place(&m.wants) + &behind) },
                Fact { label: "with", line: Line::Code(m.statement.clone()) },
            ],
        }
    });
    cards.collect()
}
