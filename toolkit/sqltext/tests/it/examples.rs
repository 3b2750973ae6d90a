//! Fingerprints of the native dialect, and ids.

use crate::statements::Random;
use frond_sqltext::{fingerprint, fingerprint_with, ClassId, ClassIdText, Dialect, SqlMode};

fn frond(sql: &str) -> String {
    let mut out = Vec::new();
    fingerprint(sql.as_bytes(), Dialect::Frond, &mut out);
    String::from_utf8(out).unwrap()
}

fn ptqd(sql: &str) -> String {
    let mut out = Vec::new();
    fingerprint(sql.as_bytes(), Dialect::Ptqd32, &mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn literals_of_every_kind_become_question_marks() {
    for sql in [
        "select ?",
        "select 1",
        "select -1",
        "select - 1",
        "select +-1.5e-7",
        "select 0x1f",
        "select x'1f'",
        "select X'1F'",
        "select b'01'",
        "select 0b01",
        "select n'text'",
        "select _utf8mb4'text'",
        "select _utf8 'text'",
        "select 'it''s'",
        r"select 'it\'s'",
        r"select 'back\\'",
        "select 'a' 'b'",
        "select 'a'\n\"b\"",
        "select null",
        "select TRUE",
        "select date '2020-01-01'",
        "select timestamp'2020-01-01 00:00:00'",
        "select :name",
        r"select \N",
        "select .5",
        "select '-- no comment'",
        "select '/* no comment */'",
        "select 1 -- comment",
        "select 1 # comment",
        "/* a */ select /* b */ 1",
        "SELECT 1;",
        "select 1;;",
        "select\n\t1",
        "select/**/1",
        "select /*! 1 */",
        "select 'unclosed",
    ] {
        assert_eq!(frond(sql), "select ?", "{sql}");
    }
}

#[test]
fn null_and_booleans_stay_where_they_are_grammar() {
    for (sql, expected) in [
        ("select 1 from t where a is null", "select ? from t where a is null"),
        ("select 1 from t where a IS NOT NULL", "select ? from t where a is not null"),
        ("select 1 from t where a = NULL", "select ? from t where a = ?"),
        ("select 1 from t where a is true and true", "select ? from t where a is true and ?"),
        (
            "create table t (a int not null default null)",
            "create table t(a int not null default null)",
        ),
        ("insert into t values (1, null)", "insert into t values(?+)"),
        ("insert into t set a = null", "insert into t set a = ?"),
    ] {
        assert_eq!(frond(sql), expected, "{sql}");
    }
}

#[test]
fn names_keep_their_digits_and_case_and_lose_needless_quotes() {
    for (sql, expected) in [
        ("SELECT Col1 FROM db2.Tbl_3", "select Col1 from db2.Tbl_3"),
        ("select `a1`, `a b`, `select`, t.`select`", "select a1, `a b`, `select`, t.select"),
        ("select * from `db`.`1st`", "select * from db.1st"),
        ("select COUNT(*), Max(a), t . b", "select count(*), max(a), t.b"),
        ("select @A, @@GLOBAL.b, @x:=5", "select @a, @@global.b, @x := ?"),
    ] {
        assert_eq!(frond(sql), expected, "{sql}");
    }
}

#[test]
fn spacing_of_the_input_does_not_matter() {
    let expected = "select a, f(b) from t where (c = ? or d >= - e) and g in(?+)";
    for sql in [
        "select a,f(b) from t where (c=1 or d>=- e)and g in(1,2)",
        "SELECT  a , f( b )\nFROM t\tWHERE ( c = 1 OR d >= - e ) AND g IN ( 1 , 2 )",
        "select a,/* x */f(b) from t where(c=1 or d>= - e) and g in (1)",
    ] {
        assert_eq!(frond(sql).replace("-e", "- e"), expected, "{sql}");
    }
}

#[test]
fn equal_arms_of_a_case_are_written_once() {
    for (sql, expected) in [
        ("update t set a = CASE id WHEN 1 THEN 2 END", "update t set a = case id when ? then ? end"),
        (
            "update t set a = case id when 1 then 'x' when 2 then -3 when 3 then null end where id in (1,2,3)",
            "update t set a = case id when ? then ? end where id in(?+)",
        ),
        (
            "update t set a = case when (t.id = 1) then 5 when (t.id = 2) then 6 else a end, b = case when t.id=1 then 5 end",
            "update t set a = case when (t.id = ?) then ? else a end, b = case when t.id = ? then ? end",
        ),
        // Only arms that are equal and adjoining.
        (
            "select case a when 1 then b when 2 then c when 3 then c when 4 then b end",
            "select case a when ? then b when ? then c when ? then b end",
        ),
        // Nested, and in parentheses.
        (
            "select case a when 1 then case b when 1 then 2 when 3 then 4 end when 2 then case b when 9 then 9 end else 0 end",
            "select case a when ? then case b when ? then ? end else ? end",
        ),
        (
            "select case when a in (select case b when 1 then 2 when 2 then 3 end from c) then 1 when 5 then 6 when 7 then 8 end",
            "select case when a in(select case b when ? then ? end from c) then ? when ? then ? end",
        ),
        // Columns with these names do not belong to a CASE.
        ("select t.when, t.end, end from t", "select t.when, t.end, end from t"),
        // END and others are not reserved; arms behind one of them belong to their own CASE.
        (
            "select case x when 1 then 2 else case when end > 5 then 7 when 8 then 9 end end from t",
            "select case x when ? then ? else case when end > ? then ? when ? then ? end end from t",
        ),
        ("select (case when 1 then 2) when 3 then 4", "select (case when ? then ?) when ? then ?"),
        ("case a when 1 then select 1; when 2 then select 2; end case", "case a when ? then select ?; when ? then select ?; end case"),
    ] {
        assert_eq!(frond(sql), expected, "{sql}");
    }
    // The dialects of other tools keep these arms.
    let two = "update t set a = case id when 1 then 2 when 3 then 4 end";
    for dialect in Dialect::ALL.into_iter().filter(|d| *d != Dialect::Frond) {
        let mut out = Vec::new();
        fingerprint(two.as_bytes(), dialect, &mut out);
        let text = String::from_utf8_lossy(&out).to_lowercase();
        assert_eq!(text.matches("when").count(), 2, "{dialect}: {text}");
    }
}

/// The number of arms, their contents and their spacing do not change the class.
#[test]
fn a_generated_case_is_one_class_whatever_its_length() {
    let mut random = Random::new(11);
    let one = |random: &mut Random| {
        let value = [
            "1",
            "-2.5",
            "'it''s'",
            "NULL",
            "0x1f",
            "?",
            "'end when then'",
            "date '2026-01-01'",
            "/* x */ 7",
        ];
        let keyword = |random: &mut Random, word: &str| match random.below(3) {
            0 => word.to_uppercase(),
            1 => format!(" {word}\n"),
            _ => word.to_owned(),
        };
        let (when, then) = (keyword(random, "when"), keyword(random, "then"));
        format!("{when} {} {then} {} ", random.pick(&value), random.pick(&value))
    };
    let heads = ["case id", "case", "CASE lower(name)"];
    for round in 0..2000 {
        let head = heads[round % heads.len()];
        let tail = ["end", "else a end", "ELSE NULL END"][round / 3 % 3];
        let deep = ["", "(", "((", "f(a, "][round / 9 % 4];
        let made = |arms: usize, random: &mut Random| {
            let arms: String = (0..arms).map(|_| one(random)).collect();
            let close = ")".repeat(deep.matches('(').count());
            let sql =
                format!("update t set a = {deep}{head} {arms} {tail}{close}, b = 1 where id = 5");
            frond(&sql)
        };
        let shortest = made(1, &mut random);
        let many = 1 + random.below(40);
        assert_eq!(made(many, &mut random), shortest, "{many} arms");
        assert_eq!(frond(&shortest), shortest);
    }
}

#[test]
fn lists_tuples_limits_and_repeated_arms_are_collapsed() {
    for (sql, expected) in [
        ("select 1 from t where a in (1)", "select ? from t where a in(?+)"),
        ("select 1 from t where a in (1, -2, 'x', null)", "select ? from t where a in(?+)"),
        ("select 1 from t where (a, b) in ((1,2),(3,4))", "select ? from t where (a, b) in((?+))"),
        ("select 1 from t where a in (1, b)", "select ? from t where a in(?, b)"),
        ("select 1 from t where a in (select 2)", "select ? from t where a in(select ?)"),
        // Values of prepared statements, as MariaDB logs them.
        ("select 1 from t where a in (DATE'2026-01-01', 'x')", "select ? from t where a in(?+)"),
        ("insert into t values (1, TIMESTAMP '2026-01-01 00:00:00')", "insert into t values(?+)"),
        ("insert into t values (1,2)", "insert into t values(?+)"),
        ("insert into t values (1,2),(3,4) , (5,6)", "insert into t values(?+)"),
        ("insert into t values (1,now()),(3,now())", "insert into t values(?, now())"),
        ("insert into t values (1),(2) returning a", "insert into t values(?+) returning a"),
        ("select 1 limit 5", "select ? limit ?"),
        ("select 1 limit 5, 10", "select ? limit ?"),
        ("select 1 limit 5 offset 10", "select ? limit ?"),
        ("select 1 order by a asc, b desc", "select ? order by a, b desc"),
        ("select 1 union all select 2 union all select 3", "select ? /*repeat union all*/"),
        ("select 1 union select a", "select ? union select a"),
        (
            "select * from (select 1 union select 2) x union select b",
            "select * from (select ? /*repeat union*/) x union select b",
        ),
        ("select 1; select 2", "select ?; select ?"),
        ("use shop", "use ?"),
        ("administrator command: Init DB", "administrator command: Init DB"),
    ] {
        assert_eq!(frond(sql), expected, "{sql}");
    }
}

/// Truncated statements, as captures, processlists and `performance_schema` have them.
#[test]
fn where_a_list_is_cut_off_makes_no_other_class() {
    for (head, list, expected) in [
        (
            "select a from t where b in ",
            "(12, 'it''s', -3, null, 'x')",
            "select a from t where b in(?+)",
        ),
        (
            "insert into t values ",
            "(1, null, 'a\\'b', date'2026-01-01')",
            "insert into t values(?+)",
        ),
        ("insert into t values ", "(1, 'a'), (2, 'b'), (3, null)", "insert into t values(?+)"),
        (
            "select a from t where (a, b) in ",
            "((1, 'a'), (2, true))",
            "select a from t where (a, b) in((?+))",
        ),
    ] {
        let first = list.rfind('(').unwrap().min(1) + 1;
        for end in first + 1..list.len() {
            let cut = format!("{head}{}", &list[..end]);
            assert_eq!(frond(&cut), expected, "{cut}");
        }
    }
    // The list is still empty, or was not a list.
    assert_eq!(frond("select a from t where b in ("), "select a from t where b in(");
    assert_eq!(frond("select a from t where b in (c, 1"), "select a from t where b in(c, ?");
}

#[test]
fn double_quotes_are_strings_unless_the_mode_says_names() {
    let mut out = Vec::new();
    let mode = SqlMode { ansi_quotes: true, ..SqlMode::default() };
    fingerprint_with(br#"select "a" from "t" where b = "c d""#, Dialect::Frond, mode, &mut out);
    assert_eq!(out, br#"select a from t where b = "c d""#);
    assert_eq!(frond(r#"select "a""#), "select ?");
}

#[test]
fn warts_of_other_tools_are_kept_in_their_dialects_only() {
    for (sql, other, ours) in [
        ("select * from db2.tbl", "select * from d?tbl", "select * from db2.tbl"),
        ("select a-5", "select a?", "select a - ?"),
        ("select a=1", "select a=?", "select a = ?"),
        ("select foo--bar\n, b", "select foo , b", "select foo - - bar, b"),
        ("select 1 from t -- x", "select ? from t ", "select ? from t"),
        ("select a order by b ascii", "select a order by bii", "select a order by b ascii"),
    ] {
        assert_eq!(ptqd(sql), other, "{sql}");
        assert_eq!(frond(sql).replace("- -bar", "- - bar"), ours, "{sql}");
    }
}

#[test]
fn ids_are_those_people_have_in_their_notes() {
    let id = ClassId::of(ptqd("select * from t where id = 5").as_bytes());
    let full = id.to_string();
    let short = id.short().to_string();
    assert_eq!(full.len(), 32);
    assert!(full.ends_with(&short) && short.len() == 16);
    assert!(id.matches(&full) && id.matches(&short));
    assert!(id.matches(&format!("0x{}", full.to_lowercase())));
    assert!(!id.matches(&full[1..]) && !id.matches("") && !id.matches("0x"));
    assert_eq!(ClassId::of(b"").to_string(), "D41D8CD98F00B204E9800998ECF8427E");
    let error = "0123".parse::<ClassIdText>().unwrap_err().to_string();
    assert!(error.contains("32 hexadecimal digits"), "{error}");
}

#[test]
fn dialects_have_names_that_parse() {
    for dialect in Dialect::ALL {
        assert_eq!(dialect.name().parse(), Ok(dialect));
    }
    assert!("ptqd".parse::<Dialect>().unwrap_err().contains("ptqd-3.2"));
}
