//! Literals masked although nobody knows the `sql_mode` of the session that sent the statement.
//!
//! Under NO_BACKSLASH_ESCAPES the text `'c:\', 'secret'` is two strings, otherwise the first goes on to `', `. Read in
//! the wrong way, what is inside a string stands outside. Only one reading looks like SQL: in the other a string is not
//! closed, or a word touches its end. If neither reading is better, everything from the first doubtful string on is
//! masked: a report may show too little, never too much.

use super::lexer::{in_word, Kind, Lexer, Token};
use super::{redact, SqlMode};

/// How a statement is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    As(SqlMode),
    /// Not known from this byte on.
    DoubtfulFrom(usize),
}

/// How `sql` is read so that it looks like SQL.
pub(super) fn reading(sql: &[u8]) -> Reading {
    let usual = SqlMode::default();
    let other = SqlMode { no_backslash_escapes: true, ..usual };
    let escaped = |pair: &[u8]| pair[0] == b'\\' && matches!(pair[1], b'\'' | b'"');
    if !sql.windows(2).any(escaped) {
        return Reading::As(usual);
    }
    let mut doubt = None;
    for token in Tokens(Lexer::new(sql, usual)) {
        if token.kind == Kind::Text && sql[token.start..token.end].windows(2).any(escaped) {
            doubt = Some(token.start);
            break;
        }
    }
    use Look::{Closed, Open, Wrong};
    match (look(sql, usual), look(sql, other), doubt) {
        (Closed | Open, Wrong, _) | (Closed, Open, _) | (_, _, None) => Reading::As(usual),
        // An end that is missing says nothing against a reading: the statement may have been cut.
        (Wrong, Closed, _) => Reading::As(other),
        (_, _, Some(from)) => Reading::DoubtfulFrom(from),
    }
}

struct Tokens<'s>(Lexer<'s>);

impl Iterator for Tokens<'_> {
    type Item = Token;

    fn next(&mut self) -> Option<Token> {
        self.0.next()
    }
}

/// What a reading makes of a statement.
enum Look {
    /// Every string is closed and followed by something that can follow a string.
    Closed,
    /// But for the last, which is not closed.
    Open,
    /// A word or a backslash touches the end of a string.
    Wrong,
}

fn look(sql: &[u8], mode: SqlMode) -> Look {
    let mut look = Look::Closed;
    for token in Tokens(Lexer::new(sql, mode)).filter(|t| t.kind == Kind::Text) {
        if !closed(&sql[token.start..token.end], mode) {
            look = Look::Open;
        } else if sql.get(token.end).is_some_and(|b| in_word(*b) || *b == b'\\') {
            return Look::Wrong;
        }
    }
    look
}

/// True if the token is not one that goes on to the end of the statement for want of its second quote.
fn closed(text: &[u8], mode: SqlMode) -> bool {
    let Some(open) = text.iter().position(|b| matches!(b, b'\'' | b'"')) else { return true };
    let quote = text[open];
    let body = &text[open + 1..];
    let Some((last, before)) = body.split_last() else { return false };
    if *last != quote {
        return false;
    }
    // Of the quotes at the end the first is escaped by an odd number of backslashes before it; of the others each
    // pair is one quote of the text.
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
    // A name in backquotes that is not closed holds whatever comes behind.
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
    fn what_is_doubtful_or_cut_is_masked_to_its_end() {
        for sql in [
            "select 'a\\' secret ' b\\' secret",
            "select * from t where a='c:\\' and b='secr",
            "select 'x\\', 'secret', 'y\\', 'secret'",
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
