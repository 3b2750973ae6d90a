//! Input that could not be read or measured, and losses of a capture.

use std::io::{self, Write};

use super::parts::{paragraph, shortened};
use crate::report::model::{Capture, Report, Unanswered, Waiting};
use frond_event::numbers::{count, duration, percentage, plural};

/// Places that are shown.
const PLACES: usize = 5;

/// Statements without an answer that are shown, and characters of each; JSON has more.
const WAITING: usize = 5;
const WAITING_TEXT: usize = 200;

/// Writes the losses; nothing if there were none.
pub fn write(report: &Report, width: usize, out: &mut dyn Write) -> io::Result<()> {
    let loss = &report.loss;
    if let Some(capture) = &loss.capture {
        writeln!(out, "\n# Capture")?;
        for line in lines(capture) {
            paragraph("  ", &line, width, out)?;
        }
    }
    if loss.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n# What could not be read")?;
    for problem in &loss.problems {
        writeln!(out, "#   {}: {}", problem.input, problem.what)?;
    }
    for skip in &loss.skips {
        let times = if skip.count == 1 { "once".into() } else { format!("{} times", skip.count) };
        writeln!(out, "#   {}: {times}, {}B", skip.why, count(skip.bytes as f64))?;
    }
    for place in loss.places.iter().take(PLACES) {
        let bytes = count(place.bytes as f64);
        writeln!(out, "#     {} byte {}: {}, {bytes}B", place.input, place.offset, place.why)?;
    }
    let all: u64 = loss.skips.iter().map(|s| s.count).sum();
    if all > PLACES as u64 {
        writeln!(out, "#     ... {}", plural(all - PLACES as u64, "more place"))?;
    }
    Ok(())
}

/// Sentences on a capture; the HTML page shows them as well.
pub fn lines(capture: &Capture) -> Vec<String> {
    let n = |value: u64| count(value as f64);
    let mut lines = vec![format!(
        "{}, {}; {} measured, {} not ({})",
        plural(capture.packets, "packet"),
        plural(capture.connections, "connection"),
        plural(capture.measured, "statement"),
        n(capture.unmeasured),
        percentage(
            capture.unmeasured as f64 / (capture.measured + capture.unmeasured).max(1) as f64
        )
    )];
    if capture.gaps > 0 {
        lines.push(format!(
            "Lost: about {} ({}B in {} of {}). What a gap touches has no time, and what it hides is not counted.",
            plural(capture.packets_lost, "packet"),
            n(capture.bytes_missing),
            plural(capture.gaps, "gap"),
            plural(capture.connections_with_gaps, "connection")
        ));
    }
    if let Some(sampling) = &capture.sampling {
        lines.push(format!(
            "Sample: 1 of {} connections. All of them: {} +- {} statements, {} +- {} in those measured (two standard \
             errors). \
             The filter for tcpdump that captures only these connections: {}",
            sampling.one_in,
            n(sampling.statements as u64),
            n((2.0 * sampling.statements_error) as u64),
            duration(sampling.time),
            duration(2.0 * sampling.time_error),
            sampling.filter
        ));
    }
    if let Some(found) = &capture.unanswered {
        unanswered(found, &mut lines);
    }
    lines.extend(capture.notes.iter().cloned());
    lines
}

/// Lists statements without an answer: how long they waited at least, and who sent them.
fn unanswered(found: &Unanswered, lines: &mut Vec<String>) {
    let longest = found.longest.first().map_or(0.0, |s| s.at_least);
    lines.push(format!(
        "{} had no answer when the capture or their connection ended: the longest had waited at least {}. They have no \
         time.",
        plural(found.count, "statement"),
        duration(longest)
    ));
    let whose = |s: &Waiting| match s.user.is_empty() {
        true => s.host.clone(),
        false => format!("{}@{}", s.user, s.host),
    };
    lines.extend(found.longest.iter().take(WAITING).map(|s| {
        let connection = s.thread_id.map_or_else(String::new, |id| format!(", connection {id}"));
        let text = s.sql.split_whitespace().collect::<Vec<_>>().join(" ");
        let text = shortened(&text, WAITING_TEXT);
        format!("At least {}, {}{connection}: {text}", duration(s.at_least), whose(s))
    }));
}
