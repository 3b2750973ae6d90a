//! Any bytes: no panic, bounded output, bounded time.

use crate::checks;
use crate::clock::clock;
use crate::fuzzing::{first_seed, rounds};
use crate::statements::{corpus, made, mutated, ordinary, text, Random};
use frond_sqltext::{
    distill, fingerprint_with, redact, shorten, tables, Dialect, SqlMode, StatementKind,
};
use std::time::Duration;

#[test]
fn random_bytes_do_no_harm() {
    let mut random = Random::new(first_seed() ^ 1);
    for round in 0..rounds(20_000) {
        let alphabet: &[u8] = match round % 4 {
            0 => b"'\"`\\-#/*!() ,;.?@:=x1aN\n",
            1 => b"selctunioav (),.;'1?\n",
            _ => b"",
        };
        let len = random.below(200);
        let sql: Vec<u8> = (0..len)
            .map(|_| match alphabet {
                b"" => random.below(256) as u8,
                bytes => bytes[random.below(bytes.len())],
            })
            .collect();
        checks::statement(&sql);
    }
}

#[test]
fn real_and_made_statements_with_accidents_do_no_harm() {
    let corpus = corpus();
    let mut random = Random::new(first_seed() ^ 2);
    for sql in corpus.iter().filter(|sql| sql.len() < 20_000) {
        checks::statement(sql);
    }
    for _ in 0..rounds(10_000) {
        let sql = made(&mut random);
        checks::statement(&sql);
        let base = if corpus.is_empty() { &sql } else { &corpus[random.below(corpus.len())] };
        checks::statement(&mutated(base, &mut random));
        let base = ordinary(&mut random);
        checks::statement(&mutated(&base, &mut random));
        checks::statement(&text(&mut random));
    }
}

/// A statement that repeats `unit` up to a megabyte, between `head` and `tail`.
fn repeated(head: &str, unit: &str, tail: &str) -> Vec<u8> {
    [head, &unit.repeat((1 << 20) / unit.len()), tail].concat().into_bytes()
}

/// A union of arms that are all different.
fn different_arms(union: &str) -> Vec<u8> {
    let mut sql = String::new();
    for n in 0u32.. {
        if sql.len() > 1 << 20 {
            break;
        }
        // Letters, since all digits are one.
        let name: String = (0..5).map(|at| char::from(b'g' + (n >> (4 * at) & 15) as u8)).collect();
        sql.push_str(if n == 0 { "" } else { union });
        sql.push_str("select ");
        sql.push_str(&name);
    }
    sql.into_bytes()
}

/// A megabyte of `open` and `close` around nothing.
fn nested(open: &str, close: &str) -> Vec<u8> {
    let times = (1 << 20) / (open.len() + close.len());
    [open.repeat(times), close.repeat(times)].concat().into_bytes()
}

#[test]
fn no_megabyte_takes_a_second() {
    let inputs = [
        repeated("select ", "'", ""),
        repeated("select ", "\"", ""),
        repeated("select ", "`", ""),
        repeated("select '", "\\'", ""),
        repeated("select ", "\\", ""),
        repeated("", "/*", ""),
        repeated("", "/*!", ""),
        repeated("", "/*! a */", ""),
        repeated("", "/* */ ", ""),
        repeated("", "-- ", ""),
        repeated("", "--'\n", ""),
        repeated("", "--", "'"),
        repeated("", "# x\n", ""),
        repeated("select ", "(", ""),
        repeated("select ", ")", ""),
        repeated("select ", ",", ""),
        repeated("select ", "()", ""),
        repeated("select a in ", "(1,", ""),
        repeated("", "in (1,", ""),
        repeated("", "in (", ""),
        repeated("", "values (1),(2), ", ""),
        repeated("insert into t values ", "(1),", ""),
        repeated("insert into t values ", "(", ""),
        repeated("insert into t values ", "(1) ", ""),
        repeated("insert into t ", "values ", ""),
        repeated("insert into t ", "values (", ""),
        repeated("insert into ", "v", ""),
        repeated("select ", "1", ""),
        repeated("select ", "1 ", ""),
        repeated("select ", "1e", ""),
        repeated("select ", "1.", ""),
        repeated("select ", "-", "1"),
        repeated("select ", "- ", "1"),
        repeated("select ", "x", ""),
        repeated("select ", " ", "1"),
        repeated("select ", "_", "'a'"),
        repeated("select ", "_a ", "'a'"),
        repeated("select ", "@", ""),
        repeated("select ", ":a", ""),
        repeated("", "select ", ""),
        repeated("", "union select ", ""),
        repeated("select a", " union select a", ""),
        repeated("select a", " union all select b union select a", ""),
        repeated("", "select a union ", ""),
        repeated("select 1 ", "limit 1, ", ""),
        repeated("", "order by a asc ", ""),
        repeated("order by ", "asc", ""),
        repeated("order by ", " asc", ""),
        repeated("select * from ", "a, ", ""),
        repeated("select * from ", "a,b.c,", ""),
        repeated("", "from a ", ""),
        repeated("", "from (", ""),
        repeated("", "with a as (", ""),
        repeated("", "with a ", ""),
        repeated("with ", "a as (select 1), ", ""),
        repeated("set statement ", "a ", ""),
        repeated("create table ", "if not exists ", ""),
        repeated("show ", "full ", ""),
        repeated("show ", "count(", ""),
        repeated("", "\u{0}", ""),
        repeated("", "\u{e9}", ""),
        repeated("call ", "a(", ""),
        repeated("", "x'", ""),
        repeated("select ", "'a' ", ""),
        repeated("select ", "null,", ""),
        repeated("select ", "nullx1,", ""),
        repeated("", "/*a.b:1/1", ""),
        repeated("in", ", ", "(1)"),
        repeated("in ", "?,(?)", ""),
        repeated("in(", " x?", ")"),
        repeated("values(1)", "(1),", "(a)"),
        repeated("insert into t values ", "(')'),", ""),
        repeated("insert into t values ", "), ", "("),
        repeated("insert into t values ", ") , ", "("),
        repeated("select a union ", "select b union ", "x"),
        repeated("select a union all ", "select b union ", "select a"),
        different_arms(" union "),
        different_arms(" union all "),
        nested("select * from (", ") x"),
        nested("select a from t where b in (", ")"),
        nested("(", ")"),
        nested("f(1, ", ")"),
        nested("case when a then ", " end"),
        nested("case when a then 1 when ", " then 1 end"),
        nested("(case when a then 1 when ", ") end"),
        repeated("select case ", "when 1 then 2 ", "end"),
        repeated("select ", "case when 1 then ", "end"),
        repeated("select case when a then 1 ", "end when a then 1 ", "end"),
        repeated("select case when a union ", "select a when a union ", "end"),
        repeated("select `", "a", "`"),
        repeated("select ", "a", " from b"),
        repeated("select ", "\u{e9}", " from b"),
        repeated("", "nul", "l"),
        repeated("", "5false ", ""),
        repeated("", "-false", ""),
        repeated("", "b.x?", ""),
        repeated("", ".?", ""),
        repeated("lock tables ", "a read, ", ""),
        repeated("lock tables ", "read ", ""),
        repeated("load data ", "into table", ""),
        repeated("", "update ", ""),
        repeated("", "key update ", ""),
        repeated("insert ", "ignore ", ""),
        repeated("", "from `", ""),
        repeated("", "from `a` , ", ""),
        repeated("from `", " ,", "`"),
        repeated("create ", "table ", ""),
        repeated("create\n", "create\n", "table"),
        repeated("create ", "table `", ""),
        repeated("show ", "count() ", ""),
        repeated("show ", "keys ", ""),
        repeated("show ", "from", ""),
        repeated("show ", " full", " from"),
        repeated("call ", "(", ""),
        repeated("use ", "a", "\n"),
    ];
    let limit = Duration::from_secs(1);
    let mut out = Vec::new();
    let mut found = Vec::new();
    for sql in &inputs {
        let shown = String::from_utf8_lossy(&sql[..40]).into_owned();
        let timed = |what: &str, work: &mut dyn FnMut()| {
            let start = clock();
            work();
            let spent = clock().saturating_sub(start);
            assert!(spent < limit, "{what} of {shown:?}... took {spent:?}");
        };
        for dialect in Dialect::ALL {
            timed(dialect.name(), &mut || {
                fingerprint_with(sql, dialect, SqlMode::default(), &mut out);
            });
            assert!(out.len() <= 3 * sql.len() + 64, "{dialect} of {shown:?}");
        }
        timed("redact", &mut || redact(sql, SqlMode::default(), &mut out));
        timed("shorten", &mut || shorten(sql, 1000, &mut out));
        timed("distill", &mut || distill(sql, &mut out));
        timed("tables", &mut || tables(sql, SqlMode::default(), &mut found));
        timed("kind", &mut || {
            StatementKind::of(sql);
        });
    }
}

#[test]
fn a_large_insert_is_not_read_row_by_row() {
    let mut small = b"insert into t (a, b) values (1, 'x')".to_vec();
    for n in 0..2000 {
        small.extend_from_slice(format!(", ({n}, 'some text')").as_bytes());
    }
    let mut large = small.clone();
    for n in 0..400_000 {
        large.extend_from_slice(format!(", ({n}, 'some text')").as_bytes());
    }
    let tail = b" on duplicate key update a = values(a)";
    small.extend_from_slice(tail);
    large.extend_from_slice(tail);
    assert!(large.len() > 7 << 20);
    let mut out = Vec::new();
    for dialect in [Dialect::Frond, Dialect::Ptqd32] {
        fingerprint_with(&small, dialect, SqlMode::default(), &mut out);
        let expected = out.clone();
        let start = clock();
        for _ in 0..100 {
            fingerprint_with(&large, dialect, SqlMode::default(), &mut out);
        }
        let each = clock().saturating_sub(start) / 100;
        assert_eq!(out, expected, "{dialect}");
        // The dialect of pt-query-digest has to search the whole text for the toolkit's own
        // comments.
        let limit = if dialect == Dialect::Frond { 2 } else { 50 };
        assert!(each < Duration::from_millis(limit), "{dialect}: {each:?} for 7 MB");
    }
    fingerprint_with(&large, Dialect::Frond, SqlMode::default(), &mut out);
    assert_eq!(
        String::from_utf8_lossy(&out),
        "insert into t(a, b) values(?+) on duplicate key update a = values(a)"
    );
}
