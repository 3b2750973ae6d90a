//! The list of classes, and patterns of connections.

use std::io::{self, Write};

use super::parts::{paragraph, shortened};
use crate::report::model::{Class, Report};
use crate::report::rank::TITLE;
use frond_event::numbers::{count, duration, percentage, plural, significant};

/// From this width on the terminal shows whole ids, and rows examined per row sent.
const WIDE: usize = 112;

struct Columns {
    width: usize,
    /// Width of the ids; 0 if classes have none.
    id: usize,
    wide: bool,
    /// The ranking attribute, if it is not one of the usual columns; a narrow terminal then lacks
    /// V/M.
    by: String,
}

impl Columns {
    fn of(report: &Report, width: usize) -> Columns {
        let wide = width >= WIDE;
        let id = match report.classes.iter().any(|c| !c.id.is_empty()) {
            false => 0,
            true if wide => 34,
            true => 14,
        };
        Columns { width, id, wide, by: report.selection.order_title.clone() }
    }

    fn row(
        &self,
        (rank, by): (&str, &str),
        id: &str,
        cells: [&str; 6],
        examined: &str,
        item: &str,
    ) -> String {
        let [time, share, calls, mean, p95, variance] = cells;
        let mut line = format!("# {rank:>4} ");
        let ranked = !self.by.is_empty();
        if ranked {
            line += &format!("{by:>TITLE$} ");
        }
        if self.id > 0 {
            line += &format!(
                "{:width$} ",
                id.chars().take(self.id).collect::<String>(),
                width = self.id
            );
        }
        line += &format!("{time:>6} {share:>6} {calls:>5} {mean:>6} {p95:>6} ");
        if self.wide || !ranked {
            line += &format!("{variance:>5} ");
        }
        if self.wide {
            line += &format!("{examined:>8} ");
        }
        let room = self.width.saturating_sub(line.len());
        line += &shortened(item, room);
        line.trim_end().to_owned()
    }
}

/// One line for each class.
pub fn write(report: &Report, width: usize, out: &mut dyn Write) -> io::Result<()> {
    let columns = Columns::of(report, width);
    writeln!(out, "\n# Profile by {}", report.selection.order)?;
    let titles = columns.row(
        ("Rank", &columns.by),
        "Query ID",
        ["Respon", "e time", "Calls", "R/Call", "p95", "V/M"],
        "Exam/row",
        "Item",
    );
    // One title over two columns.
    writeln!(out, "{}", titles.replace("Respon e time", "Response time"))?;
    let rules = columns.row(
        ("====", &"=".repeat(TITLE)),
        &"=".repeat(34),
        ["~~~~~~", "~~~~~~", "=====", "======", "======", "====="],
        "========",
        "====",
    );
    writeln!(out, "{}", rules.replace("~~~~~~ ~~~~~~", "============="))?;
    let mut group = "";
    for class in &report.classes {
        if class.user_class != group {
            group = &class.user_class;
            writeln!(out, "# {}", group_title(report, group))?;
        }
        one(class, &report.selection.order_unit, &columns, out)?;
    }
    if let Some(rest) = &report.rest {
        let line = columns.row(
            ("MISC", ""),
            "0xMISC",
            [
                &duration(rest.time),
                &share(rest.share_of_time),
                &count(rest.statements.max(rest.events) as f64),
                &duration(rest.time / rest.statements.max(rest.events).max(1) as f64),
                "",
                "",
            ],
            "",
            &format!("<{} ITEMS>", count(rest.classes as f64)),
        );
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// The value that ranks a class.
fn of_unit(value: Option<f64>, unit: &str) -> String {
    match value {
        None => "-".into(),
        Some(value) if unit == "seconds" => duration(value),
        Some(value) => count(value),
    }
}

/// One decimal, as everybody is used to.
fn share(share: f64) -> String {
    format!("{:.1}%", share * 100.0)
}

fn one(class: &Class, unit: &str, columns: &Columns, out: &mut dyn Write) -> io::Result<()> {
    let time = class.time();
    let of = |value: Option<f64>| value.map_or_else(|| "-".into(), duration);
    let by = of_unit(class.rank_value, unit);
    let outlier = if class.reason.is_empty() { "" } else { " (outlier)" };
    let line = columns.row(
        (&class.rank.to_string(), &by),
        &format!("0x{}", class.id),
        [
            &of(time.map(|t| t.sum)),
            &share(class.share_of_time),
            &count(class.statements.max(class.events) as f64),
            &of(time.map(|t| t.mean)),
            &of(time.map(|t| t.p95)),
            &class.variance_to_mean.map_or_else(|| "-".into(), |v| format!("{v:.2}")),
        ],
        &class.rows_examined_per_row.map_or_else(|| "-".into(), significant),
        &format!("{}{outlier}", class.item),
    );
    writeln!(out, "{line}")
}

fn group_title(report: &Report, group: &str) -> String {
    let time: f64 =
        report.classes.iter().filter(|c| c.user_class == group).map(|c| c.share_of_time).sum();
    let what = match group {
        "interactive" => "What people wait for (interactive users)",
        "batch" => "Nightly jobs and the like (batch users)",
        _ => "Other users",
    };
    format!("-- {what}: {} of the time", percentage(time))
}

/// Writes transactions and repeated statements, if they were searched for.
pub fn patterns(report: &Report, width: usize, out: &mut dyn Write) -> io::Result<()> {
    let Some(patterns) = &report.patterns else { return Ok(()) };
    writeln!(out, "\n# Patterns of connections")?;
    if patterns.transactions > 0 {
        let statements = count(patterns.statements_per_transaction);
        writeln!(
            out,
            "# {} with {statements} {} on average",
            plural(patterns.transactions, "transaction"),
            if statements == "1" { "statement" } else { "statements" }
        )?;
    }
    if patterns.repeated.is_empty() {
        return writeln!(out, "# No class is repeated in loops (N+1)");
    }
    for repeated in &patterns.repeated {
        let after = if repeated.after.is_empty() {
            String::new()
        } else {
            format!(", after {}", repeated.after)
        };
        let line = format!(
            "{} ({}, {}, longest {}, {}){after}",
            repeated.items(),
            plural(repeated.runs, "run"),
            plural(repeated.statements, "statement"),
            count(repeated.longest as f64),
            duration(repeated.time),
        );
        paragraph("Repeated (N+1): ", &line, width, out)?;
    }
    Ok(())
}
