//! The document for people, as a page and in a terminal.

use std::io::{self, Write};

use frond_event::numbers::count;
use frond_page::{Body, Card, Document, Fact, Section, Shown, Tile};
use serde_json::json;

use crate::report::{Item, Report};

/// A statement, to be copied from a page; a terminal shows it whole.
type Code = fn(&'static str, &str) -> Fact;

impl Report {
    /// Writes one file that can be opened offline.
    pub fn write_html(&self, generator: String, out: &mut dyn Write) -> io::Result<()> {
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
        let mut page = self.document(generator, |label, code| Fact::code(label, code));
        let table = Section::of("What is not needed, with its size", Some(sorts.into()), rows);
        page.sections.splice(0..0, table);
        page.notes.extend(self.problems.iter().cloned());
        page.write(out)
    }

    /// `colour`: with a terminal's escape sequences.
    pub fn write_text(&self, colour: bool, out: &mut dyn Write) -> io::Result<()> {
        let code = |label, code: &str| Fact::text(label, code);
        self.document(String::new(), code).write_text(colour, out)
    }

    fn document(&self, generator: String, code: Code) -> Document {
        let bytes: u64 = self.findings.iter().filter_map(|item| item.bytes).sum();
        let size =
            Tile { value: json!(bytes), shown: Shown::Bytes, label: "in what can go", more: None };
        let found = format!(
            "{} in {} with {}.",
            plural(self.findings.len(), "finding", "findings"),
            plural(self.tables, "table", "tables"),
            plural(self.indexes, "index", "indexes")
        );
        let hide = "Nothing was executed. Hide first, drop when nobody missed it.";
        let cards = self.findings.iter().map(|item| card(item, code)).collect();
        let why = Section::of("Why, and the statements", Some(hide.into()), Body::Cards { cards });
        Document {
            title: "Indexes that are not needed",
            command: "indexes",
            generator,
            zone: " UTC",
            lines: vec![self.sources.join(", "), found],
            notes: self.notes.clone(),
            tiles: (bytes > 0).then_some(size).into_iter().collect(),
            sections: why.into_iter().collect(),
        }
    }
}

fn card(item: &Item, code: Code) -> Card {
    let number = |n: Option<u64>, what: &str| n.map(|n| what.replace('#', &count(n as f64)));
    let sizes = [
        number(item.bytes, "#B"),
        number(item.cardinality, "cardinality #"),
        number(item.rows, "about # rows in the table"),
    ];
    let sizes = sizes.into_iter().flatten().collect::<Vec<_>>().join(", ");
    let mut facts = vec![Fact::text("because", &item.reason)];
    facts.extend(item.of_definition.iter().map(|of| Fact::text("stays:", of)));
    facts.extend((!sizes.is_empty()).then(|| Fact::text("size", sizes)));
    facts.extend(item.steps().map(|(label, sql)| code(label, sql)));
    Card {
        group: item.table_name(),
        badge: json!(item.kind).as_str().unwrap_or_default().into(),
        bad: false,
        name: item.definition.clone(),
        facts,
    }
}

fn plural(n: usize, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}
