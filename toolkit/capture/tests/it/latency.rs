//! A load with known latencies on a real server, captured, with packets removed.
//!
//! A statement took at least as long as it slept, and at most as long as its client waited: the
//! capture's times must lie between the two.

use super::private::{only, session, thinned};
use super::programs::{bounded, has};
use super::traffic::*;
use frond_capture::{first_time, Options};
use std::collections::HashMap;
use std::process::Stdio;

/// By class, in nanoseconds.
type Times = Vec<Vec<u64>>;

/// Parses the output of the clients: how long statements slept, and how long they took.
fn told(text: &str) -> (Times, Times) {
    let mut slept = vec![Vec::new(); CLASSES.len()];
    let mut took = slept.clone();
    for line in text.lines() {
        let values: Vec<f64> = line.split(' ').map(|v| v.parse().unwrap()).collect();
        let class = values[0] as usize;
        slept[class].push((values[1] * 1e9) as u64);
        took[class].push((values[2] * 1e9) as u64);
    }
    (slept, took)
}

fn captured(file: &[u8], port: u16) -> (Times, Read) {
    let options = Options { ports: vec![port], ..Options::default() };
    let got = read_with(file, options, 1 << 20);
    let mut times = vec![Vec::new(); CLASSES.len()];
    for event in &got.events {
        if let (Some(class), Some(time)) = (class(&event.sql), event.time) {
            times[class].push(time);
        }
    }
    (times, got)
}

/// The statements of the load that were measured.
fn measured(read: &Read) -> impl Iterator<Item = (&str, u64)> {
    let ours = read.events.iter().filter(|event| class(&event.sql).is_some());
    ours.filter_map(|event| Some((&event.sql[..], event.time?)))
}

/// The times that pt-query-digest finds, by class.
fn peer(file: &[u8], port: u16) -> Option<Times> {
    if !has("tcpdump") {
        return None;
    }
    let home = tempfile::tempdir().unwrap();
    let (capture, as_text) = (home.path().join("pcap"), home.path().join("text"));
    std::fs::write(&capture, file).unwrap();
    let output = bounded("tcpdump")
        .args(["-x", "-n", "-q", "-tttt", "-r"])
        .arg(&capture)
        .stderr(Stdio::null())
        .output()
        .ok()?;
    std::fs::write(&as_text, output.stdout).unwrap();
    let events = super::corpus::peer(&as_text, Some(&format!("127.0.0.1:{port}")))?;
    let mut times = vec![Vec::new(); CLASSES.len()];
    for (time, sql) in events {
        if let (Some(class), Ok(time)) = (class(&sql), time.parse::<f64>()) {
            times[class].push((time * 1e9) as u64);
        }
    }
    Some(times)
}

/// True if the sample's p95 is one that a random sample of its size can have (within four standard deviations
/// of the rank). On a busy machine a few statements take long, all at once; then the p95 of a few is a matter
/// of chance. Each time by itself is asserted exactly elsewhere.
fn by_chance(all: &[u64], sample: &[u64]) -> bool {
    let mut all = all.to_vec();
    all.sort_unstable();
    let error = (0.95 * 0.05 / sample.len() as f64).sqrt();
    let at = |share: f64| all[((all.len() - 1) as f64 * share.clamp(0.0, 1.0)) as usize] as f64;
    (at(0.95 - 4.0 * error)..=at(0.95 + 4.0 * error)).contains(&p95(sample.to_vec()))
}

/// A capture of a busy host begins in the middle of connections, so it lacks their logins.
fn assert_all_measured_from_the_middle_on(file: &[u8], port: u16, whole: &Read) {
    let later = only(file, |index| index as u64 >= whole.summary.packets / 4);
    let begin = first_time(&later, 0);
    let (_, got) = captured(&later, port);
    let seen: HashMap<&str, u64> = measured(&got).collect();
    let expected = whole.events.iter().filter(|e| class(&e.sql).is_some() && e.start > begin);
    for event in expected {
        assert_eq!(seen.get(&event.sql[..]), event.time.as_ref(), "{}", event.sql);
    }
}

fn off(shown: f64, truth: f64) -> f64 {
    (shown - truth).abs() / truth * 100.0
}

#[test]
fn a_real_load_is_measured_truly_whatever_was_lost() {
    let Some((file, port, said)) = session(&["many"]) else { return };
    let (slept, took) = told(&said);
    let (whole_times, whole) = captured(&file, port);
    let times = &whole_times;
    assert_eq!((whole.summary.gaps, whole.summary.unmeasured), (0, 0), "{}", whole.summary);
    let own: HashMap<&str, u64> = measured(&whole).collect();
    let all: usize = slept.iter().map(Vec::len).sum();
    assert_eq!(own.len(), all, "each statement has a text of its own");
    assert_eq!(times.iter().map(Vec::len).sum::<usize>(), all);
    let truth: Vec<f64> = times.iter().map(|times| p95(times.clone())).collect();
    for class in 0..CLASSES.len() {
        let (least, most) = (p95(slept[class].clone()), p95(took[class].clone()));
        let shown = truth[class];
        assert!(
            shown >= 0.99 * least && shown <= most,
            "{}: {shown} is not between {least} and {most}",
            CLASSES[class]
        );
    }
    assert_all_measured_from_the_middle_on(&file, port, &whole);
    for percent in [1, 5, 60] {
        let mut worst: f64 = 0.0;
        let mut shares = Vec::new();
        for seed in 0..3 {
            let (times, got) = captured(&thinned(&file, percent, seed), port);
            // Whatever was lost, a measured time is the statement's own.
            for (sql, time) in measured(&got) {
                assert_eq!(own.get(sql), Some(&time), "{percent} %, {seed}");
            }
            for class in 0..CLASSES.len() {
                assert!(times[class].len() <= slept[class].len(), "something is there twice");
                let shown = p95(times[class].clone());
                worst = worst.max(off(shown, truth[class]));
                assert!(
                    off(shown, truth[class]) <= 10.0
                        || by_chance(&whole_times[class], &times[class]),
                    "{percent} %, {seed}: {} {shown}, not {}",
                    CLASSES[class],
                    truth[class]
                );
            }
            let measured: usize = times.iter().map(Vec::len).sum();
            shares.push(measured * 100 / all);
            // Both request and answer must be there: 16 of 100 with 60 % removed, less those in doubt.
            assert!(percent < 60 || measured * 100 >= 10 * all, "{shares:?} % measured");
            // Statements that are lost whole are not counted.
            let seen = (measured as u64 + got.summary.unmeasured) as f64 / all as f64;
            let least = 0.9 * (100 - percent) as f64 / 100.0;
            assert!((least..1.1).contains(&seen), "{percent} %: {seen} are counted");
        }
        let Some(theirs) = peer(&thinned(&file, percent, 0), port) else {
            eprintln!("skipped: no pt-query-digest here");
            continue;
        };
        let theirs = (0..CLASSES.len())
            .filter(|class| !theirs[*class].is_empty())
            .map(|class| off(p95(theirs[class].clone()), truth[class]))
            .fold(0.0, f64::max);
        eprintln!(
            "{percent} % removed: {shares:?} % measured, p95 off by at most {worst:.1} %, \
             pt-query-digest by {theirs:.0} %"
        );
        assert!(percent < 60 || theirs > 10.0, "pt-query-digest is right?");
    }
}
