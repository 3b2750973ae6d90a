//! Measures how fast a long log is read, and with how much memory: `cargo test --release -p frond-locks --test it speed --
//! --ignored`.

use std::time::Instant;

use frond_locks::analysis::Analysis;
use frond_locks::report::{Options, Report};
use frond_locks::text::reader::Reader;

use crate::print::{dump, How, Server};
use crate::world::World;
use crate::Random;

/// The peak memory of this process, in KiB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_ascii_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
#[ignore = "a measurement, for a release build"]
fn five_million_lines_are_read_in_five_seconds_and_a_hundred_megabytes() {
    let mut random = Random::new(1);
    let (mut analysis, mut reader) = (Analysis::default(), Reader::default());
    let (mut lines, mut bytes, mut second, mut spent) = (0_u64, 0, 0, std::time::Duration::ZERO);
    while lines < 5_000_000 {
        let mut text = String::new();
        for _ in 0..20 {
            let world = World::new(&mut random);
            let how = How {
                server: Server::MariaDb,
                lock_monitor: true,
                most: 10,
                second: second % 86_400,
            };
            text += &dump(&how, &world, "", &mut random);
            second += 15;
        }
        lines += text.lines().count() as u64;
        bytes += text.len();
        let began = Instant::now();
        reader.feed(text.as_bytes(), &mut analysis);
        spent += began.elapsed();
    }
    reader.finish(&mut analysis);
    let report = Report::of(&mut analysis, vec!["x".into()], &Options { limit: 10, keys: true });
    eprintln!(
        "{lines} lines, {} MB, {} dumps: {spent:?}, peak {} KiB",
        bytes >> 20,
        report.dumps,
        peak()
    );
    assert!(spent.as_secs_f64() <= 5.0 && peak() <= 100 << 10, "{spent:?} {} KiB", peak());
}
