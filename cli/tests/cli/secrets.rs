//! `--redact`: a secret is put wherever a statement can carry one, and must not appear in any output.

use std::fs;

use tempfile::TempDir;

use crate::inputs::{digest, err, event, out, Event, SERVER};

/// Statements that carry the secret, plainly or in another form.
const CARRIERS: [&str; 22] = [
    "select * from t where a = 'hunter2secret'",
    "select * from t where a = \"hunter2secret\"",
    "select * from t where a = 'it\\'s hunter2secret'",
    "select * from t where a = 'c:\\' and b = 'hunter2secret'",
    "select * from t where a = 'x\\\\' and b = 'hunter2secret'",
    "select * from t where a = 'a''hunter2secret'",
    "select * from t where a = 0x68756e74657232736563726574",
    "select * from t where a = x'68756e74657232736563726574' or a = b'0110'",
    "select * from t where a = _utf16'hunter2secret' or a = n'hunter2secret'",
    "select * from t where a = 'h\x00u\x00n\x00t\x00e\x00r\x00002\x00s\x00e\x00c\x00r\x00e\x00t\x00'",
    "select * from t where a = 'half of hunter2sec",
    "select * from t where a = \"half of hunter2secret \\",
    "select /* hunter2secret */ * from t -- hunter2secret",
    "select * from t # hunter2secret",
    "select * from t /* hunter2secret",
    "insert into t values (1, 'x'), (2, 'hunter2secret'), (3, 'hunter2secret')",
    "set @a = 'hunter2secret', @`b` := 4929000000006",
    "call p('hunter2secret', 4929000000006)",
    "load data infile '/tmp/hunter2secret' into table t",
    "select * from `t` where card = 4929000000006 or card = -4929000000006.5e3",
    "create user 'x'@'%' identified by 'hunter2secret'",
    "select 'hunter2secret' as 'hunter2secret' from dual where 'x\\' = 'y\\'",
];

/// The secret in each of these spellings.
const SECRETS: [&str; 6] =
    ["hunter2", "2secret", "4929000000006", "68756e7465", "h\\u0000u\\u0000n", "h\0u\0n"];

fn file(dir: &TempDir, name: &str, text: &str) -> String {
    let path = dir.path().join(name);
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

fn assert_clean(what: &str, text: &str) {
    for secret in SECRETS {
        let lower = text.to_lowercase();
        if let Some(at) = lower.find(secret) {
            let from =
                (0..=at.saturating_sub(200)).rev().find(|i| lower.is_char_boundary(*i)).unwrap();
            panic!(
                "{what}: '{secret}' in ...{}",
                lower[from..].chars().take(400).collect::<String>()
            );
        }
    }
}

/// A statement that is not closed goes on to the end of its log.
fn is_closed(sql: &str) -> bool {
    !sql.contains("half of")
        && !sql.ends_with("/* hunter2secret")
        && !sql.contains("'y\\'")
        && !sql.contains("c:\\'")
}

/// A log of these statements, with a plan, warnings and errors that quote them.
fn log(carriers: &[&str], times: i64) -> String {
    let mut log = String::from(SERVER);
    for (i, sql) in carriers.iter().enumerate() {
        for n in 0..times {
            let at = 1_767_290_971 + n * 50 + i as i64;
            event(&mut log, &Event { at, sql, seconds: 1.0 + i as f64, ..Event::default() });
        }
    }
    let quoting = "# explain: 1\tSIMPLE\tt\tALL\tUsing where with pushed condition: (`t`.`a` = 'hunter2secret' and `t`.`b` = 4929000000006)\n#\n# Warnings\n# Warning 1292 Truncated incorrect DOUBLE value: 'hunter2secret'\n# Error 1062 Duplicate entry 'hunter2secret' for key 'PRIMARY'";
    log.replace("# explain: 1\tSIMPLE\tt\tALL\tUsing where", quoting)
}

#[test]
fn no_literal_is_in_any_form_of_the_report() {
    let dir = tempfile::tempdir().unwrap();
    // Each in a log of its own, so that each is a class with its own sample.
    let paths: Vec<String> = CARRIERS
        .iter()
        .enumerate()
        .map(|(i, sql)| file(&dir, &format!("{i}.log"), &log(&[sql], 1)))
        .collect();
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    let plain = out(&digest(&[&["--limit", "100"], &paths[..]].concat()));
    assert!(plain.contains("hunter2secret") && plain.contains("pushed condition"), "{plain}");
    let mut forms: Vec<Vec<&str>> = Vec::new();
    for form in ["--json", "--ndjson", "--csv", "--html", "--quiet"] {
        for dialect in ["frond", "ptqd-3.2", "ptqd-3.5", "mariadb-digest"] {
            forms.push(vec![form, "--dialect", dialect]);
        }
        for group in ["tables", "kind", "distill", "user"] {
            forms.push(vec![form, "--group-by", group, "--patterns"]);
        }
    }
    forms.push(vec!["--compat", "ptqd-3.2"]);
    forms.push(vec!["--sample-bytes", "0"]);
    // Strings cut by the limit of samples.
    for bytes in ["20", "30", "40", "50"] {
        forms.push(vec!["--json", "--sample-bytes", bytes]);
    }
    forms.push(vec!["--filter", "sql !~ 'hunter2secretx' && rows_sent != 4929000000006"]);
    for form in forms {
        let mut args = vec!["--redact", "--limit", "100"];
        args.extend(&form);
        args.extend(&paths);
        let said = digest(&args);
        assert!(said.status.code() != Some(2), "{form:?} {}", err(&said));
        let text = out(&said);
        assert!(text.len() > 1000, "{form:?}");
        assert_clean(&format!("{form:?}"), &text);
        assert_clean(&format!("{form:?} errors"), &err(&said));
    }
}

#[test]
fn statements_longer_than_what_is_kept_are_masked_where_they_are_cut() {
    let dir = tempfile::tempdir().unwrap();
    for pad in [65_490, 65_500, 65_510, 65_520, 65_530] {
        let sql = format!(
            "select * from t where a = '{}' and b = 'hunter2secret and more'",
            "x".repeat(pad - 60)
        );
        let mut log = String::new();
        event(&mut log, &Event { sql: &sql, ..Event::default() });
        let path = file(&dir, "long.log", &log);
        for form in ["--json", "--html", "--quiet"] {
            assert_clean(form, &out(&digest(&["--redact", "--sample-bytes", "0", form, &path])));
        }
    }
}

#[test]
fn comparisons_and_stored_reports_are_masked_too() {
    let dir = tempfile::tempdir().unwrap();
    let closed: Vec<&str> = CARRIERS.into_iter().filter(|sql| is_closed(sql)).collect();
    assert!(closed.len() > 15);
    let log = log(&closed, 20);
    let before = file(&dir, "before.log", &log);
    let after = file(&dir, "after.log", &log.replace("Query_time: ", "Query_time: 3"));
    let stored = dir.path().join("before.json").display().to_string();
    assert!(digest(&["--json", "--limit", "100", "-o", &stored, &before]).status.success());
    assert!(fs::read_to_string(&stored).unwrap().contains("hunter2secret"));
    for form in ["--json", "--html", "--quiet"] {
        for first in [&before, &stored] {
            for pair in [[first.as_str(), &after], [&after, first.as_str()]] {
                let said = digest(&["--redact", form, "--diff", pair[0], pair[1]]);
                assert_eq!(said.status.code(), Some(0), "{}", err(&said));
                assert!(out(&said).len() > 500);
                assert_clean(&format!("{form} {pair:?}"), &out(&said));
            }
        }
    }
}
