//! The report for a terminal: the profile first, then a page per class.
//!
//! The order and the names are those of pt-query-digest; numbers have units, labels are not cut,
//! and only statements and names may be wider than the terminal. Lines begin with `#`; the others
//! are the sample statements, ready for a client.
//!
//! Invariants:
//!
//! - TE1. No line made here is longer than `width`, which is 80 at least (statements, plans and file names may be).
//! - TE2. Control characters of a log do not reach the terminal: they are U+FFFD.

use std::io::{self, Write};

use super::model::{Overall, Report};
use frond_event::numbers::{count, plural, significant, time};
use frond_querylog::input::Format;

mod loss;
mod page;
mod parts;
mod profile;

pub use loss::lines as capture_lines;
pub(super) use parts::paragraph;
pub use parts::WIDTH;
use parts::{attributes, breakdowns, flags, over_time, quantile_errors};

/// Writes the report for a terminal of `width` columns.
pub fn write(report: &Report, width: usize, out: &mut dyn Write) -> io::Result<()> {
    let width = width.clamp(WIDTH, 200);
    let mut text = Vec::new();
    all(report, width, &mut text)?;
    out.write_all(plain(&String::from_utf8_lossy(&text)).as_bytes())
}

/// The text without control characters (TE2).
pub fn plain(text: &str) -> String {
    let odd = |c: char| {
        c.is_control() && !matches!(c, '\n' | '\t')
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.chars().map(|c| if odd(c) { '\u{fffd}' } else { c }).collect()
}

fn all(report: &Report, width: usize, out: &mut dyn Write) -> io::Result<()> {
    let overall = &report.overall;
    head(report, width, out)?;
    if overall.events == 0 {
        let read = match overall.left_out {
            0 => "The inputs hold no statements".into(),
            1 => "The one statement read was not chosen".into(),
            n => format!("None of the {} read was chosen", plural(n, "statement")),
        };
        writeln!(out, "# {read}.")?;
        return loss::write(report, width, out);
    }
    attributes("Attribute", None, &overall.metrics, out)?;
    quantile_errors(&overall.metrics, out)?;
    flags(overall.flags.iter().map(|f| (f.label.as_str(), f.count, f.yes)), overall.events, out)?;
    let lists = [
        ("Databases", &overall.dbs),
        ("Users", &overall.users),
        ("Hosts", &overall.hosts),
        ("Tables", &overall.tables),
    ];
    breakdowns(&lists, overall.statements.max(overall.events), width, out)?;
    over_time(&overall.series, &overall.series, width, out)?;
    loss::write(report, width, out)?;
    profile::write(report, width, out)?;
    profile::patterns(report, width, out)?;
    for class in &report.classes {
        page::write(report, class, width, out)?;
    }
    Ok(())
}

fn head(report: &Report, width: usize, out: &mut dyn Write) -> io::Result<()> {
    let overall = &report.overall;
    if let Some(at) = report.generated {
        writeln!(out, "# Current date: {} UTC", time(at))?;
    }
    for input in &report.inputs {
        writeln!(out, "# {}: {}, {}B", input.name, input.format, count(input.bytes as f64))?;
    }
    let mut line = format!(
        "# Overall: {} total, {} unique",
        count(overall.events as f64),
        count(overall.classes as f64)
    );
    if let Some(rate) = overall.per_second {
        line += &format!(", {} QPS", significant(rate));
    }
    if let Some(concurrency) = overall.concurrency {
        line += &format!(", {}x concurrency", significant(concurrency));
    }
    writeln!(out, "{line} {}", "_".repeat(width.saturating_sub(line.len() + 1)))?;
    if let (Some(first), Some(last)) = (overall.first, overall.last) {
        writeln!(out, "# Time range: {} to {} UTC{}", time(first), time(last), zone(overall))?;
    }
    if overall.statements > overall.events {
        writeln!(out, "# Standing for: {}", plural(overall.statements, "statement"))?;
    }
    if overall.left_out > 0 {
        writeln!(out, "# Left out: {}", plural(overall.left_out, "statement"))?;
    }
    // General logs have no times at all, and captures have their own part.
    let timed = report.inputs.iter().any(|input| input.format == Format::SlowLog.name());
    if overall.unmeasured > 0 && timed {
        let events = plural(overall.unmeasured, "event");
        writeln!(out, "# Without time: {events} (counted, but in no time below)")?;
    }
    if let Some(filter) = &report.selection.filter {
        writeln!(out, "# Filter: {filter}")?;
    }
    for note in &report.notes {
        paragraph("Note: ", note, width, out)?;
    }
    Ok(())
}

fn zone(overall: &Overall) -> String {
    match overall.zone {
        Some(0) | None => String::new(),
        Some(seconds) => {
            let sign = if seconds < 0 { '-' } else { '+' };
            let minutes = seconds.abs() / 60;
            format!(" (server: {sign}{:02}:{:02})", minutes / 60, minutes % 60)
        }
    }
}
