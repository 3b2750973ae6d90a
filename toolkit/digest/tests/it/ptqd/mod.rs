//! The same logs through pt-query-digest and through this crate: the same classes, ids, counts, sums, minima, maxima
//! and ranks; statistics from buckets within 5 %.
//!
//! Where pt-query-digest is wrong, `EXCEPTIONS` names the file, the difference and the reason. A test on a log whose
//! answers are known shows that ours is right (`toolkit/querylog/src/slowlog/tests.rs`, `known.rs` here).
//!
//! Needs `pt-query-digest` 3.2.1 and the sample logs (`FROND_QUERYLOG_CORPUS`, or `../shared/corpus/percona-toolkit`
//! beside the checkout); says "skipped" without them.

mod answers;
mod compare;
mod generated;
mod known;
mod peer;
mod text;
mod written;

use std::path::{Path, PathBuf};

/// An error of pt-query-digest, and the test that shows the right answer.
struct Exception {
    file: &'static str,
    /// The beginning of the difference; with a backquote: all differences of this class.
    what: &'static str,
    why: &'static str,
    /// A test in this directory; `capture::` means the tests of that crate.
    test: &'static str,
}

impl Exception {
    fn is(&self, difference: &str) -> bool {
        difference.starts_with(self.what)
            || self.what.starts_with('`') && difference.contains(self.what)
    }
}

const fn except(
    file: &'static str,
    what: &'static str,
    why: &'static str,
    test: &'static str,
) -> Exception {
    Exception { file, what, why, test }
}

const EXCEPTIONS: &[Exception] = &[
    except(
        "genlog004.txt",
        "class A438FCC213C5DBEF0A7922813E57596F ",
        "a class of its own of a Connect whose argument is `Access denied ...`",
        "answers::a_refused_connection_is_a_connection",
    ),
    except(
        "genlog004.txt",
        "`administrator command: Connect`",
        "the same",
        "answers::a_refused_connection_is_a_connection",
    ),
    except(
        "slow017.txt",
        "`select * from mytbl`",
        "it fails to compile its own handler for a negative Query_time",
        "answers::a_negative_time_is_no_time_and_ends_nothing",
    ),
    except(
        "slow023.txt",
        "`select count(*) as a from x`",
        "it counts the line break of a last statement without `;`",
        "answers::the_end_of_the_log_is_no_part_of_a_statement",
    ),
    except(
        "slow034.txt",
        "`select * from foo`",
        "it does not read `Rows_examined:40`, without a blank",
        "answers::a_value_needs_no_blank",
    ),
    except(
        "slow041.txt",
        "`administrator command: Quit`",
        "it counts an event whose head was cut off",
        "answers::an_event_without_its_head_is_not_counted",
    ),
    except(
        "slow056.txt",
        "class DD749893CA4A219A6C099B0B73EA7633 `use ?`",
        "the same",
        "answers::a_use_is_a_statement_if_it_is_all_there_is",
    ),
    except(
        "slow056.txt",
        "class D41D8CD98F00B204E9800998ECF8427E ",
        "it loses the text of a last `use`",
        "answers::a_use_is_a_statement_if_it_is_all_there_is",
    ),
    except(
        "tcpdump-1402776.txt",
        "`administrator command: Connect`",
        "it gives up; the connection in it is complete",
        "capture::protocol::a_login_tells_who_asks",
    ),
    except(
        "tcpdump014.txt",
        "class 751417D45B8E80EE5CBA2034458B5BC9 `show databases`",
        "the answer was changed by hand and is no answer any more",
        "capture::losses::lost_packets_never_give_a_wrong_time",
    ),
    except(
        "tcpdump015.txt",
        "class BAAC6B31CBA3BCC55670638E1DA57EC2 `select * from help_relation`",
        "packets before the statement are missing: whose answer it has is not known",
        "capture::losses::lost_packets_never_give_a_wrong_time",
    ),
    except(
        "tcpdump017.txt",
        "`select @@version_comment limit ?`",
        "one exchange copied four times: the copies are retransmissions",
        "capture::losses::packets_seen_twice_count_once",
    ),
    except(
        "tcpdump031.txt",
        "class C091663267D22B054125D07F6353FB4E `updateddddnnnn`",
        "sequence numbers changed by hand: most of the statement is missing",
        "capture::losses::lost_packets_never_give_a_wrong_time",
    ),
    except(
        "tcpdump032.txt",
        "class C091663267D22B054125D07F6353FB4E `updateddddnnnn`",
        "as 031",
        "capture::losses::lost_packets_never_give_a_wrong_time",
    ),
    except(
        "tcpdump035.txt",
        "`select ? as trick`",
        "packets before the statement are missing: whose answer it has is not known",
        "capture::losses::lost_packets_never_give_a_wrong_time",
    ),
    except(
        "tcpdump037.txt",
        "class 444453C18020D84EAE5A83B27932AB98 `select ? as trick`",
        "the answer is seen after it was acknowledged, two seconds before",
        "capture::losses::an_answer_is_never_given_to_the_request_before",
    ),
    except(
        "tcpdump043.txt",
        "`administrator command: Connect`",
        "of a refused connection it has a class of no statements",
        "capture::protocol::a_refused_connection_has_an_error",
    ),
    except(
        "tcpdump044.txt",
        "class 7417646A9FE969365D51E5F01B88B79E `administrator command: Connect`",
        "it takes a client that went away without a login for a connection",
        "capture::protocol::a_connection_that_breaks_leaves_its_statement_unmeasured",
    ),
];

fn corpus() -> Option<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = match std::env::var_os("FROND_QUERYLOG_CORPUS") {
        Some(path) => PathBuf::from(path),
        None => here.join("../../../shared/corpus/percona-toolkit"),
    };
    path.is_dir().then_some(path)
}

/// Servers in the sample captures that do not use port 3306.
const SERVERS: &[&str] = &["127.0.0.1:12345", "192.168.1.1:3307"];

fn compare_folder(folder: &str, kind: &str) {
    let Some(corpus) = corpus() else {
        eprintln!("skipped: no corpus");
        return;
    };
    if !peer::is_there() {
        eprintln!("skipped: pt-query-digest is not installed");
        return;
    }
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(corpus.join(folder)).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    let only = std::env::var("FROND_QUERYLOG_ONLY").ok();
    let mut failed = Vec::new();
    let mut compared = 0;
    for file in files {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        if only.as_ref().is_some_and(|only| !name.contains(only.as_str())) {
            continue;
        }
        let exceptions: Vec<&Exception> = EXCEPTIONS.iter().filter(|e| e.file == name).collect();
        let peer = peer::digest_of_servers(&file, kind, SERVERS);
        let ours = compare::digest(&file, kind);
        let differences = compare::differences(&peer, &ours);
        for difference in &differences {
            if !exceptions.iter().any(|e| e.is(difference)) {
                failed.push(format!("{name}: {difference}"));
            }
        }
        // An exception that no longer occurs would hide the next difference.
        for e in exceptions {
            if !differences.iter().any(|d| e.is(d)) {
                failed.push(format!(
                    "{name}: no longer differs in '{}' ({}, {})",
                    e.what, e.why, e.test
                ));
            }
        }
        compared += 1;
    }
    eprintln!("{folder}: {compared} files compared");
    assert!(failed.is_empty(), "{} differences:\n{}", failed.len(), failed.join("\n"));
}

#[test]
fn slow_logs_give_the_same_answers() {
    compare_folder("slowlogs", "slowlog");
}

#[test]
fn general_logs_give_the_same_answers() {
    compare_folder("genlogs", "genlog");
}

#[test]
fn captures_give_the_same_answers() {
    compare_folder("tcpdump", "tcpdump");
}

#[test]
fn raw_statements_give_the_same_answers() {
    compare_folder("rawlogs", "rawlog");
}
