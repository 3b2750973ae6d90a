//! The lines between an event's head and its statement: `use database;` and `SET timestamp=...;`.

use super::found::Found;
use frond_event::text::decimal;
use frond_event::Micros;

/// See the module's text.
#[derive(Debug, Default)]
pub(super) struct Preamble<'a> {
    /// The database of `use`.
    pub database: Option<&'a [u8]>,
    pub timestamp: Option<Micros>,
    /// The statement.
    pub rest: &'a [u8],
}

/// Removes `use` and `SET timestamp` from the front of a statement.
#[inline]
pub(super) fn preamble(text: &[u8]) -> Preamble<'_> {
    let mut found = Preamble { rest: text, ..Preamble::default() };
    if text.starts_with(b"use ") {
        if let Some((name, rest)) = line_and_rest(text) {
            found.database = Some(used_name(name));
            found.rest = rest;
        }
    }
    if let Some((timestamp, rest)) = timestamp_alone(found.rest) {
        found.timestamp = Some(timestamp);
        found.rest = rest;
    } else if found.rest.starts_with(b"SET ") {
        if let Some((list, rest)) = line_and_rest(found.rest) {
            if let Some(timestamp) = timestamp_of(&list[4..]) {
                found.timestamp = Some(timestamp);
                found.rest = rest;
            }
        }
    }
    found
}

/// A first line `...;` and the text behind it, if there is any.
fn line_and_rest(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = memchr::memchr(b'\n', text)?;
    let line = text[..end].trim_ascii_end().strip_suffix(b";")?;
    let rest = &text[end + 1..];
    (!rest.trim_ascii().is_empty()).then_some((line, rest))
}

/// True if the last text of a log is not the statement but one of the lines before it.
pub(super) fn is_preamble(text: &[u8], found: &Found) -> bool {
    if found.timestamp.is_some() {
        return false;
    }
    text.strip_prefix(b"SET ")
        .is_some_and(|list| timestamp_of(list.strip_suffix(b";").unwrap_or(list)).is_some())
        // MariaDB writes `SET timestamp` before every statement.
        || found.mariadb && text.starts_with(b"use ")
}

/// The database in the line `use name`.
fn used_name(line: &[u8]) -> &[u8] {
    let name = line[4..].trim_ascii();
    name.strip_prefix(b"`").and_then(|n| n.strip_suffix(b"`")).unwrap_or(name)
}

/// The timestamp of the usual line `SET timestamp=N;`, and what follows it.
#[inline]
fn timestamp_alone(text: &[u8]) -> Option<(Micros, &[u8])> {
    let list = text.strip_prefix(b"SET timestamp=")?;
    let (value, used) = decimal(list, 1_000_000)?;
    let rest = list[used..].strip_prefix(b";\n")?;
    let more = rest.first().is_some_and(|b| !b.is_ascii_whitespace());
    more.then_some((i64::try_from(value).ok()?, rest))
}

/// The timestamp in `last_insert_id=1,insert_id=2,timestamp=3`, if nothing else is set there.
pub(super) fn timestamp_of(list: &[u8]) -> Option<Micros> {
    let mut found = None;
    for item in list.split(|b| *b == b',') {
        let equals = memchr::memchr(b'=', item)?;
        match &item[..equals] {
            b"timestamp" => {
                let (value, used) = decimal(&item[equals + 1..], 1_000_000)?;
                if used != item.len() - equals - 1 {
                    return None;
                }
                found = Some(i64::try_from(value).ok()?);
            }
            b"insert_id" | b"last_insert_id" => {}
            _ => return None,
        }
    }
    found
}
