//! Reports as one HTML file that works offline: the frame, the look, and how things are drawn. A `Document` is also written as text
//! for a terminal (`text`).
//!
//! A file holds its data as JSON and a script that draws them. There is no library, nothing is loaded from anywhere, and a content
//! security policy in the file forbids loading. `frond digest` brings its own script (`Frame`); the other commands fill in a
//! `Document`, which is drawn here.
//!
//! Invariants:
//!
//! - HP1. No text of a log or a server is ever markup: in the file it is inside JSON in which `<`, `>` and `&` are escaped, and
//!   the script only makes text nodes. Characters that reorder or hide text are shown by their names.
//! - HP2. A file is smaller than `MAX_BYTES`, however large the report is; the page says what was left out.
//!
//! The style and the script are in `parts/`, by noun. `document` has the sections. A page tests itself in a browser when it is
//! opened with `#selftest`: `toolkit/digest/tests/it/report/browser.rs` and `cli/tests/cli/pages.rs` do.

mod document;
mod text;

use std::io::{self, Write};

pub use document::{
    Body, Card, Cells, Chart, Column, Document, Fact, Line, Node, Ratio, Section, Shown, Tile,
};
pub use text::printable;

/// Bound of the file's size.
pub const MAX_BYTES: usize = 3_000_000;

const FRAME: &str = include_str!("parts/frame.html");
const STYLE: &str = include_str!("parts/style.css");
/// The scripts at the beginning of every page.
const SCRIPT: [&str; 2] = [include_str!("parts/base.js"), include_str!("parts/chart.js")];

/// A page: its title, the command that makes it (`digest`), and the page's own scripts.
pub struct Frame<'a> {
    pub title: &'a str,
    pub command: &'a str,
    pub scripts: &'a [&'a str],
}

impl Frame<'_> {
    /// Bytes of a page without its data.
    pub fn fixed_bytes(&self) -> usize {
        let scripts = SCRIPT.iter().chain(self.scripts).map(|s| s.len()).sum::<usize>();
        FRAME.len() + STYLE.len() + scripts + 4 * (self.title.len() + self.command.len())
    }

    /// Writes the page; `data` comes from `escaped`.
    pub fn write(&self, data: &str, out: &mut dyn Write) -> io::Result<()> {
        let mut rest = FRAME;
        // Piece by piece, so that inserted text is not searched for marks.
        while let Some((before, after)) = rest.split_once("{{") {
            let Some((name, after)) = after.split_once("}}") else { break };
            out.write_all(before.as_bytes())?;
            match name {
                "style" => out.write_all(STYLE.as_bytes())?,
                "data" => out.write_all(data.as_bytes())?,
                "title" => out.write_all(self.title.as_bytes())?,
                "command" => out.write_all(self.command.as_bytes())?,
                _ => {
                    for part in SCRIPT.iter().chain(self.scripts) {
                        out.write_all(part.as_bytes())?;
                    }
                }
            }
            rest = after;
        }
        out.write_all(rest.as_bytes())
    }
}

/// JSON with those characters escaped that HTML interprets. They occur in strings only.
pub fn escaped(value: &serde_json::Value) -> io::Result<String> {
    let text = serde_json::to_string(value).map_err(io::Error::from)?;
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => safe.push_str("\\u003c"),
            '>' => safe.push_str("\\u003e"),
            '&' => safe.push_str("\\u0026"),
            c => safe.push(c),
        }
    }
    Ok(safe)
}
