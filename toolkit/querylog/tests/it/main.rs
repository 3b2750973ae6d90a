//! Hostile text for every parser: random bytes, good logs with damage, and megabytes of the most
//! expensive inputs. Nothing panics, no megabyte takes a second, memory stays in proportion to the
//! input.
//!
//! Other crates have such tests for their own inputs: statements, captures, expressions. `fuzzing` has the seeds and rounds of
//! all.
// Helpers of tests may fail loudly, read files and look at the clock.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

#[path = "../../../capture/tests/it/checks.rs"]
mod capture;
mod checks;
#[path = "../../../sqltext/tests/it/clock.rs"]
mod clock;
#[path = "../../../sqltext/tests/it/fuzzing.rs"]
mod fuzzing;
mod megabytes;
mod mixtures;
mod pieces;
#[path = "../../../sqltext/tests/it/checks.rs"]
mod statement;

use fuzzing::{first_seed, rounds};
use pieces::{made, mutated, on_each, Random};

const LOGS: [fn(&[u8]); 3] = [checks::slow_log, checks::general_log, checks::raw_log];

#[test]
fn random_bytes_and_pieces_of_logs_do_no_harm() {
    let mut random = Random(first_seed() ^ 11);
    for round in 0..rounds(1000) {
        let text = match round % 3 {
            0 => (0..random.below(200)).map(|_| random.below(256) as u8).collect(),
            1 => {
                (0..random.below(200)).map(|_| b"# \n;'\\Time:59[]@\t"[random.below(17)]).collect()
            }
            _ => made(&mut random),
        };
        LOGS.into_iter().for_each(|check| on_each(&text, check));
        on_each(&text, capture::capture);
        on_each(&text, statement::statement);
    }
}

#[test]
fn good_logs_with_accidents_do_no_harm() {
    let slow = include_bytes!("../data/mariadb-10.11-slow.log");
    let general = include_bytes!("../data/mariadb-10.11-general.log");
    let mut random = Random(first_seed() ^ 12);
    for _ in 0..rounds(1000) {
        let base: &[u8] = if random.below(2) == 0 { slow } else { general };
        let text = mutated(base, &mut random);
        LOGS.into_iter().for_each(|check| on_each(&text, check));
    }
}

/// Each of these once made a piece of a log differ from the same bytes as part of a whole.
#[test]
fn slow_logs_that_once_read_differently_in_pieces() {
    let head = |line: &str| {
        format!("# User@Host: a[a] @ h []\n{line}\n# Query_time: 1  Lock_time: 0\nselect 1;\n")
    };
    let usual = head("# Thread_id: 5  Schema: shop  QC_hit: No");
    for line in [
        "# Thread_id: 5  Schema:shop2  QC_hit: No",
        "#Thread_id: 5 schema: shop2",
        "# Thread_id: 5  Schema: a:  QC_hit: No",
        "# Thread_id: 5  Schema: a:",
        "# Thread_id: 5  Schema: shop2\t",
        "# Thread_id: 5  Schema: shop2\t\r",
        "# Thread_id: 5  Schema: shop2\r\r",
        &format!("# Thread_id: 5  Schema: {}  QC_hit: No", "s".repeat(600)),
        "# Query_time: 1  Lock_time: 0.0fected: 0",
        "# Query_time: 1  Lock_time: 0.5\r\r",
        "# Warnings \t\n# Warning 1 some\n'thing;\nuse `other`;\nSET timestamp=5;",
        "# Thread_id: 5  Schema: \nuse ``;",
    ] {
        let odd = head(line);
        for log in [[&usual, &odd, &usual], [&usual, &usual, &odd]] {
            let log = log.map(String::as_str).concat() + &head("# Thread_id: 5");
            on_each(log.as_bytes(), checks::slow_log);
        }
    }
}
