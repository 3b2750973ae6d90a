//! `frond indexes`: files, and what is said of bad ones.

use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;

use crate::programs::bounded;

fn frond(args: &[&str], input: &[u8]) -> (i32, String, String) {
    let mut command = bounded(env!("CARGO_BIN_EXE_frond"));
    command.arg("indexes").args(args).env_remove("MYSQL_PWD");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A program that complains of its options reads nothing.
    let _ = child.stdin.take().unwrap().write_all(input);
    let output = child.wait_with_output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
}

const FOUND: &str = "use shop; create table t (id int not null, a int, b int, primary key (id), \
    key x (a), key y (a, b)) engine=innodb;\n\
    create table ok (a int, key x (a));\n\
    create table other.t (a int, unique u (a), key v (a));\n";

#[test]
fn what_is_found_in_a_dump_is_printed_with_its_statements() {
    let (status, out, error) = frond(&["-"], FOUND.as_bytes());
    assert_eq!((status, error.as_str()), (1, ""), "{out}");
    for line in [
        "shop.t",
        "KEY x (a)",
        "stays: KEY y (a, b)",
        "ALTER TABLE `shop`.`t` ALTER INDEX `x` IGNORED;",
        "ALTER TABLE `shop`.`t` ALTER INDEX `x` NOT IGNORED;",
        "ALTER TABLE `shop`.`t` DROP INDEX `x`;",
        "2 findings in 3 tables with 6 indexes.",
    ] {
        assert!(out.contains(line), "{line}: {out}");
    }
    assert!(!out.contains('\x1b'), "{out}");
    let (status, out, _) = frond(&["-", "--json", "--database", "other"], FOUND.as_bytes());
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((status, report["version"].as_u64()), (1, Some(1)));
    let findings = report["findings"].as_array().unwrap();
    assert_eq!(findings.len(), 1);
    assert_eq!((&findings[0]["kind"], &findings[0]["key"]), (&"duplicate".into(), &"v".into()));
    let (status, out, error) = frond(&["-"], b"create table ok (a int, key x (a));");
    assert_eq!((status, error.as_str()), (0, ""), "{out}");
}

#[test]
fn bad_files_are_named_with_what_is_wrong() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| {
        let path = dir.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    let complaint = |path: &Path| {
        let (status, out, error) = frond(&[path.to_str().unwrap()], b"");
        assert_eq!(status, 2, "{out} {error}");
        assert!(error.contains(path.to_str().unwrap()), "{error}");
        (out, error)
    };
    assert!(complaint(&write("empty.sql", b"")).1.contains("the file is empty"));
    assert!(complaint(&write("binary", b"\x7fELF\x02\0\0\0")).1.contains("no SQL text"));
    assert!(complaint(&write("rows.sql", b"insert into t values (1);")).1.contains("CREATE TABLE"));
    assert!(complaint(&dir.path().join("missing.sql")).1.contains("no such file"));
    assert!(complaint(dir.path()).1.contains("directory"));
    // What is before the cut is shown all the same.
    let cut = format!("{FOUND}create table late (a int, key (a");
    let (out, error) = complaint(&write("cut.sql", cut.as_bytes()));
    assert!(error.contains("late") && error.contains("not closed"), "{error}");
    assert!(out.contains("2 findings"), "{out}");
}
