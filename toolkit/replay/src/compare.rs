//! Compares two answers to one statement.

use std::collections::BTreeSet;

use frond_sqltext::{tokens, SqlMode, Token, TokenKind};

use crate::answer::{Answer, Column, Row, Type, WARNINGS};
use crate::statement::{chooses_among_equals, order, sums, Order, Term};

/// The part of the answers that differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum What {
    Error,
    Columns,
    RowCount,
    Rows,
    Order,
    Affected,
    Warnings,
}

impl What {
    pub fn name(self) -> &'static str {
        match self {
            What::Error => "error",
            What::Columns => "columns",
            What::RowCount => "row count",
            What::Rows => "rows",
            What::Order => "order",
            What::Affected => "affected rows",
            What::Warnings => "warnings",
        }
    }
}

/// The outcome. The `String`s describe each side, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Same,
    /// They differ, and only one can be right.
    Different(What, [String; 2]),
    /// They differ, and both may be right, for this reason.
    Undetermined(&'static str),
}

/// Errors that may pass: lock timeout, deadlock, changed since read, time limits, interrupted.
const PASSING: [u16; 6] = [1205, 1213, 1020, 1969, 3024, 1317];

/// A smaller relative difference of numbers is rounding.
const ROUNDING: f64 = 1e-9;

/// Compares the answers of two servers.
pub fn compare(sql: &[u8], a: &Answer, b: &Answer) -> Verdict {
    let differ = |what, a: String, b: String| Verdict::Different(what, [a, b]);
    match (&a.error, &b.error) {
        (None, None) => {}
        (Some((x, _)), Some((y, _))) if x == y => return Verdict::Same,
        (x, y) => {
            let passing = |e: &Option<(u16, String)>| {
                e.as_ref().is_some_and(|(code, _)| PASSING.contains(code))
            };
            if passing(x) || passing(y) {
                return Verdict::Undetermined("a lock or a time limit ended it on one server");
            }
            let say = |e: &Option<(u16, String)>| match e {
                Some((code, text)) => format!("error {code}: {text}"),
                None => "no error".into(),
            };
            return differ(What::Error, say(x), say(y));
        }
    }
    if a.columns.len() != b.columns.len() {
        let say = |n: usize| format!("{n} columns");
        return differ(What::Columns, say(a.columns.len()), say(b.columns.len()));
    }
    if a.rows != b.rows {
        let say = |n: u64| format!("{n} rows");
        return differ(What::RowCount, say(a.rows), say(b.rows));
    }
    let rows = rows(sql, a, b);
    if rows != Verdict::Same {
        return rows;
    }
    if a.affected != b.affected {
        return differ(What::Affected, a.affected.to_string(), b.affected.to_string());
    }
    // How often a warning comes may depend on the plan.
    let set = |codes: &[u16]| codes.iter().copied().collect::<BTreeSet<u16>>();
    if set(&a.warnings) != set(&b.warnings) {
        if a.warnings.len().max(b.warnings.len()) >= WARNINGS {
            return Verdict::Undetermined("more warnings than are read");
        }
        let say = |codes: &[u16]| match codes {
            [] => "no warnings".into(),
            _ => format!(
                "warnings {}",
                codes.iter().map(u16::to_string).collect::<Vec<_>>().join(", ")
            ),
        };
        return differ(What::Warnings, say(&a.warnings), say(&b.warnings));
    }
    Verdict::Same
}

/// Compares rows; both sides have equally many.
fn rows(sql: &[u8], a: &Answer, b: &Answer) -> Verdict {
    if a.ordered == b.ordered {
        return Verdict::Same;
    }
    let by = order(sql);
    let (Some(x), Some(y)) = (&a.kept, &b.kept) else {
        let say = || "more rows than are kept to be shown".to_string();
        return match (a.unordered == b.unordered, by) {
            (true, Order::No) => Verdict::Same,
            (true, _) => {
                Verdict::Undetermined("too many rows to tell ties of ORDER BY from a wrong order")
            }
            (false, _) if a.columns.iter().chain(&b.columns).any(|c| c.of == Type::Float) => {
                Verdict::Undetermined("too many rows to tell rounding from a wrong number")
            }
            (false, _) => Verdict::Different(What::Rows, [say(), say()]),
        };
    };
    if a.unordered != b.unordered {
        if let Some((left, right)) = first_difference(&a.columns, x, y) {
            if chooses_among_equals(sql) && equal_in_a_collation(&a.columns, x, y) {
                return Verdict::Undetermined(
                    "one of several texts that the collation calls equal",
                );
            }
            if sums(sql) && only_floats_differ(&a.columns, x, y) {
                return Verdict::Undetermined("sums of floats, whose terms may cancel");
            }
            return Verdict::Different(
                What::Rows,
                [show(&a.columns, left), show(&b.columns, right)],
            );
        }
    }
    match by {
        Order::No => Verdict::Same,
        Order::Other => Verdict::Undetermined(
            "same rows in another order: ORDER BY something that is not shown may have ties",
        ),
        Order::Columns(terms) => {
            let Some(keys) = key_columns(&a.columns, &terms) else {
                return Verdict::Undetermined(
                    "same rows in another order: ORDER BY something that is not shown may have ties",
                );
            };
            let unequal = x.iter().zip(y).find(|(x, y)| {
                keys.iter().any(|k| !same_key(&a.columns[*k], value(x, *k), value(y, *k)))
            });
            match unequal {
                None => Verdict::Same,
                Some((x, y)) => {
                    if keys.iter().any(|k| {
                        a.columns[*k].of == Type::Text && !(is_ascii(x, *k) && is_ascii(y, *k))
                    }) {
                        return Verdict::Undetermined("the collation may call the keys equal");
                    }
                    Verdict::Different(What::Order, [show(&a.columns, x), show(&b.columns, y)])
                }
            }
        }
    }
}

fn value(row: &Row, at: usize) -> Option<&[u8]> {
    row.get(at).and_then(|v| v.as_deref())
}

fn is_ascii(row: &Row, at: usize) -> bool {
    value(row, at).is_none_or(<[u8]>::is_ascii)
}

/// The columns of the sort terms, if each term is exactly one of the result's columns.
fn key_columns(columns: &[Column], terms: &[Term]) -> Option<Vec<usize>> {
    terms
        .iter()
        .map(|term| match term {
            Term::Position(n) => n.checked_sub(1).filter(|n| *n < columns.len()),
            Term::Name(_) | Term::Field(..) => {
                let is = |c: &Column| match term {
                    Term::Field(table, field) => {
                        c.field.0.as_bytes().eq_ignore_ascii_case(table)
                            && c.field.1.as_bytes().eq_ignore_ascii_case(field)
                    }
                    Term::Name(name) => c.name.as_bytes().eq_ignore_ascii_case(name),
                    Term::Position(_) => false,
                };
                let mut found = columns.iter().enumerate().filter(|(_, c)| is(c));
                let (at, _) = found.next()?;
                found.next().is_none().then_some(at)
            }
        })
        .collect()
}

/// Whether the rows differ in the order that the statement demands, so that no choice among ties explains it.
pub fn keys_differ(sql: &[u8], a: &Answer, b: &Answer) -> bool {
    let (Order::Columns(terms), Some(x), Some(y)) = (order(sql), &a.kept, &b.kept) else {
        return false;
    };
    let Some(keys) = key_columns(&a.columns, &terms) else { return false };
    // A collation may call other texts equal.
    let certain = |k: usize, x: &Row, y: &Row| {
        a.columns[k].of != Type::Text || is_ascii(x, k) && is_ascii(y, k)
    };
    x.len() == y.len()
        && x.iter().zip(y).any(|(x, y)| {
            keys.iter()
                .any(|&k| certain(k, x, y) && !same_key(&a.columns[k], value(x, k), value(y, k)))
        })
}

/// Whether columns differ that have one value for each group, whichever of its rows the other columns show.
pub fn aggregates_differ(sql: &[u8], a: &Answer, b: &Answer) -> bool {
    let names = aggregates(sql);
    let is = |c: &Column| names.iter().any(|name| c.name.as_bytes().eq_ignore_ascii_case(name));
    let alone = |c: &Column| a.columns.iter().filter(|other| other.name == c.name).count() == 1;
    let chosen = |c: &Column| c.of == Type::Exact && is(c) && alone(c);
    let at: Vec<usize> = (0..a.columns.len()).filter(|i| chosen(&a.columns[*i])).collect();
    let values = |rows: &[Row]| {
        let of = |row: &Row| at.iter().map(|i| row.get(*i).cloned()).collect::<Vec<_>>();
        let mut values: Vec<_> = rows.iter().map(of).collect();
        values.sort();
        values
    };
    matches!((&a.kept, &b.kept), (Some(x), Some(y)) if values(x) != values(y))
}

/// Names of the columns that are COUNT, SUM and the like. None if the statement is more than one SELECT, or chooses among
/// groups.
fn aggregates(sql: &[u8]) -> Vec<Vec<u8>> {
    let all: Vec<Token> = tokens(sql, SqlMode::default()).collect();
    let text = |t: &Token| sql[t.start..t.end].to_ascii_lowercase();
    let is = |t: &Token, words: &[&[u8]]| {
        t.kind == TokenKind::Word && words.contains(&text(t).as_slice())
    };
    let count = |word: &[u8]| all.iter().filter(|t| is(t, &[word])).count();
    let mut names = Vec::new();
    let choices = count(b"having") + count(b"limit");
    if count(b"select") != 1 || choices > 0 || !is(&all[0], &[b"select"]) {
        return names;
    }
    let functions: [&[u8]; 5] = [b"count", b"sum", b"avg", b"min", b"max"];
    // The begin of a column, and where its parentheses closed: once, if it is one call.
    let (mut begin, mut depth, mut closed) = (1, 0, Vec::new());
    for (i, token) in all.iter().enumerate().skip(1) {
        let ends = is(token, &[b"from"]);
        match token.kind {
            TokenKind::Open => depth += 1,
            TokenKind::Close => {
                depth -= 1;
                closed.extend((depth == 0).then_some(i));
            }
            TokenKind::Comma | TokenKind::Word if depth == 0 && (ends || text(token) == b",") => {
                let first = &all[begin];
                if let ([end], true) = (&closed[..], is(first, &functions)) {
                    let name = match &all[*end + 1..i] {
                        _ if all[begin + 1].kind != TokenKind::Open => None,
                        [] => Some(sql[first.start..all[*end].end].to_vec()),
                        [name] => Some(text(name)),
                        [word, name] if is(word, &[b"as"]) => Some(text(name)),
                        _ => None,
                    };
                    names.extend(
                        name.map(|n| n.into_iter().filter(|b| !b"`'\"".contains(b)).collect()),
                    );
                }
                if ends {
                    break;
                }
                (begin, closed) = (i + 1, Vec::new());
            }
            _ => {}
        }
    }
    names
}

fn only_floats_differ(columns: &[Column], x: &[Row], y: &[Row]) -> bool {
    let exact = |at: usize| columns.get(at).is_some_and(|c| c.of != Type::Float);
    let others = |rows: &[Row]| -> Vec<Row> {
        let kept = |row: &Row| {
            row.iter().enumerate().filter(|(at, _)| exact(*at)).map(|(_, v)| v.clone()).collect()
        };
        rows.iter().map(kept).collect()
    };
    let left: Vec<Column> = columns.iter().filter(|c| c.of != Type::Float).cloned().collect();
    left.len() < columns.len() && first_difference(&left, &others(x), &others(y)).is_none()
}

/// Whether two values are equal for sorting.
fn same_key(column: &Column, x: Option<&[u8]>, y: Option<&[u8]>) -> bool {
    match (x, y) {
        (Some(x), Some(y)) => match column.of {
            Type::Exact => x == y,
            Type::Float => same_number(x, y),
            // Most collations ignore case and trailing spaces.
            Type::Text => x.trim_ascii_end().eq_ignore_ascii_case(y.trim_ascii_end()),
        },
        (x, y) => x == y,
    }
}

fn same_value(column: &Column, x: Option<&[u8]>, y: Option<&[u8]>) -> bool {
    match (x, y) {
        (Some(x), Some(y)) if column.of == Type::Float => same_number(x, y),
        (x, y) => x == y,
    }
}

fn number(bytes: &[u8]) -> Option<f64> {
    std::str::from_utf8(bytes).ok()?.trim().parse().ok()
}

fn same_number(x: &[u8], y: &[u8]) -> bool {
    x == y
        || match (number(x), number(y)) {
            (Some(x), Some(y)) => (x - y).abs() <= ROUNDING * x.abs().max(y.abs()),
            _ => false,
        }
}

/// The first pair of rows that differ when both sides are sorted; `None` if only rounding differs.
fn first_difference<'a>(
    columns: &[Column],
    x: &'a [Row],
    y: &'a [Row],
) -> Option<(&'a Row, &'a Row)> {
    let float = |at: usize| columns.get(at).is_some_and(|c| c.of == Type::Float);
    let sorted = |rows: &'a [Row]| {
        let mut rows: Vec<&Row> = rows.iter().collect();
        rows.sort_by(|p, q| {
            let exact =
                |r: &'a Row| r.iter().enumerate().filter(|(i, _)| !float(*i)).map(|(_, v)| v);
            exact(p).cmp(exact(q)).then_with(|| {
                let floats = |r: &Row| -> Vec<f64> {
                    let of =
                        |v: &Option<Vec<u8>>| v.as_deref().and_then(number).unwrap_or(f64::MIN);
                    r.iter().enumerate().filter(|(i, _)| float(*i)).map(|(_, v)| of(v)).collect()
                };
                let pairs = floats(p).into_iter().zip(floats(q));
                pairs
                    .map(|(p, q)| p.total_cmp(&q))
                    .find(|o| o.is_ne())
                    .unwrap_or(std::cmp::Ordering::Equal)
            })
        });
        rows
    };
    sorted(x).into_iter().zip(sorted(y)).find(|(x, y)| {
        x.len() != y.len()
            || (0..x.len()).any(|i| match columns.get(i) {
                Some(column) => !same_value(column, value(x, i), value(y, i)),
                None => value(x, i) != value(y, i),
            })
    })
}

/// False if the rows differ even if texts count as equal wherever a collation may call them equal.
fn equal_in_a_collation(columns: &[Column], x: &[Row], y: &[Row]) -> bool {
    let is_text = |at: usize| columns.get(at).is_some_and(|c| c.of == Type::Text);
    let folded = |rows: &[Row]| -> Vec<Row> {
        let fold = |(at, value): (usize, &Option<Vec<u8>>)| match value {
            // Only the server knows which accented letters are equal.
            Some(text) if is_text(at) && !text.is_ascii() => Some(Vec::new()),
            Some(text) if is_text(at) => Some(text.trim_ascii_end().to_ascii_lowercase()),
            other => other.clone(),
        };
        rows.iter().map(|row| row.iter().enumerate().map(fold).collect()).collect()
    };
    let (x, y) = (folded(x), folded(y));
    match first_difference(columns, &x, &y) {
        None => true,
        // An accented text on one side may equal one without accents on the other.
        Some(_) => {
            let others = |rows: &[Row]| -> Vec<Row> {
                let keep = |row: &Row| {
                    row.iter()
                        .enumerate()
                        .filter(|(at, _)| !is_text(*at))
                        .map(|(_, v)| v.clone())
                        .collect()
                };
                rows.iter().map(keep).collect()
            };
            let accents = x.iter().chain(&y).any(|row| {
                (0..row.len()).any(|at| is_text(at) && value(row, at).is_some_and(<[u8]>::is_empty))
            });
            let left: Vec<Column> =
                columns.iter().filter(|c| c.of != Type::Text).cloned().collect();
            accents && first_difference(&left, &others(&x), &others(&y)).is_none()
        }
    }
}

/// A row as text for people: at most 300 characters.
fn show(columns: &[Column], row: &Row) -> String {
    let mut text = String::new();
    for (i, value) in row.iter().enumerate() {
        if i > 0 {
            text.push_str(", ");
        }
        let name = columns.get(i).map_or("?", |c| c.name.as_str());
        match value {
            None => text.push_str(&format!("{name}: NULL")),
            Some(bytes) => {
                let bytes = &bytes[..bytes.len().min(80)];
                let shown = match std::str::from_utf8(bytes) {
                    Ok(plain) if !plain.chars().any(char::is_control) => plain.to_owned(),
                    _ => bytes.escape_ascii().to_string(),
                };
                text.push_str(&format!("{name}: {shown}"));
            }
        }
        if text.len() > 300 {
            text.push_str(", ...");
            break;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(of: &[Type], rows: &[&[&str]]) -> Answer {
        let mut answer = Answer::new();
        answer.columns = of
            .iter()
            .enumerate()
            .map(|(i, of)| Column {
                name: format!("c{i}"),
                field: ("t".into(), format!("f{i}")),
                of: *of,
            })
            .collect();
        for row in rows {
            answer.row(row.iter().map(|v| Some(v.as_bytes().to_vec())).collect());
        }
        answer
    }

    fn what(sql: &str, a: &Answer, b: &Answer) -> Option<What> {
        match compare(sql.as_bytes(), a, b) {
            Verdict::Different(what, _) => Some(what),
            _ => None,
        }
    }

    #[test]
    fn rows_count_in_any_order_unless_the_statement_says_one() {
        let exact = [Type::Exact, Type::Exact];
        let a = answer(&exact, &[&["1", "x"], &["1", "y"], &["2", "z"]]);
        let tie = answer(&exact, &[&["1", "y"], &["1", "x"], &["2", "z"]]);
        let wrong = answer(&exact, &[&["2", "z"], &["1", "y"], &["1", "x"]]);
        for other in [&tie, &wrong] {
            assert_eq!(compare(b"select * from t", &a, other), Verdict::Same);
        }
        assert_eq!(compare(b"select * from t order by c0", &a, &tie), Verdict::Same);
        assert_eq!(what("select * from t order by c0", &a, &wrong), Some(What::Order));
        assert_eq!(what("select * from t order by 1", &a, &wrong), Some(What::Order));
        assert_eq!(what("select * from t order by t.f0", &a, &wrong), Some(What::Order));
        for by in ["c9", "u.f0", "t.c0", "c1 div c0"] {
            let unsure = compare(format!("select * from t order by {by}").as_bytes(), &a, &wrong);
            assert!(matches!(unsure, Verdict::Undetermined(_)), "{by}: {unsure:?}");
        }
        assert!(keys_differ(b"select * from t order by c0 limit 3", &a, &wrong));
        assert!(!keys_differ(b"select * from t order by c0 limit 3", &a, &tie));
    }

    #[test]
    fn a_row_too_many_a_value_and_a_duplicate_are_found() {
        let one = [Type::Exact];
        let a = answer(&one, &[&["1"], &["1"], &["2"]]);
        for (rows, wanted) in [
            (&[&["1"][..], &["2"], &["2"]][..], What::Rows),
            (&[&["1"], &["1"], &["3"]], What::Rows),
            (&[&["1"], &["1"]], What::RowCount),
        ] {
            assert_eq!(what("select a", &a, &answer(&one, rows)), Some(wanted));
        }
        assert_eq!(what("select a", &a, &answer(&[], &[])), Some(What::Columns));
    }

    #[test]
    fn a_wrong_aggregate_is_told_from_a_column_of_any_row() {
        let of = [Type::Exact, Type::Text, Type::Exact];
        let a = answer(&of, &[&["1", "x", "3"], &["2", "z", "5"]]);
        let other = answer(&of, &[&["2", "z", "5"], &["1", "y", "3"]]);
        let wrong = answer(&of, &[&["2", "z", "5"], &["1", "x", "4"]]);
        for (select, known) in [
            ("select a.*, count(distinct (b)) as `c2` from t a group by c0", true),
            ("select c0, c1, sum(b) c2 from t group by c0", true),
            ("select c0, c1, count(*) + (b) as c2 from t group by c0", false),
            ("select c0, c1, length(b) as c2 from t group by c0", false),
            ("select c0, c1, count(*) c2 from t group by c0 having c1 > 'a'", false),
            ("select c0, c1, count(*) c2 from (select 1) t group by c0", false),
        ] {
            assert!(!aggregates_differ(select.as_bytes(), &a, &other), "{select}");
            assert_eq!(aggregates_differ(select.as_bytes(), &a, &wrong), known, "{select}");
        }
        for sql in [
            &b""[..],
            b"select",
            b"select count",
            b"select count(",
            b"select ) from",
            b"select , from",
        ] {
            assert!(!aggregates_differ(sql, &a, &wrong));
        }
    }

    #[test]
    fn rounding_is_no_difference_and_a_wrong_number_is() {
        let of = [Type::Float, Type::Exact];
        let a = answer(&of, &[&["0.30000000000000004", "x"], &["1e300", "y"]]);
        let b = answer(&of, &[&["1e300", "y"], &["0.3", "x"]]);
        assert_eq!(compare(b"select 1", &a, &b), Verdict::Same);
        let b = answer(&of, &[&["1e300", "y"], &["0.31", "x"]]);
        assert_eq!(what("select 1", &a, &b), Some(What::Rows));
        let sums = "select sum(a), b from t group by b";
        assert!(matches!(compare(sums.as_bytes(), &a, &b), Verdict::Undetermined(_)));
        let b = answer(&of, &[&["1e300", "y"], &["0.3", "z"]]);
        assert_eq!(what(sums, &a, &b), Some(What::Rows));
    }

    #[test]
    fn of_texts_that_a_collation_calls_equal_either_may_stand_for_the_group() {
        let of = [Type::Text, Type::Exact];
        let a = answer(&of, &[&["Anna", "1"], &["bo", "2"]]);
        let b = answer(&of, &[&["anna ", "1"], &["bo", "2"]]);
        assert!(matches!(
            compare(b"select a, count(*) from t group by a", &a, &b),
            Verdict::Undetermined(_)
        ));
        assert_eq!(what("select a, b from t", &a, &b), Some(What::Rows));
        for other in [[["anna", "3"], ["bo", "2"]], [["anne", "1"], ["bo", "2"]]] {
            let b = answer(&of, &[&other[0], &other[1]]);
            assert_eq!(what("select a, count(*) from t group by a", &a, &b), Some(What::Rows));
        }
        let b = answer(&of, &[&["ånna", "1"], &["bo", "2"]]);
        assert!(matches!(
            compare(b"select distinct a, b from t", &a, &b),
            Verdict::Undetermined(_)
        ));
    }

    #[test]
    fn errors_are_compared_by_number_and_locks_prove_nothing() {
        let fine = answer(&[], &[]);
        let failed = |code| Answer::failed(code, "text".into());
        assert_eq!(compare(b"x", &failed(1146), &failed(1146)), Verdict::Same);
        assert_eq!(what("x", &failed(1146), &fine), Some(What::Error));
        assert_eq!(what("x", &failed(1146), &failed(1064)), Some(What::Error));
        assert!(matches!(compare(b"x", &failed(1205), &fine), Verdict::Undetermined(_)));
        let warned = Answer { warnings: vec![1292], ..fine.clone() };
        assert_eq!(what("x", &warned, &fine), Some(What::Warnings));
        let twice = Answer { warnings: vec![1292, 1292], ..fine.clone() };
        assert_eq!(compare(b"x", &warned, &twice), Verdict::Same);
        let many = Answer { warnings: vec![1264; WARNINGS], ..fine.clone() };
        assert!(matches!(compare(b"x", &warned, &many), Verdict::Undetermined(_)));
        let changed = Answer { affected: 1, ..fine.clone() };
        assert_eq!(what("x", &changed, &fine), Some(What::Affected));
    }

    #[test]
    fn an_answer_larger_than_memory_is_compared_by_its_hashes() {
        let long = "x".repeat(1 << 20);
        let rows: Vec<Vec<String>> = (0..8).map(|i| vec![format!("{i}{long}")]).collect();
        let build = |order: &[usize]| {
            let mut a = answer(&[Type::Exact], &[]);
            for i in order {
                a.row(rows[*i].iter().map(|v| Some(v.as_bytes().to_vec())).collect());
            }
            a
        };
        let a = build(&[0, 1, 2, 3, 4, 5]);
        assert!(a.kept.is_none());
        assert_eq!(compare(b"select 1", &a, &build(&[5, 4, 3, 2, 1, 0])), Verdict::Same);
        assert_eq!(what("select 1", &a, &build(&[0, 1, 2, 3, 4, 6])), Some(What::Rows));
    }
}
