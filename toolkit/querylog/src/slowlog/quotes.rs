//! Which quotes and comments of a statement are open at an offset.
//!
//! Counting the quotes of every statement exactly would cost more than parsing it. So the exact walk (`Quotes`) is made
//! only if a cheap test (`maybe_open`) cannot exclude an open quote or comment.

use memchr::memmem;

/// False only if no quote or comment can be open at the end of `sql`, which is the beginning of a line.
/// This is certain if `sql` has nothing that could hide a quote, and quotes of at most one kind, an even
/// number of them.
#[inline]
pub(super) fn maybe_open(sql: &[u8]) -> bool {
    let (mut single, mut double, mut back) = (0_u8, 0_u8, 0_u8);
    let mut seen = [0_u8; 8];
    for part in sql.chunks(64) {
        let (mut s, mut d, mut b) = (0_u8, 0_u8, 0_u8);
        for byte in part {
            s += u8::from(*byte == b'\'');
            d += u8::from(*byte == b'"');
            b += u8::from(*byte == b'`');
            seen[3] |= u8::from(*byte == b'\\');
            seen[4] |= u8::from(*byte == b'/');
            seen[5] |= u8::from(*byte == b'*');
            seen[6] |= u8::from(*byte == b'#');
        }
        (seen[0], seen[1], seen[2]) = (seen[0] | s, seen[1] | d, seen[2] | b);
        single = single.wrapping_add(s);
        double = double.wrapping_add(d);
        back = back.wrapping_add(b);
    }
    let [s, d, b, backslash, slash, star, hash, _] = seen.map(|seen| seen != 0);
    let kinds = u8::from(s) + u8::from(d) + u8::from(b);
    (single | double | back) & 1 == 1
        || backslash
        || slash && star
        || kinds > 1
        || kinds == 1 && (hash || memmem::find(sql, b"--").is_some())
}

/// The longest comment that may hide an event's begin. A comment that hides none may have any length.
const COMMENT: usize = 4 << 10;

/// Finds out whether offsets are inside quotes or comments. Offsets must ascend; nothing behind them is read.
pub(super) struct Quotes<'a> {
    sql: &'a [u8],
    at: usize,
    /// The literal that `at` is in.
    pub(super) inside: Option<u8>,
    /// No comment ends before this offset.
    no_close: usize,
}

impl<'a> Quotes<'a> {
    pub(super) fn new(sql: &'a [u8]) -> Quotes<'a> {
        Quotes { sql, at: 0, inside: None, no_close: 0 }
    }

    pub(super) fn open_at(&mut self, offset: usize) -> bool {
        let sql = self.sql;
        while self.at < offset {
            if let Some(quote) = self.inside {
                match close_quote(&sql[..offset], self.at, quote) {
                    Ok(behind) => (self.at, self.inside) = (behind, None),
                    Err(behind) => self.at = behind,
                }
                continue;
            }
            let plain = |b: &&u8| !matches!(**b, b'\'' | b'"' | b'`' | b'/' | b'#' | b'-');
            self.at += sql[self.at..offset].iter().take_while(plain).count();
            if self.at == offset {
                break;
            }
            let begin = self.at;
            let rest = &sql[begin..];
            let to_line_end = || memchr::memchr(b'\n', rest).map_or(sql.len(), |p| begin + p);
            self.at = match rest[0] {
                quote @ (b'\'' | b'"' | b'`') => {
                    self.inside = Some(quote);
                    begin + 1
                }
                b'/' if rest.starts_with(b"/*") => self.behind_comment(begin, offset),
                b'#' => to_line_end(),
                b'-' if matches!(rest, [_, b'-', 0..=b' ', ..]) => to_line_end(),
                _ => begin + 1,
            };
        }
        self.inside.is_some() || self.at > offset
    }

    /// The position behind the comment that begins at `begin`. If the comment is closed neither
    /// before `offset` nor soon after it, it is not a comment, and the result is the position
    /// behind its opening mark. A comment that is still open at the log's end reaches to the end.
    fn behind_comment(&mut self, begin: usize, offset: usize) -> usize {
        let end = self.sql.len().min(offset.max(begin + COMMENT));
        let from = (begin + 2).max(self.no_close);
        if let Some(close) = self.sql.get(from..end).and_then(|text| memmem::find(text, b"*/")) {
            self.no_close = from + close;
            return from + close + 2;
        }
        self.no_close = self.no_close.max(end - 1);
        if self.sql.len() - begin >= COMMENT {
            begin + 2
        } else {
            usize::MAX
        }
    }
}

/// The position behind the quote that closes a literal. The search begins at `from`, which must not be
/// in the middle of an escape. `Err` if there is none in `sql`, with the position from which to continue: the
/// end of `sql`, or one further, behind an escape.
pub(super) fn close_quote(sql: &[u8], from: usize, quote: u8) -> Result<usize, usize> {
    let mut pos = from;
    loop {
        let rest = sql.get(pos..).ok_or(pos)?;
        let found = match quote {
            b'`' => memchr::memchr(quote, rest),
            _ => memchr::memchr2(quote, b'\\', rest),
        };
        pos += found.ok_or(sql.len())?;
        if sql[pos] == b'\\' && quote != b'`' {
            pos += 2;
        } else {
            return Ok(pos + 1);
        }
    }
}
