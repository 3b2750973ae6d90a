//! The output of `--json` has exactly the fields that its page documents. (`frond digest`: toolkit/digest/tests.)

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use crate::locks::STATUS;
use crate::tool::frond;

fn fields(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Array(list) => list.iter().for_each(|value| fields(value, found)),
        Value::Object(map) => map.iter().for_each(|(name, value)| {
            found.insert(name.clone());
            fields(value, found);
        }),
        _ => {}
    }
}

/// Words in code quotes in `text` that may be names of fields.
fn names(text: &str) -> BTreeSet<String> {
    let code = text.split('`').skip(1).step_by(2).flat_map(|code| code.split('.'));
    let is_name = |name: &&str| {
        name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
    };
    code.filter(is_name).map(str::to_owned).collect()
}

/// `values`: words in code quotes in the tables that are no names of fields.
pub fn assert_documented(page: &str, json: &Value, values: &[&str]) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(page);
    let text = std::fs::read_to_string(file).unwrap();
    let at = text.find("`--json`\n").or(text.find("## JSON\n")).unwrap();
    let part = &text[at..];
    let mut written = BTreeSet::new();
    fields(json, &mut written);
    let named = names(part);
    let missing: Vec<_> = written.difference(&named).collect();
    assert!(missing.is_empty(), "docs/{page} lacks {missing:?}");
    let tables: String = part.lines().filter(|line| line.starts_with('|')).collect();
    let mut promised = names(&tables);
    promised.retain(|name| !values.contains(&name.as_str()) && !written.contains(name));
    assert!(promised.is_empty(), "docs/{page} has {promised:?}, which nothing writes");
}

fn asked(command: &str, args: &[&str], input: &[u8]) -> Value {
    let (status, out, error) = frond(command, args, input);
    assert!((0..=1).contains(&status) && error.is_empty(), "{status} {error}");
    serde_json::from_str(&out).unwrap()
}

/// A deadlock of two transactions.
fn deadlock() -> String {
    let lock = |trx, waiting| {
        format!(
            "RECORD LOCKS space id 5 page no 4 n bits 320 index PRIMARY of table `shop`.`sale` trx id {trx} lock_mode X locks rec but not gap{waiting}\n\
             Record lock, heap no 2 PHYSICAL RECORD: n_fields 2; compact format; info bits 0\n 0: len 4; hex 80000001; asc     ;;\n\n"
        )
    };
    let member = |n: u64, trx: u64, other: u64| {
        format!(
            "*** ({n}) TRANSACTION:\nTRANSACTION {trx}, ACTIVE 2 sec starting index read\nmysql tables in use 1, locked 1\n\
             LOCK WAIT 3 lock struct(s), heap size 1128, 2 row lock(s)\n\
             MariaDB thread id 2{n}, OS thread handle 1, query id 3{n} localhost shop Updating\nupdate sale set price = 1 where id = {n}\n\
             *** WAITING FOR THIS LOCK TO BE GRANTED:\n{}*** CONFLICTING WITH:\n{}",
            lock(trx, " waiting"),
            lock(other, "")
        )
    };
    format!(
        "------------------------\nLATEST DETECTED DEADLOCK\n------------------------\n2026-11-23 19:30:00 0x7f\n{}{}*** WE ROLL BACK TRANSACTION (1)\n",
        member(1, 41, 42),
        member(2, 42, 41)
    )
}

#[test]
fn what_locks_writes_is_what_its_page_says() {
    let sections = format!("{}------------\nTRANSACTIONS\n", deadlock());
    let log = STATUS.replacen("------------\nTRANSACTIONS\n", &sections, 1);
    let json = asked("locks", &["-", "--json"], log.as_bytes());
    assert_eq!((&json["deadlocks"], &json["waits"]["count"]), (&1.into(), &1.into()), "{json:#}");
    let unknown = ["not-printed", "cut", "gone"];
    assert_documented("locks.md", &json, &unknown);
}

#[test]
fn what_indexes_writes_is_what_its_page_says() {
    let sql =
        b"USE shop; CREATE TABLE t (a INT PRIMARY KEY, b INT, KEY x (b), KEY y (b)) ENGINE=InnoDB;";
    let json = asked("indexes", &["-", "--json"], sql);
    assert_documented("indexes.md", &json, &["shorten", "unused"]);
}

#[test]
fn what_the_doctor_writes_is_what_its_page_says() {
    let mut json = asked("doctor", &["--no-server", "--seconds", "0.1", "--json"], b"");
    // A sound machine has no finding.
    let text = String::from("x");
    let finding = frond_doctor::rules::Finding {
        rule: text.clone(),
        level: frond_doctor::rules::Level::Note,
        seen: text.clone(),
        means: text.clone(),
        set: text.clone(),
        check: text,
    };
    json["findings"] = serde_json::to_value([finding]).unwrap();
    assert!(json["unasked"][0]["missing"].is_string(), "{json:#}");
    assert_documented("doctor.md", &json, &["critical", "warning", "note"]);
}

#[test]
fn what_a_replay_writes_is_what_its_page_says() {
    let mut out = Vec::new();
    crate::pages::replay().write_json(&mut out).unwrap();
    assert_documented("replay.md", &serde_json::from_slice(&out).unwrap(), &[]);
}
