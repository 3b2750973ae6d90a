//! The samples of pt-query-digest's own tests, compared with the installed pt-query-digest.
//!
//! They are not part of the project: `FROND_QUERYLOG_CORPUS` names their directory (the one with
//! `tcpdump/`); without it `../shared/corpus/percona-toolkit` beside the checkout is tried.

use super::programs::{bounded, has};
use super::traffic::*;
use frond_capture::Options;
use frond_event::Kind;
use std::path::{Path, PathBuf};
use std::process::Stdio;

fn corpus() -> Option<PathBuf> {
    let beside =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus/percona-toolkit");
    let home =
        std::env::var_os("FROND_QUERYLOG_CORPUS").map_or(beside, PathBuf::from).join("tcpdump");
    home.is_dir().then_some(home)
}

/// pt-query-digest's reading of a file: query time and text of each event.
pub fn peer(file: &Path, server: Option<&str>) -> Option<Vec<(String, String)>> {
    if !has("pt-query-digest") {
        return None;
    }
    let mut command = bounded("pt-query-digest");
    command.args(["--no-version-check", "--type", "tcpdump", "--no-report", "--output", "slowlog"]);
    if let Some(server) = server {
        command.args(["--watch-server", server]);
    }
    let output = command.arg(file).stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut events: Vec<(String, String)> = Vec::new();
    let mut time = String::new();
    let mut sql: Vec<&str> = Vec::new();
    for line in text.lines().chain(["# Time: end"]) {
        if line.starts_with("# Time: ") && !time.is_empty() {
            events.push((std::mem::take(&mut time), normal(&sql.join("\n"))));
            sql.clear();
        }
        if let Some(rest) = line.strip_prefix("# Query_time: ") {
            time = rest.split(' ').next().unwrap_or_default().to_string();
        } else if let Some(command) = line.strip_prefix("# administrator") {
            sql.push("administrator");
            sql.push(command);
        } else if !(line.starts_with("# ") || sql.is_empty() && line.starts_with("use ")) {
            sql.push(line);
        }
    }
    events.sort();
    Some(events)
}

/// Without white space, kinds of quotes, and the semicolon at the end.
fn normal(sql: &str) -> String {
    let words: Vec<&str> = sql.split_whitespace().collect();
    words.join(" ").replace(['\'', '\\'], "\"").trim_end_matches([';', ' ']).to_string()
}

fn ours(file: &Path) -> Vec<(String, String)> {
    let options = Options { compat_names: true, ..Options::default() };
    let got = read_with(&std::fs::read(file).expect("a sample"), options, 1 << 20);
    let mut events: Vec<(String, String)> = got
        .events
        .iter()
        .filter_map(|e| {
            let prefix = match e.kind {
                Kind::Prepare => "PREPARE ",
                Kind::Execute => "EXECUTE ",
                _ => "",
            };
            let time = format!("{:.6}", e.time? as f64 / 1e9);
            Some((time, normal(&format!("{prefix}{}", e.sql))))
        })
        .collect();
    events.sort();
    events
}

/// Files for which we differ, and why.
const DIFFERENCES: [(&str, &str); 8] = [
    ("tcpdump-1402776.txt", "the peer gives up; the connection in it is complete"),
    ("tcpdump014.txt", "the answer was changed by hand and is no answer any more"),
    (
        "tcpdump015.txt",
        "both sides miss bytes before the statement: whose answer it has is not known",
    ),
    ("tcpdump017.txt", "one exchange copied four times: the copies are retransmissions"),
    ("tcpdump031.txt", "sequence numbers changed by hand: most of the statement is missing"),
    ("tcpdump032.txt", "as 031"),
    ("tcpdump035.txt", "as 015"),
    ("tcpdump037.txt", "the answer is seen after it was acknowledged, two seconds before"),
];

#[test]
fn samples_give_what_pt_query_digest_gives() {
    let Some(home) = corpus() else { return eprintln!("skipped: no corpus here") };
    let mut names: Vec<PathBuf> =
        std::fs::read_dir(home).unwrap().map(|e| e.unwrap().path()).collect();
    names.sort();
    let mut compared = 0;
    for file in names {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let got = ours(&file);
        // For samples of servers on other ports, pt-query-digest has to be told the port.
        let mut want = Vec::new();
        for server in [None, Some("127.0.0.1:12345"), Some("192.168.1.1:3307")] {
            if !want.is_empty() {
                break;
            }
            let Some(events) = peer(&file, server) else {
                return eprintln!("skipped: no pt-query-digest here");
            };
            want = events;
        }
        // A client left without a login; pt-query-digest takes that for a connection.
        if name == "tcpdump044.txt" {
            assert_eq!((got.len(), want.len()), (0, 1));
            continue;
        }
        if let Some((_, why)) = DIFFERENCES.iter().find(|(n, _)| *n == name) {
            assert_ne!(got, want, "{name} is the same now, but: {why}");
            continue;
        }
        assert_eq!(got, want, "{name}");
        compared += want.len();
    }
    assert!(compared > 300, "{compared} events compared");
}

/// Simulated traffic: both report the same classes and times, until packets are lost.
#[test]
fn pt_query_digest_agrees_on_whole_captures_and_not_on_lossy_ones() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("capture.txt");
    let mut c = Connection::new(50_000);
    let mut time = c.login(BEGIN, 0);
    let mut boundaries = Vec::new();
    for (i, payload) in [
        query("select 1"),
        packet(0, b"\x02shop"),
        packet(0, b"\x0e"),
        packet(0, b"\x1a\x01\0\0\0"),
        query("select 2"),
        query("select 3"),
    ]
    .iter()
    .enumerate()
    {
        boundaries.push(c.packets.len());
        let answer = if payload[4] == 3 { rows(i, 9) } else { packet(1, OK) };
        time = c.ask(time + 1_000_000, payload, 3_000_000, &answer);
    }
    let mut packets = c.packets.clone();
    packets.iter_mut().for_each(|p| p.time -= p.time % 1000);
    std::fs::write(&file, text(&packets, false, false, false)).unwrap();
    let Some(want) = peer(&file, None) else {
        return eprintln!("skipped: no pt-query-digest here");
    };
    assert_eq!(ours(&file), want);
    // Without the answer to "select 2" and the request "select 3", pt-query-digest gives one query
    // the time of both.
    packets.drain(boundaries[4] + 1..boundaries[5] + 1);
    std::fs::write(&file, text(&packets, false, false, false)).unwrap();
    let lie = peer(&file, None).unwrap();
    assert!(lie.iter().any(|(t, sql)| sql == "select 2" && t == "0.007000"), "{lie:?}");
    assert!(ours(&file).iter().all(|(_, sql)| sql != "select 2" && sql != "select 3"));
}

/// The same load with packets removed at random: pt-query-digest shows times that no query had, we
/// show none.
#[test]
fn lossy_captures_give_true_times_here_and_false_ones_there() {
    let load = load(15, 100, 8);
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("capture.txt");
    for percent in [5, 60] {
        let mut kept = thin(&load.packets, percent, percent);
        kept.iter_mut().for_each(|p| p.time -= p.time % 1000);
        std::fs::write(&file, text(&kept, false, false, false)).unwrap();
        let Some(theirs) = peer(&file, None) else {
            return eprintln!("skipped: no pt-query-digest here");
        };
        let truth: std::collections::HashMap<String, f64> =
            load.truth.iter().map(|(sql, t)| (normal(sql), *t as f64 / 1e9)).collect();
        let false_times = |events: &[(String, String)]| {
            let wrong = |(time, sql): &&(String, String)| {
                let shown: f64 = time.parse().unwrap();
                // Both ends of a time are truncated to microseconds.
                truth.get(sql).is_some_and(|true_time| (shown - true_time).abs() > 2e-6)
            };
            events.iter().filter(wrong).count()
        };
        let ours = ours(&file);
        assert_eq!(false_times(&ours), 0, "{percent} % removed");
        assert!(ours.len() > 100);
        let lies = false_times(&theirs);
        assert!(lies > 0, "{percent} % removed and the peer tells no lie?");
        eprintln!("{percent} % removed: {lies} of {} times of the peer are false", theirs.len());
    }
}
