//! Errors of an expression, with their place.

use std::fmt;
use std::ops::Range;

/// An error in an expression. `Display` shows the line with a caret under the place, for a
/// terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterError {
    text: String,
    /// Bytes of `text`.
    place: Range<usize>,
    what: String,
}

impl FilterError {
    pub(super) fn new(text: &str, place: Range<usize>, what: impl Into<String>) -> Self {
        FilterError { text: text.to_string(), place, what: what.into() }
    }

    /// The message, without the place.
    pub fn what(&self) -> &str {
        &self.what
    }

    /// The column of the place's first character, from 1, within its line.
    pub fn column(&self) -> usize {
        let (line, start) = self.line();
        line[..start].chars().count() + 1
    }

    /// The line of the place, and the offset of the place in it.
    fn line(&self) -> (&str, usize) {
        let at = self.place.start.min(self.text.len());
        let from = self.text[..at].rfind('\n').map_or(0, |n| n + 1);
        let to = self.text[at..].find('\n').map_or(self.text.len(), |n| at + n);
        (&self.text[from..to], at - from)
    }
}

/// How much of a line is shown on either side of the place.
const SHOWN: usize = 60;

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (line, start) = self.line();
        let before: Vec<char> = line[..start].chars().collect();
        let after: String = line[start..].chars().take(SHOWN).collect();
        let skipped = before.len().saturating_sub(SHOWN);
        let dots = if skipped > 0 { "..." } else { "" };
        // A tab or another control character would move the caret.
        let plain = |c: char| if c.is_control() { ' ' } else { c };
        let shown: String =
            before[skipped..].iter().copied().chain(after.chars()).map(plain).collect();
        let inside = self.text.get(self.place.clone()).unwrap_or_default();
        let carets = inside.chars().take_while(|c| *c != '\n').count().clamp(1, SHOWN);
        writeln!(f, "{} (column {})", self.what, self.column())?;
        writeln!(f, "  {dots}{shown}")?;
        let indent = dots.len() + before.len() - skipped;
        write!(f, "  {:indent$}{}", "", "^".repeat(carets))
    }
}

impl std::error::Error for FilterError {}

pub(super) type Result<T> = std::result::Result<T, FilterError>;
