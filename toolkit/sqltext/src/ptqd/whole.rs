//! Rule 1 and the second half of rule 2: statements that are answered as a whole, and the cut after
//! the first row of an INSERT. Both use the original text, comments included.

use super::{after_word, is_space, is_word, skip_space};
use memchr::memmem;

/// Appends the answer to `sql` as a whole, if there is one.
pub(super) fn answer(sql: &[u8], out: &mut Vec<u8>) -> bool {
    if sql.starts_with(b"SELECT /*!40001 SQL_NO_CACHE */ * FROM `") {
        out.extend_from_slice(b"mysqldump");
    } else if names_a_chunk(sql) {
        out.extend_from_slice(b"percona-toolkit");
    } else if sql.starts_with(b"administrator command: ") {
        out.extend_from_slice(sql);
    } else if let Some(call) = call(sql) {
        out.extend_from_slice(call);
        out.make_ascii_lowercase();
    } else {
        return false;
    }
    true
}

/// Whether there is a comment `/*db.table:1/2*/` anywhere, strings included: exactly word, dot,
/// word, colon, one digit, slash, one digit.
fn names_a_chunk(sql: &[u8]) -> bool {
    let word = |at: usize| at + sql[at..].iter().take_while(|b| is_word(**b)).count();
    memmem::find_iter(sql, b"/*").any(|comment| {
        let db = comment + 2;
        let dot = word(db);
        if dot == db || sql.get(dot) != Some(&b'.') {
            return false;
        }
        let colon = word(dot + 1);
        match sql.get(colon..) {
            Some([b':', chunk, b'/', chunks, b'*', b'/', ..]) => {
                colon > dot + 1 && chunk.is_ascii_digit() && chunks.is_ascii_digit()
            }
            _ => false,
        }
    })
}

/// The last `CALL name`, with the text between the two, if a parenthesis follows without white
/// space.
pub(super) fn call(sql: &[u8]) -> Option<&[u8]> {
    let sql = &sql[skip_space(sql, 0)..];
    let name = after_word(sql, b"call")?;
    let end = name.iter().position(|b| is_space(*b)).unwrap_or(name.len());
    let open = name[..end].iter().rposition(|b| *b == b'(').filter(|at| *at > 0)?;
    Some(&sql[..sql.len() - name.len() + open])
}

/// Whether `text`, without comments, is `USE name` and nothing else; a line feed may follow.
pub(super) fn is_use(text: &[u8]) -> bool {
    let Some((b"use ", name)) = split_lower::<4>(text).as_ref().map(|(w, n)| (w, *n)) else {
        return false;
    };
    let name = name.strip_suffix(b"\n").unwrap_or(name);
    !name.is_empty() && !name.iter().any(|b| is_space(*b))
}

/// The first `N` bytes in lower case, and the rest.
fn split_lower<const N: usize>(text: &[u8]) -> Option<([u8; N], &[u8])> {
    let (head, rest) = text.split_first_chunk::<N>()?;
    Some((head.map(|b| b.to_ascii_lowercase()), rest))
}

/// Where an `INSERT [IGNORE] INTO` or `REPLACE [IGNORE] INTO` of several rows ends after the first
/// row; the length of `sql` for anything else. A row ends at `), (`, whatever that is part of.
pub(super) fn first_row(sql: &[u8]) -> usize {
    first_row_end(sql).unwrap_or(sql.len())
}

fn first_row_end(sql: &[u8]) -> Option<usize> {
    // Exactly one blank between the verb and IGNORE.
    let rest = ["insert ignore", "replace ignore", "insert", "replace"]
        .iter()
        .find_map(|words| after_word(sql, words.as_bytes()))?;
    let (into, rest) = rest.split_at_checked(4)?;
    if !into.eq_ignore_ascii_case(b"into") {
        return None;
    }
    let offset = sql.len() - rest.len();
    // Exactly one byte, whatever it is, between INTO and VALUES.
    let list = memchr::memchr2_iter(b'v', b'V', rest).skip_while(|at| *at == 0).find_map(|at| {
        let end = at + b"values".len();
        if !rest.get(at..end)?.eq_ignore_ascii_case(b"values") {
            return None;
        }
        let open = skip_space(rest, end);
        (rest.get(open) == Some(&b'(')).then_some(open)
    })?;
    let close = memchr::memchr_iter(b')', &rest[list..]).map(|n| list + n).find(|close| {
        let comma = skip_space(rest, close + 1);
        rest.get(comma) == Some(&b',') && rest.get(skip_space(rest, comma + 1)) == Some(&b'(')
    })?;
    Some(offset + close + 1)
}
