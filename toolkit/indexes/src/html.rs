//! The document as a page.

use std::io::{self, Write};

use frond_page::{Body, Card, Document, Fact, Section, Shown, Tile};
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
        let sorts = "A click on a column's head sorts. Cardinality is shown, and never a reason.";
        let rows = Body::table(
            &self.findings,
            &[
                ("Table", Shown::Text, |item| json!(item.table_name())),
                ("Index", Shown::Text, |item| json!(item.key)),
                ("Kind", Shown::Text, |item| json!(item.kind)),
                ("Size", Shown::BytesBar, |item| json!(item.bytes)),
                ("Rows of the table", Shown::Count, |item| json!(item.rows)),
                ("Cardinality", Shown::Count, |item| json!(item.cardinality)),
                ("Stays", Shown::Text, |item| json!(item.of)),
            ],
        );
        let hide = "Nothing was executed. Hide first, drop when nobody missed it.";
        let cards = Body::Cards { cards: self.findings.iter().map(card).collect() };
        let sections = [
            Section::of("What is not needed, with its size", Some(sorts.into()), rows),
            Section::of("Why, and the statements", Some(hide.into()), cards),
        ];
        let page = Document {
            title: "Indexes that are not needed",
            command: "indexes",
            generator,
            zone: " UTC",
            lines: vec![self.sources.join(", ")],
            notes: self.notes.iter().chain(&self.problems).cloned().collect(),
            tiles,
            sections: sections.into_iter().flatten().collect(),
        };
        page.write(out)
    }
}

fn card(item: &Item) -> Card {
    let mut facts = vec![Fact::text("because", &item.reason)];
    facts.extend(item.of_definition.iter().map(|of| Fact::text("stays", of)));
    facts.extend(item.steps().map(|(label, sql)| Fact::code(label, sql)));
    Card {
        group: item.table_name(),
        badge: item.kind.name().into(),
        bad: false,
        name: item.definition.clone(),
        facts,
    }
}
