//! A class's statement as pt-query-digest ("that tool") prints it: shortened, ready for EXPLAIN, or with a query that
//! reads the rows that the statement changes.
//!
//! The rules were learnt from its output. That tool works on plain text. This module respects quotes:
//! a parenthesis in a literal ends nothing here, but does in that tool.

use std::io::{self, Write};

/// Above this many bytes lists of IN are shortened.
const LONG: usize = 1024;

/// Items of such lists that stay.
const ITEMS: usize = 20;

/// Writes the statement and the lines before and after it.
pub(super) fn write(sql: &[u8], out: &mut dyn Write) -> io::Result<()> {
    let sql = shortened(sql);
    if words(&sql).next().is_some_and(|(_, word)| is(word, b"select")) {
        writeln!(out, "# EXPLAIN /*!50100 PARTITIONS*/")?;
        out.write_all(&sql)?;
        return writeln!(out, "\\G");
    }
    out.write_all(&sql)?;
    writeln!(out, "\\G")?;
    if let Some(query) = converted(&sql) {
        writeln!(out, "# Converted for EXPLAIN\n# EXPLAIN /*!50100 PARTITIONS*/")?;
        out.write_all(&query)?;
        writeln!(out, "\\G")?;
    }
    Ok(())
}

fn is(word: &[u8], name: &[u8]) -> bool {
    word.eq_ignore_ascii_case(name)
}

/// The words outside quotes and comments, with their places.
fn words(sql: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let mut at = 0;
    std::iter::from_fn(move || loop {
        let byte = *sql.get(at)?;
        let begin = at;
        if byte.is_ascii_alphabetic() || byte == b'_' {
            let rest = &sql[at..];
            let length =
                rest.iter().take_while(|b| b.is_ascii_alphanumeric() || **b == b'_').count();
            at += length;
            return Some((begin, &sql[begin..at]));
        }
        at = behind(sql, at);
    })
}

/// The position behind the unit that begins at `at`: a quoted text, a comment, or a byte.
fn behind(sql: &[u8], at: usize) -> usize {
    let rest = &sql[at..];
    let end = match rest[0] {
        quote @ (b'\'' | b'"' | b'`') => {
            let mut end = 1;
            while end < rest.len() && rest[end] != quote {
                end += 1 + usize::from(rest[end] == b'\\' && quote != b'`');
            }
            end + 1
        }
        b'/' if rest.starts_with(b"/*") => {
            memchr::memmem::find(&rest[2..], b"*/").map_or(rest.len(), |end| end + 4)
        }
        _ => 1,
    };
    at + end.min(rest.len())
}

/// A list in parentheses.
struct List {
    open: usize,
    /// Its `)`; none if the statement was cut before it.
    close: Option<usize>,
    /// Commas directly inside.
    commas: usize,
    /// The comma behind the last item that stays.
    stays: usize,
}

/// All lists outside quotes and comments, in the order of their `(`, found in one pass. Searching for each list by
/// itself would take the square of the length for nested lists.
fn lists(sql: &[u8]) -> Vec<List> {
    let (mut lists, mut inside): (Vec<List>, Vec<usize>) = (Vec::new(), Vec::new());
    let mut at = 0;
    while let Some(byte) = sql.get(at) {
        match byte {
            b'(' => {
                inside.push(lists.len());
                lists.push(List { open: at, close: None, commas: 0, stays: at });
            }
            b')' => {
                if let Some(list) = inside.pop() {
                    lists[list].close = Some(at);
                }
            }
            b',' => {
                if let Some(list) = inside.last() {
                    let list = &mut lists[*list];
                    list.commas += 1;
                    if list.commas == ITEMS {
                        list.stays = at;
                    }
                }
            }
            _ => {}
        }
        at = behind(sql, at);
    }
    lists
}

fn list_at(lists: &[List], open: usize) -> Option<&List> {
    lists.binary_search_by_key(&open, |list| list.open).ok().map(|found| &lists[found])
}

fn skip_blank(sql: &[u8], at: usize) -> usize {
    at + sql[at..].iter().take_while(|b| b.is_ascii_whitespace()).count()
}

/// The statement with remarks in place of rows of VALUES but the first, and of items of long lists.
fn shortened(sql: &[u8]) -> Vec<u8> {
    const OMITTED: &[u8] = b" /*... omitted ...*/";
    let mut out = Vec::new();
    let mut from = 0;
    let first = words(sql).next().map_or(&b""[..], |(_, word)| word);
    let inserts = is(first, b"insert") || is(first, b"replace");
    let long = sql.len() > LONG;
    let lists = if inserts || long { lists(sql) } else { Vec::new() };
    for (at, word) in words(sql) {
        let open = skip_blank(sql, at + word.len());
        if at < from || sql.get(open) != Some(&b'(') {
            continue;
        }
        if inserts && (is(word, b"values") || is(word, b"value")) {
            let Some(end) = list_at(&lists, open).and_then(|row| row.close) else { continue };
            let mut last = end;
            while let Some(end) = next_row(sql, &lists, last + 1) {
                last = end;
            }
            // The last row of a truncated statement has no end.
            let cut = sql.get(skip_blank(sql, last + 1)) == Some(&b',');
            if last > end || cut {
                out.extend_from_slice(&sql[from..=end]);
                out.extend_from_slice(OMITTED);
                from = if cut { sql.len() } else { skip_blank(sql, last + 1) };
            }
        } else if long && is(word, b"in") {
            let Some(list) = list_at(&lists, open) else { continue };
            if list.commas >= ITEMS {
                out.extend_from_slice(&sql[from..list.stays]);
                let left_out = list.commas + 1 - ITEMS;
                // For a truncated statement their number is unknown.
                let least = if list.close.is_none() { " or more" } else { "" };
                let remark = format!("/*... omitted {left_out}{least} items ...*/");
                out.extend_from_slice(remark.as_bytes());
                from = list.close.unwrap_or(sql.len());
            }
        }
    }
    out.extend_from_slice(&sql[from..]);
    out
}

/// The end of `, (...)` at `at`.
fn next_row(sql: &[u8], lists: &[List], at: usize) -> Option<usize> {
    let comma = skip_blank(sql, at);
    if sql.get(comma) != Some(&b',') {
        return None;
    }
    let open = skip_blank(sql, comma + 1);
    list_at(lists, open)?.close
}

/// A query that reads the rows that the statement changes, in that tool's spacing; it is derived from a few
/// keywords only.
fn converted(sql: &[u8]) -> Option<Vec<u8>> {
    let mut all = words(sql);
    let (at, verb) = all.next()?;
    if is(verb, b"insert") || is(verb, b"replace") {
        return None;
    }
    if is(verb, b"update") {
        let (set, tables) = {
            let mut tables = at + verb.len();
            let mut found = None;
            for (at, word) in all {
                if is(word, b"set") {
                    found = Some(at);
                    break;
                }
                if is(word, b"low_priority") || is(word, b"ignore") {
                    tables = at + word.len();
                }
            }
            (found?, tables)
        };
        let tables = sql[tables..set].trim_ascii();
        let behind = &sql[set + 3..];
        if words(behind).any(|(_, word)| is(word, b"select")) {
            return None;
        }
        let stop = words(behind).find(|(_, w)| is(w, b"where") || is(w, b"limit"));
        let mut query = b"select ".to_vec();
        let mut from = |list: &[u8], rest: &[u8]| {
            query.extend_from_slice(list);
            query.extend_from_slice(b" from ");
            query.extend_from_slice(tables);
            query.push(b' ');
            query.extend_from_slice(rest);
        };
        match stop {
            None => from(behind, b""),
            Some((at, word)) if is(word, b"where") => {
                let condition = &behind[at + word.len()..];
                from(behind[..at].trim_ascii_end(), &[b"where ", condition].concat());
            }
            Some((at, _)) => {
                from(&behind[..at], &[b" ", &behind[at..], b" "].concat());
            }
        }
        return Some(query);
    }
    if is(verb, b"delete") {
        let (from, word) = all.find(|(_, word)| is(word, b"from"))?;
        let what: &[u8] = if all.any(|(_, word)| is(word, b"join")) {
            b"select 1 from "
        } else {
            b"select * from "
        };
        return Some([what, &sql[from + word.len()..]].concat());
    }
    let (at, _) = all.find(|(_, word)| is(word, b"select"))?;
    Some(sql[at..].to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(sql: &str) -> String {
        let mut out = Vec::new();
        write(sql.as_bytes(), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    /// The output of version 3.2.1, or nothing.
    #[test]
    fn statements_that_change_something_are_made_queries() {
        for (sql, query) in [
            ("update t set a=1, b=2 where c=3", "select  a=1, b=2 from t where  c=3"),
            ("update low_priority t set a=1", "select  a=1 from t "),
            ("update t set a=1 limit 1", "select  a=1  from t  limit 1 "),
            (
                "/* c */ update t, u set t.a=u.a where t.id=u.id",
                "select  t.a=u.a from t, u where  t.id=u.id",
            ),
            ("delete from t where a=1 limit 5", "select * from  t where a=1 limit 5"),
            ("delete t from t join u using(id)", "select 1 from  t join u using(id)"),
            ("create table x as select 1 from t", "select 1 from t"),
            ("insert into t select 1 from x", ""),
            ("update t set a = (select b from u WHERE c = 1)", ""),
            ("update t set a = 1\nWHERE b = 2", "select  a = 1 from t where  b = 2"),
            ("set names utf8", ""),
            ("update t", ""),
        ] {
            let said = written(sql);
            let found =
                said.split_once("# Converted for EXPLAIN\n# EXPLAIN /*!50100 PARTITIONS*/\n");
            let found = found.map_or(String::new(), |(_, query)| query.replace("\\G\n", ""));
            assert_eq!(found.trim_end(), query.trim_end(), "{sql}");
        }
        for select in ["select 1", "/* c */ select 1", "(select 1)", "  SELECT 1"] {
            assert_eq!(written(select), format!("# EXPLAIN /*!50100 PARTITIONS*/\n{select}\\G\n"));
        }
    }

    #[test]
    fn rows_and_long_lists_are_remarks() {
        assert_eq!(
            written("insert into t values ('a),('),(2) , (3) on duplicate key update a=1"),
            "insert into t values ('a),(') /*... omitted ...*/on duplicate key update a=1\\G\n"
        );
        assert_eq!(
            written("replace t values (1),(2"),
            "replace t values (1) /*... omitted ...*/\\G\n"
        );
        assert_eq!(written("replace t values (1)"), "replace t values (1)\\G\n");
        let many = |n: u32| (0..n).map(|i| i.to_string()).collect::<Vec<_>>().join(",");
        let short = format!("delete from t where id in ({})", many(100));
        assert!(written(&short).starts_with(&short));
        let long = format!("set x = a in ({}) or b in (1,2,3)", many(1000));
        assert_eq!(
            written(&long),
            format!(
                "set x = a in ({}/*... omitted 980 items ...*/) or b in (1,2,3)\\G\n",
                many(20)
            )
        );
    }

    #[test]
    fn a_long_list_without_its_end_is_a_remark() {
        let many = |n: u32| (0..n).map(|i| i.to_string()).collect::<Vec<_>>().join(",");
        let cut = format!("delete from t where id in ({}", many(10_000));
        let said = format!(
            "delete from t where id in ({}/*... omitted 9980 or more items ...*/\\G\n",
            many(20)
        );
        assert!(written(&cut).starts_with(&said), "{}", &written(&cut)[..200]);
        // The first of two unclosed lists, one inside the other.
        let cut = format!("set x = (a in ({}, b in (1, 2", many(10_000));
        assert!(written(&cut).len() < 200, "{}", written(&cut).len());
    }

    /// Searching for each by itself would take minutes.
    #[test]
    fn lists_inside_of_lists_are_looked_at_once() {
        for unit in ["in(", "in (1,", "values(", "values (1),(", "in(1) or x in("] {
            for head in ["select a1 ", "insert into t "] {
                let sql = format!("{head}{}", unit.repeat((1 << 20) / unit.len()));
                assert!(written(&sql).len() <= sql.len() + 200);
                let close = ")".repeat(sql.len() / unit.len());
                written(&format!("{sql}{close}"));
            }
        }
        assert_eq!(lists(b"a(b(1,2),')',(3)").len(), 3);
    }
}
