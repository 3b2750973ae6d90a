//! The profile: a line for each class, and one for the rest.

use std::io::{self, Write};

use super::notation::{masked, variance_to_mean, LINE};
use crate::report::rank::Reason;
use crate::stats::class::key;
use crate::stats::{Class, Table};
use frond_event::Metric;

/// Every column is as wide as its contents; the titles end where the lines of underscores do.
pub(super) fn write(
    table: &Table,
    ranked: &[usize],
    reasons: &[Reason],
    overall: &Class,
    redact: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    let total = overall.sum(Metric::QueryTime) as f64 / 1e9;
    let classes = &table.classes;
    let time = |class: &Class| class.sum(Metric::QueryTime) as f64 / 1e9;
    let hidden: Vec<&Class> = ranked[reasons.len()..].iter().map(|i| &classes[*i]).collect();
    let rest = hidden.iter().fold((0.0, 0), |sum, c| (sum.0 + time(c), sum.1 + c.count));
    let shown = || ranked[..reasons.len()].iter().map(|i| &classes[*i]);
    let mut rows: Vec<(f64, u64)> = shown().map(|c| (time(c), c.count)).collect();
    rows.extend((!hidden.is_empty()).then_some(rest));
    // Width of the percentages.
    let percent = |time: f64| if total > 0.0 { time / total * 100.0 } else { 0.0 };
    let most = |texts: &mut dyn Iterator<Item = String>, least: usize| {
        texts.map(|t| t.len()).fold(least, usize::max)
    };
    let times = most(&mut rows.iter().map(|r| format!("{:.4}", r.0)), 0);
    let response = |time: f64| format!("{time:times$.4} {:4.1}%", percent(time));
    let wide = most(&mut rows.iter().map(|r| response(r.0)), 13);
    let calls = most(&mut rows.iter().map(|r| r.1.to_string()), 5);
    let mean = |row: &(f64, u64)| format!("{:.4}", row.0 / row.1.max(1) as f64);
    let means = most(&mut rows.iter().map(mean), 6);
    writeln!(out, "\n# Profile")?;
    for (rank, id, [a, b, c, d, item]) in [
        ("Rank", "Query ID", ["Response time", "Calls", "R/Call", "V/M", "Item"]),
        (
            "====",
            &*"=".repeat(34),
            [&*"=".repeat(wide), &"=".repeat(calls), &"=".repeat(means), "=====", "===="],
        ),
    ] {
        let line = format!("# {rank} {id:34} {a:wide$} {b:calls$} {c:means$} {d:5} {item}");
        writeln!(out, "{}", &line[..line.len().min(LINE)])?;
    }
    let mut item = Vec::new();
    for (i, at) in ranked[..reasons.len()].iter().enumerate() {
        let class = &classes[*at];
        let sql = table.whole_sql(*at);
        frond_sqltext::distill(&if redact { masked(&sql).into() } else { sql }, &mut item);
        let time = class.sum(Metric::QueryTime) as f64 / 1e9;
        let vm = variance_to_mean(class);
        writeln!(
            out,
            "# {:>4} 0x{} {:>wide$} {:>calls$} {:>means$} {vm:5.2} {}",
            i + 1,
            key::id(&class.key),
            response(time),
            class.count,
            mean(&(time, class.count)),
            String::from_utf8_lossy(&item)
        )?;
    }
    if !hidden.is_empty() {
        writeln!(
            out,
            "# MISC {:34} {:>wide$} {:>calls$} {:>means$} {:>5} <{} ITEMS>",
            "0xMISC",
            response(rest.0),
            rest.1,
            mean(&rest),
            "0.0",
            hidden.len()
        )?;
    }
    Ok(())
}
