//! Wrong and damaged inputs of `frond digest`: the message names them and a remedy.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use crate::inputs::{digest, err, event, out, Event, Pcap, SERVER};

fn file(dir: &TempDir, name: &str, bytes: &[u8]) -> String {
    let path = dir.path().join(name);
    fs::write(&path, bytes).unwrap();
    path.to_str().unwrap().to_owned()
}

fn log() -> String {
    let mut log = String::from(SERVER);
    for i in 0..20 {
        event(
            &mut log,
            &Event {
                at: 1_767_290_971 + i,
                sql: "select * from t where id = 5",
                ..Event::default()
            },
        );
    }
    log
}

/// The file is refused with status 2 and these words, the name first.
fn refused(name: &str, bytes: &[u8], words: &[&str]) {
    let dir = tempfile::tempdir().unwrap();
    let path = file(&dir, name, bytes);
    let said = digest(&[&path]);
    assert_eq!(said.status.code(), Some(2), "{name}: {}{}", out(&said), err(&said));
    let text = err(&said);
    assert!(text.starts_with(&format!("frond: {path}: ")), "{text}");
    for word in words {
        assert!(text.contains(word), "{name}: no '{word}' in: {text}");
    }
}

#[test]
fn files_given_by_mistake_are_named_with_a_way_out() {
    refused(
        "mysql-bin.000001",
        b"\xfebin\x0f\x00\x00\x00",
        &["binary log", "mariadb-binlog", "slow_query_log"],
    );
    refused("relay-bin.000002", b"\xfebin\x0f\x00\x00\x00", &["relay log", "slow_query_log"]);
    refused("encrypted", b"\xfdbin\x0f\x00\x00\x00", &["encrypted binary log"]);
    let mut page = vec![0; 16384];
    page[8..16].fill(0xff);
    page[25] = 8;
    refused("orders.ibd", &page, &["InnoDB tablespace", "slow_query_log_file"]);
    refused("ib_logfile0", b"Phys\0\0\0\0", &["redo log"]);
    refused("ib_logfile0", b"PHYS\0\0\0\0", &["redo log"]);
    refused("t.MYI", b"\xfe\xfe\x07\x01", &["MyISAM"]);
    refused("t.MAI", b"\xfe\xfe\x09\x03", &["Aria"]);
    refused("t.frm", b"\xfe\x01\x0a\x0c", &[".frm"]);
    refused("places.sqlite", b"SQLite format 3\0\x10\x00", &["SQLite"]);
    refused("mariadbd", b"\x7fELF\x02\x01", &["program"]);
    refused("slow.log.xz", b"\xfd7zXZ\0\0\x04", &["xz -dc"]);
    refused("slow.log.bz2", b"BZh91AY&SY", &["bzip2 -dc"]);
    refused("logs.zip", b"PK\x03\x04\x14\0", &["unzip -p"]);
    refused(
        "error.log",
        b"2026-01-01 12:00:00 0 [Note] InnoDB: started\n",
        &["error log", "slow_query_log_file"],
    );
    refused("t.MYD", &[1, 2, 0, 3, 0, 0, 7, 0, 1, 1, 0, 2], &["binary data"]);
    refused("notes.txt", b"Hello, this is a letter.\n", &["no format", "--type"]);
}

#[test]
fn paths_that_cannot_be_read_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let said = digest(&[dir.path().to_str().unwrap()]);
    assert_eq!(said.status.code(), Some(2));
    assert!(err(&said).contains("is a directory"), "{}", err(&said));
    let said = digest(&["/no/such/slow.log"]);
    assert_eq!(said.status.code(), Some(2));
    assert!(err(&said).contains("/no/such/slow.log: no such file"), "{}", err(&said));
    // The readable one of several files is still read.
    let good = file(&dir, "slow.log", log().as_bytes());
    let said = digest(&["/no/such/slow.log", &good]);
    assert_eq!(said.status.code(), Some(1));
    assert!(out(&said).contains("# Overall: 20 total") && out(&said).contains("no such file"));
}

#[test]
fn an_empty_input_is_an_empty_report() {
    let dir = tempfile::tempdir().unwrap();
    for bytes in [&b""[..], b"\n\n", SERVER.as_bytes()] {
        let path = file(&dir, "slow.log", bytes);
        for form in ["--html", "--json", "--ndjson", "--csv", "--quiet"] {
            let said = digest(&[form, &path]);
            assert_eq!(said.status.code(), Some(0), "{form} {}", err(&said));
        }
        assert!(out(&digest(&[&path])).contains("The inputs hold no statements"));
    }
    let path = file(&dir, "slow.log", log().as_bytes());
    let said = digest(&["--filter", "db == 'none'", &path]);
    assert!(out(&said).contains("None of the 20 statements read was chosen"), "{}", out(&said));
}

#[test]
fn a_wrong_expression_is_pointed_at() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(&dir, "slow.log", log().as_bytes());
    let said = digest(&["--filter", "db == 'shop' && query_tme > 1", &path]);
    assert_eq!(said.status.code(), Some(2));
    let text = err(&said);
    let lines: Vec<&str> = text.lines().collect();
    assert!(text.contains("(column 17)") && text.contains("did you mean 'Query_time'"), "{text}");
    let caret = lines.iter().position(|l| l.trim_start().starts_with('^')).unwrap();
    assert_eq!(lines[caret - 1].find("query_tme"), lines[caret].find('^'), "{text}");
    for (option, value, word) in [
        ("--since", "last week", "yesterday"),
        ("--limit", "many", "95%"),
        ("--order-by", "speed", "p95"),
        ("--sample-connections", "half", "1/N"),
    ] {
        let said = digest(&[option, value, &path]);
        assert_eq!(said.status.code(), Some(2), "{option}");
        assert!(err(&said).contains(word), "{option}: {}", err(&said));
    }
}

/// A mistyped name for grouping is a mistake of the same kind: one class of everything explains nothing.
#[test]
fn a_name_to_group_or_rank_by_that_does_not_exist_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(&dir, "slow.log", log().as_bytes());
    let percona = log().replace("QC_hit: No", "QC_hit: No  Shard: eu1");
    let attribute = file(&dir, "shards.log", percona.as_bytes());
    for (log, name, words) in [
        (&path, "usr", &["did you mean 'user'?", "fingerprint, db"][..]),
        (&path, "full_scna", &["did you mean 'Full_scan'?"]),
        (&path, "program_name", &["'program_name'", "no other attributes", "fingerprint, db"]),
        (&path, "rows_sent", &["a number", "--order-by", "fingerprint, db"]),
        (&path, "", &["empty", "fingerprint, db"]),
        (&attribute, "shrad", &["did you mean 'Shard'?"]),
        (&attribute, "region", &["these inputs: Shard"]),
    ] {
        for threads in ["1", "2"] {
            let said = digest(&["--group-by", name, "--threads", threads, log]);
            assert_eq!(said.status.code(), Some(2), "{name}: {}", out(&said));
            assert!(err(&said).starts_with("frond: --group-by: "), "{}", err(&said));
            for word in words {
                assert!(err(&said).contains(word), "{name}: no '{word}' in {}", err(&said));
            }
        }
    }
    for (name, class) in
        [("shard", "eu1"), ("full_scan", "Yes"), ("ip", "10.0.0.1"), ("thread_id", "7")]
    {
        let said = digest(&["--group-by", name, "--csv", &attribute]);
        let rows: Vec<String> = out(&said).lines().map(str::to_owned).collect();
        assert!(rows.len() == 2 && rows[1].contains(class), "{name}: {rows:?} {}", err(&said));
    }
    // Without statements, an attribute that none of them has is no mistake.
    let empty = file(&dir, "empty.log", SERVER.as_bytes());
    assert_eq!(digest(&["--group-by", "shard", &empty]).status.code(), Some(0));
    let said = digest(&["--order-by", "tmie", &path]);
    assert_eq!(said.status.code(), Some(2));
    assert!(err(&said).contains("--order-by: ") && err(&said).contains("did you mean 'time'?"));
}

#[test]
fn a_capture_without_statements_says_where_it_looked() {
    let dir = tempfile::tempdir().unwrap();
    let mut web = Pcap::new(80);
    web.segment(true, 40_000, 1, 1, b"GET / HTTP/1.1\r\nHost: example\r\n\r\n");
    web.segment(false, 40_000, 1, 34, b"HTTP/1.1 200 OK\r\n\r\n");
    let path = file(&dir, "web.pcap", web.bytes());
    let said = digest(&[&path]);
    let text = out(&said);
    assert!(text.contains("No statement was found") && text.contains("--port"), "{text}");
    let json: serde_json::Value =
        serde_json::from_slice(&digest(&["--json", &path]).stdout).unwrap();
    assert_eq!(json["loss"]["capture"]["packets"], 2);
    assert!(json["loss"]["capture"]["notes"].to_string().contains("--port"));
}

#[test]
fn encrypted_connections_could_not_be_read() {
    let dir = tempfile::tempdir().unwrap();
    let mut tls = Pcap::new(3306);
    let record = b"\x17\x03\x03\x00\x05hello";
    for i in 0..4 {
        tls.segment(true, 40_000, 1 + i * 10, 1 + i * 10, record);
        tls.segment(false, 40_000, 1 + i * 10, 11 + i * 10, record);
    }
    let said = digest(&[&file(&dir, "tls.pcap", tls.bytes())]);
    let text = out(&said);
    assert!(text.contains("1 encrypted connection could not be read"), "{text}");
    assert!(!text.contains("--port"), "{text}");
    assert_eq!(said.status.code(), Some(1), "{text}");
}

#[test]
fn captures_of_which_nothing_can_be_read_are_refused() {
    let mut whole = Pcap::new(3306);
    whole.segment(true, 40_000, 1, 1, b"x");
    refused("begun.pcap", &whole.bytes()[..10], &["first 24 bytes"]);
    // A statement cut later is reported as cut.
    let dir = tempfile::tempdir().unwrap();
    let said = digest(&[&file(&dir, "header.pcap", &whole.bytes()[..30])]);
    assert_eq!(said.status.code(), Some(1), "{}", err(&said));
    assert!(err(&said).contains("ends within its first packet"), "{}", err(&said));
    // A capture without a packet.
    let said = digest(&[&file(&dir, "empty.pcap", &whole.bytes()[..24])]);
    assert_eq!(said.status.code(), Some(0), "{}", err(&said));
}

#[test]
fn text_of_tcpdump_that_lacks_something_says_which_option() {
    let line = "IP 127.0.0.1.58776 > 127.0.0.1.3306: tcp 0\n";
    let hex = "\t0x0000:  4500 003c 68ea 4000 4006 d3cf 7f00 0001\n";
    let text = |time: &str, hex: &str| format!("{time} {line}{hex}").repeat(3).into_bytes();
    refused("no-x.txt", &text("2026-11-22 21:25:06.888798", ""), &["bytes", "-x"]);
    refused("no-x-tt.txt", &text("1700000000.888798", ""), &["bytes", "-x"]);
    refused("no-date.txt", &text("21:25:06.888798", hex), &["dates", "-tttt"]);
    let dir = tempfile::tempdir().unwrap();
    let path = file(&dir, "forced.txt", &text("2026-11-22 21:25:06.888798", ""));
    let said = digest(&["--type", "tcpdump", &path]);
    assert_eq!(said.status.code(), Some(2), "{}", out(&said));
    assert!(err(&said).contains("-x"), "{}", err(&said));
}

#[test]
fn ports_may_be_listed() {
    for ports in [&["--port", "3307,3308"][..], &["--port", "3307", "--port", "3308"]] {
        let said = digest(&[&["--tcpdump-filter"], ports].concat());
        assert_eq!(out(&said).trim_end(), "tcp port 3307 or tcp port 3308", "{}", err(&said));
    }
}

#[test]
fn what_is_damaged_is_counted_and_placed_and_the_rest_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let whole = log();
    // The log is cut in the middle of the last event, of a header, of a name.
    for cut in [5, 60, 300] {
        let path = file(&dir, "slow.log", &whole.as_bytes()[..whole.len() - cut]);
        let said = digest(&[&path]);
        let text = out(&said);
        assert_eq!(said.status.code(), Some(1), "{text}");
        assert!(
            text.contains("# Overall: 19 total") || text.contains("# Overall: 20 total"),
            "{text}"
        );
        assert!(text.contains("What could not be read") && text.contains("cut event"), "{text}");
        assert!(text.contains(&format!("{path} byte ")), "{text}");
        let json: serde_json::Value =
            serde_json::from_slice(&digest(&["--json", &path]).stdout).unwrap();
        assert_eq!(json["loss"]["skips"][0]["count"], 1);
        let place = json["loss"]["places"][0]["offset"].as_u64().unwrap();
        assert!(place > whole.len() as u64 * 9 / 10 && place < whole.len() as u64);
        let html = out(&digest(&["--html", &path]));
        assert!(html.contains("cut event"));
        // These forms of the report have no place for it.
        for form in [&["--csv"][..], &["--compat", "ptqd-3.2"]] {
            let said = digest(&[form, &[path.as_str()]].concat());
            assert_eq!(said.status.code(), Some(1));
            let text = err(&said);
            assert!(text.contains(&format!("{path} byte {place}: cut event")), "{text}");
            assert!(!out(&said).contains("cut event"));
        }
    }
    // Bytes between two events that belong to none.
    let at = whole.match_indices("# User@Host").nth(10).unwrap().0;
    let mut broken = whole.as_bytes()[..at].to_vec();
    broken.extend(b"# Query_time: what\n\x00\x01\xff\xff garbage \x1b[31m\n");
    broken.extend(&whole.as_bytes()[at..]);
    let path = file(&dir, "broken.log", &broken);
    let said = digest(&[&path]);
    assert_eq!(said.status.code(), Some(1), "{}", out(&said));
    assert!(!out(&said).contains('\u{1b}'), "an escape reaches the terminal");
    // A packed log that ends too early.
    let packed = Path::new(&path).with_extension("gz");
    let ok = std::process::Command::new("sh")
        .args([
            "-c",
            &format!(
                "gzip -c {} | head -c 300 > {}",
                file(&dir, "whole.log", whole.as_bytes()),
                packed.display()
            ),
        ])
        .status();
    if ok.is_ok_and(|s| s.success()) {
        let said = digest(&[packed.to_str().unwrap()]);
        assert_eq!(said.status.code(), Some(1), "{}", out(&said));
        assert!(out(&said).contains("stopped at byte"), "{}", out(&said));
    }
}

#[test]
fn clocks_that_go_back_and_mixed_logs_are_told_in_every_form() {
    let dir = tempfile::tempdir().unwrap();
    let mut back = log();
    event(&mut back, &Event { at: 1_767_290_971 - 7200, ..Event::default() });
    let back = file(&dir, "back.log", back.as_bytes());
    let mut mixed = String::from(SERVER);
    for i in 0..10 {
        let at = 1_767_290_971 + i * 60;
        event(&mut mixed, &Event { at, user: "web", thread: 9, seconds: 20.0, ..Event::default() });
        event(
            &mut mixed,
            &Event { at: at + 1, user: "etl", thread: 9, seconds: 20.0, ..Event::default() },
        );
    }
    let mixed = file(&dir, "mixed.log", mixed.as_bytes());
    let a = file(&dir, "a.log", log().replace("app1", "app2").as_bytes());
    let mut longer = log();
    event(&mut longer, &Event { at: 1_767_290_971 + 900, ..Event::default() });
    let b = file(&dir, "b.log", longer.as_bytes());
    let long = file(&dir, "c.log", longer.replace("web", "api").as_bytes());
    for (files, words) in [
        (vec![back.as_str()], "clock goes back by"),
        (vec![mixed.as_str()], "Logs of two servers are mixed"),
        (vec![b.as_str(), long.as_str()], "cover the same time"),
    ] {
        for form in ["--json", "--html", "--ndjson"] {
            let mut args = vec![form];
            args.extend(&files);
            assert!(out(&digest(&args)).contains(words), "{form} {files:?}");
        }
        let said = digest(&files);
        let text = out(&said).replace("\n#  ", "");
        assert!(text.contains(words) && said.status.code() == Some(0), "{text}");
    }
    assert!(!out(&digest(&[&a])).contains("Note:"), "one server's log");
}
