//! Parts that both the head and the pages have.

use std::io::{self, Write};

use crate::report::build::OTHERS;
use crate::report::model::{Metric, Series, Share};
use frond_event::numbers::{count, duration, percentage};

/// Columns of a terminal that does not tell its width.
pub const WIDTH: usize = 80;

/// Width of labels; longer ones have a line of their own.
const LABEL: usize = 17;

/// A sentence wrapped over several lines.
pub(in crate::report) fn paragraph(
    title: &str,
    text: &str,
    width: usize,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut line = format!("# {title}");
    let mut empty = true;
    for word in text.split_whitespace() {
        if !empty && line.chars().count() + word.chars().count() + 1 > width {
            writeln!(out, "{line}")?;
            line = "#   ".into();
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(word);
        empty = false;
    }
    writeln!(out, "{line}")
}

/// Cut to at most `room` characters.
pub(super) fn shortened(text: &str, room: usize) -> String {
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.chars().count() <= room {
        return text;
    }
    text.chars().take(room.saturating_sub(3)).chain("...".chars()).collect()
}

/// The table of attributes. `calls` (number, share) adds the column of percentages, and the calls as its first
/// row.
pub(super) fn attributes(
    title: &str,
    calls: Option<(u64, f64)>,
    metrics: &[Metric],
    out: &mut dyn Write,
) -> io::Result<()> {
    let shown = || metrics.iter().filter(|m| m.sum > 0.0);
    let width = shown().map(|m| m.label.len()).filter(|w| *w <= LABEL).max().unwrap_or(0).max(12);
    let percent = |text: &str| if calls.is_some() { format!(" {text:>4}") } else { String::new() };
    let columns = ["total", "min", "max", "mean", "p50", "p95", "p99", "stddev"];
    let row = |cells: &[String]| cells.iter().map(|c| format!(" {c:>6}")).collect::<String>();
    writeln!(out, "# {title:width$}{}{}", percent("pct"), row(&columns.map(str::to_owned)))?;
    let rule = |n: usize| "=".repeat(n);
    writeln!(out, "# {}{}{}", rule(width), percent(&rule(4)), row(&vec![rule(6); columns.len()]))?;
    let whole = |share: f64| format!("{:.0}", share * 100.0);
    if let Some((n, share)) = calls {
        writeln!(out, "# {:width$}{}{}", "Count", percent(&whole(share)), row(&[count(n as f64)]))?;
    }
    for metric in shown() {
        let v = |value: f64| if metric.is_time() { duration(value) } else { count(value) };
        let m = metric;
        let cells = [m.sum, m.min, m.max, m.mean, m.p50, m.p95, m.p99, m.stddev].map(v);
        let label = if m.label.len() > width {
            writeln!(out, "# {}", m.label)?;
            ""
        } else {
            &m.label
        };
        writeln!(out, "# {label:width$}{}{}", percent(&whole(m.share)), row(&cells))?;
    }
    let zeros: Vec<&str> =
        metrics.iter().filter(|m| m.sum == 0.0).map(|m| m.label.as_str()).collect();
    if !zeros.is_empty() {
        paragraph("Always zero: ", &zeros.join(", "), WIDTH, out)?;
    }
    Ok(())
}

/// How far the percentiles can be off.
pub(super) fn quantile_errors(metrics: &[Metric], out: &mut dyn Write) -> io::Result<()> {
    let off = |error: f64| format!("{}%", count(error * 100.0));
    let others = metrics.iter().filter(|m| m.name != "Query_time").map(|m| m.quantile_error);
    let others = others.fold(0.0, f64::max);
    match metrics.iter().find(|m| m.name == "Query_time") {
        None if others > 0.0 => writeln!(out, "# Percentiles are within {}", off(others)),
        Some(time) if time.quantile_error > 0.0 => {
            let others =
                if others > 0.0 { format!(", others {}", off(others)) } else { String::new() };
            writeln!(
                out,
                "# p99.9 of exec time: {}; percentiles are within {}{others}",
                duration(time.p999),
                off(time.quantile_error)
            )
        }
        _ => Ok(()),
    }
}

/// Writes the flags, as shares of this many events. MariaDB logs a line of flags only where one is yes.
pub(super) fn flags<'a>(
    flags: impl Iterator<Item = (&'a str, u64, u64)>,
    events: u64,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut first = true;
    for (label, logged, yes) in flags.filter(|(_, _, yes)| *yes > 0) {
        if std::mem::take(&mut first) {
            writeln!(out, "# Boolean:")?;
        }
        let events = events.max(logged);
        let [yes, no, others] = [yes, logged - yes, events - logged]
            .map(|n| percentage(n as f64 / events.max(1) as f64));
        let others =
            if logged < events { format!(", {others:>5} not logged") } else { String::new() };
        writeln!(out, "# {label:LABEL$} {yes:>5} yes, {no:>5} no{others}")?;
    }
    Ok(())
}

/// Lists of names with their counts, each on one line with as many names as fit.
pub(super) fn breakdowns(
    lists: &[(&str, &Vec<Share>)],
    events: u64,
    width: usize,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut first = true;
    for (what, shares) in lists.iter().filter(|(_, shares)| !shares.is_empty()) {
        if std::mem::take(&mut first) {
            writeln!(out, "# String:")?;
        }
        let mut line = format!("# {what:12}");
        for (i, share) in shares.iter().enumerate() {
            let name = if share.name.is_empty() { "(unknown)" } else { &share.name };
            let part = percentage(share.count as f64 / events.max(1) as f64);
            let one = match shares.len() {
                1 => format!(" {name}"),
                _ => format!(" {name} ({}/{part})", count(share.count as f64)),
            };
            let comma = usize::from(i > 0);
            // Width of the remark on how many more names there are, and on their statements.
            let rest = more(&shares[i..], events);
            let last = i + 1 == shares.len();
            let tail = if last { 0 } else { more(&shares[i + 1..], events).chars().count() };
            if i > 0 && line.chars().count() + one.chars().count() + comma + tail > width {
                line += &rest;
                break;
            }
            if i > 0 {
                line.push(',');
            }
            line += &one;
        }
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// The mark for names that do not fit.
fn more(shares: &[Share], events: u64) -> String {
    let sum = shares.iter().fold(0_u64, |sum, s| sum.saturating_add(s.count));
    // A statement counts for each of its tables.
    let part = match sum <= events {
        true => format!("/{}", percentage(sum as f64 / events.max(1) as f64)),
        false => String::new(),
    };
    let what = match shares.last().is_some_and(|s| s.name == OTHERS) {
        true => "others".into(),
        false => format!("{} more", shares.len()),
    };
    format!("... {what} ({}{part})", count(sum as f64))
}

/// One line with the load over the whole period, from the least to the most.
pub(super) fn over_time(
    series: &Series,
    whole: &Series,
    width: usize,
    out: &mut dyn Write,
) -> io::Result<()> {
    const LEVELS: &[u8] = b" .:-=+*#";
    let (Some(first), Some(last)) = (whole.points.first(), whole.points.last()) else {
        return Ok(());
    };
    let begin = first.at as f64;
    let span = last.at as f64 - begin + whole.width.max(1) as f64;
    let columns = (span / whole.width.max(1) as f64).clamp(1.0, (width - 20) as f64).floor();
    if columns < 2.0 {
        return Ok(());
    }
    let timed = series.points.iter().any(|p| p.time > 0.0);
    let mut sums = vec![0.0; columns as usize];
    for point in &series.points {
        // An interval may be wider than a column, and begin before the first.
        let place = |at: f64| ((at - begin) / span * columns).clamp(0.0, columns);
        let (from, to) = (place(point.at as f64), place(point.at as f64 + series.width as f64));
        let value = if timed { point.time } else { point.count as f64 };
        for (column, sum) in
            sums.iter_mut().enumerate().skip(from as usize).take(to.ceil() as usize - from as usize)
        {
            let within = to.min(column as f64 + 1.0) - from.max(column as f64);
            *sum += value * (within / (to - from)).clamp(0.0, 1.0);
        }
    }
    let most = sums.iter().copied().fold(0.0, f64::max);
    if most <= 0.0 {
        return Ok(());
    }
    let top = (LEVELS.len() - 1) as f64;
    let line: String = sums
        .iter()
        .map(|s| char::from(LEVELS[(s / most * top).ceil().min(top) as usize]))
        .collect();
    writeln!(out, "# Over time    [{line}]")
}
