//! The ring: bounded, sound after a crash, and readable whatever bytes it has.

use std::fs::{File, OpenOptions};
use std::path::Path;

use frond_doctor::ring::{read, Writer, UNIT};
use frond_doctor::snapshot::{Snapshot, Value};

use crate::checks::ring;

fn open(path: &Path) -> File {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).unwrap()
}

fn sample(n: u64) -> Snapshot {
    let mut sample = Snapshot::at(n as f64);
    for name in 0..50_u64 {
        // Some values come and go.
        if name > 40 && (n + name).is_multiple_of(3) {
            continue;
        }
        let noise = (n / (name + 1)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
        sample.set(format!("status.counter_{name}"), Value::Number(noise as f64));
    }
    sample
}

fn times(path: &Path) -> Vec<u64> {
    let mut found = Vec::new();
    read(&open(path), &mut |got| {
        assert_eq!(got, sample(got.at as u64));
        found.push(got.at as u64);
        true
    })
    .unwrap();
    found
}

#[test]
fn the_last_samples_are_kept_and_the_file_stays_within_its_bound() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ring");
    let bound = 10 * UNIT;
    let mut next = 0;
    // Each writer continues where the one before has stopped.
    for _ in 0..20 {
        let mut writer = Writer::open(open(&path), bound).unwrap();
        for _ in 0..27 {
            writer.add(sample(next)).unwrap();
            next += 1;
        }
        writer.flush().unwrap();
        assert!(path.metadata().unwrap().len() <= bound);
        let found = times(&path);
        assert_eq!(found.last(), Some(&(next - 1)));
        let expected: Vec<u64> = (found[0]..next).collect();
        assert_eq!(found, expected);
        assert!(found.len() >= 27, "{}", found.len());
    }
}

#[test]
fn a_block_that_is_cut_or_changed_is_left_out_and_the_others_stay() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ring");
    let mut writer = Writer::open(open(&path), 1 << 20).unwrap();
    (0..30).for_each(|n| writer.add(sample(n)).unwrap());
    let whole = std::fs::read(&path).unwrap();
    assert_eq!(times(&path), (0..30).collect::<Vec<_>>());
    for at in (0..whole.len()).step_by(97) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x55;
        std::fs::write(&path, &bytes).unwrap();
        let found = times(&path);
        assert!(found.len() == 20 || found.len() == 30, "{at}: {found:?}");
        let (cut, file) = (&whole[..at], dir.path().join("cut"));
        std::fs::write(&file, cut).unwrap();
        let mut count = 0;
        let result = read(&open(&file), &mut |_| {
            count += 1;
            true
        });
        assert!(result.is_err() || count % 10 == 0, "{at}");
    }
    for seed in 0..200_u64 {
        let mut bytes = whole.clone();
        for n in 0..=seed % 5 {
            let at = (seed * 7919 + n * 104_729) as usize % bytes.len();
            bytes[at] = (seed * 31 + n) as u8;
        }
        bytes.truncate(whole.len() - (seed as usize * 37) % whole.len());
        ring(&bytes);
    }
    // A file of another kind is not overwritten.
    std::fs::write(&path, "a letter").unwrap();
    assert!(Writer::open(open(&path), 1 << 20).is_err());
    assert!(read(&open(&path), &mut |_| true).is_err());
    assert_eq!(std::fs::read(&path).unwrap(), b"a letter");
}
