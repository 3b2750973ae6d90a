//! A page made of sections: tables, trees, charts over time, findings, ratios. `parts/document.js` decides how
//! fields are drawn.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::Value;

use crate::{escaped, Frame, MAX_BYTES};

const SCRIPTS: [&str; 2] =
    [include_str!("parts/document.js"), include_str!("parts/document_test.js")];

/// Longer texts are cut.
const TEXT: usize = 4_000;

#[derive(Debug, Default, Serialize)]
pub struct Document {
    pub title: &'static str,
    /// The command, as `locks`; the page says that its `--json` has everything.
    #[serde(skip)]
    pub command: &'static str,
    pub generator: String,
    /// Lines below the title: the source, and the time.
    pub lines: Vec<String>,
    /// The clock of its times, as it is written behind them: ` UTC`.
    pub zone: &'static str,
    /// What to know before reading the rest.
    pub notes: Vec<String>,
    pub tiles: Vec<Tile>,
    pub sections: Vec<Section>,
}

#[derive(Debug, Serialize)]
pub struct Tile {
    pub value: Value,
    pub shown: Shown,
    pub label: &'static str,
    pub more: Option<String>,
}

#[derive(Debug, Serialize)]
pub struct Section {
    pub title: String,
    pub text: Option<String>,
    #[serde(flatten)]
    pub body: Body,
}

#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Body {
    Table { columns: Vec<Column>, rows: Vec<Vec<Value>> },
    Tree { nodes: Vec<Node> },
    Charts { charts: Vec<Chart> },
    Cards { cards: Vec<Card> },
    Ratios { below: &'static str, above: &'static str, rows: Vec<Ratio> },
}

/// A column of a table: its title, how it is shown, and its value in a row.
pub type Cells<T> = (&'static str, Shown, fn(&T) -> Value);

impl Section {
    /// `None` if `body` shows nothing.
    pub fn of(title: &str, text: Option<String>, body: Body) -> Option<Section> {
        (!body.is_empty()).then(|| Section { title: title.into(), text, body })
    }
}

impl Body {
    pub fn table<T>(rows: &[T], columns: &[Cells<T>]) -> Body {
        let cells = |row| columns.iter().map(|(_, _, value)| value(row)).collect();
        Body::Table {
            columns: columns.iter().map(|&(title, shown, _)| Column { title, shown }).collect(),
            rows: rows.iter().map(cells).collect(),
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Body::Table { rows, .. } => rows.is_empty(),
            Body::Tree { nodes } => nodes.is_empty(),
            Body::Charts { charts } => charts.is_empty(),
            Body::Cards { cards } => cards.is_empty(),
            Body::Ratios { rows, .. } => rows.is_empty(),
        }
    }
}

/// How a value is shown. Numbers are aligned to the right; `Bar` is a count with a bar, `BytesBar` a size with
/// one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Shown {
    Text,
    Code,
    Count,
    Seconds,
    Bytes,
    Times,
    SecondsBar,
    BytesBar,
}

#[derive(Debug, Serialize)]
pub struct Column {
    pub title: &'static str,
    pub shown: Shown,
}

/// A node of a tree; nodes are in the order of a depth-first walk.
#[derive(Debug, Serialize)]
pub struct Node {
    pub depth: u32,
    pub name: String,
    pub badges: Vec<&'static str>,
    pub facts: String,
    /// Length of its bar.
    pub seconds: Option<f64>,
    pub text: Option<String>,
    pub code: String,
}

/// Values over time: [seconds since 1970, value], ascending by time.
#[derive(Debug, Serialize)]
pub struct Chart {
    pub title: String,
    pub shown: Shown,
    pub points: Vec<(f64, f64)>,
}

/// A finding: a heading, facts below it, statements to copy.
#[derive(Debug, Serialize)]
pub struct Card {
    pub group: String,
    pub badge: String,
    pub bad: bool,
    pub name: String,
    pub facts: Vec<Fact>,
}

#[derive(Debug, Serialize)]
pub struct Fact {
    pub label: &'static str,
    #[serde(flatten)]
    pub line: Line,
}

impl Fact {
    pub fn text(label: &'static str, text: impl Into<String>) -> Fact {
        Fact { label, line: Line::Text(text.into()) }
    }

    pub fn code(label: &'static str, code: impl Into<String>) -> Fact {
        Fact { label, line: Line::Code(code.into()) }
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Line {
    Text(String),
    Code(String),
}

/// `ratio` on a logarithmic axis around 1, with a verdict.
#[derive(Debug, Serialize)]
pub struct Ratio {
    pub name: String,
    pub ratio: f64,
    pub word: &'static str,
    /// `sure`: certainly not 1; `bad`: whether that is bad.
    pub sure: bool,
    pub bad: bool,
    pub more: String,
}

impl Document {
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let frame = Frame { title: self.title, command: self.command, scripts: &SCRIPTS };
        let mut value = serde_json::to_value(self).map_err(io::Error::from)?;
        shorten(&mut value, TEXT);
        let most = MAX_BYTES - frame.fixed_bytes();
        let mut data = escaped(&value)?;
        // HP2. Lists are shortened at their ends, the longest first, until everything fits.
        while data.len() > most {
            if !halve_longest(&mut value) {
                shorten(&mut value, TEXT / 20);
            }
            let cut = format!(
                "This page was shortened to keep the file small; frond {} --json has everything.",
                self.command
            );
            value["cut"] = Value::String(cut);
            data = escaped(&value)?;
        }
        frame.write(&data, out)
    }
}

/// Cuts all texts to `most` characters.
fn shorten(value: &mut Value, most: usize) {
    match value {
        Value::String(text) => {
            if let Some((at, _)) = text.char_indices().nth(most) {
                text.truncate(at);
                text.push_str(" ...");
            }
        }
        Value::Array(list) => list.iter_mut().for_each(|value| shorten(value, most)),
        Value::Object(fields) => fields.values_mut().for_each(|value| shorten(value, most)),
        _ => {}
    }
}

/// Removes the second half of the longest list that is shown; false: none has more than one element.
fn halve_longest(value: &mut Value) -> bool {
    let mut longest: Option<(usize, &mut Vec<Value>)> = None;
    let Some(sections) = value["sections"].as_array_mut() else { return false };
    let fields = sections.iter_mut().filter_map(Value::as_object_mut);
    for (name, list) in fields.flatten() {
        let Some(list) = list.as_array_mut().filter(|_| name != "columns") else { continue };
        let bytes: usize = list.iter().map(|value| value.to_string().len()).sum();
        if list.len() > 1 && longest.as_ref().is_none_or(|(most, _)| bytes > *most) {
            longest = Some((bytes, list));
        }
    }
    let Some((_, list)) = longest else { return false };
    list.truncate(list.len() / 2);
    true
}
