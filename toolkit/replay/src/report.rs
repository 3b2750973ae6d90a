//! The results of a replay: counts while it runs, the document, and its text.

use std::collections::BTreeMap;
use std::io::{self, Write};

use frond_event::numbers::{duration, plural};
use serde::Serialize;

use crate::compare::What;
use crate::pace::{Classes, Finding, Judged};
use crate::statement::Skip;

/// Version of the JSON document.
pub const SCHEMA: u32 = 1;
/// Number of classes in the text.
const SHOWN: usize = 20;

/// Counts of a run.
#[derive(Default)]
pub struct Totals {
    pub read: u64,
    pub run: u64,
    pub same: u64,
    pub set_up: u64,
    pub unreadable: u64,
    pub sessions: u64,
    pub closed_early: u64,
    pub skipped: BTreeMap<Skip, u64>,
    pub different: BTreeMap<What, u64>,
    pub undetermined: BTreeMap<&'static str, u64>,
    /// Statements that failed, by server.
    pub errors: [u64; 2],
    pub nanos: [u64; 2],
    /// The longest delay of a statement's start, in seconds.
    pub latest: f64,
    pub seconds: f64,
    pub classes: Classes,
    pub shown: Vec<Difference>,
    pub problems: Vec<String>,
    pub failure: Option<String>,
    pub interrupted: bool,
}

/// A statement to which the servers gave different answers.
#[derive(Clone, Debug, Serialize)]
pub struct Difference {
    pub what: String,
    pub class: String,
    pub statement: String,
    pub db: String,
    /// The log's number of the connection.
    pub session: u64,
    /// Where the statement is in the log, in unpacked bytes.
    pub offset: u64,
    pub on: String,
    pub against: String,
}

#[derive(Clone, Debug, Serialize)]
pub struct Count {
    pub what: String,
    pub statements: u64,
}

/// Times of a class, in seconds.
#[derive(Clone, Debug, Serialize)]
pub struct Class {
    pub class: String,
    pub pairs: u64,
    pub differences: u64,
    pub undetermined: u64,
    pub sum: [f64; 2],
    pub median: [Option<f64>; 2],
    pub p95: [Option<f64>; 2],
    /// The typical time on --against divided by that on --on.
    pub ratio: Option<f64>,
    /// faster, slower, mixed, same, unsure
    pub finding: &'static str,
}

/// The document. In pairs, the first is --on and the second is --against.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    pub schema: u32,
    pub inputs: Vec<String>,
    pub servers: [String; 2],
    pub writes: bool,
    pub seconds: f64,
    pub sessions: u64,
    pub read: u64,
    /// Statements whose answers were compared.
    pub compared: u64,
    pub same: u64,
    pub different: u64,
    pub session_statements: u64,
    pub skipped: Vec<Count>,
    pub differences_by_kind: Vec<Count>,
    pub undetermined: Vec<Count>,
    pub errors: [u64; 2],
    pub time: [f64; 2],
    pub latest_seconds: f64,
    pub differences: Vec<Difference>,
    pub classes: Vec<Class>,
    pub notes: Vec<String>,
}

impl Report {
    /// Makes the document from a run's counts; the caller handles the problems and the failure.
    pub fn of(totals: Totals, inputs: Vec<String>, servers: [String; 2], writes: bool) -> Report {
        let count = |what: &str, statements: u64| Count { what: what.into(), statements };
        let mut notes = Vec::new();
        if totals.unreadable > 0 {
            notes.push(format!(
                "{} of the log could not be read.",
                plural(totals.unreadable, "place")
            ));
        }
        if totals.closed_early > 0 {
            notes.push(format!(
                "{} had to be closed for others: their settings and open transactions were lost. --connections allows more.",
                plural(totals.closed_early, "session")
            ));
        }
        if totals.latest > 1.0 {
            notes.push(format!(
                "A statement began {} after its time: the log's pace was not kept. --threads allows more at once.",
                duration(totals.latest)
            ));
        }
        if totals.interrupted {
            notes.push("It was stopped before the end of the log.".into());
        }
        let seconds = |nanos: u64| nanos as f64 / 1e9;
        Report {
            schema: SCHEMA,
            inputs,
            servers,
            writes,
            seconds: totals.seconds,
            sessions: totals.sessions,
            read: totals.read,
            compared: totals.run,
            same: totals.same,
            different: totals.different.values().sum(),
            session_statements: totals.set_up,
            skipped: totals.skipped.iter().map(|(why, n)| count(why.describe(), *n)).collect(),
            differences_by_kind: totals
                .different
                .iter()
                .map(|(what, n)| count(what.name(), *n))
                .collect(),
            undetermined: totals.undetermined.iter().map(|(why, n)| count(why, *n)).collect(),
            errors: totals.errors,
            time: totals.nanos.map(seconds),
            latest_seconds: totals.latest,
            differences: totals.shown,
            classes: totals.classes.judge().into_iter().map(class).collect(),
            notes,
        }
    }

    pub fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut *out, self)?;
        writeln!(out)
    }

    pub fn write_text(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{}", self.inputs.join(", "))?;
        writeln!(out, "on       {}", self.servers[0])?;
        writeln!(out, "against  {}\n", self.servers[1])?;
        writeln!(
            out,
            "{} read, {} compared, {} the same, {} different; {}, {}.",
            plural(self.read, "statement"),
            self.compared,
            self.same,
            self.different,
            plural(self.sessions, "session"),
            duration(self.seconds)
        )?;
        let list = |out: &mut dyn Write, head: &str, counts: &[Count]| -> io::Result<()> {
            if !counts.is_empty() {
                writeln!(out, "\n{head}")?;
            }
            counts.iter().try_for_each(|c| writeln!(out, "{:>9}  {}", c.statements, c.what))
        };
        list(out, "Different", &self.differences_by_kind)?;
        list(out, "Different, and both may be right", &self.undetermined)?;
        list(out, "Not run", &self.skipped)?;
        for difference in &self.differences {
            writeln!(out, "\n{} of {}", difference.what, one_line(&difference.statement, 500))?;
            let place = format!("byte {}, session {}", difference.offset, difference.session);
            match difference.db.as_str() {
                "" => writeln!(out, "  {place}")?,
                db => writeln!(out, "  database {db}, {place}")?,
            }
            writeln!(out, "  on       {}", difference.on)?;
            writeln!(out, "  against  {}", difference.against)?;
        }
        if !self.classes.is_empty() {
            writeln!(
                out,
                "\nTimes: {} on, {} against. Typical ratio: of the two times of one statement.\n",
                duration(self.time[0]),
                duration(self.time[1])
            )?;
            writeln!(
                out,
                "{:>8} {:>8} {:>8} {:>8} {:>8} {:>7}  {:<7} class",
                "calls", "med on", "med ag.", "p95 on", "p95 ag.", "ratio", "against"
            )?;
        }
        let time = |t: Option<f64>| t.map_or("-".into(), duration);
        for class in self.classes.iter().take(SHOWN) {
            writeln!(
                out,
                "{:>8} {:>8} {:>8} {:>8} {:>8} {:>7}  {:<7} {}",
                class.pairs,
                time(class.median[0]),
                time(class.median[1]),
                time(class.p95[0]),
                time(class.p95[1]),
                class.ratio.map_or("-".into(), |r| format!("{r:.2}")),
                class.finding,
                one_line(&class.class, 60)
            )?;
        }
        if self.classes.len() > SHOWN {
            writeln!(out, "{:>8} more classes (--json has all)", self.classes.len() - SHOWN)?;
        }
        for note in &self.notes {
            writeln!(out, "\nNote: {note}")?;
        }
        Ok(())
    }
}

fn class(judged: Judged) -> Class {
    let Judged { class, typical, finding } = judged;
    let quantile = |q: f64| [class.quantile(0, q), class.quantile(1, q)];
    Class {
        pairs: class.pairs,
        differences: class.differences,
        undetermined: class.undetermined,
        sum: class.nanos.map(|n| n as f64 / 1e9),
        median: quantile(0.5),
        p95: quantile(0.95),
        ratio: typical,
        finding: Finding::name(finding),
        class: String::from_utf8_lossy(&class.key).into_owned(),
    }
}

/// At most `most` characters, without control characters.
fn one_line(text: &str, most: usize) -> String {
    let plain = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut line: String = plain.take(most + 1).collect();
    if line.chars().count() > most {
        line = line.chars().take(most.saturating_sub(3)).collect::<String>() + "...";
    }
    line
}
