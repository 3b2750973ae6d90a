//! Finds where events of a slow log begin.
//!
//! Servers end an event with `;` and a line break and begin the next with `# Time:`, `# User@Host:` or another head
//! line. The same bytes may stand inside a string literal or a comment of a statement, and an event may be torn
//! (a full disk, a copied and truncated file, a crash). So:
//!
//! - BO1. A boundary needs a head line as servers write it, not just `;\n#`.
//! - BO2. A boundary inside an open quote counts only if no later one closes the quote within `LOOK_AHEAD` bytes, or
//!   if the text behind it cannot be the rest of a literal (`unclosed`). A statement without a closing quote, which
//!   servers write as they received it, or which a crash cut, must not swallow the rest of the log. If it ends with `;`
//!   it is whole.
//! - BO3. Head lines of a server start (`..., Version: ...`) end an event wherever they are at the beginning of a line.
//! - BO4. A head whose first lines are damaged still begins an event (`damaged_head`): each event has a line
//!   `# Query_time:`, behind which no other event can hide.
//! - BO5. An `Ending` is certain if no bytes behind the examined ones can change it. A log is cut only behind certain
//!   endings (see `cut`), so that it does not matter how much of it is in the buffer.

use memchr::memmem;

use super::heads::{first_line, is_strong_head};
use super::quotes::{maybe_open, Quotes};
use super::unclosed;
use super::warnings::{self, Listless};

pub use super::heads::is_head;

/// How far an open quote at a boundary may reach, in bytes.
pub const LOOK_AHEAD: usize = 16 << 20;

/// Lines of a head that may be damaged; servers write fewer before `# Query_time:`.
const DAMAGED_LINES: usize = 4;

/// The begin of the head whose strong line is at `line`, if the lines before it are comments behind
/// a whole statement: then they are damaged lines of the head.
fn damaged_head(sql: &[u8], line: usize) -> Option<usize> {
    let mut at = line;
    for _ in 0..DAMAGED_LINES {
        at = line_before(sql, at).filter(|at| sql[*at] == b'#')?;
        if is_whole(&sql[..at]) {
            return Some(at);
        }
    }
    None
}

/// The length of the lines a starting server writes (`PATH, Version: ...`, `Tcp port: ...`, `Time   Id Command`), if
/// `bytes` begins with them; 0 otherwise.
pub fn server_start(bytes: &[u8]) -> usize {
    let line = first_line(bytes);
    // A statement may contain a line with `, Version: `.
    let end = line.trim_ascii_end();
    let ends = end.ends_with(b" started with:") || end.ends_with(b"embedded library");
    if line.len() > 1000
        || line.starts_with(b"#")
        || !ends
        || memmem::find(line, b", Version: ").is_none()
    {
        return 0;
    }
    let mut used = line.len();
    for prefix in [&b"Tcp port: "[..], b"TCP Port: ", b"Time"] {
        let next = first_line(&bytes[used..]);
        if next.starts_with(prefix) {
            used += next.len();
        }
    }
    used
}

/// How a statement's text ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// `;` and the begin of another event or of a server's start.
    Whole,
    /// The buffer ends; the following bytes decide whether that is the end of the event.
    Buffer,
    /// Another event begins before this one has ended.
    Torn,
}

/// Where a statement ends: the offset where the next event (or the head of a server start) begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ending {
    pub at: usize,
    pub how: End,
    /// BO5.
    pub certain: bool,
    /// A literal or a comment of the statement holds text that looks like the begin of an event.
    pub holds: bool,
}

/// Looks for the end of the statement that begins at `sql[0]`.
pub fn end_of_event(finder: &memmem::Finder<'_>, sql: &[u8]) -> Ending {
    let (mut from, mut holds) = (0, false);
    while let Some(found) = finder.find(&sql[from..]) {
        let line = from + found + 1;
        from = line;
        let before = &sql[..line - 1];
        let before = before.strip_suffix(b"\r").unwrap_or(before);
        let (end, how) = if is_whole(before) && is_head(&sql[line..]) {
            (line, End::Whole)
        } else if let Some(start) = heading_before(before) {
            (start, if is_whole(&sql[..start]) { End::Whole } else { End::Torn })
        } else if is_strong_head(&sql[line..]) {
            damaged_head(sql, line).map_or((line, End::Torn), |head| (head, End::Whole))
        } else {
            continue;
        };
        if !maybe_open(&sql[..end]) {
            return Ending { at: end, how, certain: true, holds };
        }
        match closed_later(finder, sql, end) {
            Closing::Here => return Ending { at: end, how, certain: true, holds },
            Closing::Later(at) => {
                from = at.saturating_sub(2);
                holds = true;
            }
            Closing::Never { certain } => return Ending { at: end, how, certain, holds },
        }
    }
    // The log may end with a server's start.
    let whole = sql.trim_ascii_end();
    let (at, how) = match heading_before(whole) {
        Some(start) if is_whole(&sql[..start]) => (start, End::Whole),
        _ => match cut_head(sql) {
            Some(line) if !maybe_open(&sql[..line]) || !Quotes::new(sql).open_at(line) => {
                (line, End::Whole)
            }
            _ => (sql.len(), End::Buffer),
        },
    };
    Ending { at, how, certain: false, holds }
}

/// True if a statement ends with its `;`. Blank lines may follow it in logs that were edited or joined.
#[inline]
fn is_whole(text: &[u8]) -> bool {
    text.trim_ascii_end().ends_with(b";")
}

/// The begin of the last line, if that is only a part of a head: then the log was cut there, and
/// everything before it is whole.
fn cut_head(sql: &[u8]) -> Option<usize> {
    let line = memchr::memrchr(b'\n', sql)? + 1;
    let rest = &sql[line..];
    let begins = [&b"# User@Host: "[..], b"# Time: "].iter().any(|head| head.starts_with(rest));
    (!rest.is_empty() && begins && is_whole(&sql[..line - 1])).then_some(line)
}

/// If the text before a head line ends with a server's start: where the start begins.
fn heading_before(before: &[u8]) -> Option<usize> {
    let last = before.rsplit(|b| *b == b'\n').next()?;
    if !last.starts_with(b"Time") || memmem::find(last, b" Command").is_none() {
        return None;
    }
    // Several starts may follow each other: take the first of the run.
    let mut start = None;
    let mut at = before.len() - last.len();
    for _ in 0..4096 {
        let Some(port) = line_before(before, at) else { break };
        if !(before[port..].starts_with(b"Tcp port: ") || before[port..].starts_with(b"TCP Port: "))
        {
            break;
        }
        let Some(version) = line_before(before, port) else { break };
        if server_start(&before[version..]) == 0 {
            break;
        }
        start = Some(version);
        let Some(previous) = line_before(before, version) else { break };
        if !before[previous..].starts_with(b"Time") {
            break;
        }
        at = previous;
    }
    start
}

/// The begin of the line that ends right before `at`, which is a line's begin.
fn line_before(bytes: &[u8], at: usize) -> Option<usize> {
    let end = at.checked_sub(1)?;
    Some(memchr::memrchr(b'\n', &bytes[..end]).map_or(0, |p| p + 1))
}

/// Whether the quote that may be open at a boundary really is open, and where it closes.
enum Closing {
    Here,
    /// There is a later boundary outside any quote; continue the search at this offset.
    Later(usize),
    /// The quote is never closed. Certain if enough bytes were examined to give up.
    Never {
        certain: bool,
    },
}

/// Boundaries that are tried before an open quote is given up.
const MAX_TRIED: usize = 16;

/// Places where an event could end, whole or cut, that are passed before an open quote is given up. Each of them may
/// be the end of an event with an open quote of its own: without a limit each would read the rest of the log.
const MAX_PASSED: usize = 64;

/// Walks the statement exactly, from its beginning to the boundary at `end` and beyond (BO2). A quote that belongs to
/// another event "closes" this one too, so a later boundary counts only if it is outside quotes.
fn closed_later(finder: &memmem::Finder<'_>, sql: &[u8], end: usize) -> Closing {
    let limit = sql.len().min(end.saturating_add(LOOK_AHEAD));
    let mut quotes = Quotes::new(&sql[..limit]);
    if !quotes.open_at(end) {
        return Closing::Here;
    }
    if quotes.inside.is_some_and(|quote| unclosed::ended(sql, end, quote)) {
        return Closing::Never { certain: true };
    }
    let cut_off = limit == sql.len();
    let (mut from, mut tried, mut passed) = (end, 0, 0);
    while tried < MAX_TRIED && passed < MAX_PASSED {
        let Some(found) = finder.find(&sql[from..limit]) else {
            // Without another boundary the buffer's end is one.
            return match quotes.open_at(limit) {
                true => Closing::Never { certain: !cut_off },
                false => Closing::Later(limit),
            };
        };
        from += found + 1;
        let before = sql[..from - 1].strip_suffix(b"\r").unwrap_or(&sql[..from - 1]);
        if is_whole(before) && is_head(&sql[from..]) {
            if !quotes.open_at(from) {
                return Closing::Later(from);
            }
            tried += 1;
        } else if is_strong_head(&sql[from..]) || heading_before(before).is_some() {
            passed += 1;
        }
    }
    Closing::Never { certain: true }
}

/// An event of a piece: where it and its statement begin, where the statement ends, and how. The ending is certain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    pub at: u32,
    pub body: u32,
    pub end: u32,
    pub how: End,
    /// As in `Ending`.
    pub holds: bool,
}

impl Mark {
    /// The end of the statement that begins at `body`, if it is this event's statement.
    pub(super) fn ending(&self, body: usize) -> Option<Ending> {
        let same = self.body as usize == body;
        let Mark { end, how, holds, .. } = *self;
        same.then_some(Ending { at: end as usize - body, how, certain: true, holds })
    }
}

/// Where to cut a buffer that begins with an event, so that the part before the cut is whole events (or text
/// between them) whatever follows the buffer. `marks` are set to the events before the cut. Buffers must be shorter than
/// 4 GiB.
pub fn cut(bytes: &[u8], marks: &mut Vec<Mark>) -> Option<usize> {
    marks.clear();
    let finder = memmem::Finder::new(b"\n# ");
    let mut listless = Listless::default();
    let mut at = 0;
    let mut last = None;
    loop {
        if at > 0 {
            last = Some(at);
        }
        at = match between(&finder, bytes, at) {
            Between::Event => {
                let (body, certain) = body_of(bytes, at, &mut listless);
                let ending = end_of_event(&finder, &bytes[body..]);
                if !certain || !ending.certain {
                    return last;
                }
                let end = body + ending.at;
                let Ending { how, holds, .. } = ending;
                marks.push(Mark { at: at as u32, body: body as u32, end: end as u32, how, holds });
                end
            }
            Between::Other { next, certain, .. } if certain => next,
            Between::Other { .. } => return last,
        };
    }
}

/// The same without marks.
pub fn last_boundary(bytes: &[u8]) -> Option<usize> {
    cut(bytes, &mut Vec::new())
}

/// What is found at a place where an event might begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Between {
    /// An event begins.
    Event,
    /// Blank lines, a server's start or rubbish.
    Other { next: usize, rubbish: bool, certain: bool },
}

/// Examines the bytes at `at`.
pub fn between(finder: &memmem::Finder<'_>, bytes: &[u8], at: usize) -> Between {
    let rest = &bytes[at..];
    let other = |length, rubbish, certain| Between::Other { next: at + length, rubbish, certain };
    match rest.first() {
        Some(b'#') => return Between::Event,
        Some(b) if b.is_ascii_whitespace() => {
            let blank = rest.iter().take_while(|b| b.is_ascii_whitespace()).count();
            return other(blank, false, blank < rest.len());
        }
        Some(_) => {}
        None => return other(0, false, false),
    }
    let start = server_start(rest);
    if start > 0 {
        // The next line may still belong to the start.
        return other(start, false, start + 16 < rest.len());
    }
    // Rubbish, or the rest of a statement whose head is lost: up to the next head.
    let mut from = 0;
    while let Some(found) = finder.find(&rest[from..]) {
        from += found + 1;
        if is_head(&rest[from..]) || rest[from..].starts_with(b"# administrator command: ") {
            return other(from, true, true);
        }
    }
    other(rest.len(), true, false)
}

/// Where the statement of the event at `at` begins: behind its head lines. Also whether that is certain.
fn body_of(bytes: &[u8], at: usize, listless: &mut Listless) -> (usize, bool) {
    let mut at = at;
    while bytes.get(at) == Some(&b'#') {
        let line = first_line(&bytes[at..]);
        if line.starts_with(b"# administrator command: ") {
            return (at, true);
        }
        at += line.len();
        if warnings::begins_list(line) {
            let (behind, certain) = listless.end_of_list(bytes, at);
            if !certain {
                return (behind, false);
            }
            at = behind;
        }
    }
    (at, at < bytes.len())
}

#[cfg(test)]
mod tests;
