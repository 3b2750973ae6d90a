//! The document for people, as a page and in a terminal: the tree with waiting times, the lists, deadlocks, and charts over time.

use std::io::{self, Write};

use frond_event::numbers::{duration, plural};
use frond_page::{
    Body, Card, Chart, Column, Document, Fact, Line, Node as Shape, Section, Shown, Tile,
};
use serde_json::{json, Value};

use super::Report;
use crate::model::Clock;
use crate::rows::{Deadlocks, Node, Place, Point, Who};

fn place(place: &Place) -> String {
    let index = place.index.as_ref().map_or(String::new(), |index| format!(" index {index}"));
    let key = place.key.as_ref().map_or(String::new(), |key| format!(" key ({key})"));
    format!("{} on {}{index}{key}", place.lock, place.table)
}

fn account(who: &Who) -> String {
    match (who.user.as_str(), who.host.as_str()) {
        (user, "") => user.to_owned(),
        (user, host) => format!("{user}@{host}"),
    }
}

fn name(who: &Who) -> String {
    let transaction = &who.transaction;
    match who.connection {
        Some(id) => format!("connection {id} (transaction {transaction})"),
        None => format!("transaction {transaction}"),
    }
}

fn span(first: Option<Clock>, last: Option<Clock>) -> Option<String> {
    Some(match (first?, last?) {
        (a, b) if a == b => a.to_string(),
        (a, b) => format!("{a} to {b}"),
    })
}

impl Report {
    /// Writes one file that can be opened offline.
    pub fn write_html(&self, generator: String, out: &mut dyn Write) -> io::Result<()> {
        self.document(generator).write(out)
    }

    /// `colour`: with a terminal's escape sequences.
    pub fn write_text(&self, colour: bool, out: &mut dyn Write) -> io::Result<()> {
        self.document(String::new()).write_text(colour, out)
    }

    fn document(&self, generator: String) -> Document {
        let when = span(self.first, self.last).map(|span| format!("{span}, by the server's clock"));
        let tile = |value: Value, shown, label, more| Tile { value, shown, label, more };
        let some = |n: u64, what: &str| (n > 0).then(|| format!("{n} {what}"));
        let unnamed = some(self.waits.without_blocker, "without a blocker that is printed");
        let tiles = vec![
            tile(json!(self.waits.count), Shown::Count, "waits", unnamed),
            tile(json!(self.waits.seconds), Shown::Seconds, "waited in all", None),
            tile(json!(self.transactions), Shown::Count, "open transactions", None),
            tile(json!(self.deadlocks), Shown::Count, "deadlocks", None),
            tile(json!(self.dumps), Shown::Count, "dumps", some(self.incomplete, "incomplete")),
        ];
        Document {
            title: "Who waits for whom",
            command: "locks",
            generator,
            zone: "",
            lines: [self.sources.join(", ")].into_iter().chain(when).collect(),
            notes: self.notes.iter().chain(&self.problems).cloned().collect(),
            tiles,
            sections: self.sections(),
        }
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
        all.extend(self.lists().into_iter().filter(
            |section| !matches!(&section.body, Body::Table { rows, .. } if rows.is_empty()),
        ));
        if !self.deadlock_groups.is_empty() {
            let cards = self.deadlock_groups.iter().flat_map(deadlock).collect();
            let body = Body::Cards { cards };
            all.push(Section { title: "Deadlocks".into(), text: None, body });
        }
        if self.series.len() > 1 {
            let chart = |title, shown, of: &dyn Fn(&Point) -> Option<u64>| {
                chart(&self.series, title, shown, of)
            };
            let charts = vec![
                chart("Waiting transactions", Shown::Count, &|p| Some(p.waiting)),
                chart("Open transactions", Shown::Count, &|p| Some(p.active)),
                chart("Row locks", Shown::Count, &|p| Some(p.row_locks)),
                chart("History list", Shown::Count, &|p| p.history),
                chart("Checkpoint age", Shown::Bytes, &|p| p.checkpoint_age),
            ];
            let body = Body::Charts { charts };
            all.push(Section { title: "As time went by".into(), text: None, body });
        }
        all
    }

    fn lists(&self) -> [Section; 4] {
        use Shown::{Code, Count, Seconds, SecondsBar, Text};
        let blockers = self.blockers.iter().map(|b| {
            let idle = if b.idle_dumps > 0 { "idle" } else { "" };
            json!([
                name(&b.who),
                account(&b.who),
                b.blocked_seconds,
                b.waits,
                b.open_seconds,
                idle,
                b.statement
            ])
        });
        let transactions = self.longest_transactions.iter().map(|t| {
            let (flags, statement) = (t.flags.join(", "), t.statements.first());
            json!([
                name(&t.who),
                account(&t.who),
                t.open_seconds,
                t.row_locks,
                t.undo_entries,
                flags,
                statement
            ])
        });
        let records = self.records.iter().map(|r| {
            let index =
                r.index.as_ref().map_or("(the table)".into(), |index| format!("index {index}"));
            let key = r.key.as_ref().map(|key| format!("key ({key})"));
            json!([r.table, index, key, r.seconds, r.waits, r.at_once])
        });
        let locks = self.locks.iter().map(|l| {
            let index = l.index.as_ref().map(|index| format!("index {index}"));
            let waiting = if l.waiting { "waiting" } else { "" };
            json!([l.table, index, l.lock, waiting, l.locks, l.records, l.transactions])
        });
        let statement = ("Statement", Code);
        let whose = [("Transaction", Text), ("Account", Text)];
        let place = [("Table", Text), ("Index", Text)];
        [
            table(
                "Root blockers: what they made others wait, directly or not",
                &[
                    whose,
                    [("Blocked", SecondsBar), ("Waits", Count)],
                    [("Open", Seconds), ("", Text)],
                ],
                &[statement],
                blockers,
            ),
            table(
                "Longest transactions",
                &[
                    whose,
                    [("Open", SecondsBar), ("Row locks", Count)],
                    [("Changes", Count), ("", Text)],
                ],
                &[statement],
                transactions,
            ),
            table(
                "What is waited for",
                &[
                    place,
                    [("Key", Text), ("Waited", SecondsBar)],
                    [("Waits", Count), ("At once", Count)],
                ],
                &[],
                records,
            ),
            table(
                "Locks: the most at once",
                &[place, [("Lock", Text), ("", Text)], [("Locks", Count), ("Records", Count)]],
                &[("Transactions", Count)],
                locks,
            ),
        ]
    }
}

type Titled = (&'static str, Shown);

fn table(
    title: &str,
    pairs: &[[Titled; 2]],
    more: &[Titled],
    rows: impl Iterator<Item = Value>,
) -> Section {
    let columns = pairs.iter().flatten().chain(more);
    let columns = columns.map(|(title, shown)| Column { title, shown: *shown }).collect();
    let rows = rows.map(|row| if let Value::Array(row) = row { row } else { Vec::new() }).collect();
    Section { title: title.into(), text: None, body: Body::Table { columns, rows } }
}

fn node(node: &Node) -> Shape {
    let mut facts = vec![account(&node.who)];
    facts.extend(node.open_seconds.map(|s| format!("open {}", duration(s as f64))));
    facts.retain(|fact| !fact.is_empty());
    let wants = node.wants.as_ref().map(|wants| format!("for {}", place(wants)));
    let also = (!node.also_behind.is_empty())
        .then(|| format!("; also behind {}", node.also_behind.join(", ")));
    let note = node.note.map(|note| format!(" ({note})"));
    let text = [wants, also, note].into_iter().flatten().collect::<String>();
    Shape {
        depth: node.depth,
        name: name(&node.who),
        badges: node.idle.then_some("idle in transaction").into_iter().collect(),
        facts: facts.join(", "),
        seconds: node.waits_seconds.map(|waits| waits.seconds()),
        text: (!text.is_empty()).then_some(text),
        code: node.statement.clone(),
    }
}

/// Points whose time is known. Local time is treated as UTC, so it is shown as the server has it.
fn chart(series: &[Point], title: &str, shown: Shown, of: &dyn Fn(&Point) -> Option<u64>) -> Chart {
    let points = series.iter().filter_map(|p| Some((p.at?.0 as f64, of(p)? as f64)));
    Chart { title: title.into(), shown, points: points.collect() }
}

fn deadlock(group: &Deadlocks) -> impl Iterator<Item = Card> + '_ {
    let when = span(group.first, group.last).map_or(String::new(), |span| format!(", {span}"));
    let title = format!("{}{when}: {}", plural(group.count, "deadlock"), group.hint);
    group.members.iter().map(move |m| {
        let behind = match m.held_by.is_empty() {
            true => String::new(),
            false => format!(", which {} has", m.held_by.join(", ")),
        };
        Card {
            group: title.clone(),
            badge: if m.rolled_back { "rolled back" } else { "went on" }.into(),
            bad: m.rolled_back,
            name: format!("{} {}", name(&m.who), account(&m.who)),
            facts: vec![
                Fact { label: "waits for", line: Line::Text(place(&m.wants) + &behind) },
                Fact { label: "with", line: Line::Code(m.statement.clone()) },
            ],
        }
    })
}
