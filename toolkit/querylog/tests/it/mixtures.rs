//! No list has every input that makes a parser read the same bytes again and again. So pieces are
//! put together at random and repeated. If a short text of them takes suspiciously long, a
//! megabyte must still take less than a second.

use super::clock::clock;
use super::fuzzing::{first_seed, rounds};
use super::pieces::{fast, Random, PIECES};
use super::{capture, checks, megabytes};
use frond_sqltext::{distill, fingerprint_with, redact, shorten, tables, Dialect, SqlMode};
use std::time::Duration;

const SHORT: usize = 32 << 10;
const MEGABYTE: usize = 1 << 20;

/// If a short text takes less than this, a megabyte takes less than a second, unless the time grows
/// faster than the square of the length.
const SUSPICIOUS: Duration = Duration::from_micros(1_000_000 / 32 / 32);

/// Further words for statements and lines.
const WORDS: &[&[u8]] = &[
    b"(",
    b")",
    b",",
    b"1",
    b"0x",
    b"-",
    b"--",
    b"#",
    b".",
    b"a",
    b"A",
    b"_",
    b"$",
    b"@",
    b"?",
    b"e",
    b"+",
    b"null ",
    b"true",
    b"limit 1,",
    b" limit ",
    b" order by ",
    b" asc",
    b" union all ",
    b"select ",
    b"select 1 ",
    b"select a from b union ",
    b"values ",
    b"values (1)",
    b"),(",
    b" in (",
    b"(?, ",
    b"insert into t values ",
    b"on duplicate key update ",
    b"call a(",
    b"use a",
    b"from ",
    b" join ",
    b"update ",
    b"set ",
    b"/*!",
    b"/*M!",
    b"/*a.b:1/2*/",
    b"administrator command: ",
    b"# administrator command: ",
    b"\\'",
    b"\\\"",
    b"''",
    b"'a'",
    b"\"b\"",
    b"`c`",
    b"x'",
    b"N'",
    b"_utf8'",
    b"date '2020-01-01'",
    b";\n",
    b";\n# Time: 240310 12:00:01\n",
    b"\n# ",
    b"x: ",
    b": ",
    b"Schema: a",
    b"  ",
    b"# Warnings\n",
    b"# explain: a\n",
    b"SET timestamp=1;\n",
    b"use `a`;\n",
    b"create table ",
    b"alter ",
    b"load data infile ",
    b"with a as (",
    b"execute immediate ",
    b"12:00:01.000001 IP 1.1.1.1.1 > 2.2.2.2.3306: tcp 5\n\t0x0000:  4508 0041\n",
    b"prepare a from ",
    b"begin ",
    b"lock tables a read, ",
    b"truncate ",
    b"show tables ",
];

fn piece(random: &mut Random) -> Vec<u8> {
    let mut text = Vec::new();
    for _ in 0..random.below(4) {
        let all = if random.below(2) == 0 { PIECES } else { WORDS };
        text.extend_from_slice(all[random.below(all.len())]);
    }
    text
}

/// A text of about `length` bytes: pieces, of which two are repeated.
fn text(parts: &[Vec<u8>; 5], length: usize) -> Vec<u8> {
    let [head, first, between, second, tail] = parts;
    let times = |unit: &Vec<u8>| length / 2 / unit.len().max(1);
    let (first, second) = (first.repeat(times(first)), second.repeat(times(second)));
    [&head[..], &first, between, &second, tail].concat()
}

fn suspect(what: &str, parts: &[Vec<u8>; 5], check: &dyn Fn(&[u8])) {
    let short = text(parts, SHORT);
    let begin = clock();
    check(&short);
    if clock().saturating_sub(begin) > SUSPICIOUS {
        fast(what, &text(parts, MEGABYTE), check);
    }
}

#[test]
fn no_megabyte_of_random_pieces_takes_a_second() {
    let _alone = megabytes::ALONE.lock();
    let mut random = Random(first_seed() ^ 17);
    for _ in 0..rounds(1000) {
        let parts = [(); 5].map(|()| piece(&mut random));
        suspect("the slow log's parser", &parts, &checks::slow_log);
        suspect("the general log's parser", &parts, &checks::general_log);
        suspect("the raw log's parser", &parts, &checks::raw_log);
        suspect("captured traffic's decoder", &parts, &capture::capture);
    }
}

#[test]
fn no_megabyte_of_random_words_takes_a_fingerprint_a_second() {
    let _alone = megabytes::ALONE.lock();
    let mut random = Random(first_seed() ^ 18);
    let mode = SqlMode::default();
    for _ in 0..rounds(1000) {
        let parts = [(); 5].map(|()| piece(&mut random));
        for dialect in Dialect::ALL {
            suspect(&format!("{dialect}"), &parts, &|sql| {
                fingerprint_with(sql, dialect, mode, &mut Vec::new());
            });
        }
        suspect("redact", &parts, &|sql| redact(sql, mode, &mut Vec::new()));
        suspect("tables", &parts, &|sql| tables(sql, mode, &mut Vec::new()));
        suspect("shorten", &parts, &|sql| shorten(sql, 100, &mut Vec::new()));
        suspect("distill", &parts, &|sql| distill(sql, &mut Vec::new()));
    }
}
