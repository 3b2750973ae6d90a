//! `frond indexes`: options, files and servers for `frond_indexes`.
//!
//! Nothing is written to a server, and no statement that is printed is executed.
//!
//! Tested in `tests/cli/indexes.rs`.

mod args;
mod counters;
mod server;
mod unused;

use std::io::Write;
use std::path::Path;

use frond_indexes::dump::{Dump, Reader};
use frond_indexes::duty::Parents;
use frond_indexes::report::{self, Report};
use frond_indexes::usage;
use frond_querylog::input::{Format, Input, Origin};

use crate::out::{colour, Failure, Outcome, GENERATOR};
pub use args::IndexesArgs;

/// True if nothing was found.
pub fn run(args: &IndexesArgs, out: &mut dyn Write) -> Outcome<bool> {
    let mut report = Report { version: report::VERSION, ..Report::default() };
    // A foreign key of one file may need an index of another, so all are read first.
    let (mut all, mut hiding, mut usage) = (Vec::new(), Vec::new(), None);
    for file in &args.files {
        let dump = read_dump(file)?;
        let name = file.display().to_string();
        report.problems.extend(dump.problems.iter().map(|what| format!("{name}: {what}")));
        report.sources.push(name);
        all.extend(dump.tables);
        hiding.resize(all.len(), dump.hiding);
    }
    if args.files.is_empty() {
        let mut server = server::connect(args)?;
        let (tables, hides) = server::read(&mut server, &mut report)?;
        if args.unused {
            usage = Some(unused::usage(args, &mut server, &tables, &mut report)?);
        }
        hiding.resize(tables.len(), hides);
        all = tables;
    }
    let parents = Parents::of(&all);
    for (table, hiding) in all.iter().zip(hiding).filter(|(table, _)| args.wants(&table.db)) {
        report.tables += 1;
        report.indexes += table.keys.len();
        report.findings.extend(report::duplicates(table, &parents, hiding));
        if let Some(usage) = &usage {
            report.findings.extend(usage::unused(table, &parents, usage, hiding));
        }
    }
    if args.json {
        report.write_json(out)?;
    } else if args.html {
        report.write_html(GENERATOR.into(), out)?;
    } else {
        report.write_text(colour(), out)?;
    }
    if !report.problems.is_empty() {
        out.flush()?;
        return Err(Failure::Request(report.problems.join("\nfrond: ")));
    }
    Ok(report.findings.is_empty())
}

/// A dump, packed or not.
fn read_dump(file: &Path) -> Outcome<Dump> {
    let fail = |what: String| Failure::Request(format!("{}: {what}", file.display()));
    // The format is given, so none is guessed; the contents show whether it is a dump.
    let mut input = Input::open(&Origin::of(file), Some(Format::Raw))
        .map_err(|e| Failure::Request(format!("{}: {}", e.name, e.what)))?;
    let mut reader = Reader::default();
    input.pieces(&mut |piece| reader.feed(piece)).map_err(|e| fail(e.to_string()))?;
    reader.finish().map_err(fail)
}
