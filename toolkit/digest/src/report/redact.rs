//! The document without literals: `--redact`, for any report.
//!
//! Masking works on the finished document, not where texts are put into it. A report that was read back from JSON must
//! be masked as well; and the test, which puts a secret into every text, finds a forgotten place.
//!
//! Masked: samples, fingerprints (those of other tools' dialects can hold literals, and a statement can be read in two
//! ways), texts made from statements (items, tables), conditions in plans, the literals of `--filter`. Removed:
//! warnings and texts of errors, which quote values in free text. Kept: names of users, hosts, databases, tables,
//! routines and files, numbers of errors, times.

use super::model::{Class, Report, Table};
use frond_sqltext::{Dialect, SqlMode, TableRef};

/// Masks the document; `sample_bytes` as in `Options`.
pub fn apply(report: &mut Report, sample_bytes: usize) {
    if report.selection.redacted {
        return;
    }
    report.selection.redacted = true;
    report.selection.filter = report.selection.filter.as_deref().map(mask);
    let by_statement =
        ["fingerprint", "distill", "tables", "kind"].contains(&report.selection.group_by.as_str());
    let named = |dialect: &Dialect| dialect.name() == report.selection.dialect;
    let dialect = Dialect::ALL.into_iter().find(named).unwrap_or_default();
    for class in &mut report.classes {
        of_class(class, dialect, by_statement, sample_bytes);
    }
    let unanswered = report.loss.capture.iter_mut().flat_map(|c| &mut c.unanswered);
    for statement in unanswered.flat_map(|u| &mut u.longest) {
        statement.sql = shortened(mask(&statement.sql), sample_bytes);
    }
    for repeated in report.patterns.iter_mut().flat_map(|p| &mut p.repeated) {
        repeated.item = mask(&repeated.item);
        repeated.after = mask(&repeated.after);
        for step in &mut repeated.then {
            step.item = mask(&step.item);
        }
    }
}

/// A statement, or a part of one, without its literals.
pub fn mask(text: &str) -> String {
    let mut out = Vec::new();
    frond_sqltext::mask(text.as_bytes(), &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

/// Shortened to about `bytes`; 0: unchanged.
fn shortened(sql: String, bytes: usize) -> String {
    if bytes == 0 {
        return sql;
    }
    let mut short = Vec::new();
    frond_sqltext::shorten(sql.as_bytes(), bytes, &mut short);
    String::from_utf8_lossy(&short).into_owned()
}

fn of_class(class: &mut Class, dialect: Dialect, by_statement: bool, sample_bytes: usize) {
    let fingerprints = !class.id.is_empty();
    if let Some(sample) = &mut class.sample {
        let mode = frond_sqltext::sql_mode(sample.sql.as_bytes());
        sample.sql = mask(&sample.sql);
        if fingerprints && mode != Some(SqlMode::default()) {
            // The key was made with the other reading of the statement.
            let mut key = Vec::new();
            let masked = sample.sql.as_bytes();
            frond_sqltext::fingerprint_with(masked, Dialect::Frond, SqlMode::default(), &mut key);
            class.key = String::from_utf8_lossy(&key).into_owned();
        }
        let mut item = Vec::new();
        frond_sqltext::item(sample.sql.as_bytes(), dialect, &mut item);
        if fingerprints && !item.is_empty() {
            class.item = String::from_utf8_lossy(&item).into_owned();
        }
        let mut found: Vec<TableRef<'_>> = Vec::new();
        frond_sqltext::tables(sample.sql.as_bytes(), SqlMode::default(), &mut found);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        class.tables =
            found.iter().map(|t| Table { db: text(t.db), table: text(t.table) }).collect();
        sample.warnings.clear();
        sample.error_text.clear();
        if let Some(plan) = &mut sample.plan {
            // Only these columns quote the statement; the others hold names and numbers.
            let quoting = |name: &String| ["extra", "ref"].contains(&name.to_lowercase().as_str());
            let columns: Vec<bool> = plan.columns.iter().map(quoting).collect();
            for cell in plan.rows.iter_mut().flat_map(|row| row.iter_mut().zip(&columns)) {
                if *cell.1 && cell.0 != "NULL" {
                    *cell.0 = mask(cell.0);
                }
            }
        }
        sample.sql = shortened(std::mem::take(&mut sample.sql), sample_bytes);
    }
    if by_statement {
        class.key = mask(&class.key);
        class.item = mask(&class.item);
    }
}
