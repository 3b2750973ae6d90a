//! The result of a check, for people and for programs.

use std::collections::BTreeMap;
use std::io::Write;

use serde::Serialize;

use crate::out::{bytes, grouped, Outcome};

/// Receives progress messages.
pub type Progress<'a> = &'a mut dyn FnMut(&str);

/// The hint at the end of the engine's messages; here the reader has already followed it.
const ENGINE_HINT: &str = "; restore this file from a backup or run 'frond check'";
/// Findings kept at most: a destroyed file need not fill the memory.
const FINDINGS_MAX: usize = 1000;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Something stored is wrong, or cannot be read.
    Problem,
    /// Odd, but a crash or an operator explains it; nothing is lost.
    Warning,
}

#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    pub severity: Severity,
    /// File and place, and what is wrong there.
    pub what: String,
}

/// Findings, and how much was checked: a check that read nothing is not a clean one.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    pub findings: Vec<Finding>,
    /// Findings beyond those listed.
    pub findings_dropped: u64,
    /// False when the database did not open, so that rows and indexes could not be compared.
    pub complete: bool,
    pub tables: u64,
    pub trees: u64,
    pub runs: u64,
    pub pages: u64,
    /// Entries in runs, all versions.
    pub entries: u64,
    pub rows: u64,
    /// Of each table whose rows were all read.
    #[serde(skip)]
    pub rows_of: BTreeMap<String, u64>,
    /// Entries of secondary indexes that were compared with rows.
    pub index_entries: u64,
    /// Indexes that were counted but not derived, because only the server knows their order.
    pub indexes_counted_only: u64,
    pub table_files: u64,
    pub log_segments: u64,
    pub log_records: u64,
    pub log_payload_bytes: u64,
    pub seconds: f64,
    /// Panics caught: errors of the tool or the engine, not of the database.
    pub internal_errors: u64,
}

impl Report {
    pub fn problem(&mut self, what: impl Into<String>) {
        self.add(Severity::Problem, what.into());
    }

    pub fn warning(&mut self, what: impl Into<String>) {
        self.add(Severity::Warning, what.into());
    }

    /// The same damage is often found twice (in the header, then by the table that needs it); only
    /// the first finding is listed.
    fn add(&mut self, severity: Severity, what: String) {
        let what = what.replace(ENGINE_HINT, "");
        let known = |f: &Finding| f.what.contains(&what) || what.contains(&f.what);
        if self.findings.iter().any(known) {
            return;
        }
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(Finding { severity, what });
        } else {
            self.findings_dropped += 1;
        }
    }

    pub fn problems(&self) -> usize {
        self.findings.iter().filter(|f| f.severity == Severity::Problem).count()
    }

    pub fn is_clean(&self) -> bool {
        self.problems() == 0
    }

    pub fn write_json(&self, out: &mut dyn Write) -> Outcome<()> {
        let mut object = serde_json::to_value(self).unwrap_or_default();
        if let Some(map) = object.as_object_mut() {
            map.insert("clean".into(), self.is_clean().into());
        }
        writeln!(out, "{object}")?;
        Ok(())
    }

    pub fn write_text(&self, out: &mut dyn Write) -> Outcome<()> {
        for finding in &self.findings {
            let label = match finding.severity {
                Severity::Problem => "problem",
                Severity::Warning => "warning",
            };
            writeln!(out, "{label}: {}", finding.what)?;
        }
        if self.findings_dropped > 0 {
            writeln!(out, "... and {} more findings", grouped(self.findings_dropped))?;
        }
        writeln!(
            out,
            "checked {} tables, {} indexes, {} runs, {} pages, {} entries in {:.1} s",
            grouped(self.tables),
            grouped(self.trees),
            grouped(self.runs),
            grouped(self.pages),
            grouped(self.entries),
            self.seconds
        )?;
        writeln!(
            out,
            "        {} rows against {} index entries; {} log segments, {} records, {}",
            grouped(self.rows),
            grouped(self.index_entries),
            grouped(self.log_segments),
            grouped(self.log_records),
            bytes(self.log_payload_bytes)
        )?;
        if self.indexes_counted_only > 0 {
            writeln!(
                out,
                "        {} indexes on collated text were counted and followed to their rows, but \
                 not derived: that needs a server's collations",
                self.indexes_counted_only
            )?;
        }
        if !self.complete {
            writeln!(
                out,
                "        the database does not open: pages were checked as of each table's newest \
                 checkpoint, rows and indexes were not compared"
            )?;
        }
        match self.problems() {
            0 => writeln!(out, "no problems")?,
            1 => writeln!(out, "1 problem")?,
            n => writeln!(out, "{n} problems")?,
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_damage_met_twice_is_listed_once() {
        let mut report = Report::default();
        report.problem(
            "3.frd: image: checksum; restore this file from a backup or run 'frond check'",
        );
        report.problem("table 'a': 3.frd: image: checksum");
        report.problem("4.frd: image: checksum");
        assert_eq!(report.problems(), 2);
        assert!(!report.findings[0].what.contains("frond check"));
    }

    #[test]
    fn findings_are_bounded() {
        let mut report = Report::default();
        for n in 0..2 * FINDINGS_MAX {
            report.problem(format!("at {n:09}"));
        }
        assert_eq!(report.findings.len(), FINDINGS_MAX);
        assert_eq!(report.findings_dropped, FINDINGS_MAX as u64);
    }

    #[test]
    fn warnings_alone_are_clean() {
        let mut report = Report::default();
        report.warning("odd");
        assert!(report.is_clean());
    }
}
