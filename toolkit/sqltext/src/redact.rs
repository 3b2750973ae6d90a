//! Statements for other readers: literals masked, long lists shortened.

use super::keywords::traits;
use super::lexer::{Kind, Lexer};
use super::{Folded, SqlMode};

/// Appends to the empty `out` the statement with each literal replaced by `?`. White space between
/// the tokens stays; comments may hold anything and are dropped.
pub(super) fn redact(sql: &[u8], mode: SqlMode, out: &mut Vec<u8>) {
    let mut lexer = Lexer::new(sql, mode);
    let mut end = 0;
    while let Some(token) = lexer.next() {
        let gap = &sql[end..token.start];
        if gap.iter().all(|b| *b <= b' ') {
            out.extend_from_slice(gap);
        } else if !out.is_empty() {
            // A comment separates tokens.
            out.push(b' ');
        }
        end = token.end;
        let text = &sql[token.start..token.end];
        match token.kind {
            Kind::Text | Kind::Number => out.push(b'?'),
            Kind::Variable => match text.iter().position(|b| matches!(b, b'\'' | b'"')) {
                Some(quote) => {
                    out.extend_from_slice(&text[..quote]);
                    out.push(b'?');
                }
                None => out.extend_from_slice(text),
            },
            _ => out.extend_from_slice(text),
        }
    }
}

/// Lists longer than this are cut to it.
const ITEMS: usize = 20;

/// Appends to the empty `out` the sample, with long lists cut.
pub(super) fn shorten(sql: &[u8], limit: usize, out: &mut Vec<u8>) {
    let mut lexer = Lexer::new(sql, SqlMode::default());
    let mut copied = 0;
    while let Some(token) = lexer.next() {
        if token.kind != Kind::Word || !traits(&sql[token.start..token.end]).is_keyword() {
            continue;
        }
        let cut = match Folded::of(&sql[token.start..token.end]).as_bytes() {
            b"in" => cut_items(&mut lexer),
            b"values" => cut_tuples(&mut lexer),
            _ => None,
        };
        if let Some(Cut { from, to, omitted, what }) = cut {
            out.extend_from_slice(&sql[copied..from]);
            out.extend_from_slice(format!(" /* {omitted} more {what} */").as_bytes());
            copied = to;
        }
        if limit > 0 && out.len() > limit {
            break;
        }
    }
    out.extend_from_slice(&sql[copied..]);
    if limit > 0 && out.len() > limit {
        let omitted = out.len() - limit;
        out.truncate(limit);
        // Not in the middle of a character.
        while out.last().is_some_and(|b| b & 0xc0 == 0x80) {
            out.pop();
        }
        if out.last().is_some_and(|b| *b >= 0xc0) {
            out.pop();
        }
        out.extend_from_slice(format!(" /* {omitted} more bytes */").as_bytes());
    }
}

/// A part of a statement to leave out.
struct Cut {
    from: usize,
    to: usize,
    omitted: usize,
    what: &'static str,
}

/// After IN: the items past the first `ITEMS` of a list. Reads past the list.
fn cut_items(lexer: &mut Lexer<'_>) -> Option<Cut> {
    let mut ahead = lexer.clone();
    if ahead.next()?.kind != Kind::Open {
        return None;
    }
    let mut depth = 1usize;
    let mut commas = 0;
    let mut from = 0;
    while let Some(token) = ahead.next() {
        match token.kind {
            Kind::Open => depth += 1,
            // A subquery holds lists of its own; it is read by the caller.
            Kind::Word if depth == 1 && commas == 0 => return None,
            Kind::Comma if depth == 1 => {
                commas += 1;
                if commas == ITEMS {
                    from = token.start;
                }
            }
            Kind::Close => {
                depth -= 1;
                if depth == 0 {
                    *lexer = ahead;
                    return (commas >= ITEMS).then(|| Cut {
                        from,
                        to: token.start,
                        omitted: commas + 1 - ITEMS,
                        what: "items",
                    });
                }
            }
            _ => {}
        }
    }
    // The list is not closed. Searching it for other lists would read each to the end again.
    *lexer = ahead;
    None
}

/// After VALUES: the tuples behind the first.
fn cut_tuples(lexer: &mut Lexer<'_>) -> Option<Cut> {
    let mut ahead = lexer.clone();
    let mut tuples = 0usize;
    let mut from = 0;
    let mut to = 0;
    loop {
        let mut tuple = ahead.clone();
        if tuples > 0 && tuple.next()?.kind != Kind::Comma {
            break;
        }
        if tuple.next().is_none_or(|t| t.kind != Kind::Open) {
            break;
        }
        let mut depth = 1usize;
        while depth > 0 {
            let Some(token) = tuple.next() else {
                // The text is cut inside a tuple: its beginning stays, and nothing else is in it.
                *lexer = tuple;
                return None;
            };
            match token.kind {
                Kind::Open => depth += 1,
                Kind::Close => depth -= 1,
                _ => {}
            }
        }
        tuples += 1;
        to = tuple.position();
        if tuples == 1 {
            from = to;
        }
        ahead = tuple;
        if ahead.clone().next().is_none() {
            break;
        }
    }
    *lexer = ahead;
    (tuples > 1).then(|| Cut { from, to, omitted: tuples - 1, what: "rows" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redacted(sql: &str) -> String {
        let mut out = Vec::new();
        redact(sql.as_bytes(), SqlMode::default(), &mut out);
        String::from_utf8(out).unwrap()
    }

    fn shortened(sql: &str, limit: usize) -> String {
        let mut out = Vec::new();
        shorten(sql.as_bytes(), limit, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn no_literal_survives_redaction_and_the_layout_does() {
        assert_eq!(
            redacted(
                "SELECT a1, 'se''cret',\n  \"se\\\"cret\" FROM t -- secret\nWHERE x=-42 AND y=0x53"
            ),
            "SELECT a1, ?,\n  ? FROM t WHERE x=-? AND y=?"
        );
        assert_eq!(
            redacted("grant x to 'u'@'secret' identified by 'secret'"),
            "grant x to ?@? identified by ?"
        );
        assert_eq!(redacted("select/*secret*/1"), "select ?");
        assert_eq!(redacted("select 'secret"), "select ?");
    }

    #[test]
    fn long_lists_are_cut_and_the_remark_counts() {
        let items: Vec<_> = (0..30).map(|i| i.to_string()).collect();
        let sql = format!("select * from t where a in ({}) and b = 1", items.join(","));
        let expected = format!(
            "select * from t where a in ({} /* 10 more items */) and b = 1",
            items[..20].join(",")
        );
        assert_eq!(shortened(&sql, 0), expected);
        assert_eq!(
            shortened("insert into t values (1, f(2)), (3, 4),(5,6) returning a", 0),
            "insert into t values (1, f(2)) /* 2 more rows */ returning a"
        );
        assert_eq!(shortened("insert into t values (1)", 0), "insert into t values (1)");
        assert_eq!(shortened("select 'abcdef'", 10), "select 'ab /* 5 more bytes */");
    }
}
