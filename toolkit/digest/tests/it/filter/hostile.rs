//! Any text: an answer in time, and no panic.

use super::{checks, event, parse};
use crate::fuzzing::{first_seed, rounds};
use crate::pieces::{fast, repeated, Random};
use frond_digest::filter::{parse_time, Scratch};
use jiff::tz::TimeZone;
use std::time::{Duration, Instant};

fn next(state: &mut u64) -> usize {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    (*state >> 20) as usize
}

#[test]
fn random_expressions_are_refused_or_evaluated() {
    const PIECES: [&str; 48] = [
        "db",
        "user",
        "query_time",
        "rows_sent",
        "start",
        "class",
        "kind",
        "tables",
        "sql",
        "full_scan",
        "known(",
        "attribute(",
        "in",
        "not",
        "and",
        "or",
        "true",
        "&&",
        "||",
        "==",
        "!=",
        "<",
        "<=",
        ">",
        ">=",
        "=~",
        "!~",
        "!",
        "(",
        ")",
        ",",
        ".",
        "-",
        "'",
        "\"",
        "\\",
        "'shop'",
        "\"2h\"",
        "5",
        "0.5",
        "1e6",
        "10MB",
        "500ms",
        "\u{e9}",
        "\n",
        "'select'",
        "('a')",
        "99999999999999999999",
    ];
    let mut state = 7;
    let mut parsed = 0;
    let mut scratch = Scratch::default();
    for _ in 0..100_000 {
        let pieces: Vec<_> =
            (0..next(&mut state) % 9).map(|_| PIECES[next(&mut state) % 48]).collect();
        match parse(&pieces.join(" ")) {
            Ok(filter) => {
                parsed += 1;
                filter.matches(&event(), None, &mut scratch);
            }
            Err(error) => assert!(error.to_string().contains('^')),
        }
    }
    assert!(parsed > 20, "only {parsed} expressions were right");
}

#[test]
fn huge_expressions_are_refused_quickly() {
    let start = Instant::now();
    for (text, accepted) in [
        ("(".repeat(1 << 20), false),
        ("!".repeat(1 << 20), false),
        (format!("{}true", "not ".repeat(90)), true),
        ("true && ".repeat(1 << 17), false),
        (format!("{}true", "true && ".repeat(1000)), true),
        (format!("rows_sent in ({}1)", "1, ".repeat(100_000)), false),
        (format!("db in ({}'a')", "'a', ".repeat(100_000)), true),
        (format!("db == '{}'", "a".repeat(1 << 20)), true),
        (format!("db =~ '{}'", "a|".repeat(1 << 19)), false),
        ("1".repeat(1 << 20), false),
        ("a".repeat(1 << 20), false),
        ("'".repeat(1 << 20), false),
    ] {
        assert_eq!(parse(&text).is_ok(), accepted, "{:.40}", text);
    }
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
}

#[test]
fn random_times_are_refused_or_read() {
    const BYTES: &[u8] = b"0123456789012345:-+.TZ hmsd[]/@ago";
    let mut state = 9;
    for _ in 0..200_000 {
        let len = next(&mut state) % 24;
        let text: String =
            (0..len).map(|_| char::from(BYTES[next(&mut state) % BYTES.len()])).collect();
        if let Err(error) = parse_time(&text, super::NOON, &TimeZone::UTC) {
            assert!(error.to_string().contains("is no time"));
        }
    }
}

#[test]
fn expressions_of_any_bytes_are_refused_or_evaluated() {
    let mut random = Random(first_seed() ^ 13);
    let alphabet = "dbuserqytim_ =!<>&|()'\",.0159msh\\\u{e9}~%";
    let letters: Vec<char> = alphabet.chars().collect();
    for _ in 0..rounds(1000) * 5 {
        let text: String =
            (0..random.below(40)).map(|_| letters[random.below(letters.len())]).collect();
        checks::expression(&text);
    }
}

#[test]
fn no_megabyte_of_an_expression_takes_a_second() {
    let units = [
        "(",
        ")",
        "!",
        "not ",
        "-",
        "1",
        "1.",
        "1e",
        "'",
        "\"",
        "\\",
        "'\\",
        "db",
        "db == ",
        "db == 'a' && ",
        "db == 'a' || ",
        "(db == 'a') || (",
        "db in (",
        "'a', ",
        "1, ",
        "db =~ ",
        "a|",
        "(a*)*",
        "[",
        "tables.",
        "known(",
        "known(db) and ",
        "attribute('a') ",
        "\u{e9}",
        " ",
        "\n",
        "\t",
        ",",
        ".",
        "5s ",
        "0x",
        "==",
        "start > '2024-01-01' && ",
        "start > '",
    ];
    // A third of the units each day.
    let day = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs() / 86400;
    for unit in units.iter().skip(day as usize % 3).step_by(3) {
        let frames = [
            ("", ""),
            ("db == '", "'"),
            ("db =~ '", "'"),
            ("db in (", "'a')"),
            ("(", ")"),
            ("query_time > ", ""),
        ];
        for (head, tail) in frames {
            let input = repeated(head, unit, tail);
            fast("an expression", &input, &|bytes| {
                checks::expression(std::str::from_utf8(bytes).unwrap());
            });
        }
    }
}
