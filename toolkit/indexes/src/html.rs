//! The document as a page.

use std::io::{self, Write};

use frond_page::{Body, Card, Column, Document, Fact, Line, Section, Shown, Tile};
use serde_json::{json, Value};

use crate::report::{Item, Report};

impl Report {
    /// Writes one file that can be opened offline.
    pub fn write_html(&self, generator: String, out: &mut dyn Write) -> io::Result<()> {
        let tile = |value: Value, shown, label| Tile { value, shown, label, more: None };
        let bytes: u64 = self.findings.iter().filter_map(|item| item.bytes).sum();
        let mut tiles = vec![
            tile(json!(self.findings.len()), Shown::Count, "findings"),
            tile(json!(self.indexes), Shown::Count, "indexes"),
            tile(json!(self.tables), Shown::Count, "tables"),
        ];
        if bytes > 0 {
            tiles.push(tile(json!(bytes), Shown::Bytes, "in what can go"));
        }
        let mut sections = Vec::new();
        if !self.findings.is_empty() {
            let title = "What is not needed, with its size".into();
            let text =
                "A click on a column's head sorts. Cardinality is shown, and never a reason.";
            let rows = self.findings.iter().map(row).collect();
            let columns = [
                ("Table", Shown::Text),
                ("Index", Shown::Text),
                ("Kind", Shown::Text),
                ("Size", Shown::BytesBar),
                ("Rows of the table", Shown::Count),
                ("Cardinality", Shown::Count),
                ("Stays", Shown::Text),
            ];
            let columns =
                columns.into_iter().map(|(title, shown)| Column { title, shown }).collect();
            let body = Body::Table { columns, rows };
            sections.push(Section { title, text: Some(text.into()), body });
            let body = Body::Cards { cards: self.findings.iter().map(card).collect() };
            let text = "Nothing was executed. Hide first, drop when nobody missed it.";
            let title = "Why, and the statements".into();
            sections.push(Section { title, text: Some(text.into()), body });
        }
        let page = Document {
            title: "Indexes that are not needed",
            command: "indexes",
            generator,
            zone: " UTC",
            lines: vec![self.sources.join(", ")],
            notes: self.notes.iter().chain(&self.problems).cloned().collect(),
            tiles,
            sections,
        };
        page.write(out)
    }
}

fn table(item: &Item) -> String {
    let dot = if item.db.is_empty() { "" } else { "." };
    format!("{}{dot}{}", item.db, item.table)
}

fn row(item: &Item) -> Vec<Value> {
    vec![
        json!(table(item)),
        json!(item.key),
        json!(item.kind.name()),
        json!(item.bytes),
        json!(item.rows),
        json!(item.cardinality),
        json!(item.of),
    ]
}

fn card(item: &Item) -> Card {
    let text = |label, text: &str| Fact { label, line: Line::Text(text.into()) };
    let mut facts = vec![text("because", &item.reason)];
    facts.extend(item.of_definition.as_deref().map(|of| text("stays", of)));
    for (label, sql) in [("now", &item.now), ("undo", &item.undo), ("later", &item.later)] {
        facts.extend(sql.iter().map(|sql| Fact { label, line: Line::Code(sql.clone()) }));
    }
    Card {
        group: table(item),
        badge: item.kind.name().into(),
        bad: false,
        name: item.definition.clone(),
        facts,
    }
}
