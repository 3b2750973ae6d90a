//! The report as one HTML file that works offline.
//!
//! `frond_page` has the frame, the look and the parts that all commands' pages share. It also guarantees that no text of a log
//! becomes markup (HP1, HP2 there). This module has the data that the digest shows (see `view`), and the script that draws it, in
//! `parts/`, by noun. The page is drawn in the browser because sorting, searching and charts need the numbers there anyway.
//!
//! Tested in `tests/it/report/`, where a browser runs the page's test of itself (`#selftest`).

mod view;

use std::io::{self, Write};

use frond_page::Frame;
pub use frond_page::MAX_BYTES;

use super::diff::Diff;
use super::model::Report;

const SCRIPTS: [&str; 8] = [
    include_str!("parts/metric.js"),
    include_str!("parts/chart.js"),
    include_str!("parts/sql.js"),
    include_str!("parts/overview.js"),
    include_str!("parts/page.js"),
    include_str!("parts/diff.js"),
    include_str!("parts/main.js"),
    include_str!("parts/selftest.js"),
];
const FRAME: Frame<'_> = Frame { title: "Query digest", command: "digest", scripts: &SCRIPTS };

/// Writes the page. With `diff` it begins with the changes; `report` is then the later of the two.
pub fn write(report: &Report, diff: Option<&Diff>, out: &mut dyn Write) -> io::Result<()> {
    let data = view::data(report, diff, MAX_BYTES - FRAME.fixed_bytes())?;
    FRAME.write(&data, out)
}
