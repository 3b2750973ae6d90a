//! The document as a page; for a file of samples, with charts of the time before.

use std::io::{self, Write};

use frond_event::numbers::duration;
use frond_page::{Body, Card, Chart, Document, Fact, Section, Shown, Tile};
use serde_json::json;

use crate::report::Report;
use crate::rules::{Finding, Level};
use crate::snapshot::{Snapshot, Value};

/// The charts for a file of samples: title, value, how it is shown, whether it is a counter.
const CHARTS: [(&str, &str, Shown, bool); 12] = [
    ("Connects per second", "status.Connections", Shown::Count, true),
    ("Connections", "status.Threads_connected", Shown::Count, false),
    ("Statements per second", "status.Questions", Shown::Count, true),
    ("Running statements", "status.Threads_running", Shown::Count, false),
    ("Connections dropped from queues per second", "net.ListenOverflows", Shown::Count, true),
    ("Aborted connects per second", "status.Aborted_connects", Shown::Count, true),
    ("Load of the machine", "cpu.load", Shown::Count, false),
    ("Memory that is available", "mem.MemAvailable", Shown::Bytes, false),
    ("Pages from swap per second", "vm.pswpin", Shown::Count, true),
    ("InnoDB's log written per second", "status.Innodb_lsn_current", Shown::Bytes, true),
    ("InnoDB's checkpoint age", "status.Innodb_checkpoint_age", Shown::Bytes, false),
    ("InnoDB's history list", "status.Innodb_history_list_length", Shown::Count, false),
];
/// Points of a chart; more samples are joined, and the largest value is shown.
const POINTS: usize = 500;

/// The samples' values over time, added one by one.
#[derive(Default)]
pub struct Course {
    last: Option<Snapshot>,
    points: [Vec<(f64, f64)>; CHARTS.len()],
}

impl Course {
    pub fn add(&mut self, sample: &Snapshot) {
        let number = |of: &Snapshot, name: &str| match of.values.get(name) {
            Some(Value::Number(n)) => Some(*n),
            _ => None,
        };
        for ((_, name, _, counter), points) in CHARTS.iter().zip(&mut self.points) {
            let Some(now) = number(sample, name) else { continue };
            let value = match (counter, &self.last) {
                (false, _) => Some(now),
                (true, None) => None,
                // A restarted server counts from zero.
                (true, Some(last)) => number(last, name)
                    .filter(|before| *before <= now && last.at < sample.at)
                    .map(|before| (now - before) / (sample.at - last.at)),
            };
            points.extend(value.map(|value| (sample.at, value)));
            if points.len() == 2 * POINTS {
                let pairs = points.chunks(2).map(|two| (two[0].0, two[0].1.max(two[1].1)));
                *points = pairs.collect();
            }
        }
        self.last = Some(sample.clone());
    }

    fn section(self) -> Option<Section> {
        let charts: Vec<Chart> = CHARTS
            .iter()
            .zip(self.points)
            .filter(|(_, points)| points.len() > 1)
            .map(|((title, _, shown, _), points)| Chart {
                title: (*title).into(),
                shown: *shown,
                points,
            })
            .collect();
        Section::of("All samples of the file", None, Body::Charts { charts })
    }
}

impl Report {
    /// Writes one file that can be opened offline.
    pub fn write_html(
        &self,
        course: Course,
        generator: String,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let count = |level| self.findings.iter().filter(|f| f.level == level).count();
        let tile =
            |n: usize, label| Tile { value: json!(n), shown: Shown::Count, label, more: None };
        let mut notes =
            self.unseen.iter().map(|what| format!("Not seen: {what}")).collect::<Vec<_>>();
        if !self.unasked.is_empty() {
            let rules: Vec<String> =
                self.unasked.iter().map(|r| format!("{} ({})", r.rule, r.missing)).collect();
            notes.push(format!("Not asked, as a value is missing: {}", rules.join(", ")));
        }
        let mut sections = vec![Section {
            title: "Findings".into(),
            text: self.findings.is_empty().then(|| "Nothing was found.".into()),
            body: Body::Cards { cards: self.findings.iter().map(card).collect() },
        }];
        sections.extend(course.section());
        let page = Document {
            title: "What is wrong",
            command: "doctor",
            generator,
            zone: " UTC",
            lines: vec![
                self.source.clone(),
                format!("{} UTC, over {}", self.at, duration(self.seconds)),
            ],
            notes,
            tiles: vec![
                tile(count(Level::Critical), "critical"),
                tile(count(Level::Warning), "warnings"),
                tile(count(Level::Note), "notes"),
                tile(self.asked, "rules were asked"),
            ],
            sections,
        };
        page.write(out)
    }
}

fn card(finding: &Finding) -> Card {
    Card {
        group: String::new(),
        badge: finding.level.name().into(),
        bad: finding.level == Level::Critical,
        name: finding.rule.clone(),
        facts: vec![
            Fact::text("seen", &finding.seen),
            Fact::text("means", &finding.means),
            Fact::text("set", &finding.set),
            Fact::code("check", &finding.check),
        ],
    }
}
