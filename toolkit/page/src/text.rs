//! A document in a terminal: the same sections as the page.

use std::io::{self, Write};

use frond_event::numbers::{count, duration, plural};
use serde_json::Value;

use crate::{Body, Card, Chart, Column, Document, Line, Node, Section, Shown};

/// Code on a line is cut to this many characters.
const CODE: usize = 100;
/// Nodes of a tree deeper than this are not indented further.
const DEEP: u32 = 20;

struct Screen<'a> {
    out: &'a mut dyn Write,
    bold: &'static str,
    dim: &'static str,
    plain: &'static str,
}

impl Document {
    /// `colour`: with a terminal's escape sequences. Escape sequences in the texts themselves are
    /// made visible.
    pub fn write_text(&self, colour: bool, out: &mut dyn Write) -> io::Result<()> {
        let [bold, dim, plain] = if colour { ["\x1b[1m", "\x1b[2m", "\x1b[0m"] } else { [""; 3] };
        let mut screen = Screen { out, bold, dim, plain };
        for line in self.lines.iter().filter(|line| !line.is_empty()) {
            screen.line(line)?;
        }
        let tiles = self.tiles.iter().filter_map(|tile| {
            let more = tile.more.as_ref().map_or(String::new(), |more| format!(" ({more})"));
            Some(words(&tile.value, tile.shown, tile.label)? + &more)
        });
        screen.line(&tiles.collect::<Vec<_>>().join(", "))?;
        self.sections.iter().try_for_each(|section| screen.section(section))?;
        if !self.notes.is_empty() {
            screen.line("")?;
        }
        self.notes.iter().try_for_each(|note| screen.line(note))
    }
}

/// Removes control characters: names and texts come from users and must not control the terminal.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// A value with its title, as words of a sentence; `None`: there is nothing to show.
fn words(value: &Value, shown: Shown, title: &str) -> Option<String> {
    let title = title.to_lowercase();
    Some(match (value, shown) {
        (Value::Null, _) => return None,
        (Value::String(text), _) if text.is_empty() => return None,
        (Value::String(text), _) => text.clone(),
        (value, Shown::Seconds | Shown::SecondsBar) => {
            format!("{title} {}", duration(value.as_f64()?))
        }
        (value, Shown::Bytes | Shown::BytesBar) => format!("{title} {}B", count(value.as_f64()?)),
        (value, _) => match (value.as_u64(), title.strip_suffix('s')) {
            (Some(n), Some(one)) => plural(n, one),
            _ => format!("{} {title}", count(value.as_f64()?)),
        },
    })
}

impl Screen<'_> {
    fn line(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.out, "{}", printable(text))
    }

    fn code(&mut self, indent: &str, code: &str) -> io::Result<()> {
        let code = printable(&code.replace('\n', " "));
        match code.char_indices().nth(CODE) {
            Some((at, _)) => {
                writeln!(self.out, "{indent}{}{} ...{}", self.dim, &code[..at], self.plain)
            }
            None if code.is_empty() => Ok(()),
            None => writeln!(self.out, "{indent}{}{code}{}", self.dim, self.plain),
        }
    }

    fn heading(&mut self, title: &str) -> io::Result<()> {
        writeln!(self.out, "\n{}{}{}", self.bold, printable(title), self.plain)
    }

    fn section(&mut self, section: &Section) -> io::Result<()> {
        if !matches!(&section.body, Body::Cards { .. }) {
            self.heading(&section.title)?;
        }
        section.text.iter().try_for_each(|text| self.line(text))?;
        match &section.body {
            Body::Table { columns, rows } => rows.iter().try_for_each(|row| self.row(columns, row)),
            Body::Tree { nodes } => nodes.iter().try_for_each(|node| self.node(node)),
            Body::Charts { charts } => charts.iter().try_for_each(|chart| self.chart(chart)),
            Body::Cards { cards } => self.cards(cards),
            Body::Ratios { rows, .. } => rows.iter().try_for_each(|row| {
                self.line(&format!(
                    "  {:>8.2}  {}  {}  {}",
                    row.ratio, row.word, row.name, row.more
                ))
            }),
        }
    }

    /// Writes a row: values with a bar first, code below.
    fn row(&mut self, columns: &[Column], row: &[Value]) -> io::Result<()> {
        let (mut lead, mut parts, mut codes) = (None, Vec::new(), Vec::new());
        for (column, value) in columns.iter().zip(row) {
            match (column.shown, value) {
                (Shown::SecondsBar, value) => lead = value.as_f64().map(duration),
                (Shown::Code, Value::String(code)) => codes.push(code),
                (Shown::Count, value) if value.as_u64() == Some(0) => {}
                (shown, value) => parts.extend(words(value, shown, column.title)),
            }
        }
        let lead = lead.map_or(String::new(), |lead| format!("{lead:>8}  "));
        self.line(&format!("  {lead}{}", parts.join(", ")))?;
        codes.into_iter().try_for_each(|code| self.code("            ", code))
    }

    fn node(&mut self, node: &Node) -> io::Result<()> {
        let indent = "  ".repeat(node.depth.min(DEEP) as usize + 1);
        let facts = [&node.facts[..]].into_iter().chain(node.badges.iter().copied());
        let facts = facts.filter(|fact| !fact.is_empty()).collect::<Vec<_>>().join(", ");
        let (name, facts) = (printable(&node.name), printable(&facts));
        writeln!(self.out, "{indent}{}{name}{}  {facts}", self.bold, self.plain)?;
        let waits = node.seconds.map(|seconds| format!("waits {}", duration(seconds)));
        let line = waits.into_iter().chain(node.text.clone()).collect::<Vec<_>>().join(" ");
        if !line.is_empty() {
            self.line(&format!("{indent}  {line}"))?;
        }
        self.code(&format!("{indent}  "), &node.code)
    }

    fn chart(&mut self, chart: &Chart) -> io::Result<()> {
        let values: Vec<f64> = chart.points.iter().map(|(_, value)| *value).collect();
        let max = values.iter().copied().fold(0.0, f64::max);
        let min = values.iter().copied().fold(max, f64::min);
        if max <= 0.0 {
            return Ok(());
        }
        let (bars, min, max) = (spark(&values, max), count(min), count(max));
        self.line(&format!("  {:<22}{bars}  {min} to {max}", chart.title))
    }

    fn cards(&mut self, cards: &[Card]) -> io::Result<()> {
        let mut group = "";
        for card in cards {
            if card.group != group {
                self.heading(&card.group)?;
                group = &card.group;
            }
            self.line(&format!("  {}  ({})", card.name, card.badge))?;
            for fact in &card.facts {
                match &fact.line {
                    Line::Text(text) => self.line(&format!("    {} {text}", fact.label))?,
                    Line::Code(code) => self.code("    ", code)?,
                }
            }
        }
        Ok(())
    }
}

/// A line of at most 40 columns, each with the largest of its values.
fn spark(values: &[f64], max: f64) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let bars = values.chunks(values.len().div_ceil(40).max(1)).map(|chunk| {
        let value = chunk.iter().copied().fold(0.0, f64::max);
        BARS[((value / max * 7.0).ceil() as usize).min(7)]
    });
    bars.collect()
}
