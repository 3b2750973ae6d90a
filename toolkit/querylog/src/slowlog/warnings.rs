//! The list of warnings in an event's head: `# Warnings`, then a line `# Level Code Message` for each.
//!
//! A message may quote a value with line breaks, and so contain any text. MariaDB writes `use` or `SET timestamp`
//! behind the last message; it is searched for within `LIMIT` bytes. If it is not found, the searched lines may
//! begin lists of their own, each of which would search again: so the results are remembered (`Listless`).

use std::ops::Range;

use super::preamble::timestamp_of;

/// The longest list.
const LIMIT: usize = 256 << 10;

/// Ranges of lines, from the begin of one to the begin of another, none of which ends a list. Belongs to one buffer.
#[derive(Clone, Debug, Default)]
pub(super) struct Listless(Range<usize>);

impl Listless {
    /// The position behind the list that begins at `from`. False if it is not certain because the buffer ends. The
    /// answer does not depend on earlier calls.
    pub fn end_of_list(&mut self, bytes: &[u8], from: usize) -> (usize, bool) {
        let mut at = from;
        let mut plain = None;
        while at < bytes.len() && at - from < LIMIT {
            if plain.is_some() && self.0.contains(&at) {
                at = self.0.end;
                continue;
            }
            let end = line_end(bytes, at);
            let line = bytes[at..end].trim_ascii_end();
            if ends_list(line) {
                return (at, end < bytes.len());
            }
            if plain.is_none() && !is_warning(line) {
                plain = Some(at);
            }
            if at == self.0.end {
                self.0.end = end;
            } else if !self.0.contains(&at) {
                self.0 = at..end;
            }
            at = end;
        }
        if at - from > LIMIT {
            // Continues as if every line had been examined.
            at = line_end(bytes, from + LIMIT - 1);
        }
        // The log was cut off, or its server writes lists in another way.
        (plain.unwrap_or(at), at < bytes.len())
    }
}

/// The position behind the line that contains the byte at `at`.
fn line_end(bytes: &[u8], at: usize) -> usize {
    memchr::memchr(b'\n', &bytes[at..]).map_or(bytes.len(), |p| at + p + 1)
}

/// True if a list of warnings begins behind `line`.
pub(super) fn begins_list(line: &[u8]) -> bool {
    line.trim_ascii_end() == b"# Warnings"
}

/// True for a line that MariaDB writes behind the last warning.
fn ends_list(line: &[u8]) -> bool {
    let list = line.strip_prefix(b"SET ").and_then(|list| list.strip_suffix(b";"));
    line.starts_with(b"use `") && line.ends_with(b"`;")
        || list.is_some_and(|list| timestamp_of(list).is_some())
}

fn is_warning(line: &[u8]) -> bool {
    let mut words = line.strip_prefix(b"# ").unwrap_or_default().split(|b| *b == b' ');
    let level = words.next().unwrap_or_default();
    let code = words.next().unwrap_or_default();
    matches!(level, b"Note" | b"Warning" | b"Error")
        && !code.is_empty()
        && code.iter().all(u8::is_ascii_digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Remembered results change nothing, wherever and in whichever order lists begin.
    #[test]
    fn what_was_asked_before_does_not_change_an_answer() {
        let lines = [
            "# Warning 1 a\n",
            "# Warnings\n",
            "text\n",
            "SET timestamp=5;\n",
            "# Note 7 of\n",
            "use `a`;\n",
        ];
        let mut text = String::new();
        let mut starts = vec![];
        for i in 0..400_usize {
            // Long stretches without an end.
            let line = match i * i % 97 {
                0 => 3 + i % 2 * 2,
                other => [0, 1, 2, 4][other % 4],
            };
            starts.push(text.len());
            text.push_str(lines[line]);
            if i % 50 == 20 {
                text.push_str(&"x".repeat(LIMIT / 3));
                text.push('\n');
            }
        }
        let bytes = text.as_bytes();
        let alone: Vec<_> =
            starts.iter().map(|at| Listless::default().end_of_list(bytes, *at)).collect();
        let (mut forwards, mut backwards) = (Listless::default(), Listless::default());
        for (at, alone) in starts.iter().zip(&alone) {
            assert_eq!(forwards.end_of_list(bytes, *at), *alone, "{at}");
        }
        for (at, alone) in starts.iter().zip(&alone).rev() {
            assert_eq!(backwards.end_of_list(bytes, *at), *alone, "{at}");
        }
        assert!(alone.iter().any(|a| a.1) && alone.iter().any(|a| !a.1));
    }
}
