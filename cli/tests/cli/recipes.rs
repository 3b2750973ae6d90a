//! Runs every command of docs/digest.md on small inputs, in a directory that has the paths of the page.

use std::fs;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::inputs::{digest, event, out, Event, Pcap, SERVER};
use crate::programs::{bounded, has};

const PAGE: &str = include_str!("../../../docs/digest.md");

/// A class before and after the page's deploy.
const RARE: &str = "select note from audit where id = 5";

/// The commands of the page, in order.
fn commands() -> Vec<&'static str> {
    let mut commands = Vec::new();
    for block in PAGE.split("```sh\n").skip(1) {
        // Commands that ask a running server are run by the tests that have one (`live`).
        let asks = |l: &&str| {
            ["--slow-log-table", "--digests", "--processlist"].iter().any(|o| l.contains(o))
        };
        let lines = block.split("```").next().unwrap().lines();
        commands.extend(lines.filter(|l| !l.is_empty() && !asks(l)));
    }
    commands
}

/// Last night's log, part of it rotated and packed; and a log around the page's deploy.
fn slow_logs(dir: &Path) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64;
    // 23:00 of yesterday, UTC.
    let night = now - now % 86_400 - 3600;
    let deploy = 1_769_868_000;
    let mut first = String::from(SERVER);
    let mut second = String::new();
    for i in 0..400_i64 {
        let sql = format!("select * from orders where id = {i}");
        event(&mut first, &Event { at: deploy - 4000 + i, sql: &sql, ..Event::default() });
        event(
            &mut second,
            &Event { at: deploy + i * 2, sql: &sql, seconds: 1.5, ..Event::default() },
        );
        if i % 10 == 0 {
            let report = Event {
                user: "report_eu",
                sql: "select sum(total) from sales",
                seconds: 60.0,
                ..Event::default()
            };
            event(&mut second, &Event { at: deploy + i * 2, ..report });
        }
        if i % 20 == 0 {
            // So little of the time that a report keeps it only if it keeps all.
            let rare = Event { thread: 8, sql: RARE, seconds: 0.01, ..Event::default() };
            event(&mut first, &Event { at: deploy - 4000 + i, ..rare });
            event(&mut second, &Event { at: deploy + i * 2, ..rare });
        }
    }
    for i in 0..100_i64 {
        let sql = format!("update carts set seen = 1 where id = {i}");
        event(&mut second, &Event { at: night + i, sql: &sql, ..Event::default() });
        event(
            &mut second,
            &Event {
                at: night + i,
                user: "backup",
                sql: "select * from orders",
                seconds: 9.0,
                ..Event::default()
            },
        );
    }
    fs::write(dir.join("slow.log"), second).unwrap();
    fs::write(dir.join("slow.log.1"), first).unwrap();
}

fn capture(path: &Path) {
    let mut pcap = Pcap::new(3306);
    // Connections from many ports, so that any sample of one in eight has some.
    for client in 0..64 {
        let mut at = (1, 1);
        for id in 0..8 {
            at = pcap.query(50_000 + client, at, &format!("select * from t where id = {id}"), 900);
        }
    }
    fs::write(path, pcap.bytes()).unwrap();
}

#[test]
fn the_page_s_commands_do_what_it_says() {
    let dir = tempfile::tempdir().unwrap();
    slow_logs(dir.path());
    capture(&dir.path().join("db.pcap"));
    let here = dir.path().display().to_string();
    let commands = commands();
    assert!(commands.len() >= 14, "the page has {} commands", commands.len());
    let mut said = Vec::new();
    for command in commands {
        let line = command
            .replace("/var/log/mysql", &here)
            .replace("/tmp/db.pcap", &format!("{here}/db.pcap"))
            .replace("$(frond ", "$($FROND ")
            .replacen("frond digest", "$FROND digest", 1);
        // Filters for tcpdump are compiled if tcpdump is installed; nothing is captured.
        let line = match line.strip_prefix("tcpdump ") {
            None => line,
            Some(_) if !has("tcpdump") => {
                eprintln!("skipped: no tcpdump for {command}");
                continue;
            }
            Some(rest) => format!(
                "tcpdump -y EN10MB -d {}",
                &rest[rest.rfind(['\'', '"'].as_ref()).map_or(0, |end| {
                    let quote = &rest[end..=end];
                    rest.find(quote).unwrap()
                })..]
            ),
        };
        let output = bounded("sh")
            .args(["-c", &line])
            .current_dir(dir.path())
            .env("FROND", env!("CARGO_BIN_EXE_frond"))
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(
            output.status.success(),
            "{line}\n{text}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        said.push((command, text));
    }
    let of = |part: &str| {
        let found = said.iter().find(|(command, _)| command.contains(part));
        &found.unwrap_or_else(|| panic!("no command with {part}")).1
    };
    assert!(of("today 06:00").contains("# Overall: 200 total, 2 unique"), "{}", of("today 06:00"));
    let night = of("--batch-user backup");
    let [carts, orders] = ["UPDATE carts", "SELECT orders"].map(|item| night.find(item).unwrap());
    assert!(carts < orders && night.contains("batch"), "{night}");
    assert!(of("full_scan").contains("# Profile by total rows examined"));
    assert!(of("--group-by user").contains("report_eu"));
    let html = fs::read_to_string(dir.path().join("night.html")).unwrap();
    assert!(html.contains("<html") && html.contains("carts"));
    assert!(of("frond digest /tmp/db.pcap").contains("# Overall: 512 total, 1 unique"));
    let sample = of("digest --sample-connections 1/8 /tmp");
    assert!(sample.contains("Sample: 1 of 8 connections") && sample.contains("+-"), "{sample}");
    assert!(of("--tcpdump-filter").contains("tcp src port 3306"));
    assert!(
        of("--patterns").contains("Repeated (N+1): SELECT orders (1 run, 400"),
        "{}",
        of("--patterns")
    );
    for compared in [of("--diff-at"), of("--diff /var")] {
        assert!(compared.contains("# Slower: 1"), "{compared}");
    }
    assert!(fs::read_to_string(dir.path().join("deploy.html")).unwrap().contains("slower"));
    let before = fs::read_to_string(dir.path().join("before.json")).unwrap();
    // Of the report before, every class is kept, and none that it has is called new.
    assert!(before.contains("select note from audit"), "{before}");
    let [before, after] =
        ["before.json", "slow.log"].map(|f| dir.path().join(f).display().to_string());
    let compared = out(&digest(&["--diff", &before, &after, "--until", "2026-02-01"]));
    let new = compared.split("\n\n").find(|part| part.starts_with("# New: 1")).unwrap_or(&compared);
    assert!(new.contains("SELECT sales") && !new.contains("SELECT audit"), "{compared}");
    assert!(!compared.contains("leaves out"), "{compared}");
}

#[test]
fn the_page_names_every_form_and_status() {
    for word in [
        "--html",
        "--json",
        "--diff-at",
        "--redact",
        "--rate",
        "Exit status 1",
        "digest-json.md",
        "-s 0",
        "-B 65536",
    ] {
        assert!(PAGE.contains(word), "{word}");
    }
}
