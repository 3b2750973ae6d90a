//! Where events end.

use super::*;

fn end(sql: &str) -> (usize, End) {
    let ending = end_of_event(&memmem::Finder::new(b"\n# "), sql.as_bytes());
    (ending.at, ending.how)
}

const HEAD: &str = "# User@Host: a[a] @ localhost []\n# Query_time: 1  Lock_time: 0\n";

#[test]
fn an_event_ends_before_the_next_head() {
    let sql = "select 1;\n";
    assert_eq!(end(&format!("{sql}{HEAD}select 2;\n")), (sql.len(), End::Whole));
    let crlf = "select 1;\r\n";
    assert_eq!(end(&format!("{crlf}{HEAD}")), (crlf.len(), End::Whole));
    assert_eq!(end("select 1;\n").1, End::Buffer);
    let blank = "select 1;\n\n \r\n";
    assert_eq!(end(&format!("{blank}{HEAD}select 2;\n")), (blank.len(), End::Whole));
}

#[test]
fn a_head_inside_a_literal_is_not_a_boundary() {
    for literal in [
        "'x;\n# y'",
        "'x;\n# Query_time: 1\n'",
        "\"it's;\n# Time: 200101 1:02:03\n\"",
        "'a\\';\n# Schema: \n'",
    ] {
        let sql = format!("insert into t set a={literal}, b='z';\n");
        assert_eq!(end(&format!("{sql}{HEAD}select 1;\n")), (sql.len(), End::Whole), "{literal}");
        assert_eq!(end(&sql), (sql.len(), End::Buffer), "{literal}");
    }
    let two = "insert into t values ('x;\n# User@Host: f[f] @ h []\n', \"d \\\" ;\n# Time: 260101 10:00:00\n\");\n";
    assert_eq!(end(&format!("{two}{HEAD}select 1;\n")), (two.len(), End::Whole));
    for hidden in ["/* it's;\n", "/* its;\n", "\"'\", 'x;\n", "`it's`, 'x;\n", "1 -- it's\n, 'x;\n"]
    {
        let close = if hidden.starts_with('/') { "*/" } else { "'" };
        let comment = format!("select {hidden}{HEAD} {close} 1;\n");
        let log = format!("{comment}{HEAD}select 'a';\n");
        assert_eq!(end(&log), (comment.len(), End::Whole), "{hidden}");
    }
}

/// The following literals would close a quote that is none.
#[test]
fn a_quote_in_a_comment_is_none() {
    let long = format!("select /* don't {} */ 1;\n", "x ".repeat(5000));
    for comment in ["select 1 --\tdon't\n;\n", "select 1 --\n, 'it''s';\n", &long] {
        let log = format!("{comment}{HEAD}select ', ';\n{HEAD}select 2;\n");
        assert_eq!(end(&log), (comment.len(), End::Whole), "{}", &comment[..20]);
    }
    // MariaDB reads this as two minus signs and a literal.
    let no_comment = "select 1 --'x;\n# y';\n";
    assert_eq!(end(&format!("{no_comment}{HEAD}")), (no_comment.len(), End::Whole));
}

#[test]
fn a_head_that_was_cut_ends_the_event_before_it() {
    for cut in ["#", "# ", "# Us", "# User@Host:", "# Tim", "# Time: "] {
        for sql in ["select 1;\n", "select /*+ hint */ 'it\\'s' from `t`;\n"] {
            assert_eq!(end(&format!("{sql}{cut}")), (sql.len(), End::Whole), "{cut}");
        }
    }
    for text in ["select 'a;\n# Us", "select 1\n# Us", "select 1;\n# Ux"] {
        assert_eq!(end(text).1, End::Buffer, "{text}");
    }
}

#[test]
fn an_open_quote_does_not_swallow_the_log() {
    let torn = "insert into t values ('abc;\n";
    let log = format!("{torn}{HEAD}select 1;\n{HEAD}select 2;\n");
    assert_eq!(end(&log), (torn.len(), End::Whole));
    let cut = "insert into t values ('abc\n";
    assert_eq!(end(&format!("{cut}{HEAD}select 1;\n")), (cut.len(), End::Torn));
    // The next event has a literal, which would "close" the quote.
    let log = format!("{torn}{HEAD}select 'a', 'b';\n{HEAD}select 2;\n");
    assert_eq!(end(&log), (torn.len(), End::Whole));
}

#[test]
fn a_server_start_ends_an_event() {
    let start = "/usr/sbin/mariadbd, Version: 10.11.6-MariaDB-log. started with:\nTcp port: 3306  Unix socket: /x\nTime\t\t    Id Command\tArgument\n";
    assert_eq!(end(&format!("select 1;\n{start}{HEAD}")), (10, End::Whole));
    assert_eq!(end(&format!("select 1;\n{start}{start}{HEAD}")), (10, End::Whole));
    assert_eq!(end(&format!("select 1;\n{start}{start}")), (10, End::Whole));
    assert_eq!(end(&format!("select 'a\n{start}{HEAD}")), (10, End::Torn));
    assert_eq!(server_start(start.as_bytes()), start.len());
    for other in ["select 1;\n", "insert into notes values ('mariadbd, Version: 10.11,\n"] {
        assert_eq!(server_start(other.as_bytes()), 0);
    }
}

#[test]
fn pieces_are_cut_where_the_parser_would() {
    let log = format!("{HEAD}select 1;\n{HEAD}insert into t set a='x;\n{HEAD}';\n");
    let boundary = last_boundary(log.as_bytes()).unwrap_or_default();
    assert_eq!(boundary, HEAD.len() + 10);
    assert_eq!(last_boundary(format!("{HEAD}select 1;\n").as_bytes()), None);
}

#[test]
fn a_damaged_line_of_a_head_swallows_no_event() {
    let sql = "select 1;\n";
    let rest = "# Thread_id: 5  Schema: s  QC_hit: No\n# Query_time: 0.5  Lock_time: 0.1\n";
    let user = "# User@Host: a[a] @ localhost []\n";
    for head in [
        format!("# Tame: 261123 11:02:00\n{user}{rest}"),
        format!("# Time: x61123 11:02:00\n{user}{rest}"),
        format!("# T\n{user}{rest}"),
        format!("# Time: 2611'3 11:02:00\n{user}{rest}"),
        format!("# Tame: 261123 11:02:00\n# Uxer@Host: a[a] @ localhost []\n{rest}"),
        format!("# Uxer\"Host: a[a] @ localhost []\n{rest}"),
    ] {
        assert_eq!(end(&format!("{sql}{head}select 2;\n")), (sql.len(), End::Whole), "{head}");
    }
    // Not all of the lines are comments, so those in between belong to neither event.
    let torn = format!("{sql}garbage\n{rest}select 2;\n");
    assert_eq!(end(&torn).1, End::Torn);
    // Inside a literal it is just text.
    let literal = format!("insert into t set a='{sql}# x\n{rest}';\n");
    assert_eq!(end(&format!("{literal}{user}{rest}")), (literal.len(), End::Whole));
}
