//! The document as a page: the differences, and each class's ratio of times.

use std::io::{self, Write};

use frond_event::numbers::duration;
use frond_page::{Body, Card, Cells, Document, Fact, Ratio, Section, Shown, Tile};
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
        use Shown::{Code, Count as Number, Seconds, Text, Times};
        let cards = self.differences.iter().map(difference).collect();
        let ratios = Body::Ratios {
            below: "against is faster",
            above: "against is slower",
            rows: self.classes.iter().filter_map(ratio).take(DRAWN).collect(),
        };
        let order = "By class, those that take most time first. A hollow dot: chance explains it, or too few pairs.";
        let times = Body::table(
            &self.classes,
            &[
                ("Calls", Number, |c| json!(c.pairs)),
                ("Median on", Seconds, |c| json!(c.median[0])),
                ("Median against", Seconds, |c| json!(c.median[1])),
                ("95 % on", Seconds, |c| json!(c.p95[0])),
                ("95 % against", Seconds, |c| json!(c.p95[1])),
                ("Ratio", Times, |c| json!(c.ratio)),
                ("Against", Text, |c| json!(c.finding)),
                ("Different", Number, |c| json!(c.differences)),
                ("Class", Code, |c| json!(c.class)),
            ],
        );
        let reasons = |title, counts: &[Count]| {
            let columns: &[Cells<Count>] = &[
                ("Statements", Number, |c| json!(c.statements)),
                ("Why", Text, |c| json!(c.what)),
            ];
            Section::of(title, None, Body::table(counts, columns))
        };
        let all = [
            Section::of("What differs", None, Body::Cards { cards }),
            Section::of("Typical time against, divided by the time on", Some(order.into()), ratios),
            Section::of("Times", None, times),
            reasons("Different", &self.differences_by_kind),
            reasons("Different, and both may be right", &self.undetermined),
            reasons("Not run", &self.skipped),
        ];
        all.into_iter().flatten().collect()
    }
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
    let db = if d.db.is_empty() { String::new() } else { format!("database {}, ", d.db) };
    Card {
        group: String::new(),
        badge: d.what.clone(),
        bad: true,
        name: d.class.clone(),
        facts: vec![
            Fact::code("statement", &d.statement),
            Fact::text("on", &d.on),
            Fact::text("against", &d.against),
            Fact::text("where", format!("{db}byte {}, session {}", d.offset, d.session)),
        ],
    }
}
