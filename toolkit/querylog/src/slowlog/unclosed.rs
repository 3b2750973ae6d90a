//! Decides whether an event ended although a quote of its statement is open.
//!
//! MariaDB writes statements as they were sent. Statements that failed because a closing quote was
//! missing are logged with `;` behind them. So are statements of sessions in
//! `NO_BACKSLASH_ESCAPES`, where `'c:\'` is a whole literal. If the log is read on, such a quote is "closed" by
//! the first quote of a later event, which the report would lose. On the other hand there are
//! literals that contain events: some applications store logs in tables.
//!
//! The two are told apart by the bytes behind the boundary, read as the rest of one statement:
//! 1. A literal ends where something can follow it, and the next begins where one can: `'x', 'y'`, but not `'x'y` and
//!    not `y'z'`. An application that stores logs in tables escapes the quotes in them.
//! 2. Only complete events count, with a user and a timestamp that is at most `NEAR` from the statement's own.
//! 3. At most `LOOK` bytes are read. A verdict does not change if there are more.

use memchr::memmem;

use super::heads::is_strong_head;
use super::quotes::close_quote;

/// How far behind the boundary the end of the quote is searched for: this may run for every boundary.
const LOOK: usize = 8 << 10;

/// Seconds between the stamps of two events in a row.
const NEAR: u64 = 7 * 86_400;

/// The most lines of a head, plans included.
const LINES: usize = 200;

/// True if the event of the statement `sql`, in which a literal in `quote` is open at the boundary `end`, ended there.
pub(super) fn ended(sql: &[u8], end: usize, quote: u8) -> bool {
    let window = &sql[..sql.len().min(end.saturating_add(LOOK))];
    is_strong_head(&window[end..])
        && near(timestamp(sql), timestamp(behind_head(&window[end..])))
        && !reads_on(window, end, quote)
}

fn near(one: Option<u64>, other: Option<u64>) -> bool {
    matches!((one, other), (Some(one), Some(other)) if one.abs_diff(other) <= NEAR)
}

/// The position behind the lines of a head.
fn behind_head(head: &[u8]) -> &[u8] {
    let mut rest = head;
    for _ in 0..LINES {
        if !rest.starts_with(b"#") {
            break;
        }
        rest = memchr::memchr(b'\n', rest).map_or(&[][..], |end| &rest[end + 1..]);
    }
    rest
}

/// The `SET timestamp=` at a statement's begin, alone or behind `use`.
fn timestamp(sql: &[u8]) -> Option<u64> {
    let second = || memchr::memchr(b'\n', sql).map_or(&[][..], |end| &sql[end + 1..]);
    let line = if sql.starts_with(b"use ") { second() } else { sql };
    let value = line.strip_prefix(b"SET timestamp=")?;
    let digits = value.iter().take(12).take_while(|b| b.is_ascii_digit()).count();
    let whole = matches!(value.get(digits)?, b';' | b'.' | b',');
    let text = std::str::from_utf8(&value[..digits]).ok()?;
    text.parse().ok().filter(|_| whole)
}

/// False if the bytes behind `end` cannot be the rest of a literal and of its statement.
fn reads_on(window: &[u8], end: usize, quote: u8) -> bool {
    let mut from = end;
    let behind = loop {
        let Ok(behind) = close_quote(window, from, quote) else { return true };
        if window.get(behind) != Some(&quote) {
            break behind;
        }
        from = behind + 1;
    };
    let Some(next) = window.get(behind) else { return true };
    if next.is_ascii_alphanumeric()
        || matches!(next, b'_' | b'%' | b'#' | b'$' | b'\\' | b'[' | b'{')
    {
        return false;
    }
    // Not beyond the next boundary, which is examined by itself.
    let Some(boundary) = memmem::find(&window[behind..], b"\n# ") else { return true };
    let rest = &window[behind..behind + boundary];
    match rest.iter().position(|b| matches!(b, b'\'' | b'"')) {
        Some(0) | None => true,
        Some(open) => may_precede(&rest[..open]),
    }
}

/// False if no literal can begin right behind `text`. Character sets and type words of literals may come right before
/// them.
fn may_precede(text: &[u8]) -> bool {
    let in_word = |b: &&u8| b.is_ascii_alphanumeric() || **b == b'_';
    let word = &text[text.len() - text.iter().rev().take_while(in_word).count()..];
    let kinds: [&[u8]; 4] = [b"x", b"n", b"b", b"q"];
    match word {
        [] => !text.ends_with(b"%"),
        [b'_', ..] => true,
        word => {
            let keyword = word.len() > 1 && word.iter().all(u8::is_ascii_alphabetic);
            kinds.iter().any(|kind| word.eq_ignore_ascii_case(kind))
                || keyword && KEYWORDS.iter().any(|k| word.eq_ignore_ascii_case(k))
        }
    }
}

/// Words that may be followed by a literal without a blank.
const KEYWORDS: [&[u8]; 12] = [
    b"and",
    b"or",
    b"in",
    b"like",
    b"then",
    b"else",
    b"when",
    b"select",
    b"date",
    b"time",
    b"timestamp",
    b"by",
];

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "# User@Host: a[a] @ localhost []\n# Query_time: 1  Lock_time: 0\n";

    fn ended_at_first(log: &str) -> bool {
        let end = log.find("\n# ").map_or(0, |p| p + 1);
        let quote = log.bytes().find(|b| matches!(b, b'\'' | b'"' | b'`')).unwrap_or(b'\'');
        ended(log.as_bytes(), end, quote)
    }

    #[test]
    fn a_quote_that_was_never_closed_is_told_from_a_literal_that_holds_events() {
        let next = |time: &str, sql: &str| format!("{HEAD}SET timestamp={time};\n{sql};\n{HEAD}");
        let open = "SET timestamp=1795341540;\nselect 'abc;\n";
        for sql in
            ["select 'x'", "select a from t where b='x' and c='y'", "select '%x'", "select ' xy'"]
        {
            let near = format!("{open}{}", next("1795341549", sql));
            assert!(ended_at_first(&near), "{sql}");
            // As above, but of another year, and without a user.
            assert!(!ended_at_first(&format!("{open}{}", next("1577872800", sql))), "{sql}");
            assert!(!ended_at_first(&near.replace("# User@Host: ", "# Query_time: ")), "{sql}");
        }
        for rest in
            ["', 'b')", "')", "''', 'b')", " it\\'s', _utf8'b')", "', x'00')", "' and a like'b'"]
        {
            let holds =
                format!("{open}{HEAD}SET timestamp=1795341540;\nselect 1;\n{rest};\n{HEAD}");
            assert!(!ended_at_first(&holds), "{rest}");
        }
    }

    #[test]
    fn what_is_said_stays_so_if_there_is_more() {
        let tail = format!("SET timestamp=1795341541;\nselect 'x y';\n{HEAD}");
        let log = format!("SET timestamp=1795341540;\nselect 'abc;\n{HEAD}{tail}");
        let first = (0..=log.len()).find(|cut| ended_at_first(&log[..*cut])).unwrap_or(0);
        assert!(first > log.len() - tail.len());
        assert!((first..=log.len()).all(|cut| ended_at_first(&log[..cut])));
    }

    /// As MariaDB 10.11 wrote it: two statements fail, two are of a session in `NO_BACKSLASH_ESCAPES`.
    #[test]
    fn statements_with_open_quotes_lose_none_behind_them() {
        use frond_event::{Event, ForEach, Place};
        let fake = "# Time: 200101 10:00:00\n# User@Host: fake[fake] @ localhost []\n\
                    # Query_time: 5  Lock_time: 0\nSET timestamp=1577872800;\nselect 1;\n";
        let holds = format!("insert into t values (4,'x;\n{fake}')");
        let statements = [
            "select 1 from t",
            "select 'abc",
            "select 2 from t where a='x'",
            "insert into t values (1,'c:\\')",
            "insert into t values (2,'c:\\')",
            "insert into t values (3,'plain')",
            "select `abc from t",
            "select 3 from t where a=\"it's\"",
            &holds,
            "select 4 from t",
        ];
        let log: String =
            statements.iter().map(|s| format!("{HEAD}SET timestamp=1795341540;\n{s};\n")).collect();
        let mut found = Vec::new();
        let mut sink = ForEach::new(|event: &Event<'_>| found.push(event.sql.to_vec()));
        let carry = super::super::Carry::default();
        let piece = super::super::Piece {
            bytes: log.as_bytes(),
            place: Place::default(),
            carry: &carry,
            last: true,
        };
        super::super::Parser::new(super::super::Options::default()).parse(piece, &mut sink);
        assert_eq!(sink.skips.len(), 0);
        drop(sink);
        let found: Vec<_> = found.iter().map(|sql| String::from_utf8_lossy(sql)).collect();
        assert_eq!(found, statements);
    }
}
