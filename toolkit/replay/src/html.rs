//! The document as a page: the differences, and each class's ratio of times.

use std::io::{self, Write};

use frond_event::numbers::duration;
use frond_page::{Body, Card, Column, Document, Fact, Line, Ratio, Section, Shown, Tile};
use serde_json::{json, Value};

use crate::report::{Class, Count, Difference, Report};

/// Number of classes in the chart; the table has all.
const DRAWN: usize = 60;

impl Report {
    /// Writes one file that can be opened offline.
    pub fn write_html(&self, generator: String, out: &mut dyn Write) -> io::Result<()> {
        let tile = |value: Value, shown, label, more| Tile { value, shown, label, more };
        let undetermined: u64 = self.undetermined.iter().map(|c| c.statements).sum();
        let page = Document {
            title: "The same statements on two servers",
            command: "replay",
            generator,
            zone: " UTC",
            lines: vec![
                self.inputs.join(", "),
                format!("on {}", self.servers[0]),
                format!("against {}", self.servers[1]),
            ],
            notes: self.notes.clone(),
            tiles: vec![
                tile(json!(self.compared), Shown::Count, "statements compared", None),
                tile(json!(self.same), Shown::Count, "the same", None),
                tile(json!(self.different), Shown::Count, "different", None),
                tile(json!(undetermined), Shown::Count, "not determined", None),
                tile(json!(self.time[0]), Shown::Seconds, "on", None),
                tile(json!(self.time[1]), Shown::Seconds, "against", self.whole()),
            ],
            sections: self.sections(),
        };
        page.write(out)
    }

    fn whole(&self) -> Option<String> {
        let ratio = self.time[1] / self.time[0];
        ratio.is_finite().then(|| format!("{ratio:.2} of the time on"))
    }

    fn sections(&self) -> Vec<Section> {
        let mut all = Vec::new();
        if !self.differences.is_empty() {
            let body = Body::Cards { cards: self.differences.iter().map(difference).collect() };
            all.push(Section { title: "What differs".into(), text: None, body });
        }
        let rows: Vec<Ratio> = self.classes.iter().filter_map(ratio).take(DRAWN).collect();
        if !rows.is_empty() {
            all.push(Section {
                title: "Typical time against, divided by the time on".into(),
                text: Some("By class, those that take most time first. A hollow dot: chance explains it, or too few pairs.".into()),
                body: Body::Ratios { below: "against is faster", above: "against is slower", rows },
            });
        }
        use Shown::{Code, Count as Number, Seconds, Text, Times};
        let columns = [
            ("Calls", Number),
            ("Median on", Seconds),
            ("Median against", Seconds),
            ("95 % on", Seconds),
            ("95 % against", Seconds),
            ("Ratio", Times),
            ("Against", Text),
            ("Different", Number),
            ("Class", Code),
        ];
        let table = |title: &str, columns: &[(&'static str, Shown)], rows: Vec<Vec<Value>>| {
            let columns =
                columns.iter().map(|(title, shown)| Column { title, shown: *shown }).collect();
            Section { title: title.into(), text: None, body: Body::Table { columns, rows } }
        };
        if !self.classes.is_empty() {
            all.push(table("Times", &columns, self.classes.iter().map(class).collect()));
        }
        let reasons = [
            ("Different", &self.differences_by_kind),
            ("Different, and both may be right", &self.undetermined),
            ("Not run", &self.skipped),
        ];
        for (title, counts) in reasons.into_iter().filter(|(_, counts)| !counts.is_empty()) {
            let row = |c: &Count| vec![json!(c.statements), json!(c.what)];
            let columns = [("Statements", Number), ("Why", Text)];
            all.push(table(title, &columns, counts.iter().map(row).collect()));
        }
        all
    }
}

fn class(c: &Class) -> Vec<Value> {
    vec![
        json!(c.pairs),
        json!(c.median[0]),
        json!(c.median[1]),
        json!(c.p95[0]),
        json!(c.p95[1]),
        json!(c.ratio),
        json!(c.finding),
        json!(c.differences),
        json!(c.class),
    ]
}

fn ratio(c: &Class) -> Option<Ratio> {
    let ratio = c.ratio.filter(|ratio| ratio.is_finite() && *ratio > 0.0)?;
    let time = |t: Option<f64>| t.map_or("?".into(), duration);
    Some(Ratio {
        name: c.class.clone(),
        ratio,
        word: c.finding,
        sure: ["faster", "slower"].contains(&c.finding),
        bad: c.finding == "slower",
        more: format!("{} pairs, {} and {}", c.pairs, time(c.median[0]), time(c.median[1])),
    })
}

fn difference(d: &Difference) -> Card {
    let text = |label, text: String| Fact { label, line: Line::Text(text) };
    let db = if d.db.is_empty() { String::new() } else { format!("database {}, ", d.db) };
    Card {
        group: String::new(),
        badge: d.what.clone(),
        bad: true,
        name: d.class.clone(),
        facts: vec![
            Fact { label: "statement", line: Line::Code(d.statement.clone()) },
            text("on", d.on.clone()),
            text("against", d.against.clone()),
            text("where", format!("{db}byte {}, session {}", d.offset, d.session)),
        ],
    }
}
