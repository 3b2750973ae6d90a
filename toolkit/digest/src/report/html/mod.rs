//! The report as one HTML file that works offline.
//!
//! The file holds the document (see `view`) as JSON and a script that draws it: no library, nothing is loaded from
//! anywhere, and a content security policy in the file forbids it. Drawing in the browser was chosen over writing
//! markup here because sorting, searching and charts need the numbers there anyway.
//!
//! Invariants:
//!
//! - HT1. No text of a log is ever markup: in the file it stands inside JSON in which `<`, `>` and `&` are escaped, and the
//!   script makes text nodes only. Characters that reorder or hide text are shown by their names.
//! - HT2. The file is smaller than `MAX_BYTES`, whatever the report holds; what was shortened is said on the page.
//!
//! The style and the script are in `parts/`, by noun. Tested in `tests/it/report/`, where a browser runs the page's test of
//! itself (`#selftest`).

mod view;

use std::io::{self, Write};

use super::diff::Diff;
use super::model::Report;

/// Bound of the file's size.
pub const MAX_BYTES: usize = 3_000_000;

const FRAME: &str = include_str!("parts/frame.html");
const STYLE: &str = include_str!("parts/style.css");
const SCRIPT: [&str; 8] = [
    include_str!("parts/base.js"),
    include_str!("parts/chart.js"),
    include_str!("parts/sql.js"),
    include_str!("parts/overview.js"),
    include_str!("parts/page.js"),
    include_str!("parts/diff.js"),
    include_str!("parts/main.js"),
    include_str!("parts/selftest.js"),
];

/// Writes the page. With `diff` it begins with what changed; `report` is then the one after.
pub fn write(report: &Report, diff: Option<&Diff>, out: &mut dyn Write) -> io::Result<()> {
    let fixed: usize = FRAME.len() + STYLE.len() + SCRIPT.iter().map(|s| s.len()).sum::<usize>();
    let data = view::data(report, diff, MAX_BYTES - fixed)?;
    let mut rest = FRAME;
    // Piece by piece: what is put in is not searched for the next mark.
    while let Some((before, after)) = rest.split_once("{{") {
        let Some((name, after)) = after.split_once("}}") else { break };
        out.write_all(before.as_bytes())?;
        match name {
            "style" => out.write_all(STYLE.as_bytes())?,
            "data" => out.write_all(data.as_bytes())?,
            _ => {
                for part in SCRIPT {
                    out.write_all(part.as_bytes())?;
                }
            }
        }
        rest = after;
    }
    out.write_all(rest.as_bytes())
}
