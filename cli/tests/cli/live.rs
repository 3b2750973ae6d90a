//! `frond digest` on a running server: the built program against a private MariaDB.
//!
//! Needs `mariadbd`; without it: skipped.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::client::{Client, Parameter, Server};
use crate::programs::{bounded, has};

fn frond(args: &[&str]) -> Command {
    let mut command = bounded(env!("CARGO_BIN_EXE_frond"));
    command.arg("digest").args(args).arg("--no-defaults").env_remove("MYSQL_PWD");
    command.stdin(Stdio::null());
    command
}

fn finish(command: &mut Command) -> (i32, String, String) {
    ended(&command.output().unwrap())
}

fn ended(output: &Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
}

/// The JSON report for `args` on the server at `socket`.
fn report(socket: &Path, args: &[&str]) -> Value {
    let socket = socket.to_str().unwrap();
    let all = [&["--socket", socket, "--user", "root", "--json", "--limit", "100%"], args].concat();
    let (status, out, error) = finish(&mut frond(&all));
    assert_eq!((status, error.as_str()), (0, ""), "{args:?}");
    serde_json::from_str(&out).unwrap()
}

/// The message for a mistake.
fn complaint(args: &[&str], password: Option<&str>) -> String {
    let mut command = frond(args);
    if let Some(password) = password {
        command.env("MYSQL_PWD", password);
    }
    let (status, out, error) = finish(&mut command);
    assert_eq!((status, out.as_str()), (2, ""), "{args:?} {error}");
    error
}

fn class<'r>(report: &'r Value, begin: &str) -> &'r Value {
    let classes = report["classes"].as_array().unwrap();
    let found = classes.iter().find(|c| c["key"].as_str().unwrap().starts_with(begin));
    found.unwrap_or_else(|| {
        let keys: Vec<_> = classes.iter().map(|c| c["key"].clone()).collect();
        panic!("no class {begin} among {keys:#?}")
    })
}

fn metric<'r>(class: &'r Value, name: &str) -> &'r Value {
    let metrics = class["metrics"].as_array().unwrap();
    metrics.iter().find(|m| m["name"] == name).unwrap_or_else(|| panic!("{name} of {class}"))
}

fn notes(report: &Value) -> String {
    report["notes"].to_string()
}

fn slow_log_table(socket: &Path) {
    let args = ["--slow-log-table", "--socket", socket.to_str().unwrap(), "--user", "root"];
    // The table is still empty; the message gives the reason.
    let error = complaint(&args, None);
    assert!(error.contains("SET GLOBAL log_output = 'TABLE,FILE'"), "{error}");
    let mut admin = Client::connect(socket, "shop").unwrap();
    admin.run("set global log_output = 'TABLE'");
    let error = complaint(&args, None);
    assert!(error.contains("the slow log is off; SET GLOBAL slow_query_log = 1"), "{error}");
    admin.run("set global slow_query_log = 1");
    let error = complaint(&args, None);
    assert!(error.contains("long_query_time"), "{error}");
    admin.run("set global long_query_time = 0");
    let mut client = Client::connect(socket, "shop").unwrap();
    for i in 0..25 {
        client.run(&format!("insert into t values ({i}, 'name;\n# Time: {i}')"));
    }
    client.run("select * from t where id < 5");
    let before = jiff::Timestamp::now().as_microsecond();
    client.run("select sleep(1)");
    assert_eq!(client.query(b"select * from nosuch").error, 1146);
    client.ping();
    admin.run("set global slow_query_log = 0");
    let report = report(socket, &["--slow-log-table"]);
    let insert = class(&report, "insert into t");
    assert_eq!((&insert["events"], &insert["dbs"][0]["name"]), (&25.into(), &"shop".into()));
    assert_eq!(metric(insert, "Rows_affected")["sum"], 25.0);
    assert_eq!(metric(class(&report, "select * from t"), "Rows_sent")["sum"], 5.0);
    let sleep = class(&report, "select sleep");
    let time = metric(sleep, "Query_time")["sum"].as_f64().unwrap();
    assert!((1.0..5.0).contains(&time), "{time}");
    // The stamp is of the statement's begin, in UTC: an end would be a second later.
    let (start, end) = (&sleep["sample"]["start"], &sleep["sample"]["end"]);
    assert_eq!(end.as_i64().unwrap() - start.as_i64().unwrap(), (time * 1e6).round() as i64);
    let late = start.as_i64().unwrap() - before;
    assert!((-1_000..900_000).contains(&late), "{late}");
    assert_eq!(report["inputs"][0]["format"], "mysql.slow_log");
    assert!(notes(&report).contains("SET GLOBAL slow_query_log = 1"), "{}", notes(&report));
    // Times go into the query; filters are applied while reading.
    let count = |args: &[&str]| {
        let all = [&["--slow-log-table"], args].concat();
        self::report(socket, &all)["overall"]["events"].as_u64().unwrap()
    };
    assert_eq!(count(&["--until", "2020-01-01"]), 0);
    assert!(count(&["--since", "1h"]) >= 28);
    assert_eq!(count(&["--filter", "sql =~ 'sleep'"]), 1);
    // Only the server's variables show what it does not log.
    assert!(!notes(&report).contains("log_slow_filter"), "{}", notes(&report));
    admin.run("set global log_slow_rate_limit = 3, global log_slow_filter = 'full_scan'");
    let report = self::report(socket, &["--slow-log-table"]);
    let insert = class(&report, "insert into t");
    assert_eq!((&insert["events"], &insert["statements"]), (&25.into(), &75.into()));
    assert_eq!(metric(insert, "Rows_affected")["sum"], 75.0);
    assert!(notes(&report).contains("taken for 3 statements"), "{}", notes(&report));
    assert!(notes(&report).contains("log_slow_filter is full_scan"), "{}", notes(&report));
    let report = self::report(socket, &["--slow-log-table", "--rate", "1"]);
    assert_eq!(class(&report, "insert into t")["statements"], 25);
    admin.run("set global log_slow_rate_limit = default, global log_slow_filter = default");
}

fn digests(socket: &Path) {
    let mut client = Client::connect(socket, "shop").unwrap();
    for i in 0..30 {
        client.run(&format!("select a from t where id = {i}"));
    }
    let prepared = client.prepare(b"select sleep(0.01), a from t where id = ?");
    for _ in 0..20 {
        client.execute(prepared, &[Parameter::Text(b"1")]);
    }
    client.close(prepared);
    assert_eq!(client.query(b"selec 1").error, 1064);
    client.ping();
    let all = report(socket, &["--digests"]);
    let executes = class(&all, "administrator command: Execute");
    assert_eq!(executes["events"], 20);
    let time = metric(executes, "Query_time");
    assert!(time["sum"].as_f64() > Some(0.2) && time["max"].as_f64() > Some(0.01), "{time}");
    assert_eq!(metric(executes, "Rows_sent")["sum"], 20.0);
    assert_eq!(class(&all, "(syntax errors)")["errors"], 1);
    assert!(notes(&all).contains("20 executions of prepared statements"), "{}", notes(&all));
    assert!(!notes(&all).contains("same moment"), "{}", notes(&all));
    let select = class(&all, "SELECT `a` FROM `t` WHERE ID = ?");
    assert_eq!(select["events"], 30);
    let time = metric(select, "Query_time");
    assert!(time["p95"].is_null() && time["stddev"].is_null() && time["max"].as_f64() > Some(0.0));
    assert_eq!(metric(select, "Rows_sent")["sum"], 25.0);
    assert!(metric(select, "Rows_sent")["max"].is_null());
    assert!(notes(&all).contains("since the server started"), "{}", notes(&all));
    // A period: what is done in it, and nothing else.
    let socket_text = socket.to_str().unwrap();
    let base = ["--socket", socket_text, "--user", "root", "--json", "--limit", "100%"];
    let mut child = frond(&[&base[..], &["--digests", "--run-time", "6"]].concat())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_secs(3));
    for i in 0..7 {
        client.run(&format!("select a from t where id = {i}"));
    }
    client.run("update t set a = 'x' where id = 1");
    client.run("create procedure p() begin do sleep(0.001); do 2; end");
    let prepared = client.prepare(b"call p()");
    for _ in 0..3 {
        client.execute(prepared, &[]);
    }
    // The program must still be watching, or it missed some of these statements.
    assert!(child.try_wait().unwrap().is_none(), "it watched for too short a time");
    let (status, out, _) = ended(&child.wait_with_output().unwrap());
    assert_eq!(status, 0);
    let period: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(class(&period, "SELECT `a` FROM")["events"], 7);
    assert_eq!(class(&period, "UPDATE `t`")["events"], 1);
    // The time of statements inside a routine is part of its call's time.
    assert_eq!(class(&period, "administrator command: Execute")["events"], 3);
    assert!(!period["classes"].to_string().contains("statement/sp"), "{period}");
    // The server has one statement of this class, so all its figures are known.
    assert!(metric(class(&period, "UPDATE `t`"), "Query_time")["p95"].as_f64() > Some(0.0));
    let seconds = period["overall"]["seconds"].as_f64().unwrap();
    assert!((5.0..60.0).contains(&seconds), "{seconds}");
    let text = finish(&mut frond(&["--digests", "--socket", socket_text, "--user", "root"])).1;
    assert!(text.contains("quantiles") && !text.contains("NaN"), "{text}");
    let error = complaint(&["--digests", "--socket", socket_text, "--group-by", "user"], None);
    assert!(error.contains("fingerprint or db"), "{error}");
    let error = complaint(&["--digests", "--socket", socket_text, "--order-by", "p95"], None);
    assert!(error.contains("no quantiles"), "{error}");
}

fn processlist(socket: &Path) {
    static GO_ON: AtomicBool = AtomicBool::new(true);
    let busy = std::thread::spawn({
        let socket = socket.to_owned();
        move || {
            let mut client = Client::connect(&socket, "shop").unwrap();
            let mut n = 0;
            while GO_ON.load(Ordering::Relaxed) {
                client.run("select sleep(0.4)");
                n += 1;
            }
            n
        }
    });
    // Watches until a signal; not sent by `timeout`, which sends more than one.
    let args = ["digest", "--processlist", "--every", "0.02", "--json", "--run-time", "100"];
    let child = Command::new(env!("CARGO_BIN_EXE_frond"))
        .args(args)
        .args(["--no-defaults", "--user", "root", "--socket", socket.to_str().unwrap()])
        .env_remove("MYSQL_PWD")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_secs(4));
    let began = Instant::now();
    // As `timeout` does: one signal to the program and one to its process group. Together they
    // count as one.
    for _ in 0..2 {
        let id = child.id().to_string();
        assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    }
    let (status, out, _) = ended(&child.wait_with_output().unwrap());
    assert!(began.elapsed() < Duration::from_secs(20));
    GO_ON.store(false, Ordering::Relaxed);
    let sent = busy.join().unwrap();
    assert_eq!(status, 0);
    let report: Value = serde_json::from_str(&out).unwrap();
    let sleep = class(&report, "select sleep");
    let (seen, time) = (sleep["events"].as_u64().unwrap(), metric(sleep, "Query_time"));
    assert!((3..=sent).contains(&seen), "{seen} of {sent}");
    // Lower bounds, but not far below: on a busy machine a poll may be late.
    let (max, p50) = (time["max"].as_f64().unwrap(), time["p50"].as_f64().unwrap());
    assert!((0.1..0.7).contains(&p50) && max < 2.0, "{time}");
    assert_eq!(
        (&sleep["users"][0]["name"], &sleep["dbs"][0]["name"]),
        (&"root".into(), &"shop".into())
    );
    assert!(notes(&report).contains("lower bound"), "{}", notes(&report));
}

fn mistakes(socket: &Path) {
    let socket_text = socket.to_str().unwrap();
    let mut admin = Client::connect(socket, "").unwrap();
    admin.run("create user weak@localhost identified by 'very-secret'");
    let base = ["--socket", socket_text, "--user", "weak"];
    let with = |more: &[&'static str]| [&base[..], more].concat();
    let error = complaint(&with(&["--slow-log-table"]), Some("wrong-secret"));
    assert!(error.contains("Access denied") && error.contains("--password-file"), "{error}");
    assert!(!error.contains("secret"), "{error}");
    for (source, right) in [
        ("--slow-log-table", "GRANT SELECT ON mysql.slow_log TO 'weak'"),
        ("--digests", "GRANT SELECT ON performance_schema.* TO 'weak'"),
    ] {
        let error = complaint(&with(&[source]), Some("very-secret"));
        assert!(error.contains(right), "{source}: {error}");
    }
    // Without the privilege the processlist shows only one's own connections, and the report says
    // so.
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "very-secret\nno more\n").unwrap();
    let path = file.path().to_str().unwrap();
    let args =
        [&base[..], &["--processlist", "--run-time", "0.3", "--json", "--password-file", path]]
            .concat();
    let (status, out, error) = finish(&mut frond(&args));
    assert_eq!((status, error.as_str()), (0, ""));
    assert!(out.contains("GRANT PROCESS ON *.* TO 'weak'"), "{out}");
    let error = complaint(&["--digests", "--socket", "/nonexistent/socket"], None);
    assert!(error.contains("/nonexistent/socket: there is no such socket"), "{error}");
    assert!(error.contains("--host") && !error.contains("DriverError"), "{error}");
    for wrong in [
        &["--digests", "--processlist"][..],
        &["--digests", "--filter", "db == 'x'"],
        &["--socket", "/x"],
        &["--processlist", "slow.log"],
        &["--processlist", "--every", "0"],
    ] {
        assert!(!complaint(wrong, None).is_empty());
    }
}

#[test]
fn a_running_server_is_asked() {
    if !has("mariadbd") || !has("mariadb-install-db") {
        eprintln!("skipped: mariadbd is not installed");
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let options = ["--performance-schema=ON", "--slow-query-log=0", "--log-output=FILE"];
    let server = Server::start(home.path(), &options).unwrap_or_else(|e| panic!("{e}"));
    let mut admin = Client::connect(&server.socket, "").unwrap();
    admin.run("create database shop");
    admin.run("create table shop.t (id int primary key, a varchar(100))");
    slow_log_table(&server.socket);
    digests(&server.socket);
    processlist(&server.socket);
    mistakes(&server.socket);
}
