//! The report as text, line by line, blanks included.
//!
//! Not compared: the process's resources, the date and the host (only their form), the rank (`compare` does; the peer
//! orders equal classes as its hash table does), and the ids in the profile, which the peer cuts if there is a row MISC.
//! Everything else is equal, or in a list here with the reason. "The peer" is pt-query-digest.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use frond_digest::report::ptqd::{self, Head, Usage};
use frond_digest::report::rank::{Limit, Order, Outliers};
use frond_digest::run::{run, Settings};
use frond_querylog::input::{Format, Origin};
use frond_sqltext::Dialect;

use super::{corpus, generated, peer, written};
use crate::programs::bounded;

/// (file, beginning of the line behind the sign of its side, why). Empty text: the whole file.
type Exception = (&'static str, &'static str, &'static str);

const EXCEPTIONS: &[Exception] = &[
    ("slow040.txt.gz", "", "it does not read packed files"),
    ("slow006-session", "", "it has a class of something that is no event"),
    ("slow017.txt", "", "it fails to compile its own handler for a negative Query_time"),
    ("genlog004.txt", "", "a class of its own of a Connect that was refused"),
    ("genlog005.txt", "# Time range:", "it repeats stamps of the log that it cannot read"),
    ("genlog", "# Query N:", "its offsets are of the entry behind, where it read ahead"),
    (
        "genlog005.txt",
        "#    SHOW ",
        "tables behind `from INFORMATION_SCHEMA.` in small letters only",
    ),
    ("mariadb-10.11-general.log", "# Query N:", "the same"),
    (
        "mariadb-10.11-general.log",
        "# String:",
        "`on  using Socket`: it keeps another connection's database",
    ),
    ("mariadb-10.11-general.log", "# Databases    shop", "the same"),
    ("mariadb-10.11-general.log", "# Converted", "the text of a PREPARE is a literal and no query"),
    ("mariadb-10.11-general.log", "# EXPLAIN", "the same"),
    ("mariadb-10.11-general.log", "select * from t where id=? and b > ?'", "the same"),
    ("genlog001.txt", "# This item", "it leaves the reason out"),
    ("slow038.txt", "# This item", "it leaves the reason out"),
    ("slow014.txt", "# Query N:", "an event begins with the server's head before it there"),
    ("slow011.txt", "# Query N:", "an event behind a command begins a byte earlier"),
    ("slow-pt-243.txt", "# Databases", "a name that is logged as nothing is a line without a name"),
    ("slow026.txt", "# Databases", "the same"),
    ("slow041.txt", "# Databases", "the same"),
    ("slow009.txt", "# User", "a head of an old server, taken for an attribute"),
    ("slow009.txt", "# Host", "the same"),
    ("slow011.txt", "# Databases", "`Schema: db2` or `use db`: the last one is true"),
    ("slow023.txt", "# Query size", "it counts the line break of a last statement without `;`"),
    ("slow023.txt", "/* SELECT", "the same"),
    ("slow023.txt", "\\G", "the same"),
    ("slow024.txt", "INSERT INTO", "the end of a statement of a megabyte is not kept"),
    ("slow024.txt", "row ", "the same"),
    ("slow032-rewritten.txt", "# Users", "a name that was cut off"),
    ("slow034.txt", "# Rows examine", "it does not read `Rows_examined:40`, without a blank"),
    ("slow034.txt", "# QC ", "as an older server spelt it"),
    ("slow041.txt", "# Query size", "it counts an event whose head was cut off"),
    ("slow044.txt", "# Host", "a head without the host's brackets"),
    ("slow044.txt", "# User", "the same"),
    ("slow053.txt", "#    1s", "1.0 s is on the border of two"),
    ("slow055.txt", "# Databases", "a name without its end"),
    ("slow055.txt", "#    SHOW ", "the same"),
    ("slow056.txt", "# Query", "it loses the text of a last `use`"),
    ("", "insert into t (id, a, b)", "a blank in the list of columns and it keeps all rows"),
    ("slow041.txt", "# Query N:", "it counts an event whose head was cut off"),
    // Attributes that are neither numbers nor flags.
    ("", "# Last errno", "an attribute that is no number"),
    ("", "# InnoDB trxID", "the same"),
    ("", "# rate limit", "the same"),
    ("", "# Client", "the same"),
    ("slowlogwriter001.txt", "# String:", "the same"),
    ("slow-generated-raw.txt", "# This item", "it leaves the reason out"),
    ("slow-generated-mysql-8.txt", "# Start", "neither a number nor a flag"),
    ("slow-generated-mysql-8.txt", "# End", "the same"),
    ("slow-generated-mysql-8.txt", "# Errno", "a number of an error: its sum and mean say nothing"),
    ("slow-generated-mariadb.txt", "# Engine time", "milliseconds, taken for seconds there"),
    ("slow-generated-mariadb.txt", "# Pages read t", "the same"),
];

/// A report in the form that is compared: blocks of lines by name.
fn blocks(text: &str) -> BTreeMap<String, Vec<String>> {
    let mut blocks: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let (mut name, mut cut) = ("head".to_owned(), false);
    for line in text.lines() {
        let mut line = line.to_owned();
        if line == "# Profile" {
            name = "profile".into();
            cut = text.contains("\n# MISC 0xMISC");
        } else if let Some((rank, rest)) =
            line.strip_prefix("# Query ").and_then(|l| l.split_once(": "))
        {
            if let (true, Some(id)) = (rank.parse::<u32>().is_ok(), rest.split("ID 0x").nth(1)) {
                name = id[..32].to_owned();
                line = format!("# Query N: {rest}");
            }
        }
        if name == "profile" && line.starts_with("# ") && line.contains(" 0x") {
            // Twenty digits tell one class from the others.
            let (id, rest) = line[7..].split_once(' ').unwrap();
            let id = &id[..id.len().min(22)];
            blocks.insert(format!("row {id}"), vec![format!("row {id} {}", rest.trim_start())]);
            continue;
        }
        if name == "profile" && line.starts_with("# ") {
            // The column of the ids is as wide as the ids that are left.
            let at = line.find("Response").or_else(|| line.rfind("= =").map(|_| 0)).unwrap_or(0);
            if cut && at == 0 && line.starts_with("# ====") {
                continue;
            }
            if cut {
                line = line[at..].chars().take(26).collect();
            }
        }
        // All blocks but the last end with an empty line.
        if !line.is_empty() || name == "head" {
            blocks.entry(name.clone()).or_default().push(form(&line));
        }
    }
    blocks
}

/// Replaces the parts that depend on the run by their form.
fn form(line: &str) -> String {
    let digits = |text: &str| -> String {
        let mut form = String::new();
        for c in text.chars() {
            match c {
                '0'..='9' | '.' if form.ends_with('9') => {}
                '0'..='9' => form.push('9'),
                c => form.push(c),
            }
        }
        form
    };
    if line.ends_with(" vsz") {
        return digits(line).replace("9ms", "9").replace("9s ", "9 ");
    }
    match line.strip_prefix("# Current date: ") {
        // `Sun Nov 22 17:13:34 2026`: the blank before a day of one digit is part of the form.
        Some(date) if date.len() == 24 => format!("# Current date: {}", digits(&date[7..])),
        _ if line.starts_with("# Hostname: ") => "# Hostname: x".into(),
        _ => line.to_owned(),
    }
}

/// The peer's sums have rounding errors, and what it prints is cut off. So ours may differ by one percent, by one in the
/// last digit of a time of at least two, or where the peer prints no time for less than a microsecond. A sum or mean of
/// exactly half a digit (1 and 99 us: 0.00005 s each; three times 50 us: 0.00015 s) may be rounded either way.
fn same(peer: &str, ours: &str) -> bool {
    // The percent of an attribute has its leading zeros, so that 9 and 10 have as many blanks before them.
    let even = |line: &str| {
        let line = line.replace(" 100 ", "  99 ").replace(" 0us ", "   0 ");
        match line.get(15..18) {
            Some(percent)
                if line.starts_with("# ") && percent.trim_start().parse::<u8>().is_ok() =>
            {
                [&line[..15], &percent.replace(' ', "0"), &line[18..]].concat()
            }
            _ => line,
        }
    };
    let (ours, peer) = (&even(ours), &even(peer));
    let time = |word: &str| {
        let unit = ["us", "ms", "s"].into_iter().find(|unit| word.ends_with(unit))?;
        let digits = word.strip_suffix(unit)?;
        let decimals = digits.split_once('.').map_or(0, |(_, decimals)| decimals.len());
        Some((digits.replace('.', "").parse::<u64>().ok()?, decimals, unit))
    };
    let near = |a: &str, b: &str| {
        let times = time(a).zip(time(b));
        a == b
            || times.is_some_and(|(a, b)| {
                let fine = a.2 == "us" || a.0.min(b.0) > 9;
                fine && a.0.abs_diff(b.0) == 1 && (a.1, a.2) == (b.1, b.2)
            })
    };
    let words = |line: &'_ str| line.split(' ').count();
    // The first number of an attribute's line; the peer cuts it off, so that 80 % may be 79.
    let percent = |line: &str| {
        let of_attribute = line.starts_with("# ") && line.split_whitespace().count() >= 10;
        let number = line.split(' ').position(|word| word.parse::<u64>().is_ok());
        number.filter(|_| of_attribute)
    };
    let one_less = |a: &str, b: &str| {
        let [a, b] = [a, b].map(|n| n.parse::<u64>().ok());
        a.zip(b).is_some_and(|(a, b)| a + 1 == b)
    };
    // In the profile, behind the row's name and id: time, its share, calls, mean.
    let rounded = |line: &str, index: usize| {
        let mut words = line.split(' ').enumerate().filter(|(_, word)| !word.is_empty());
        line.starts_with("row 0x").then(|| words.nth(index).map(|(i, _)| i)).flatten()
    };
    // A share is on the border as well: the peer's sum of 96, 11 and 5 us is less than 43.75 % of 256.
    let borders = [2, 3, 5].map(|index| rounded(ours, index));
    let half = |i: usize, a: &str, b: &str| {
        let digits = |word: &str| word.trim_end_matches('%').replace('.', "");
        let (a, b) = (digits(a), digits(b));
        borders.contains(&Some(i)) && (one_less(&a, &b) || one_less(&b, &a))
    };
    peer == ours
        || peer.len() == ours.len()
            && words(peer) == words(ours)
            && peer.split(' ').zip(ours.split(' ')).enumerate().all(|(i, (a, b))| {
                near(a, b)
                    || percent(peer) == Some(i) && percent(ours) == Some(i) && one_less(a, b)
                    || half(i, a, b)
            })
}

#[test]
fn what_is_cut_off_may_be_one_less() {
    let line = |percent| {
        format!(
            "# Lock time    {percent:3}   104us   104us   104us   104us   104us       0   104us"
        )
    };
    assert!(same(&line(79), &line(80)));
    assert!(same(&line(9), &line(10)) && same(&line(99), &line(100)));
    assert!(!same(&line(10), &line(9)) && !same(&line(8), &line(10)));
    assert!(!same(&line(80), &line(79)) && !same(&line(78), &line(80)));
    assert!(!same("# Count 79 3", "# Count 80 3"));
    let row =
        |total, calls, mean| format!("row 0x12 {total}  0.2%     {calls} {mean}  0.00 SELECT t");
    let one = row("0.0001", 2, "0.0001");
    assert!(same(&row("0.0001", 2, "0.0000"), &one) && same(&row("0.0000", 2, "0.0001"), &one));
    assert!(same(&row("0.0002", 3, "0.0001"), &row("0.0001", 3, "0.0000")), "three times 50 us");
    assert!(!same(&row("0.0001", 3, "0.0000"), &one));
    assert!(!same(&row("0.0001", 2, "0.0000"), &row("0.0001", 2, "0.0002")));
    let share = |share| format!("row 0x12 0.0001 {share:>5}     3 0.0000  0.00 SELECT t");
    assert!(same(&share("43.7%"), &share("43.8%")) && same(&share("43.8%"), &share("43.7%")));
    assert!(!same(&share("43.6%"), &share("43.8%")) && !same(&share("43.7%"), &share("43.8")));
}

/// Lines that only one side has, in order: `-` from the peer, `+` from ours.
fn differences(peer: &[String], ours: &[String]) -> Vec<String> {
    let mut longest = vec![vec![0_u16; ours.len() + 1]; peer.len() + 1];
    for i in (0..peer.len()).rev() {
        for j in (0..ours.len()).rev() {
            longest[i][j] = match same(&peer[i], &ours[j]) {
                true => longest[i + 1][j + 1] + 1,
                false => longest[i + 1][j].max(longest[i][j + 1]),
            };
        }
    }
    let (mut i, mut j, mut found) = (0, 0, Vec::new());
    while i < peer.len() || j < ours.len() {
        if i < peer.len() && j < ours.len() && same(&peer[i], &ours[j]) {
            (i, j) = (i + 1, j + 1);
        } else if j == ours.len() || i < peer.len() && longest[i + 1][j] >= longest[i][j + 1] {
            found.push(format!("-{}", peer[i]));
            i += 1;
        } else {
            found.push(format!("+{}", ours[j]));
            j += 1;
        }
    }
    found
}

fn theirs(file: &Path, kind: &str, limit: &str) -> String {
    let output = bounded("pt-query-digest")
        .args(["--no-version-check", "--limit", limit, "--type", kind])
        .arg(file)
        .env("TZ", "UTC")
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn ours(file: &Path, kind: &str, limit: &str) -> String {
    let (format, order) = match kind {
        "slowlog" => (Format::SlowLog, "time"),
        "genlog" => (Format::GeneralLog, "count"),
        _ => (Format::Raw, "count"),
    };
    let settings = Settings {
        format: Some(format),
        dialect: Dialect::Ptqd32,
        compat: true,
        ..Settings::default()
    };
    let mut outcome = run(&[Origin::of(file)], &Arc::new(settings), &mut |_| {})
        .unwrap_or_else(|p| panic!("{p:?}"));
    let options = ptqd::Options {
        order: order.parse::<Order>().unwrap(),
        limit: limit.parse::<Limit>().unwrap(),
        outliers: Some(Outliers::default()),
        redact: false,
        head: Some(Head {
            usage: Some(Usage {
                user: 0.25,
                system: 0.03,
                resident: 40_000_000,
                mapped: 50_000_000,
            }),
            date: Some("Sun Nov 22 17:13:34 2026".into()),
            host: Some("db1".into()),
            files: vec![file.display().to_string()],
        }),
    };
    let mut text = Vec::new();
    ptqd::write(&mut outcome, &options, &mut text).unwrap();
    String::from_utf8_lossy(&text).into_owned()
}

fn without_bars(text: &str) -> String {
    let bar = |line: &str| line.find("  #").filter(|at| (5..8).contains(at));
    text.lines().map(|line| line[..bar(line).unwrap_or(line.len())].to_owned() + "\n").collect()
}

fn compare(file: &Path, kind: &str, used: &mut [u32], failed: &mut Vec<String>) {
    let name = file.file_name().unwrap().to_string_lossy().into_owned();
    // Which of several equal classes the peer shows is chance.
    let limit = if name.starts_with("slow") { "95%:20" } else { "100%" };
    let (mut peer, mut ours) = (theirs(file, kind, limit), ours(file, kind, limit));
    if file.extension().is_some_and(|e| e == "log") {
        // These logs are written anew: a time may be on the border between two bars.
        peer = without_bars(&peer);
        ours = without_bars(&ours);
    }
    let (peer, ours) = (blocks(&peer), blocks(&ours));
    let names: std::collections::BTreeSet<&String> = peer.keys().chain(ours.keys()).collect();
    for block in names {
        let lines = |of: &BTreeMap<String, Vec<String>>| of.get(block).cloned().unwrap_or_default();
        for difference in differences(&lines(&peer), &lines(&ours)) {
            let known = EXCEPTIONS.iter().position(|(file, line, _)| {
                name.starts_with(file) && difference[1..].starts_with(line)
            });
            match known {
                Some(known) => used[known] += 1,
                None => failed.push(format!("{name}: {block}: {difference}")),
            }
        }
    }
}

#[test]
fn the_text_is_the_same_line_by_line() {
    if !peer::is_there() {
        eprintln!("skipped: pt-query-digest is not installed");
        return;
    }
    let mut used = vec![0; EXCEPTIONS.len()];
    let mut failed = Vec::new();
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../querylog/tests/data");
    if let Some(written) = written::written() {
        // The logs without the engine's times, which are milliseconds that the peer takes for seconds.
        for name in ["plain", "query_plan", "explain", "warnings", "prepared"] {
            compare(&written.log(name), "slowlog", &mut used, &mut failed);
        }
    }
    compare(&data.join("mariadb-10.11-general.log"), "genlog", &mut used, &mut failed);
    let folder = tempfile::tempdir().unwrap();
    for (file, kind) in generated::write(folder.path()) {
        compare(&file, kind, &mut used, &mut failed);
    }
    let Some(corpus) = corpus() else {
        eprintln!("skipped in part: no corpus");
        assert!(failed.is_empty(), "{} lines differ:\n{}", failed.len(), failed.join("\n"));
        return;
    };
    for (folder, kind) in [("slowlogs", "slowlog"), ("genlogs", "genlog"), ("rawlogs", "rawlog")] {
        let mut files: Vec<_> =
            std::fs::read_dir(corpus.join(folder)).unwrap().map(|e| e.unwrap().path()).collect();
        files.sort();
        for file in files {
            compare(&file, kind, &mut used, &mut failed);
        }
    }
    // An exception that no longer occurs would hide the next difference.
    let unused = EXCEPTIONS.iter().zip(&used).filter(|(_, used)| **used == 0);
    failed.extend(
        unused.map(|((file, line, why), _)| format!("{file}: no longer differs: {line} ({why})")),
    );
    assert!(failed.is_empty(), "{} lines differ:\n{}", failed.len(), failed.join("\n"));
}
