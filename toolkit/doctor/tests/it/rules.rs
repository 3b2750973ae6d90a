//! Each rule with values that it should find, and with those of a well-set server.

use frond_doctor::report::Report;
use frond_doctor::rules::{read, Rule, RULES};
use frond_doctor::snapshot::Snapshot;

fn rules() -> Vec<Rule> {
    read(RULES).unwrap()
}

/// A server and a machine without a problem: first and last sample, ten seconds apart.
fn well() -> (Snapshot, Snapshot) {
    let mut first = Snapshot::at(1_000.0);
    for line in include_str!("well.txt").lines().filter(|line| !line.is_empty()) {
        let (name, value) = line.split_once(' ').unwrap();
        first.set_text(name, value);
    }
    let mut last = first.clone();
    last.at += 10.0;
    (first, last)
}

fn found(changes: &[(&str, &str)]) -> Vec<String> {
    let (mut first, mut last) = well();
    for (name, value) in changes {
        last.set_text(*name, value);
        // Settings do not change.
        if !name.starts_with("status.")
            && !name.starts_with("net.Listen")
            && !name.starts_with("net.TCP")
            && !name.starts_with("vm.psw")
        {
            first.set_text(*name, value);
        }
    }
    let report = Report::of(&rules(), &first, &last, "test".into(), Vec::new());
    assert!(report.unasked.is_empty(), "{changes:?}: {:?}", report.unasked);
    for finding in &report.findings {
        let all = [&finding.seen, &finding.means, &finding.set, &finding.check];
        assert!(all.iter().all(|text| !text.contains('?') && !text.is_empty()), "{finding:#?}");
    }
    report.findings.into_iter().map(|finding| finding.rule).collect()
}

#[test]
fn nothing_is_found_on_a_well_set_server() {
    assert_eq!(found(&[]), Vec::<String>::new());
}

/// Values with a problem, and the only rule that must find it.
const WRONG: [(&[(&str, &str)], &str); 29] = [
    (&[("server.answers", "0")], "server-away"),
    (&[("net.ListenOverflows", "8")], "accept-queue-overflows"),
    (&[("net.accept_waiting", "5")], "accept-queue-waits"),
    (&[("status.Connections", "21000"), ("status.Threads_created", "11")], "accept-queue-small"),
    (&[("net.somaxconn", "128"), ("var.back_log", "150")], "somaxconn-below-back-log"),
    (&[("net.TCPReqQFullDrop", "3")], "syn-queue-full"),
    (&[("status.Connection_errors_max_connections", "1")], "connections-refused"),
    (&[("status.Threads_connected", "140")], "connections-near-limit"),
    (&[("status.Connections", "1100"), ("status.Threads_created", "100")], "thread-cache"),
    (&[("status.Aborted_connects", "20")], "aborted-connects"),
    (&[("server.open_files", "30000")], "open-files"),
    (
        &[("status.Opened_tables", "500"), ("status.Table_open_cache_overflows", "500")],
        "table-cache",
    ),
    (&[("var.innodb_buffer_pool_size", "16000000000")], "memory-overcommitted"),
    (&[("vm.pswpin", "5000")], "swapping"),
    (&[("vm.swappiness", "60")], "swappiness"),
    (&[("mem.transparent_hugepage", "always")], "transparent-huge-pages"),
    (&[("cpu.clocksource", "hpet")], "clock-source"),
    (&[("disk.scheduler", "bfq")], "io-scheduler"),
    (&[("fs.type", "overlay")], "filesystem"),
    (&[("fs.free", "1000000000")], "disk-space"),
    (&[("status.Innodb_lsn_current", "1000000000")], "redo-log-small"),
    (&[("status.Innodb_checkpoint_age", "900000000")], "checkpoint-age"),
    (&[("status.Innodb_buffer_pool_wait_free", "1")], "no-free-pages"),
    (&[("status.Innodb_history_list_length", "2000000")], "history-list"),
    (&[("replica.Seconds_Behind_Master", "3600")], "replica-behind"),
    (&[("replica.Slave_SQL_Running", "No")], "replica-stopped"),
    (&[("replica.Slave_IO_Running", "Connecting")], "replica-stopped"),
    (
        &[("status.Performance_schema_digest_lost", "5"), ("var.performance_schema", "ON")],
        "performance-schema-lost",
    ),
    (
        &[("status.Created_tmp_disk_tables", "900"), ("status.Created_tmp_tables", "1000")],
        "temporary-tables-on-disk",
    ),
];

#[test]
fn each_rule_finds_what_it_is_about_and_no_other_does() {
    for (changes, rule) in WRONG {
        assert_eq!(found(changes), [rule], "{changes:?}");
    }
    // Every rule has its case.
    for rule in rules() {
        assert!(WRONG.iter().any(|(_, id)| *id == rule.id), "{}", rule.id);
    }
}

/// The rule file and the document for users agree on each rule, and every test that they name exists.
#[test]
fn each_rule_says_where_it_is_made_real_or_why_not() {
    let root = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let text = std::fs::read_to_string(root.join("docs/doctor.md")).unwrap();
    for rule in rules() {
        let (place, how) = rule.proven.split_once(": ").unwrap();
        assert!(place == "not here" || root.join(place).exists(), "{}: {place}", rule.id);
        let how = if place == "not here" { &rule.proven } else { how };
        let row = format!("| `{}` | {how} |", rule.id);
        assert!(text.contains(&row), "docs/doctor.md lacks: {row}");
    }
}

#[test]
fn the_arithmetic_is_in_the_finding() {
    let (first, mut last) = well();
    last.set_text("status.Connections", "11000");
    let report = Report::of(&rules(), &first, &last, "test".into(), Vec::new());
    let finding = &report.findings[0];
    assert!(
        finding.means.starts_with(
            "1000 connects/s need a queue of 2000 for a stall of 2 s; yours is full after 1.5s"
        ),
        "{}",
        finding.means
    );
    assert!(finding.set.contains("at least 2000"), "{}", finding.set);
}

#[test]
fn what_is_not_known_is_said_and_not_guessed() {
    let empty = Snapshot::at(1.0);
    let report =
        Report::of(&rules(), &empty, &Snapshot::at(2.0), "test".into(), vec!["/proc/x: no".into()]);
    assert!(report.findings.is_empty());
    assert_eq!((report.asked, report.unasked.len()), (0, rules().len()));
    let mut text = Vec::new();
    report.write_text(false, &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(
        text.contains("accept-queue-overflows (net.ListenOverflows)")
            && text.contains("not seen: /proc/x: no"),
        "{text}"
    );
}

#[test]
fn rules_of_other_servers_and_releases_are_left_out() {
    let (first, mut last) = well();
    last.set_text("status.Innodb_lsn_current", "1000000000");
    for (version, count) in [("10.11.18-MariaDB", 1), ("10.5.2-MariaDB", 0), ("8.0.36", 0)] {
        last.set_text("var.version", version);
        let report = Report::of(&rules(), &first, &last, "test".into(), Vec::new());
        assert_eq!(report.findings.len(), count, "{version}");
    }
}

#[test]
fn a_bad_file_of_rules_is_refused_with_the_rule() {
    let rule = |when: &str| {
        format!("[[rule]]\nid = \"x\"\nlevel = \"note\"\nwhen = \"{when}\"\nseen = \"\"\nmeans = \"\"\nset = \"\"\ncheck = \"\"\nproven = \"\"\n")
    };
    assert_eq!(read(&rule("1 > 0")).unwrap().len(), 1);
    for (text, what) in [
        (rule("1 >"), "rule x: "),
        (rule("1").repeat(2), "there are two"),
        (rule("1").replace("seen = \"\"", "seen = \"{a|miles}\""), "'miles' is no unit"),
        (rule("1").replace("level = \"note\"", "level = \"loud\""), "loud"),
        ("x = 1".into(), "rule"),
    ] {
        let error = read(&text).err().unwrap();
        assert!(error.contains(what), "{error}");
    }
}
