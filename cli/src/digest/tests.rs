//! Command lines and their results.

use super::*;
use clap::Parser;

const LOG: &str = "# User@Host: a[a] @ h []\n# Thread_id: 1  Schema: shop  QC_hit: No\n# Query_time: 1.5  Lock_time: 0\nSET timestamp=1767290971;\nselect * from t where id=7;\n";

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    digest: DigestArgs,
}

/// Runs a command line: whether all could be read, and the text; or the complaint.
fn digest(options: &[&str], log: &str) -> Result<(bool, String), String> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("slow.log");
    std::fs::write(&path, log).unwrap();
    line(&[&[path.to_str().unwrap()], options].concat())
}

/// As `digest`, for a whole command line.
fn line(words: &[&str]) -> Result<(bool, String), String> {
    let args = Line::parse_from(["digest", "--quiet"].iter().chain(words)).digest;
    let mut out = Vec::new();
    match run(&args, &mut out) {
        Ok(fine) => Ok((fine, String::from_utf8(out).unwrap())),
        Err(failure) => Err(failure.to_string()),
    }
}

#[test]
fn a_log_gives_its_classes() {
    let (fine, text) = digest(&[], LOG).unwrap();
    assert!(fine && text.contains("Profile by total exec time") && text.contains("id=7"), "{text}");
    let (_, text) = digest(&["--redact"], LOG).unwrap();
    assert!(!text.contains("id=7"), "{text}");
    let (_, text) = digest(&["--compat", "ptqd-3.2"], LOG).unwrap();
    assert!(text.contains("# Overall: 1 total, 1 unique"), "{text}");
    let (_, json) = digest(&["--json", "--reproducible"], LOG).unwrap();
    let report: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(report["classes"][0]["metrics"][0]["sum"], 1.5);
    for form in ["--csv", "--ndjson", "--html"] {
        assert!(digest(&[form], LOG).unwrap().1.contains("select * from t"), "{form}");
    }
}

#[test]
fn two_periods_are_compared() {
    let (fine, text) = digest(&["--diff-at", "2026-01-02"], LOG).unwrap();
    let text = text.replace("\n#   ", " ");
    assert!(
        fine && text.contains("UTC, 1 statement,") && text.contains(", 0 statements"),
        "{text}"
    );
}

#[test]
fn events_are_chosen() {
    for (options, chosen) in [
        (["--filter", "query_time > 2s"], false),
        (["--filter", "db == 'shop'"], true),
        (["--since", "2026-01-02"], false),
        (["--until", "2026-01-02"], true),
    ] {
        let (_, text) = digest(&options, LOG).unwrap();
        assert_eq!(text.contains("Profile by"), chosen, "{options:?} {text}");
    }
}

#[test]
fn times_that_choose_nothing_are_told() {
    let said = digest(&["--since", "2026-01-02", "--until", "2026-01-01"], LOG).unwrap_err();
    assert!(said.contains("--since (2026-01-02 00:00:00 UTC) is not before --until"), "{said}");
    let (_, text) = digest(&["--since", "2026-01-02"], LOG).unwrap();
    let text = text.replace("\n#   ", " ");
    assert!(
        text.contains("began 2026-01-01 18:09:31 to 2026-01-01 18:09:31 UTC: --since and --until"),
        "{text}"
    );
    let (_, text) = digest(&["--filter", "db == 'other'"], LOG).unwrap();
    assert!(!text.contains("--since"), "{text}");
}

#[test]
fn users_that_no_statement_is_of_are_told() {
    let (_, text) = digest(&["--batch-user", "backup", "--interactive-user", "a*"], LOG).unwrap();
    assert!(
        text.contains("No statement is of a user 'backup'") && !text.contains("'a*'"),
        "{text}"
    );
}

#[test]
fn what_is_lost_makes_the_status_1_and_mistakes_2() {
    assert!(!digest(&[], &LOG[..LOG.len() - 9]).unwrap().0);
    assert!(digest(&[], "\u{7f}ELF").unwrap_err().contains("program"));
    assert!(digest(&["--filter", "query_tme > 2"], LOG).unwrap_err().contains("column"));
    for wrong in
        [["--order-by", "nonsense"], ["--limit", "x"], ["--since", "x"], ["--group-by", ""]]
    {
        assert!(digest(&wrong, LOG).is_err(), "{wrong:?}");
    }
}

#[test]
fn following_gives_a_report_per_interval() {
    let (_, text) =
        digest(&["-F", "--from-begin", "--interval", "2", "--reports", "1"], LOG).unwrap();
    assert!(text.contains("# Overall: 1 total, 1 unique"), "{text}");
}

#[test]
fn following_by_an_attribute_that_no_statement_has_is_a_mistake() {
    let follow = ["-F", "--from-begin", "--interval", "2", "--reports", "1", "--group-by"];
    let by = |name| digest(&[&follow[..], &[name]].concat(), LOG);
    let said = by("program_nam").unwrap_err();
    assert!(said.contains("--group-by: no statement has an attribute 'program_nam'"), "{said}");
    assert!(by("qc_hit").is_ok());
    // No statement was chosen, so nothing is known about the name.
    let mut nothing = vec!["--filter", "db == 'other'"];
    nothing.extend(follow);
    nothing.push("program_nam");
    assert!(digest(&nothing, LOG).is_ok());
}

#[test]
fn an_output_replaces_its_file_only_when_it_is_complete() {
    let dir = tempfile::tempdir().unwrap();
    let name = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (log, report, link) = (name("slow.log"), name("report"), name("link"));
    std::fs::write(&log, LOG).unwrap();
    std::fs::write(&report, "the last one").unwrap();
    std::os::unix::fs::symlink(&report, &link).unwrap();
    let now = || std::fs::read_to_string(&report).unwrap();
    assert!(line(&[&log, "--filter", "query_tme > 2", "-o", &report]).is_err());
    assert!(line(&[&name("missing"), "-o", &report]).is_err());
    assert_eq!(now(), "the last one");
    line(&[&log, "-o", &link]).unwrap();
    assert!(now().contains("Profile by"));
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    line(&["-F", "--from-begin", "--interval", "2", "--reports", "2", &log, "-o", &report])
        .unwrap();
    assert_eq!(now().matches("# Overall").count(), 2, "one for each interval");
    assert!(line(&[&log, "-o", &name("no/such/directory")]).is_err());
    line(&[&log, "-o", "/dev/null"]).unwrap();
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 3, "something was left over");
}

#[test]
fn an_output_that_is_an_input_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let name = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (log, before, link) = (name("slow.log"), name("before.json"), name("link"));
    std::fs::write(&log, LOG).unwrap();
    line(&[&log, "--json", "-o", &before]).unwrap();
    std::os::unix::fs::symlink(&log, &link).unwrap();
    let baseline = std::fs::read(&before).unwrap();
    for words in [
        &["--diff", &before, &log, "--json", "-o", &before][..],
        &[&log, "-o", &log],
        &[&log, "-o", &link],
    ] {
        assert!(line(words).unwrap_err().contains("one of the inputs"), "{words:?}");
    }
    assert_eq!(std::fs::read_to_string(&log).unwrap(), LOG);
    assert_eq!(std::fs::read(&before).unwrap(), baseline);
}

/// A name under which a pipe that holds `bytes` can be opened, once.
fn pipe(bytes: &[u8]) -> (std::io::PipeReader, String) {
    use std::os::fd::AsRawFd;
    let (reader, mut writer) = std::io::pipe().unwrap();
    writer.write_all(bytes).unwrap();
    let name = format!("/proc/self/fd/{}", reader.as_raw_fd());
    (reader, name)
}

#[test]
fn pipes_are_compared_whole_and_never_read_twice() {
    let (_before, first) = pipe(LOG.as_bytes());
    let (_after, second) = pipe(LOG.as_bytes());
    // A lost first byte would be reported as unreadable.
    let (fine, text) = line(&["--diff", &first, &second]).unwrap();
    assert!(fine, "{text}");
    let (_again, third) = pipe(LOG.as_bytes());
    for file in ["-", &third] {
        let said = line(&["--diff-at", "2026-01-02", file]).unwrap_err();
        assert!(said.contains("twice"), "{said}");
    }
    assert!(line(&["--diff", "-", "-"]).unwrap_err().contains("only one"));
}
