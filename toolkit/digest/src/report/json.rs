//! The document as JSON and as lines of JSON. The model defines the format; `docs/digest-json.md` describes it.

use std::io::{self, Write};

use serde::Serialize;

use super::model::{Class, Report};

/// The whole document, on many lines or on one.
pub fn write(report: &Report, pretty: bool, out: &mut dyn Write) -> io::Result<()> {
    if pretty {
        serde_json::to_writer_pretty(&mut *out, report)?;
    } else {
        serde_json::to_writer(&mut *out, report)?;
    }
    writeln!(out)
}

/// A line with its kind.
#[derive(Serialize)]
struct Line<'a, T> {
    #[serde(rename = "type")]
    what: &'static str,
    #[serde(flatten)]
    of: &'a T,
}

/// One line with `"type":"overall"`, which is the document without its classes, then one with `"type":"class"` for each
/// class.
pub fn write_lines(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let classes: &[Class] = &report.classes;
    let shell = Report {
        schema: report.schema,
        generator: report.generator.clone(),
        generated: report.generated,
        inputs: report.inputs.clone(),
        selection: report.selection.clone(),
        overall: report.overall.clone(),
        classes: Vec::new(),
        rest: report.rest.clone(),
        loss: report.loss.clone(),
        notes: report.notes.clone(),
        patterns: report.patterns.clone(),
    };
    serde_json::to_writer(&mut *out, &Line { what: "overall", of: &shell })?;
    writeln!(out)?;
    for class in classes {
        serde_json::to_writer(&mut *out, &Line { what: "class", of: class })?;
        writeln!(out)?;
    }
    Ok(())
}
