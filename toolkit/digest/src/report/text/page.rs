//! The page of one class.

use std::io::{self, Write};

use super::parts::{attributes, breakdowns, flags, over_time, paragraph, shortened};
use crate::report::model::{Class, Histogram, Plan, Report, Sample};
use frond_event::numbers::{count, duration, percentage, plural, significant, time};

/// Writes the page.
pub fn write(report: &Report, class: &Class, width: usize, out: &mut dyn Write) -> io::Result<()> {
    let mut line = format!("# Query {}:", class.rank);
    if let Some(rate) = class.per_second {
        line += &format!(" {} QPS,", significant(rate));
    }
    if let Some(concurrency) = class.concurrency {
        line += &format!(" {}x concurrency,", significant(concurrency));
    }
    let (id, rest) = match class.id.as_str() {
        "" => (shortened(&class.key, width - 2), None),
        id => (format!("ID 0x{id}"), Some(&class.key)),
    };
    if line.len() + 1 + id.chars().count() > width {
        writeln!(out, "\n{}\n# {id}", line.trim_end_matches(','))?;
    } else {
        writeln!(out, "\n{line} {id}")?;
    }
    if let Some(key) = rest {
        writeln!(out, "# {}", shortened(key, width - 2))?;
    }
    if class.reason == "outlier" {
        writeln!(out, "# Below the limit, but slow and not rare (an outlier)")?;
    }
    match class.user_class.as_str() {
        "" => {}
        who => writeln!(out, "# Users are {who}")?,
    }
    scores(class, out)?;
    if let (Some(first), Some(last)) = (class.first, class.last) {
        writeln!(out, "# Time range: {} to {} UTC", time(first), time(last))?;
    }
    over_time(&class.series, &report.overall.series, width, out)?;
    attributes(
        "Attribute",
        Some((class.statements.max(class.events), class.share_of_events)),
        &class.metrics,
        out,
    )?;
    flags(class.flags.iter().map(|f| (f.label.as_str(), f.count, f.yes)), class.events, out)?;
    let lists = [("Databases", &class.dbs), ("Users", &class.users), ("Hosts", &class.hosts)];
    breakdowns(&lists, class.statements.max(class.events), width, out)?;
    if class.errors > 0 {
        let share = percentage(class.errors as f64 / class.events.max(1) as f64);
        let n = count(class.errors as f64);
        writeln!(out, "# Errors       {n} ({share}), such as {}", class.error)?;
    }
    if let Some(all) = &class.sampled {
        let few = if all.few_connections { "; on few connections, so more or less" } else { "" };
        writeln!(
            out,
            "# Of all connections: calls {} +- {}, time {} +- {}{few}",
            count(all.statements),
            count(2.0 * all.statements_error),
            duration(all.time),
            duration(2.0 * all.time_error)
        )?;
    }
    if class.prepares > 0 || class.executes > 0 {
        let [prepares, executes] = [class.prepares, class.executes].map(|n| plural(n, "time"));
        writeln!(out, "# Prepared     {prepares}, executed {executes}")?;
    }
    if class.unmeasured > 0 && class.time().is_some() {
        writeln!(
            out,
            "# Without time {} (counted, but in no time above)",
            count(class.unmeasured as f64)
        )?;
    }
    if class.time().is_some() {
        distribution(&class.times, out)?;
    }
    if report.selection.group_by == "fingerprint" && !class.tables.is_empty() {
        writeln!(out, "# Tables")?;
        let db = class.sample.as_ref().map_or("", |s| s.db.as_str());
        for table in &class.tables {
            let db = if table.db.is_empty() { db } else { &table.db };
            let from = if db.is_empty() { String::new() } else { format!("FROM {} ", quoted(db)) };
            let dot = if db.is_empty() { String::new() } else { format!("{}.", quoted(db)) };
            let like = table.table.replace('\\', "\\\\").replace('\'', "\\'");
            writeln!(out, "#    SHOW TABLE STATUS {from}LIKE '{like}'\\G")?;
            writeln!(out, "#    SHOW CREATE TABLE {dot}{}\\G", quoted(&table.table))?;
        }
    }
    match &class.sample {
        Some(sample) => write_sample(report, sample, class, width, out),
        None => Ok(()),
    }
}

/// A name as it is written in SQL.
fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

fn scores(class: &Class, out: &mut dyn Write) -> io::Result<()> {
    let mut scores = Vec::new();
    if let Some(value) = class.variance_to_mean {
        scores.push(format!("V/M = {value:.2}"));
    }
    if let Some(time) = class.time() {
        scores.push(format!("p99.9 = {}", duration(time.p999)));
    }
    if let Some(rows) = class.rows_examined_per_row {
        scores.push(format!("rows examined per row = {}", significant(rows)));
    }
    if scores.is_empty() {
        return Ok(());
    }
    writeln!(out, "# Scores: {}", scores.join(", "))
}

fn distribution(times: &Histogram, out: &mut dyn Write) -> io::Result<()> {
    // Totals from a server have no histogram.
    if times.buckets.is_empty() {
        return Ok(());
    }
    const LABELS: [&str; 8] = ["1us", "10us", "100us", "1ms", "10ms", "100ms", "1s", "10s+"];
    let most = times.decades.iter().copied().max().unwrap_or(0).max(1);
    writeln!(out, "# Query_time distribution")?;
    for (label, n) in LABELS.iter().zip(times.decades) {
        let bar = if n == 0 { 0 } else { ((n as f64 / most as f64 * 60.0) as usize).max(1) };
        let number = if n == 0 { String::new() } else { format!(" {}", count(n as f64)) };
        writeln!(out, "{}", format!("# {label:>5}  {}{number}", "#".repeat(bar)).trim_end())?;
    }
    Ok(())
}

/// The slowest statement, below its attributes.
fn write_sample(
    report: &Report,
    sample: &Sample,
    class: &Class,
    width: usize,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut facts = Vec::new();
    facts.extend(sample.time.map(duration));
    facts.extend(sample.start.map(|start| format!("began {} UTC", time(start))));
    if !sample.user.is_empty() || !sample.host.is_empty() {
        facts.push(format!("{}@{}", sample.user, sample.host));
    }
    facts.extend(sample.thread_id.map(|thread| format!("connection {thread}")));
    facts.push(format!("byte {} of {}", sample.offset, sample.file));
    paragraph("Slowest: ", &facts.join(", "), width, out)?;
    if let Some(error) = sample.error {
        writeln!(out, "# It failed with error {error} {}", sample.error_text)?;
    }
    if !sample.routine.is_empty() {
        writeln!(out, "# In stored routine {}", sample.routine)?;
    }
    for warning in &sample.warnings {
        writeln!(out, "# Warning: {warning}")?;
    }
    if let Some(plan) = &sample.plan {
        write_plan(plan, class, width, out)?;
    }
    if !sample.db.is_empty() {
        writeln!(out, "use {};", quoted(&sample.db))?;
    }
    writeln!(out, "{}\\G", sample.sql)?;
    if sample.is_shortened(report.selection.redacted) {
        writeln!(out, "# (shortened: the statement has {}B)", count(sample.length as f64))?;
    }
    Ok(())
}

/// The plan as a table if it fits, else as the client shows rows with \G.
fn write_plan(plan: &Plan, class: &Class, width: usize, out: &mut dyn Write) -> io::Result<()> {
    let others = class.plans.iter().filter(|p| !p.of_sample).count();
    let others = match others {
        0 => String::new(),
        1 => "; one other plan was logged for this class".into(),
        n => format!("; {n} other plans were logged for this class"),
    };
    writeln!(out, "# Plan as the server logged it{others}")?;
    let cell = |row: &[String], i: usize| row.get(i).map_or(0, |c| c.chars().count());
    let widths: Vec<usize> = (0..plan.columns.len())
        .map(|i| {
            plan.rows.iter().map(|r| cell(r, i)).chain([cell(&plan.columns, i)]).max().unwrap_or(0)
        })
        .collect();
    if widths.iter().sum::<usize>() + 2 * widths.len() + 2 <= width {
        for row in std::iter::once(&plan.columns).chain(&plan.rows) {
            let cells: Vec<String> =
                row.iter().zip(&widths).map(|(c, width)| format!("{c:width$}")).collect();
            writeln!(out, "#   {}", cells.join("  ").trim_end())?;
        }
        return Ok(());
    }
    let label = plan.columns.iter().map(|c| c.chars().count()).max().unwrap_or(0);
    for (i, row) in plan.rows.iter().enumerate() {
        writeln!(out, "# *************************** {}. row ***************************", i + 1)?;
        for (column, cell) in plan.columns.iter().zip(row) {
            writeln!(out, "# {column:>label$}: {cell}")?;
        }
    }
    Ok(())
}
