//! Packets removed at random: shown figures stay true, and unmeasured statements are reported.
//! Beside them the figures of pt-query-digest, where it is installed.

use super::programs::{bounded, has};
use super::traffic::*;
use super::{digest, of_class, p95};
use std::path::Path;
use std::process::Stdio;

/// The 95th percentiles that pt-query-digest shows, in seconds, by class. It reads tcpdump's text.
fn peer(file: &Path) -> Option<Vec<Option<f64>>> {
    if !has("pt-query-digest") {
        return None;
    }
    let output = bounded("pt-query-digest")
        .args(["--no-version-check", "--type", "tcpdump", "--limit", "100%"])
        .args(["--report-format", "query_report"])
        .arg(file)
        .stdin(Stdio::null())
        .output()
        .ok()?;
    let mut shown = vec![None; CLASSES.len()];
    let mut last = None;
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        if let Some(values) = line.strip_prefix("# Exec time") {
            // Share, total, min, max, avg, 95 %.
            last = values.split_whitespace().nth(5).and_then(seconds);
        } else if let Some(class) = class(line) {
            shown[class] = last;
        }
    }
    Some(shown)
}

fn seconds(text: &str) -> Option<f64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        _ => return None,
    };
    digits.parse::<f64>().ok().map(|value| value * unit)
}

fn off(shown: f64, truth: f64) -> f64 {
    (shown - truth).abs() / truth * 100.0
}

#[test]
fn p95_is_within_a_tenth_of_the_truth_whatever_was_lost() {
    let load = load(20, 200, 21);
    let home = tempfile::tempdir().unwrap();
    let (file, as_text) = (home.path().join("capture.pcap"), home.path().join("capture.txt"));
    for percent in [0, 1, 5, 60] {
        let mut peer_off: f64 = 0.0;
        for seed in 0..3 {
            let packets = thin(&load.packets, percent, seed * 100 + percent);
            std::fs::write(&file, pcap(&packets, 1 << 20)).unwrap();
            let report = digest(&[&file], &[]);
            let mut worst: f64 = 0.0;
            for (class, word) in CLASSES.iter().enumerate() {
                let truth = load.p95(class) / 1e9;
                let shown = p95(&report, word).expect("some were measured");
                worst = worst.max(off(shown, truth));
                assert!(
                    worst <= 10.0,
                    "{percent} %, seed {seed}: {word} shows {shown}, not {truth}"
                );
                // No event is reported twice.
                let events = of_class(&report, word).unwrap()["events"].as_u64().unwrap();
                let all = load.truth.keys().filter(|sql| self::class(sql) == Some(class)).count();
                assert!(events <= all as u64, "{word}: {events} of {all}");
            }
            let lost = &report["loss"]["capture"];
            let of = |field: &str| lost[field].as_u64().unwrap();
            let (measured, unmeasured) = (of("measured"), of("unmeasured"));
            let all = load.truth.len() as u64 + 20;
            // A request that is lost whole is not counted, and no request is counted twice.
            let seen = (measured + unmeasured) as f64 / all as f64;
            let least = 0.95 * (100 - percent) as f64 / 100.0;
            assert!((least..=1.0).contains(&seen), "{percent} %: {seen} of all are counted");
            assert_eq!(measured == all, percent == 0);
            // Each removed packet with payload is a loss; not every loss leaves a trace.
            let with_payload = |p: &&Seen| p.ip.len() > 52;
            let removed = load.packets.iter().filter(with_payload).count()
                - packets.iter().filter(with_payload).count();
            let told = of("packets_lost") as f64 / removed.max(1) as f64;
            assert!(percent == 0 || (0.7..1.4).contains(&told), "{percent} %: {told} of {removed}");
            if seed == 0 && percent >= 5 {
                let mut packets = packets;
                packets.iter_mut().for_each(|p| p.time -= p.time % 1000);
                std::fs::write(&as_text, text(&packets, false, false, false)).unwrap();
                let Some(shown) = peer(&as_text) else {
                    eprintln!("skipped: no pt-query-digest here");
                    continue;
                };
                for (class, shown) in shown.iter().enumerate() {
                    let truth = load.p95(class) / 1e9;
                    let shown = shown.expect("it shows all classes");
                    peer_off = peer_off.max(off(shown, truth));
                }
                eprintln!(
                    "{percent} % removed: {measured} measured, {unmeasured} not; \
                     p95 off by at most {worst:.1} %, pt-query-digest by {peer_off:.0} %"
                );
                // Below 60 % few of pt-query-digest's times are false, and its p95 does not depend
                // on them.
                assert!(percent < 60 || peer_off > 10.0, "pt-query-digest is right?");
            }
        }
    }
}
