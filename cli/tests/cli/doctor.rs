//! `frond doctor`: problems of a real server are found, and no longer found after the cure.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::client::{Client, Server};
use crate::programs::{bounded, has};

fn frond(args: &[&str]) -> (i32, String, String) {
    let mut command = bounded(env!("CARGO_BIN_EXE_frond"));
    let output = command.arg("doctor").args(args).env_remove("MYSQL_PWD").output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
}

fn rules(report: &Value) -> Vec<&str> {
    report["findings"].as_array().unwrap().iter().map(|f| f["rule"].as_str().unwrap()).collect()
}

#[test]
fn the_machine_alone_is_examined_and_bad_files_are_refused() {
    let (status, out, error) = frond(&["--no-server", "--seconds", "0.2"]);
    assert!((0..=1).contains(&status) && error.is_empty(), "{error}");
    assert!(out.contains("rules were asked") && out.contains("(status.Connections)"), "{out}");
    let dir = tempfile::tempdir().unwrap();
    let letter = dir.path().join("letter");
    std::fs::write(&letter, "a letter, no samples").unwrap();
    let letter = letter.to_str().unwrap();
    for args in [["--replay", letter].as_slice(), &["--no-server", "--watch", letter]] {
        let (status, out, error) = frond(args);
        assert!(status == 2 && out.is_empty() && error.contains("samples"), "{args:?} {error}");
    }
    let (status, _, error) = frond(&["--replay", "/nonexistent/ring"]);
    assert!(status == 2 && error.contains("no such file"), "{error}");
    assert_eq!(std::fs::read(letter).unwrap(), b"a letter, no samples");
}

/// 4 seconds, no processor time.
#[test]
fn a_server_that_hangs_is_away_within_seconds() {
    // It takes connections and never says anything.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let way = ["--no-defaults", "--user", "root", "--host", "127.0.0.1", "--port", &port];
    let begin = Instant::now();
    let children = [["exporter", "--once"], ["doctor", "--json"], ["top", "--once"]].map(|args| {
        let mut command = bounded(env!("CARGO_BIN_EXE_frond"));
        command.args(args).args(way).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    });
    for mut child in children {
        assert_eq!(child.wait().unwrap().code(), Some(2));
    }
    assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
}

/// Waits for a report with `rule`, or without it.
fn until(args: &[&str], rule: &str, is_there: bool) -> Value {
    let end = Instant::now() + Duration::from_secs(40);
    loop {
        let (status, out, error) = frond(args);
        assert!((0..=1).contains(&status), "{error}");
        let report: Value = serde_json::from_str(&out).unwrap();
        if rules(&report).contains(&rule) == is_there {
            return report;
        }
        assert!(Instant::now() < end, "{rule} {is_there}: {report:#}");
    }
}

#[test]
fn what_is_wrong_with_a_server_is_found_until_it_is_cured() {
    if !has("mariadbd") || !has("mariadb-install-db") {
        eprintln!("skipped: mariadbd is not installed");
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let options = ["--back-log=10", "--thread-cache-size=0", "--max-connections=20"];
    let server = Server::start(home.path(), &options).unwrap_or_else(|e| panic!("{e}"));
    let mut admin = Client::connect(&server.socket, "").unwrap();
    // The documented least privilege.
    admin.run("create user reader@localhost identified by ''");
    admin.run("grant replica monitor on *.* to reader@localhost");
    let socket = server.socket.to_str().unwrap().to_owned();
    let args =
        ["--no-defaults", "--socket", &socket, "--user", "reader", "--seconds", "1", "--json"];

    // A storm of connects.
    let (path, done) =
        (server.socket.clone(), std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false)));
    let over = done.clone();
    let storm = std::thread::spawn(move || {
        while !over.load(std::sync::atomic::Ordering::Relaxed) {
            if let Ok(client) = Client::connect(&path, "") {
                client.quit();
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    });
    let report = until(&args, "accept-queue-small", true);
    let finding = report["findings"]
        .as_array()
        .unwrap()
        .iter()
        .find(|f| f["rule"] == "accept-queue-small")
        .unwrap();
    assert!(finding["means"].as_str().unwrap().contains("SYN retries"), "{finding:#}");
    assert!(
        finding["seen"].as_str().unwrap().contains("a queue of 10 (back_log 10"),
        "{finding:#}"
    );
    until(&args, "thread-cache", true);
    admin.run("set global thread_cache_size = 100");
    until(&args, "thread-cache", false);
    done.store(true, std::sync::atomic::Ordering::Relaxed);
    storm.join().unwrap();
    until(&args, "accept-queue-small", false);

    // All but a few connections are in use.
    let many: Vec<Client> = (0..16).map(|_| Client::connect(&server.socket, "").unwrap()).collect();
    until(&args, "connections-near-limit", true);
    admin.run("set global max_connections = 200");
    until(&args, "connections-near-limit", false);
    admin.run("set global max_connections = 17");
    for _ in 0..10 {
        let _ = Client::connect(&server.socket, "");
    }
    drop(many);
    admin.run("set global max_connections = 200");
    let report = until(&args, "connections-near-limit", false);
    let unasked = |report: &Value| -> Vec<String> {
        let list = report["unasked"].as_array().unwrap();
        list.iter().map(|rule| rule["rule"].as_str().unwrap().to_owned()).collect()
    };
    assert!(!unasked(&report).contains(&"replica-behind".to_owned()), "{report:#}");
    // Without the privilege everything else is still asked.
    admin.run("revoke replica monitor on *.* from reader@localhost");
    let report = until(&args, "connections-near-limit", false);
    assert!(unasked(&report).contains(&"replica-behind".to_owned()), "{report:#}");
    assert!(report["unseen"].to_string().contains("GRANT REPLICA MONITOR"), "{report:#}");

    // Samples are kept over the server's end.
    let ring = home.path().join("ring");
    let mut watch = Command::new(env!("CARGO_BIN_EXE_frond"))
        .args(["doctor", "--no-defaults", "--user", "root", "--socket", &socket, "--run-time", "8"])
        .args(["--size", "1M", "--watch", ring.to_str().unwrap()])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(3500));
    drop((admin, server));
    let mut said = String::new();
    std::io::Read::read_to_string(watch.stderr.as_mut().unwrap(), &mut said).unwrap();
    assert!(
        watch.wait().unwrap().success() && said.contains("the machine is watched on"),
        "{said}"
    );
    assert!(ring.metadata().unwrap().len() <= 1 << 20);
    let at = |args: &[&str]| -> Value {
        let ring = ring.to_str().unwrap();
        let (status, out, error) = frond(&[&["--replay", ring, "--json"], args].concat());
        assert!((0..=1).contains(&status), "{error}");
        serde_json::from_str(&out).unwrap()
    };
    let last = at(&[]);
    assert!(rules(&last).contains(&"server-away"), "{last:#}");
    // The first samples, of the first two or three seconds, are from a server that answers.
    let source = last["source"].as_str().unwrap();
    let first = &source[source.find('(').unwrap() + 1..][..19];
    let early = two_later(first);
    let report = at(&["--at", &early]);
    assert!(!rules(&report).contains(&"server-away"), "{early} {report:#}");
    assert!(unasked(&report).len() < unasked(&last).len(), "{report:#}");
    let (status, _, error) =
        frond(&["--replay", ring.to_str().unwrap(), "--at", "2001-01-01 00:00:00"]);
    assert!(status == 2 && error.contains("its samples are from"), "{error}");
    let (status, _, error) = frond(&args);
    assert!(status == 2 && error.contains("is the server running"), "{error}");
}

/// The time two seconds later.
fn two_later(time: &str) -> String {
    let time: jiff::civil::DateTime = time.parse().unwrap();
    (time + jiff::SignedDuration::from_secs(2)).strftime("%Y-%m-%d %H:%M:%S").to_string()
}
