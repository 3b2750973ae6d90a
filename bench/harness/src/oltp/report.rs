//! The measurements as a table: CPU time per transaction and rate of each engine, and Frond's CPU time
//! divided by InnoDB's.

use std::collections::BTreeMap;

use super::workload::Workload;
use crate::engines::Engine;
use crate::table;
use crate::units;

/// One measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Server CPU time per transaction.
    pub cpu_us: f64,
    /// Transactions per second.
    pub rate: f64,
}

/// The parts of the table, in its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Row {
    Clean,
    Writes,
    Written,
    Apart,
}

/// A workload, with the rounds of each engine.
struct Line {
    name: &'static str,
    rounds: Vec<Vec<Measured>>,
}

/// All measurements.
pub struct Rows {
    engines: Vec<Engine>,
    /// Keyed by part, and by position in it.
    lines: BTreeMap<(Row, usize), Line>,
    cells: Vec<Vec<String>>,
}

impl Rows {
    pub fn new(engines: &[Engine]) -> Rows {
        Rows { engines: engines.to_vec(), lines: BTreeMap::new(), cells: Vec::new() }
    }

    pub fn add(&mut self, part: Row, workload: &Workload, engine: Engine, measured: Measured) {
        let known = self.lines.iter().find(|((p, _), l)| *p == part && l.name == workload.name);
        let at = match known {
            Some(((_, at), _)) => *at,
            None => self.lines.keys().filter(|(p, _)| *p == part).count(),
        };
        let none = || Line { name: workload.name, rounds: vec![Vec::new(); self.engines.len()] };
        let line = self.lines.entry((part, at)).or_insert_with(none);
        if let Some(i) = self.engines.iter().position(|e| *e == engine) {
            line.rounds[i].push(measured);
        }
    }

    /// Makes the table's cells.
    pub fn finish(&mut self) {
        let mut header = vec![String::new()];
        header.extend(self.engines.iter().map(|e| format!("{} us", e.label())));
        header.extend(self.engines.iter().map(|e| format!("{} /s", e.label())));
        header.push("CPU vs InnoDB".into());
        self.cells = vec![header];
        for ((part, _), Line { name, rounds }) in &self.lines {
            let after = if *part == Row::Written { ", after writes" } else { "" };
            let mut row = vec![format!("{name}{after}")];
            let cpu: Vec<f64> = rounds.iter().map(|r| median(r, |m| m.cpu_us)).collect();
            row.extend(cpu.iter().map(|us| units::significant(*us)));
            let rates = rounds.iter().map(|r| median(r, |m| m.rate));
            row.extend(rates.map(|rate| units::grouped(rate.round() as u64)));
            let of = |e: Engine| self.engines.iter().position(|x| *x == e).map(|i| cpu[i]);
            row.push(match (of(Engine::Frond), of(Engine::InnoDb)) {
                // Processor time is counted in steps of 10 ms: a short run may have none.
                (Some(frond), Some(inno)) if inno > 0.0 => format!("{:.2}x", frond / inno),
                _ => String::new(),
            });
            self.cells.push(row);
        }
    }

    pub fn terminal(&self) -> String {
        table::terminal(&self.cells)
    }

    pub fn markdown(&self) -> String {
        table::markdown(&self.cells)
    }
}

/// The median of the rounds; of an even number the smaller of the middle two.
fn median(rounds: &[Measured], figure: impl Fn(&Measured) -> f64) -> f64 {
    let mut sorted: Vec<f64> = rounds.iter().map(figure).collect();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len().saturating_sub(1) / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::super::workload::{of, Phase};
    use super::*;

    #[test]
    fn the_table_has_medians_and_the_ratio() {
        let engines = [Engine::InnoDb, Engine::Frond];
        let mut rows = Rows::new(&engines);
        let (reads, queue) = (of(Phase::Clean), of(Phase::Apart));
        for (inno, frond) in [(10.0, 12.0), (11.0, 30.0), (90.0, 22.0)] {
            let m = |cpu_us| Measured { cpu_us, rate: 1e6 / cpu_us };
            rows.add(Row::Apart, &queue[0], Engine::InnoDb, m(4.0));
            rows.add(Row::Clean, &reads[1], Engine::InnoDb, m(inno));
            rows.add(Row::Clean, &reads[1], Engine::Frond, m(frond));
        }
        rows.finish();
        assert_eq!(rows.cells.len(), 3);
        assert_eq!(rows.cells[1][0], reads[1].name);
        assert_eq!(rows.cells[1].last().map(String::as_str), Some("2.00x"));
        assert_eq!(rows.cells[2][0], queue[0].name);
    }

    #[test]
    fn the_median_of_no_rounds_is_no_number() {
        assert!(median(&[], |m| m.rate).is_nan());
        let m = |rate| Measured { cpu_us: 1.0, rate };
        assert_eq!(median(&[m(4.0), m(1.0)], |m| m.rate), 1.0);
    }
}
