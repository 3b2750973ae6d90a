//! The behaviour of pt-query-digest, experiment by experiment: the tables of the document that
//! describes it hold for our code, and for the tool where it is installed. Then each of its errors
//! by name, so that nobody repairs one: class ids depend on them.

use crate::peers::answers;
use frond_sqltext::{distill, fingerprint, Dialect};

const DOCUMENT: &str = include_str!("../../../../docs/rfcs/0005-fingerprint-compat.md");

/// Statements and answers of the table under `heading`.
fn experiments(heading: &str) -> Vec<(Vec<u8>, Vec<u8>)> {
    let section = DOCUMENT.split("\n## ").find(|s| s.starts_with(heading)).unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| ") && !line.contains("| rule |"));
    rows.map(|line| {
        let mut cells = line.split(" | ");
        let (statement, answer) = (cells.nth(1).unwrap(), cells.next().unwrap());
        (unquoted(statement), unquoted(answer))
    })
    .collect()
}

/// The text of a cell in backquotes, with its escapes resolved.
fn unquoted(cell: &str) -> Vec<u8> {
    let fence = cell.bytes().take_while(|b| *b == b'`').count();
    let text = &cell[fence..cell.len() - fence];
    let text = if fence > 1 { &text[1..text.len() - 1] } else { text };
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let (b, used) = match (first, tail) {
            (b'\\', [b'n', ..]) => (b'\n', 2),
            (b'\\', [b't', ..]) => (b'\t', 2),
            (b'\\', [b'r', ..]) => (b'\r', 2),
            (b'\\', [b'x', ..]) => {
                (u8::from_str_radix(&text[text.len() - tail.len()..][1..3], 16).unwrap(), 4)
            }
            _ => (*first, 1),
        };
        bytes.push(b);
        rest = &rest[used..];
    }
    bytes
}

fn check(heading: &str, what: &str, least: usize, ours: impl Fn(&[u8], &mut Vec<u8>)) {
    let table = experiments(heading);
    assert!(table.len() >= least, "{} experiments", table.len());
    let mut out = Vec::new();
    for (sql, answer) in &table {
        ours(sql, &mut out);
        assert_eq!(
            out.escape_ascii().to_string(),
            answer.escape_ascii().to_string(),
            "{:?}",
            sql.escape_ascii().to_string()
        );
    }
    let statements: Vec<_> = table.iter().map(|(sql, _)| sql.clone()).collect();
    let Some(tool) = answers(what, &statements) else { return };
    for ((sql, answer), tool) in table.iter().zip(tool) {
        assert_eq!(
            tool.escape_ascii().to_string(),
            answer.escape_ascii().to_string(),
            "the tool, of {:?}",
            sql.escape_ascii().to_string()
        );
    }
}

#[test]
fn every_experiment_with_fingerprints_gives_the_answer_that_is_written_down() {
    check("Fingerprints", "fingerprint", 80, |sql, out| fingerprint(sql, Dialect::Ptqd32, out));
}

#[test]
fn every_experiment_with_items_gives_the_answer_that_is_written_down() {
    check("The column", "distill", 50, distill);
}

fn ptqd(sql: &str) -> String {
    let mut out = Vec::new();
    fingerprint(sql.as_bytes(), Dialect::Ptqd32, &mut out);
    String::from_utf8(out).unwrap()
}

fn item(sql: &str) -> String {
    let mut out = Vec::new();
    distill(sql.as_bytes(), &mut out);
    String::from_utf8(out).unwrap()
}

macro_rules! errors {
    ($($name:ident: $of:ident($sql:expr) == $answer:expr;)*) => {
        $(#[test]
        fn $name() {
            assert_eq!($of($sql), $answer);
        })*
    };
}

errors! {
    error_kept_digits_in_names_become_marks: ptqd("select c1 from t_2024") == "select c? from t_?";
    error_kept_a_qualified_name_after_a_digit_loses_its_dot: ptqd("select * from db2.tbl") == "select * from d?tbl";
    error_kept_an_alias_with_a_digit_swallows_its_column: ptqd("select t1.b from x t1") == "select t? from x t?";
    error_kept_subtraction_of_columns_is_a_number: ptqd("select total-discount") == "select total?iscount";
    error_kept_a_lone_minus_is_a_number: ptqd("select a - b") == "select a ? b";
    error_kept_spacing_of_commas_and_operators_makes_classes:
        ptqd("select a,b=1") == "select a,b=?";
    error_kept_hexadecimal_digits_in_upper_case_stay: ptqd("select 0xAB, 0xab") == "select ?ab, ?";
    error_kept_exponents_in_upper_case_stay: ptqd("select 1E5, 1e5") == "select ?e?, ?";
    error_kept_a_marker_of_bits_in_upper_case_stays: ptqd("select B'01', X'0F'") == "select b?, x?";
    error_kept_the_last_letter_before_a_string_is_a_marker: ptqd("select xx'a'") == "select x?";
    error_kept_a_doubled_quote_splits_a_string: ptqd("select 'it''s'") == "select ??";
    error_kept_a_backslash_before_the_closing_quote_hides_it:
        ptqd(r"select 'a\\', b, 'c'") == "select ?c'";
    error_kept_a_quote_in_a_line_comment_keeps_the_comment:
        ptqd("select 1 -- it's new\nfrom t") == "select ? ? it's new from t";
    error_kept_two_minuses_without_a_blank_are_a_comment: ptqd("select a--b\nfrom t") == "select a from t";
    error_kept_comments_are_found_in_strings: ptqd("select '/*' a '*/' b") == "select ? b";
    error_kept_an_empty_comment_does_not_end: ptqd("select /**/ a, /*b*/ c") == "select c";
    error_kept_a_double_quote_in_a_string_swallows_what_follows:
        ptqd(r#"select 'a"b', c, 'd"e'"#) == "select ?";
    error_kept_a_string_that_looks_like_rows_cuts_an_insert:
        ptqd("insert into t values ('a),(b') on duplicate key update c=1") == "insert into t values ('a)";
    error_kept_a_multi_row_insert_loses_on_duplicate_key:
        ptqd("insert into t values (1),(2) on duplicate key update a=1") == "insert into t values(?+)";
    error_kept_rows_of_insert_without_into_are_not_cut:
        ptqd("insert t values (now()),(now())") == "insert t values (now()),(now())";
    error_kept_two_blanks_in_use_make_another_class: ptqd("use  shop") == "use shop";
    error_kept_asc_is_cut_from_longer_words: ptqd("select 1 order by a ascii") == "select ? order by aii";
    error_kept_asc_is_cut_far_behind_order_by:
        ptqd("(select a order by a) union (select asc from b)") == "(select a order by a) union (select from b)";
    error_kept_only_the_first_limit_is_collapsed:
        ptqd("(select a limit 1, 2) union (select b limit 1, 2)")
            == "(select a limit ?) union (select b limit ?, ?)";
    error_kept_arms_in_parentheses_are_not_collapsed:
        ptqd("(select 1) union (select 2)") == "(select ?) union (select ?)";
    error_kept_an_arm_that_another_continues_is_collapsed:
        ptqd("select a union select ab") == "select a /*repeat union*/b";
    error_kept_a_chunk_comment_in_a_string_names_the_toolkit:
        ptqd("select '/*a.b:1/1*/'") == "percona-toolkit";
    error_kept_null_is_a_value_where_it_is_grammar:
        ptqd("select a is null") == "select a is ?";
    error_kept_use_in_upper_case_has_no_item: item("USE shop") == "";
    error_kept_verbs_in_strings_count: item("insert into t values ('please update')") == "INSERT UPDATE t";
    error_kept_tables_in_comments_count: item("select 1 from t -- from x") == "SELECT t x";
    error_kept_a_function_with_from_names_a_table:
        item("select extract(year from born) from people") == "SELECT born people";
    error_kept_an_aliased_list_with_blanks_ends_early: item("select 1 from a , b") == "SELECT a";
    error_kept_a_name_with_digits_stands_twice: item("drop table t1") == "DROP TABLE t? t1";
    error_kept_create_select_on_two_lines_has_no_source:
        item("create table a as\nselect 1 from b") == "CREATE TABLE a";
    error_kept_white_space_before_begin_hides_it: item(" begin") == "";
    error_kept_tables_of_using_are_missing: item("delete from a using a, b") == "DELETE a";
    error_kept_maintenance_has_no_item: item("optimize table a") == "";
    error_kept_an_administrator_command_keeps_its_semicolon:
        item("administrator command: Quit;") == "ADMIN QUIT;";
}
