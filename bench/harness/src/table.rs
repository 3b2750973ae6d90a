//! The comparison as a table: for the terminal and as Markdown.
//!
//! Purpose: rows are metrics, columns are engines and, for the subject (Frond), how many times
//! better it is than each rival.
//!
//! Tested below.

use crate::result::{ratio_text, subject, EngineResult, METRICS};

/// Header and cells as text: the first column names the metric.
pub fn cells(results: &[EngineResult]) -> Vec<Vec<String>> {
    let Some(subject) = subject(results) else { return Vec::new() };
    let rivals: Vec<&EngineResult> =
        results.iter().filter(|r| r.engine != subject.engine).collect();
    let mut header = vec![String::new()];
    header.extend(results.iter().map(|r| r.label.to_string()));
    header.extend(rivals.iter().map(|r| format!("vs {}", r.label)));
    let mut out = vec![header];
    for metric in METRICS {
        let mut row = vec![metric.name.to_string()];
        row.extend(results.iter().map(|r| (metric.show)((metric.value)(r))));
        row.extend(
            rivals.iter().map(|rival| {
                metric.times_better(subject, rival).map(ratio_text).unwrap_or_default()
            }),
        );
        out.push(row);
    }
    out
}

/// Aligned columns: the first to the left, the others to the right; a rule below the header.
pub fn terminal(cells: &[Vec<String>]) -> String {
    let columns = cells.first().map_or(0, Vec::len);
    let widths: Vec<usize> =
        (0..columns).map(|c| cells.iter().map(|r| r[c].len()).max().unwrap_or(0)).collect();
    let mut out = String::new();
    for (i, row) in cells.iter().enumerate() {
        let mut line = format!("  {:<w$}", row[0], w = widths[0]);
        for (cell, width) in row.iter().zip(&widths).skip(1) {
            line.push_str(&format!("  {cell:>width$}"));
        }
        out.push_str(line.trim_end());
        out.push('\n');
        if i == 0 {
            let total: usize = widths.iter().sum::<usize>() + 2 * (columns - 1);
            out.push_str(&format!("  {}\n", "-".repeat(total)));
        }
    }
    out
}

pub fn markdown(cells: &[Vec<String>]) -> String {
    let mut out = String::new();
    for (i, row) in cells.iter().enumerate() {
        out.push_str(&format!("| {} |\n", row.join(" | ")));
        if i == 0 {
            out.push_str("|---|");
            out.push_str(&"---:|".repeat(row.len() - 1));
            out.push('\n');
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engines::Engine;
    use crate::result::tests::steady;

    fn sample() -> Vec<Vec<String>> {
        cells(&[
            steady(Engine::InnoDb, 500_000, 10_000.0),
            steady(Engine::Frond, 1_000_000, 100_000.0),
        ])
    }

    #[test]
    fn rates_and_ratios_are_in_the_table() {
        let cells = sample();
        assert_eq!(cells[0], ["", "InnoDB", "Frond", "vs InnoDB"]);
        let rate = cells.iter().find(|r| r[0] == "rows/s, whole run").unwrap();
        assert_eq!(rate[1..], ["10,000", "100,000", "10.0x"]);
        let rows = cells.iter().find(|r| r[0] == "rows inserted").unwrap();
        assert_eq!(rows[3], "", "rows inserted are a fact, not a comparison");
    }

    #[test]
    fn terminal_columns_are_aligned() {
        let text = terminal(&sample());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), METRICS.len() + 2);
        let end = lines[0].find("Frond").unwrap() + "Frond".len();
        let rate = lines.iter().find(|l| l.contains("whole run")).unwrap();
        assert_eq!(&rate[..end].trim_end()[rate[..end].trim_end().len() - 7..], "100,000");
    }

    #[test]
    fn markdown_has_a_cell_per_column() {
        let text = markdown(&sample());
        assert!(text.lines().all(|l| l.matches('|').count() == 5), "{text}");
    }

    #[test]
    fn nothing_ran_gives_no_table() {
        assert!(cells(&[]).is_empty());
        assert_eq!(terminal(&[]), "");
    }
}
