//! Errors of pt-query-digest in the sample logs, shown on logs whose statements are known: our answer is right, and
//! (where it is installed) pt-query-digest's is still wrong.

use std::io::Write;

use super::compare;
use super::peer::{self, Class};

/// A class as it should be: fingerprint, number of statements, sum of their sizes.
type Known = (&'static str, u64, f64);

fn said(classes: &[Class]) -> Vec<(String, u64, f64)> {
    let size = |c: &Class| c.metrics.get("query_length").map_or(0.0, |n| n.sum);
    let mut said: Vec<_> =
        classes.iter().map(|c| (c.fingerprint.clone(), c.count, size(c))).collect();
    said.sort_by(|a, b| a.0.cmp(&b.0));
    said
}

fn same(said: &[(String, u64, f64)], truth: &[Known]) -> bool {
    said.len() == truth.len() && said.iter().zip(truth).all(|(s, t)| (s.0.as_str(), s.1, s.2) == *t)
}

/// Checks that ours is `truth` (by fingerprint), and pt-query-digest's is not.
fn check(kind: &str, log: &[u8], truth: &[Known]) -> (Vec<Class>, Option<Vec<Class>>) {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(log).unwrap();
    let ours = compare::digest(file.path(), kind);
    assert!(same(&said(&ours), truth), "ours: {:#?}", said(&ours));
    if !peer::is_there() {
        eprintln!("skipped in part: pt-query-digest is not installed");
        return (ours, None);
    }
    let theirs = peer::digest(file.path(), kind);
    (ours, Some(theirs))
}

fn wrong(kind: &str, log: &[u8], truth: &[Known]) {
    if let (_, Some(theirs)) = check(kind, log, truth) {
        assert!(!same(&said(&theirs), truth), "the peer is right now: {:#?}", said(&theirs));
    }
}

fn sum(classes: &[Class], fingerprint: &str, metric: &str) -> f64 {
    let class = classes.iter().find(|c| c.fingerprint == fingerprint).unwrap();
    class.metrics.get(metric).map_or(0.0, |n| n.sum)
}

const HEAD: &str = "# User@Host: app[app] @ web1 [10.0.0.7]\n# Query_time: 0.25  Lock_time: 0.000100  Rows_sent: 1  Rows_examined: 10\n";

/// genlog004: three connections, one of them refused; the text of the refusal is not a command.
#[test]
fn a_refused_connection_is_a_connection() {
    let log = "\t\t12345 Connect\tAccess denied for user 'nobody'@'localhost' (using password: NO)\n\t\t12345 Connect\tnobody@localhost as  on \n\t\t31519 Query\tBEGIN\n\t\t98765 Connect\tpayments_r@1.2.3.4 on sar\n";
    let command = "administrator command: Connect";
    wrong("genlog", log.as_bytes(), &[(command, 3, 3.0 * command.len() as f64), ("begin", 1, 5.0)]);
}

/// slow017: the server's clock went backwards, and the difference was written without its sign. That statement has no
/// time, but the others have theirs; pt-query-digest ends without any class.
#[test]
fn a_negative_time_is_no_time_and_ends_nothing() {
    let log = format!("{HEAD}select * from a;\n# User@Host: app[app] @ web1 []\n# Query_time: 18446744073708.796870.000036  Lock_time: 0.000036  Rows_sent: 1  Rows_examined: 127\nselect * from mytbl;\n{HEAD}select * from a;\n");
    let truth = [("select * from a", 2, 30.0), ("select * from mytbl", 1, 19.0)];
    let (ours, theirs) = check("slowlog", log.as_bytes(), &truth);
    assert_eq!(sum(&ours, "select * from a", "query_time"), 0.5);
    assert_eq!(sum(&ours, "select * from mytbl", "rows_examined"), 127.0);
    assert!(!ours.iter().any(|c| c.metrics.get("query_time").is_some_and(|t| t.max > 1.0)));
    let sum_of = |c: &Class| c.metrics.get("query_time").map_or(0.0, |t| t.sum);
    if let Some(theirs) = theirs {
        let right = same(&said(&theirs), &truth) && theirs.iter().all(|c| sum_of(c) <= 0.5);
        assert!(!right, "the peer is right now: {theirs:#?}");
    }
}

/// slow056: a `use` that is a statement of its own, not the prefix of one: it is the last in its event.
#[test]
fn a_use_is_a_statement_if_it_is_all_there_is() {
    let stamp = "SET timestamp=1767290971;\n";
    let log = format!("{HEAD}{stamp}use test_db;\n{HEAD}{stamp}update t set b = 1;\n");
    wrong("slowlog", log.as_bytes(), &[("update t set b = ?", 1, 18.0), ("use ?", 1, 11.0)]);
}

/// slow023: the log's last line break is not part of the statement.
#[test]
fn the_end_of_the_log_is_no_part_of_a_statement() {
    let log = format!("{HEAD}select 1 from a;\n{HEAD}select count(*) as A from X\n");
    let truth = [("select ? from a", 1, 15.0), ("select count(*) as a from x", 1, 27.0)];
    let mut truth = truth.to_vec();
    truth.sort_by_key(|t| t.0);
    wrong("slowlog", log.as_bytes(), &truth);
}

/// slow034: a value without a blank before it is a value.
#[test]
fn a_value_needs_no_blank() {
    let log = format!(
        "{HEAD}select 1;\n{}select 2;\n",
        HEAD.replace("Rows_examined: ", "Rows_examined:")
    );
    let truth = [("select ?", 2, 16.0)];
    let (ours, theirs) = check("slowlog", log.as_bytes(), &truth);
    assert_eq!(sum(&ours, "select ?", "rows_examined"), 20.0);
    if let Some(theirs) = theirs {
        assert_ne!(sum(&theirs, "select ?", "rows_examined"), 20.0);
    }
}

/// slow041: text behind a lost head is not a statement that took no time.
#[test]
fn an_event_without_its_head_is_not_counted() {
    let quit = "administrator command: Quit";
    let log = format!("# {quit};\n{HEAD}select 1;\n{HEAD}# {quit};\n");
    wrong("slowlog", log.as_bytes(), &[(quit, 1, quit.len() as f64), ("select ?", 1, 8.0)]);
}
