//! Damaged databases: whatever the bytes are, a check ends, does not panic, and a clean verdict is
//! true.

use std::sync::Arc;

use frond_cli::args::Format;
use frond_cli::check::{self, Report};
use frond_cli::dump;
use frond_vfs::MemVfs;

use crate::sample::{self, Files, CUSTOMERS, ORDERS, PLAIN};

/// Rounds of random damage: FROND_FUZZ multiplies them, for a longer search.
pub fn rounds(usual: u64) -> u64 {
    let factor = std::env::var("FROND_FUZZ").ok().and_then(|n| n.parse::<u64>().ok());
    usual * factor.unwrap_or(1)
}

pub struct Random(pub u64);

impl Random {
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.draw() % n.max(1) as u64) as usize
    }
}

pub fn checked(files: &Files) -> Report {
    let vfs = sample::directory(files);
    let report = check::run(Arc::new(vfs), &check::Options::default(), &mut |_| {})
        .unwrap_or_else(|e| panic!("damage is a finding, not a refusal: {e}"));
    assert_eq!(report.internal_errors, 0, "{:#?}", report.findings);
    report
}

/// All rows of all tables as text; `None` when something cannot be read.
fn contents(files: &Files) -> Option<Vec<u8>> {
    let vfs: MemVfs = sample::directory(files);
    let mut out = Vec::new();
    for table in [ORDERS, CUSTOMERS, PLAIN] {
        let options = dump::Options {
            table: table.into(),
            index: "0".into(),
            format: Format::Tabs,
            limit: None,
            header: true,
            cache_bytes: 8 << 20,
        };
        dump::run(Arc::new(vfs.clone()), &options, &mut out).ok()?;
    }
    Some(out)
}

/// One random change to the bytes of a file.
fn damage(bytes: &mut Vec<u8>, random: &mut Random) {
    if bytes.is_empty() {
        bytes.push(random.draw() as u8);
    }
    let at = random.below(bytes.len());
    match random.below(8) {
        0 => bytes.truncate(at),
        1 => {
            let end = (at + 1 + random.below(8192)).min(bytes.len());
            bytes[at..end].fill(0);
        }
        2 => {
            let end = (at + 1 + random.below(64)).min(bytes.len());
            bytes[at..end].iter_mut().for_each(|b| *b = random.draw() as u8);
        }
        3 => {
            // A unit written to the wrong place.
            let (from, to) = (at / 4096 * 4096, random.below(bytes.len()) / 4096 * 4096);
            let len = 4096.min(bytes.len() - from).min(bytes.len() - to);
            bytes.copy_within(from..from + len, to);
        }
        _ => bytes[at] ^= 1 << random.below(8),
    }
}

#[test]
fn damage_to_table_files_is_found_or_harmless() {
    let sound = sample::sample();
    let before = contents(&sound).unwrap();
    let names: Vec<&String> = sound.keys().filter(|n| n.ends_with(".frd")).collect();
    let mut random = Random(1);
    let (mut found, mut harmless) = (0, 0);
    for round in 0..rounds(400) {
        let mut files = sound.clone();
        let name = names[random.below(names.len())];
        damage(files.get_mut(name).unwrap(), &mut random);
        if checked(&files).is_clean() {
            harmless += 1;
            let same = contents(&files).is_some_and(|now| now == before);
            assert!(same, "round {round}: {name} called clean, but its rows are not the same");
        } else {
            found += 1;
        }
    }
    assert!(found > 100, "{found} found, {harmless} harmless: the damage misses what matters");
}

#[test]
fn damage_to_log_and_identity_never_breaks_the_check() {
    let sound = sample::sample();
    let names: Vec<&String> =
        sound.keys().filter(|n| n.ends_with(".frl") || *n == "frond.id").collect();
    let mut random = Random(2);
    let mut found = 0;
    for _ in 0..rounds(250) {
        let mut files = sound.clone();
        let name = names[random.below(names.len())];
        damage(files.get_mut(name).unwrap(), &mut random);
        found += usize::from(!checked(&files).is_clean());
    }
    assert!(found > 50, "{found}");
}

#[test]
fn several_damages_at_once_never_break_the_check() {
    let sound = sample::sample();
    let names: Vec<&String> = sound.keys().collect();
    let mut random = Random(3);
    for _ in 0..rounds(150) {
        let mut files = sound.clone();
        for _ in 0..2 + random.below(6) {
            let name = names[random.below(names.len())];
            damage(files.get_mut(name).unwrap(), &mut random);
            if random.below(20) == 0 {
                files.remove(name);
            }
            if !files.contains_key(name) {
                files.insert(name.clone(), Vec::new());
            }
        }
        checked(&files);
    }
}

#[test]
fn every_missing_file_is_noticed() {
    let in_the_log = sample::untrimmed();
    let trimmed = sample::trimmed();
    let first = |files: &Files| files.keys().find(|n| n.starts_with("log.")).cloned();
    assert_ne!(first(&in_the_log), first(&trimmed), "its log was never trimmed");
    for sound in [in_the_log, trimmed] {
        assert!(checked(&sound).is_clean());
        let before = contents(&sound).unwrap();
        let needless = |n: &String| n == "LOCK" || n.starts_with("spare.");
        for name in sound.keys().filter(|n| !needless(n)) {
            let mut files = sound.clone();
            files.remove(name);
            let report = checked(&files);
            // A segment without a record, begun by the last opening.
            let harmless = name.starts_with("log.") && report.is_clean();
            if harmless {
                assert!(contents(&files).is_some_and(|now| now == before), "{name} held something");
                continue;
            }
            assert!(!report.is_clean(), "{name} is gone and nobody noticed");
            let said = report.findings.iter().any(|f| {
                f.what.contains(name.as_str()) || name.starts_with("log.") && f.what.contains("log")
            });
            assert!(said, "{name} is gone: {:#?}", report.findings);
        }
    }
}

#[test]
fn older_copies_of_files_are_noticed_or_harmless() {
    let sound = sample::trimmed();
    let before = contents(&sound).unwrap();
    let mut noticed = 0;
    for older in [sample::untrimmed(), sample::trimmed_half()] {
        for name in older.keys().filter(|n| sound.contains_key(*n)) {
            let mut files = sound.clone();
            files.insert(name.clone(), older[name].clone());
            if checked(&files).is_clean() {
                let same = contents(&files).is_some_and(|now| now == before);
                assert!(same, "an older {name} is called clean, but its rows are not the same");
            } else {
                noticed += 1;
            }
        }
    }
    assert!(noticed >= 4, "{noticed}");
}

#[test]
fn a_damaged_page_is_named_by_file() {
    let mut files = sample::sample();
    let bytes = files.get_mut("1.frd").unwrap();
    // Most of a file is pages: damage every 256th byte behind the headers.
    for at in (8192..bytes.len()).step_by(256) {
        bytes[at] ^= 0x40;
    }
    let report = checked(&files);
    assert!(report.findings.iter().any(|f| f.what.contains("1.frd")), "{:#?}", report.findings);
}

#[test]
fn a_damaged_older_header_is_a_warning() {
    let sound = sample::sample();
    let mut warned = 0;
    for slot in [0, 4096] {
        let mut files = sound.clone();
        files.get_mut("1.frd").unwrap()[slot + 100] ^= 1;
        let report = checked(&files);
        warned += usize::from(report.is_clean() && !report.findings.is_empty());
    }
    // The older one is not needed; nor is the newer one, while the log still reaches back.
    assert!(warned >= 1);
}

#[test]
fn a_broken_log_leaves_the_tables_checked_as_of_their_checkpoints() {
    let mut files = sample::sample();
    let segments: Vec<String> = files.keys().filter(|n| n.starts_with("log.")).cloned().collect();
    files.get_mut(&segments[0]).unwrap()[..4096].fill(0xff);
    let report = checked(&files);
    assert!(!report.is_clean() && !report.complete);
    assert!(report.pages > 20 && report.tables == 4, "{report:?}");
    assert!(report.findings.iter().all(|f| f.what.contains("log")), "{:#?}", report.findings);
    // And a page that is damaged as well is a separate finding.
    let bytes = files.get_mut("1.frd").unwrap();
    for at in (8192..bytes.len()).step_by(256) {
        bytes[at] ^= 0x40;
    }
    let report = checked(&files);
    assert!(report.findings.iter().any(|f| f.what.contains("1.frd")), "{:#?}", report.findings);
}
