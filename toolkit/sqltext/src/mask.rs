//! Masks literals although the `sql_mode` of the session that sent the statement is unknown.
//!
//! Under NO_BACKSLASH_ESCAPES the text `'c:\', 'secret'` is two strings; otherwise the first string extends to
//! `', `. A wrong reading takes the inside of a string for its outside. Usually only one reading looks like
//! SQL: in the other a string is not closed, or a word touches its end. If neither reading is better,
//! everything from the first doubtful string on is masked: a report may show too little, never too much. `name
//! = 'O'Brien' and card = '1234'`, from a program that forgot to escape, has no valid reading either.

use super::lexer::{in_word, Kind, Lexer, Token};
use super::{redact, SqlMode};

/// Which reading of a statement is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    As(SqlMode),
    /// Unknown from this byte on.
    DoubtfulFrom(usize),
}

/// The reading in which `sql` looks like SQL.
pub(super) fn reading(sql: &[u8]) -> Reading {
    let usual = SqlMode::default();
    let other = SqlMode { no_backslash_escapes: true, ..usual };
    let escaped = |pair: &[u8]| pair[0] == b'\\' && matches!(pair[1], b'\'' | b'"');
    let (mut first, mut doubt) = (None, None);
    for token in Tokens(Lexer::new(sql, usual)).filter(|token| token.kind == Kind::Text) {
        first = first.or(Some(token.start));
        if sql[token.start..token.end].windows(2).any(escaped) {
            doubt = Some(token.start);
            break;
        }
    }
    let Some(first) = first else { return Reading::As(usual) };
    use Look::{Closed, Open, Wrong};
    match (look(sql, usual), doubt.map(|from| (from, look(sql, other)))) {
        (Closed, None | Some((_, Open | Wrong))) => Reading::As(usual),
        (Closed, Some((from, Closed))) => Reading::DoubtfulFrom(from),
        (Wrong, Some((_, Closed))) => Reading::As(other),
        // There is a quote too few or too many, and it may be the first.
        _ => Reading::DoubtfulFrom(first),
    }
}

struct Tokens<'s>(Lexer<'s>);

impl Iterator for Tokens<'_> {
    type Item = Token;

    fn next(&mut self) -> Option<Token> {
        self.0.next()
    }
}

/// How a reading looks.
enum Look {
    /// Every string is closed and followed by something that can follow a string.
    Closed,
    /// As above, except that the last string is not closed.
    Open,
    /// A word or a backslash touches the end of a string.
    Wrong,
}

fn look(sql: &[u8], mode: SqlMode) -> Look {
    let mut look = Look::Closed;
    for token in Tokens(Lexer::new(sql, mode)).filter(|t| t.kind == Kind::Text) {
        if !closed(&sql[token.start..token.end], mode) {
            look = Look::Open;
        } else if !may_follow(&sql[token.end..]) {
            return Look::Wrong;
        }
    }
    look
}

/// Words that may follow a string directly: `'x'as name`.
const KEYWORDS: [&[u8]; 16] = [
    b"and", b"as", b"between", b"collate", b"else", b"end", b"escape", b"from", b"group", b"in",
    b"is", b"limit", b"or", b"order", b"then", b"when",
];

/// False if this text cannot follow a string directly in SQL.
fn may_follow(rest: &[u8]) -> bool {
    let word = &rest[..rest.iter().take_while(|b| in_word(**b)).count()];
    match rest.first() {
        Some(b'\\') => false,
        _ => word.is_empty() || KEYWORDS.iter().any(|known| word.eq_ignore_ascii_case(known)),
    }
}

/// False if the token reaches the end of the statement because its closing quote is missing.
fn closed(text: &[u8], mode: SqlMode) -> bool {
    let Some(open) = text.iter().position(|b| matches!(b, b'\'' | b'"')) else { return true };
    let quote = text[open];
    let body = &text[open + 1..];
    let Some((last, before)) = body.split_last() else { return false };
    if *last != quote {
        return false;
    }
    // An odd number of backslashes escapes the first of the quotes at the end; of the
    // others, each pair is one quote of the text.
    let quotes = 1 + before.iter().rev().take_while(|c| **c == quote).count();
    let text = &body[..body.len() - quotes];
    let backslashes = text.iter().rev().take_while(|c| **c == b'\\').count();
    let escaped = usize::from(!mode.no_backslash_escapes && !backslashes.is_multiple_of(2));
    !(quotes - escaped).is_multiple_of(2)
}

/// Appends to the empty `out` the statement with each literal replaced by `?`.
pub(super) fn mask(sql: &[u8], out: &mut Vec<u8>) {
    let (sql, mode, doubtful) = match reading(sql) {
        Reading::As(mode) => (sql, mode, false),
        Reading::DoubtfulFrom(at) => (&sql[..at], SqlMode::default(), true),
    };
    // An unclosed name in backquotes includes the rest of the statement.
    let open_name = Tokens(Lexer::new(sql, mode)).find(|t| {
        t.kind == Kind::Quoted
            && t.end == sql.len()
            && (t.end - t.start < 2 || !sql.ends_with(b"`"))
    });
    redact::redact(&sql[..open_name.map_or(sql.len(), |t| t.start)], mode, out);
    if doubtful || open_name.is_some() {
        out.extend_from_slice(b" ? ...");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masked(sql: &str) -> String {
        let mut out = Vec::new();
        mask(sql.as_bytes(), &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_reading_that_looks_like_sql_is_taken() {
        for (sql, wanted) in [
            ("select 'it\\'s' from t where a='x'", "select ? from t where a=?"),
            ("select '\\'', 'secret' from t", "select ?, ? from t"),
            // NO_BACKSLASH_ESCAPES
            ("select * from t where a='c:\\' and b='secret'", "select * from t where a=? and b=?"),
            ("insert into t values ('\\', 'secret')", "insert into t values (?, ?)"),
        ] {
            assert_eq!(masked(sql), wanted, "{sql}");
        }
    }

    #[test]
    fn statements_without_a_quote_too_many_are_masked_as_they_are() {
        for (sql, wanted) in [
            (
                "select 'a'as x,'b' 'c' from t where y='d'or z=\"e\"",
                "select ?as x,? ? from t where y=?or z=?",
            ),
            ("select 'it''s', _utf8'x', n'y' from t", "select ?, _utf8?, ? from t"),
            ("select 1 /* don't */ from t where a='x' -- it's", "select ? from t where a=?"),
        ] {
            assert_eq!(masked(sql), wanted, "{sql}");
        }
    }

    #[test]
    fn what_is_doubtful_or_cut_is_masked_to_its_end() {
        for sql in [
            "select 'a\\' secret ' b\\' secret",
            "select * from t where a='c:\\' and b='secr",
            "select 'x\\', 'secret', 'y\\', 'secret'",
            "select * from t where name='O'Secret' and iban='secret'",
            "select * from t where name='O'secret and iban='secret'",
            "select * from t where a='x' secret' and b=\"secret\" or c='secret'",
            "select * from t where a=\"x\" secret \" and b='secret' and c='",
            "select * from `a secret",
            "select 'secret",
            "select \"half a secret",
            "select 1 /* a secret",
            "select 1 -- a secret",
            "select x'736563726574', 0x736563726574, n'secret', _utf8'secret', @'secret'",
        ] {
            let text = masked(sql);
            assert!(!text.contains("secret") && !text.contains("secr"), "{sql}: {text}");
            assert!(!text.contains("7365"), "{sql}: {text}");
        }
    }
}
