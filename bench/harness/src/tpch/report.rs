//! The measurements as a table, and the limits that Frond has to reach beside InnoDB.

use crate::engines::Engine;
use crate::table;
use crate::units;

/// Limits of Frond's time divided by InnoDB's: for all queries together, and for each.
const TOTAL_LIMIT: f64 = 0.8;
const EACH_LIMIT: f64 = 1.2;

/// One measurement: seconds until the last row, and seconds of the server's processor time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Measured {
    pub seconds: f64,
    pub cpu_seconds: f64,
}

/// A query, with the rounds of each engine.
pub struct Line {
    pub label: String,
    pub rounds: Vec<Vec<Measured>>,
}

impl Line {
    fn medians(&self) -> Vec<Measured> {
        let of = |rounds: &[Measured], what: fn(&Measured) -> f64| {
            let mut values: Vec<f64> = rounds.iter().map(what).collect();
            values.sort_by(f64::total_cmp);
            values.get(values.len() / 2).copied().unwrap_or(0.0)
        };
        let both = |r: &Vec<Measured>| Measured {
            seconds: of(r, |m| m.seconds),
            cpu_seconds: of(r, |m| m.cpu_seconds),
        };
        self.rounds.iter().map(both).collect()
    }
}

/// The table's cells, and a line for each limit that was missed.
pub fn cells(engines: &[Engine], lines: &[Line]) -> (Vec<Vec<String>>, Vec<String>) {
    let at = |wanted| engines.iter().position(|&e| e == wanted);
    let pair = at(Engine::InnoDb).zip(at(Engine::Frond));
    let mut header = vec![String::new()];
    header.extend(engines.iter().map(|e| format!("{} ms", e.label())));
    header.extend(engines.iter().map(|e| format!("{} CPU ms", e.label())));
    if pair.is_some() {
        header.extend(["time vs InnoDB".to_string(), "CPU vs InnoDB".to_string()]);
    }
    let mut out = vec![header];
    let mut missed = Vec::new();
    let mut totals = vec![Measured::default(); engines.len()];
    let mut add = |label: &str, medians: &[Measured], limit: f64| {
        let mut row = vec![label.to_string()];
        row.extend(medians.iter().map(|m| units::significant(m.seconds * 1e3)));
        row.extend(medians.iter().map(|m| units::significant(m.cpu_seconds * 1e3)));
        if let Some((inno, frond)) = pair {
            let time = medians[frond].seconds / medians[inno].seconds.max(1e-9);
            let cpu = medians[frond].cpu_seconds / medians[inno].cpu_seconds.max(1e-9);
            row.extend([format!("{time:.2}x"), format!("{cpu:.2}x")]);
            if time > limit {
                missed.push(format!("{label}: {time:.2}x InnoDB's time, at most {limit}x"));
            }
        }
        out.push(row);
    };
    for line in lines {
        let medians = line.medians();
        add(&line.label, &medians, EACH_LIMIT);
        for (total, m) in totals.iter_mut().zip(&medians) {
            total.seconds += m.seconds;
            total.cpu_seconds += m.cpu_seconds;
        }
    }
    add("total", &totals, TOTAL_LIMIT);
    (out, missed)
}

pub fn markdown(cells: &[Vec<String>], plans: &[String]) -> String {
    let mut out = table::markdown(cells);
    if !plans.is_empty() {
        out.push_str("\nPlans that differ:\n\n```\n");
        plans.iter().for_each(|p| out.push_str(p));
        out.push_str("```\n");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(label: &str, inno: f64, frond: f64) -> Line {
        let rounds = |s: f64| {
            [s * 3.0, s, s / 2.0].map(|seconds| Measured { seconds, cpu_seconds: seconds }).to_vec()
        };
        Line { label: label.into(), rounds: vec![rounds(inno), rounds(frond)] }
    }

    #[test]
    fn the_medians_count_and_limits_are_of_each_query_and_of_all() {
        let engines = [Engine::InnoDb, Engine::Frond];
        let lines = [line("1", 1.0, 0.5), line("2", 0.1, 0.13)];
        let (cells, missed) = super::cells(&engines, &lines);
        assert_eq!(cells[1], ["1", "1000", "500", "1000", "500", "0.50x", "0.50x"]);
        assert_eq!(cells[3][0], "total");
        assert_eq!(cells[3][5], "0.57x");
        assert_eq!(missed, ["2: 1.30x InnoDB's time, at most 1.2x"]);
        let (_, missed) = super::cells(&engines, &[line("1", 1.0, 0.9)]);
        assert_eq!(missed, ["total: 0.90x InnoDB's time, at most 0.8x"]);
    }
}
