//! The document for people, as a page and in a terminal: the tree with waiting times, the lists, deadlocks, and charts over time.

use std::io::{self, Write};

use frond_event::numbers::{duration, plural};
use frond_page::Shown::{Bytes, Code, Count, Seconds, SecondsBar, Text};
use frond_page::{Body, Card, Chart, Document, Fact, Node as Shape, Section, Tile};
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
            tile(json!(self.waits.count), Count, "waits", unnamed),
            tile(json!(self.waits.seconds), Seconds, "waited in all", None),
            tile(json!(self.transactions), Count, "open transactions", None),
            tile(json!(self.deadlocks), Count, "deadlocks", None),
            tile(json!(self.dumps), Count, "dumps", some(self.incomplete, "incomplete")),
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
        let moment = self.tree.as_ref().and_then(|tree| tree.at);
        let nodes = self.tree.iter().flat_map(|tree| &tree.nodes).map(node).collect();
        let cards = self.deadlock_groups.iter().flat_map(deadlock).collect();
        let all = [
            Section::of(
                "Who waits for whom",
                moment.map(|at| format!("At {at}, when most was waited for.")),
                Body::Tree { nodes },
            ),
            Section::of(
                "Root blockers: what they made others wait, directly or not",
                None,
                self.blockers(),
            ),
            Section::of("Longest transactions", None, self.longest_transactions()),
            Section::of("What is waited for", None, self.records()),
            Section::of("Locks: the most at once", None, self.locks()),
            Section::of("Deadlocks", None, Body::Cards { cards }),
            Section::of("As time went by", None, self.charts()),
        ];
        all.into_iter().flatten().collect()
    }

    fn blockers(&self) -> Body {
        Body::table(
            &self.blockers,
            &[
                ("Transaction", Text, |b| json!(name(&b.who))),
                ("Account", Text, |b| json!(account(&b.who))),
                ("Blocked", SecondsBar, |b| json!(b.blocked_seconds)),
                ("Waits", Count, |b| json!(b.waits)),
                ("Open", Seconds, |b| json!(b.open_seconds)),
                ("", Text, |b| json!(if b.idle_dumps > 0 { "idle" } else { "" })),
                ("Statement", Code, |b| json!(b.statement)),
            ],
        )
    }

    fn longest_transactions(&self) -> Body {
        Body::table(
            &self.longest_transactions,
            &[
                ("Transaction", Text, |t| json!(name(&t.who))),
                ("Account", Text, |t| json!(account(&t.who))),
                ("Open", SecondsBar, |t| json!(t.open_seconds)),
                ("Row locks", Count, |t| json!(t.row_locks)),
                ("Changes", Count, |t| json!(t.undo_entries)),
                ("", Text, |t| json!(t.flags.join(", "))),
                ("Statement", Code, |t| json!(t.statements.first())),
            ],
        )
    }

    fn records(&self) -> Body {
        Body::table(
            &self.records,
            &[
                ("Table", Text, |r| json!(r.table)),
                ("Index", Text, |r| {
                    json!(r.index.as_ref().map_or("(the table)".into(), |i| format!("index {i}")))
                }),
                ("Key", Text, |r| json!(r.key.as_ref().map(|key| format!("key ({key})")))),
                ("Waited", SecondsBar, |r| json!(r.seconds)),
                ("Waits", Count, |r| json!(r.waits)),
                ("At once", Count, |r| json!(r.at_once)),
            ],
        )
    }

    fn locks(&self) -> Body {
        Body::table(
            &self.locks,
            &[
                ("Table", Text, |l| json!(l.table)),
                ("Index", Text, |l| json!(l.index.as_ref().map(|i| format!("index {i}")))),
                ("Lock", Text, |l| json!(l.lock)),
                ("", Text, |l| json!(if l.waiting { "waiting" } else { "" })),
                ("Locks", Count, |l| json!(l.locks)),
                ("Records", Count, |l| json!(l.records)),
                ("Transactions", Count, |l| json!(l.transactions)),
            ],
        )
    }

    /// The values over time, without the points whose time is unknown.
    fn charts(&self) -> Body {
        let chart = |title: &str, shown, of: fn(&Point) -> Option<u64>| {
            // Local time is treated as UTC, so it is shown as the server has it.
            let point = |p: &Point| Some((p.at?.0 as f64, of(p)? as f64));
            let points = self.series.iter().filter_map(point).collect();
            Chart { title: title.into(), shown, points }
        };
        let charts = match self.series.len() {
            0 | 1 => Vec::new(),
            _ => vec![
                chart("Waiting transactions", Count, |p| Some(p.waiting)),
                chart("Open transactions", Count, |p| Some(p.active)),
                chart("Row locks", Count, |p| Some(p.row_locks)),
                chart("History list", Count, |p| p.history),
                chart("Checkpoint age", Bytes, |p| p.checkpoint_age),
            ],
        };
        Body::Charts { charts }
    }
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
        seconds: node.waits_seconds.map(f64::from),
        text: (!text.is_empty()).then_some(text),
        code: node.statement.clone(),
    }
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
                Fact::text("waits for", place(&m.wants) + &behind),
                Fact::code("with", &m.statement),
            ],
        }
    })
}
