//! The findings as one document, which `--json` writes and the text shows. docs/doctor.md documents its
//! fields.

use std::io::{self, Write};

use frond_page::printable;
use serde::Serialize;

use crate::rules::{ask, Finding, Level, Rule, Unasked};
use crate::snapshot::{Snapshot, Value, Window};

/// Version of the document; it grows when a field changes its meaning or is removed.
pub const VERSION: u32 = 1;

#[derive(Debug, Default, Serialize)]
pub struct Report {
    pub version: u32,
    /// The server's name, or that there is none.
    pub source: String,
    /// Time of the later sample, UTC.
    pub at: String,
    /// Seconds between the two samples.
    pub seconds: f64,
    pub findings: Vec<Finding>,
    /// Rules that could not be evaluated, with the missing value.
    pub unasked: Vec<Unasked>,
    /// What could not be read, and why.
    pub unseen: Vec<String>,
    /// Number of rules that were evaluated.
    pub asked: usize,
}

impl Report {
    pub fn of(
        rules: &[Rule],
        first: &Snapshot,
        last: &Snapshot,
        source: String,
        unseen: Vec<String>,
    ) -> Report {
        let seconds = last.at - first.at;
        let mut last = last.clone();
        last.set("window.seconds", Value::Number(seconds));
        let (findings, unasked) = ask(rules, &Window { first, last: &last });
        Report {
            version: VERSION,
            source,
            at: frond_event::numbers::time((last.at * 1e6) as i64),
            seconds,
            asked: rules.len() - unasked.len(),
            findings,
            unasked,
            unseen,
        }
    }

    pub fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut *out, self)?;
        writeln!(out)
    }

    /// `colour`: with a terminal's escape sequences.
    pub fn write_text(&self, colour: bool, out: &mut dyn Write) -> io::Result<()> {
        let (bold, plain) = if colour { ("\x1b[1m", "\x1b[0m") } else { ("", "") };
        let colour_of = |level: Level| match (colour, level) {
            (false, _) => "",
            (_, Level::Critical) => "\x1b[31m",
            (_, Level::Warning) => "\x1b[33m",
            (_, Level::Note) => "\x1b[36m",
        };
        writeln!(
            out,
            "{}, {} UTC, over {}",
            printable(&self.source),
            self.at,
            frond_event::numbers::duration(self.seconds)
        )?;
        for f in &self.findings {
            let word = f.level.name();
            writeln!(out, "\n{}{word}{plain}  {bold}{}{plain}", colour_of(f.level), f.rule)?;
            for (name, text) in
                [("seen", &f.seen), ("means", &f.means), ("set", &f.set), ("check", &f.check)]
            {
                paragraph(name, &printable(text), out)?;
            }
        }
        let found = match self.findings.len() {
            1 => "1 finding".into(),
            n => format!("{n} findings"),
        };
        writeln!(
            out,
            "\n{found}; {} of {} rules were asked.",
            self.asked,
            self.asked + self.unasked.len()
        )?;
        let missing: Vec<String> = self
            .unasked
            .iter()
            .map(|rule| format!("{} ({})", rule.rule, printable(&rule.missing)))
            .collect();
        if !missing.is_empty() {
            paragraph("not asked, as a value is missing:", &missing.join(", "), out)?;
        }
        self.unseen.iter().try_for_each(|what| writeln!(out, "  not seen: {}", printable(what)))
    }
}

/// Writes text wrapped at 100 columns.
fn paragraph(name: &str, text: &str, out: &mut dyn Write) -> io::Result<()> {
    let mut line = format!("  {name:<6} ");
    let indent = 9;
    for word in text.split(' ') {
        if line.chars().count() + word.chars().count() > 99 && line.trim().len() > name.len() {
            writeln!(out, "{}", line.trim_end())?;
            line = " ".repeat(indent);
        }
        line.push_str(word);
        line.push(' ');
    }
    writeln!(out, "{}", line.trim_end())
}
