//! Prints the comparison for a terminal.

use std::io::{self, Write};

use super::super::text::{paragraph, WIDTH};
use super::{Change, Diff, Side, Values};
use frond_event::numbers::{count, duration, plural, time};

/// Classes of one verdict that the terminal shows.
const SHOWN: usize = 20;

/// Writes the comparison for a terminal.
pub fn write_text(diff: &Diff, out: &mut dyn Write) -> io::Result<()> {
    paragraph("Before: ", &describe(&diff.before), WIDTH, out)?;
    paragraph("After: ", &describe(&diff.after), WIDTH, out)?;
    for note in &diff.notes {
        paragraph("Note: ", note, WIDTH, out)?;
    }
    let mut shown = 0;
    for (verdict, title) in [
        ("new", "New"),
        ("slower", "Slower"),
        ("mixed", "Changed both ways"),
        ("more", "Called more or more load"),
        ("faster", "Faster"),
        ("less", "Called less or less load"),
        ("gone", "Gone"),
    ] {
        let of: Vec<&Change> = diff.changes.iter().filter(|c| c.verdict == verdict).collect();
        if of.is_empty() {
            continue;
        }
        shown += of.len();
        writeln!(out, "\n# {title}: {}", of.len())?;
        for change in of.iter().take(SHOWN) {
            write_change(change, out)?;
        }
        if of.len() > SHOWN {
            writeln!(out, "#   {} more; --json has all", of.len() - SHOWN)?;
        }
    }
    if shown > 0 {
        writeln!(out, "\n# *: chance does not explain it")?;
    } else {
        writeln!(out, "\n# Nothing changed in a way that chance does not explain.")?;
    }
    let quiet = |verdict: &str| diff.changes.iter().filter(|c| c.verdict == verdict).count();
    writeln!(
        out,
        "\n# No change shown: {}; too few data to say: {}",
        plural(quiet("same") as u64, "class"),
        quiet("unsure")
    )
}

fn describe(side: &Side) -> String {
    let mut text = side.inputs.join(", ");
    if let (Some(first), Some(last)) = (side.first, side.last) {
        text += &format!(", {} to {} UTC", time(first), time(last));
    }
    text += &format!(", {}", plural(side.events, "statement"));
    if let Some(load) = side.load {
        text += &format!(", load {}", count(load));
    }
    text
}

fn write_change(change: &Change, out: &mut dyn Write) -> io::Result<()> {
    let id = if change.id.is_empty() { String::new() } else { format!("0x{} ", change.id) };
    writeln!(out, "#   {id}{}", change.item.replace(|c: char| c.is_control(), " "))?;
    let mut lines = Vec::new();
    let mut cell =
        |name: &str, tested: &str, of: fn(&Values) -> Option<f64>, show: fn(f64) -> String| {
            let (a, b) = (change.before.as_ref().and_then(of), change.after.as_ref().and_then(of));
            let found = change.tests.iter().any(|t| t.what == tested && t.significant);
            let mark = if found { " *" } else { "" };
            let cells = match (a, b) {
                (Some(a), Some(b)) => {
                    let by = if a > 0.0 { format!("{:.2}x", b / a) } else { String::new() };
                    [show(a), show(b), by]
                }
                (Some(a), None) => [show(a), "-".into(), String::new()],
                (None, Some(b)) => ["-".into(), show(b), String::new()],
                (None, None) => return,
            };
            let [before, after, by] = cells;
            let line = format!("#       {name:<20} {before:>8} -> {after:>8} {by:>8}{mark}");
            lines.push(line.trim_end().to_owned());
        };
    cell("load", "load", |v| v.load, count);
    cell("calls/s", "calls", |v| v.per_second, count);
    cell("mean", "mean", |v| v.mean, duration);
    cell("typical", "typical", |v| v.typical, duration);
    cell("95%", "p95", |v| v.p95, duration);
    cell("rows read per call", "rows_examined", |v| v.rows_examined, count);
    lines.iter().try_for_each(|line| writeln!(out, "{line}"))
}
