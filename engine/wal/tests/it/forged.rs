//! Segment headers that say something else behind a checksum that is right: never other records, and
//! nothing is lost that a repaired header would bring back.

use std::sync::Arc;

use frond_base::{checksum64_seeded, ErrorKind};
use frond_vfs::{MemVfs, Vfs};
use frond_wal::{inspect, Wal, WalOptions};

use crate::{drain, small, Owned, Rng, DATABASE};

fn opts() -> WalOptions {
    small(8 << 10)
}

/// Log files and what they hold.
type Files = Vec<(String, Vec<u8>)>;

fn files(vfs: &MemVfs) -> Files {
    let mut names = vfs.list().unwrap();
    names.sort();
    names.into_iter().map(|n| (n.clone(), vfs.contents(&n).unwrap())).collect()
}

fn directory(files: &Files) -> MemVfs {
    let vfs = MemVfs::stepped();
    for (name, bytes) in files {
        vfs.set_contents(name, bytes.clone());
    }
    vfs
}

fn read(vfs: &MemVfs) -> frond_base::Result<Vec<Owned>> {
    let (_, mut recovered) = Wal::open(Arc::new(vfs.clone()), opts())?;
    drain(&mut recovered)
}

/// A log that was cut off in its `segments`-th segment; after that, opened and cut off at once `opened`
/// times, with the segments left that opening removes when they are empty.
fn log(segments: u32, opened: usize) -> Files {
    let vfs = MemVfs::stepped();
    let wal = Wal::create(Arc::new(vfs.clone()), opts()).unwrap();
    let mut rng = Rng(8);
    while wal.status().rotations < u64::from(segments) - 1 {
        let at = wal.append(1, &rng.bytes(700)).unwrap();
        wal.sync_to(at.end).unwrap();
    }
    drop(wal);
    let mut all = files(&vfs);
    for _ in 0..opened {
        drop(Wal::open(Arc::new(vfs.clone()), opts()).unwrap());
        for (name, bytes) in files(&vfs) {
            if !all.iter().any(|(n, _)| *n == name) && name.starts_with("log.") {
                all.push((name, bytes));
            }
        }
    }
    all
}

fn forge(bytes: &mut [u8], change: impl FnOnce(&mut [u8])) {
    change(bytes);
    let sum = checksum64_seeded(&bytes[..4088], 0x6672_6f6e_6468_6472);
    bytes[4088..4096].copy_from_slice(&sum.to_le_bytes());
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

/// Starts that a segment might be said to have: those of all others, and what lies around and between.
fn starts(all: &Files, own: u64) -> Vec<u64> {
    let logs = all.iter().filter(|(n, _)| n.starts_with("log."));
    let mut out: Vec<u64> = logs.map(|(_, bytes)| u64_at(bytes, 32)).collect();
    // A record takes 728 bytes.
    out.extend([0, 8, 728, own + 8, own + 728, own + 7280, own.wrapping_sub(8)]);
    out.extend([own.wrapping_sub(728), own + 1, 1 << 40, 1 << 62, u64::MAX]);
    out.retain(|start| *start != own);
    out
}

/// What every forged log must do. `harmless` says that the field has no meaning here.
fn holds(forged: &Files, (sound, want): (&Files, &[Owned]), harmless: bool, what: &str) {
    let mut visited = Vec::new();
    let report = inspect(&directory(forged), Some(DATABASE), &mut |r| {
        visited.push((r.lsn, r.end, r.kind, r.payload.to_vec()));
    })
    .unwrap();
    assert!(visited.iter().all(|r| want.contains(r)), "{what}");
    let vfs = directory(forged);
    match read(&vfs) {
        Ok(records) => {
            assert!(harmless, "{what}: opened with {} of {} records", records.len(), want.len());
            assert!(records == want, "{what}: other records");
            assert!(report.problems.is_empty(), "{what}: {:?}", report.problems);
        }
        Err(e) => {
            assert!(!harmless, "{what}: {e}");
            let kind = e.kind();
            assert!(kind == ErrorKind::Corruption || kind == ErrorKind::UnsupportedFormat, "{e}");
            assert!(e.message().contains("log.0000"), "{what}: names no file: {e}");
            assert!(!report.problems.is_empty(), "{what}: inspect finds nothing, open says {e}");
            // The header put right, everything is there: opening has removed nothing but empty segments.
            for (name, bytes) in sound {
                if let Ok(mut now) = vfs.contents(name) {
                    now[..4096].copy_from_slice(&bytes[..4096]);
                    vfs.set_contents(name, now);
                }
            }
            assert!(read(&vfs).unwrap() == want, "{what}: refused, but records are gone");
        }
    }
}

#[test]
fn forged_start_is_corruption_and_nothing_is_removed() {
    // Cut off within a segment, and behind openings that are cut off themselves.
    for (segments, opened) in [(1, 0), (2, 0), (3, 0), (1, 1), (2, 1), (2, 2), (3, 3)] {
        let sound = log(segments, opened);
        let want = read(&directory(&sound)).unwrap();
        let names = sound.iter().map(|(n, _)| n).filter(|n| n.starts_with("log."));
        for (at, name) in names.enumerate() {
            let place = sound.iter().position(|(n, _)| n == name).unwrap();
            for start in starts(&sound, u64_at(&sound[place].1, 32)) {
                let what = format!("{segments} segments, opened {opened} times, {at}: {start}");
                let mut forged = sound.clone();
                forge(&mut forged[place].1, |b| b[32..40].copy_from_slice(&start.to_le_bytes()));
                holds(&forged, (&sound, &want), false, &what);
            }
        }
    }
}

#[test]
fn each_other_field_of_a_segment_header_is_checked_beyond_its_checksum() {
    let sound = log(3, 1);
    let want = read(&directory(&sound)).unwrap();
    for place in 0..sound.len() {
        if !sound[place].0.starts_with("log.") {
            continue;
        }
        // Everything but the start and what the file does not use. One byte has one meaning here: no record
        // goes on behind the segment before.
        for (byte, harmless) in (0..32).chain([40, 100, 4087]).map(|byte| (byte, byte == 12)) {
            let mut forged = sound.clone();
            forge(&mut forged[place].1, |b| b[byte] ^= 1);
            holds(&forged, (&sound, &want), harmless, &format!("{}: byte {byte}", sound[place].0));
        }
        for (byte, value) in [(8, 0), (8, 2), (12, 2), (12, 0x80)] {
            let mut forged = sound.clone();
            forge(&mut forged[place].1, |b| b[byte] = value);
            holds(
                &forged,
                (&sound, &want),
                false,
                &format!("{}: byte {byte} = {value}", sound[place].0),
            );
        }
    }
}

#[test]
fn restart_between_the_halves_of_a_record_is_corruption() {
    let vfs = MemVfs::stepped();
    let wal = Wal::create(Arc::new(vfs.clone()), opts()).unwrap();
    // Longer than a segment.
    let at = wal.append(1, &Rng(8).bytes(300 << 10)).unwrap();
    wal.sync_to(at.end).unwrap();
    drop(wal);
    let sound = files(&vfs);
    let want = read(&directory(&sound)).unwrap();
    assert_eq!(want.len(), 1);
    let logs: Vec<_> = sound.iter().map(|(n, _)| n.clone()).filter(|n| n.contains("log")).collect();
    assert!(logs.len() > 1, "{logs:?}");
    let place = sound.iter().position(|(n, _)| *n == logs[1]).unwrap();
    let mut forged = sound.clone();
    forge(&mut forged[place].1, |b| b[12] = 1);
    let e = read(&directory(&forged)).unwrap_err();
    assert!(e.kind() == ErrorKind::Corruption && e.message().contains(&logs[1]), "{e}");
    let report = inspect(&directory(&forged), Some(DATABASE), &mut |_| ()).unwrap();
    assert!(!report.problems.is_empty());
}
