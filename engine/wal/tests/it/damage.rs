//! Damaged and forged logs: an error or the torn end, never a panic and never wrong records.
//!
//! The encoder here is written from the description in `format.rs`, not from the code.

use std::sync::Arc;

use frond_base::{checksum64_seeded, ErrorKind};
use frond_vfs::{MemVfs, Vfs};
use frond_wal::{inspect, Wal, WalOptions};

use crate::{drain, reopen, small, Owned, Rng, DATABASE};

const SEGMENT: &str = "log.00000001.frl";
const FIRST: u8 = 1;
const LAST: u8 = 2;
const PACKED: u8 = 4;

fn opts() -> WalOptions {
    small(1 << 20)
}

fn seed_of(database: u64, segment: u32) -> u64 {
    let mut id = database.to_le_bytes().to_vec();
    id.extend(segment.to_le_bytes());
    checksum64_seeded(&id, 0x6672_6f6e_6473_6567)
}

/// A frame for LSN `lsn` of segment 1; `back` is the raw promise field.
struct Forged<'a> {
    segment: u32,
    lsn: u64,
    len: u32,
    kind: u8,
    flags: u8,
    back: u64,
    payload: &'a [u8],
}

impl<'a> Forged<'a> {
    fn new(lsn: u64, payload: &'a [u8]) -> Self {
        let len = payload.len() as u32;
        Forged { segment: 1, lsn, len, kind: 1, flags: FIRST | LAST, back: 0xff_ffff, payload }
    }

    fn bytes(&self) -> Vec<u8> {
        let mut fields = self.len.to_le_bytes()[..3].to_vec();
        fields.push(self.kind);
        fields.push(self.flags);
        fields.extend(&self.back.to_le_bytes()[..3]);
        fields.extend(checksum64_seeded(self.payload, DATABASE).to_le_bytes());
        let seed = seed_of(DATABASE, self.segment) ^ self.lsn.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut out = checksum64_seeded(&fields, seed).to_le_bytes().to_vec();
        out.extend(fields);
        out.extend(self.payload);
        out.resize(out.len().next_multiple_of(8), 0);
        out
    }
}

/// A log with `n` records of 100 bytes, synced one by one; not settled.
fn log(n: u8) -> (MemVfs, Vec<Owned>) {
    let vfs = MemVfs::stepped();
    let wal = Wal::create(Arc::new(vfs.clone()), opts()).unwrap();
    let mut records = Vec::new();
    for i in 0..n {
        let at = wal.append(1, &[i; 100]).unwrap();
        wal.sync_to(at.end).unwrap();
        records.push((at.start, at.end, 1, vec![i; 100]));
    }
    (vfs, records)
}

fn copy(vfs: &MemVfs) -> MemVfs {
    let out = MemVfs::stepped();
    for name in vfs.list().unwrap() {
        out.set_contents(&name, vfs.contents(&name).unwrap());
    }
    out
}

/// Opens and reads everything.
fn read(vfs: &MemVfs) -> frond_base::Result<Vec<Owned>> {
    let (_, mut recovered) = Wal::open(Arc::new(vfs.clone()), opts())?;
    drain(&mut recovered)
}

fn with_tail(vfs: &MemVfs, tail: &[u8]) -> MemVfs {
    let out = copy(vfs);
    let mut bytes = out.contents(SEGMENT).unwrap();
    bytes.extend_from_slice(tail);
    out.set_contents(SEGMENT, bytes);
    out
}

#[test]
fn the_forger_knows_the_format() {
    let (vfs, mut want) = log(3);
    let end = want[2].1;
    let frame = Forged::new(end, b"forged but well");
    let vfs = with_tail(&vfs, &frame.bytes());
    want.push((end, end + 40, 1, b"forged but well".to_vec()));
    assert_eq!(read(&vfs).unwrap(), want);
}

#[test]
fn garbage_behind_the_end_is_the_end() {
    let (vfs, want) = log(3);
    let end = want[2].1;
    let elsewhere = Forged::new(end + 8, b"another place").bytes();
    let segment = Forged { segment: 2, ..Forged::new(end, b"another segment") }.bytes();
    let mut cut = Forged::new(end, &[9; 200]).bytes();
    cut.truncate(100);
    let mut rotten = Forged::new(end, &[9; 200]).bytes();
    rotten[60] ^= 1;
    let mut lost_head = Forged::new(end, &[9; 600]).bytes();
    lost_head[..512].fill(0);
    let noise = Rng(3).bytes(5000);
    let tails: [&[u8]; 9] =
        [b"", b"\0", &[0; 5000], &[0xff; 5000], &noise, &elsewhere, &segment, &cut, &rotten];
    for (i, tail) in tails.iter().chain([&&lost_head[..]]).enumerate() {
        let vfs = with_tail(&vfs, tail);
        let report = inspect(&vfs, Some(DATABASE), &mut |_| ()).unwrap();
        assert_eq!((report.problems.len(), report.end), (0, end), "tail {i}");
        assert_eq!(read(&vfs).unwrap(), want, "tail {i}");
        // The tail is gone for good: the reopened log continues behind the records.
        let disk: Arc<dyn Vfs> = Arc::new(vfs.clone());
        let (wal, _) = reopen(&disk, &opts());
        let at = wal.append(1, b"next").unwrap();
        wal.sync_to(at.end).unwrap();
        assert_eq!(at.start, end);
        assert_eq!(read(&vfs).unwrap().len(), 4, "tail {i}");
    }
}

#[test]
fn forged_frames_with_good_checksums_are_refused() {
    let (vfs, want) = log(3);
    let end = want[2].1;
    let bomb = [0xff, 0xff, 0xff, 0x7f, 0x1f, 0x61, 1, 0, 0xff, 0xff, 0xff];
    let frames = [
        ("length beyond a chunk", Forged { len: (128 << 10) + 1, ..Forged::new(end, b"") }),
        ("unknown flag", Forged { flags: FIRST | LAST | 8, ..Forged::new(end, b"x") }),
        ("marker with payload", Forged { kind: 0, ..Forged::new(end, b"x") }),
        ("marker without flags", Forged { kind: 0, flags: 0, ..Forged::new(end, b"") }),
        ("promise before the beginning", Forged { back: 1 << 20, ..Forged::new(end, b"x") }),
        ("no beginning", Forged { flags: LAST, ..Forged::new(end, b"x") }),
        ("middle without beginning", Forged { flags: 0, ..Forged::new(end, b"x") }),
        ("packed nothing", Forged { flags: FIRST | LAST | PACKED, ..Forged::new(end, b"") }),
        ("bomb", Forged { flags: FIRST | LAST | PACKED, ..Forged::new(end, &bomb) }),
    ];
    for (what, frame) in frames {
        let vfs = with_tail(&vfs, &frame.bytes());
        let e = read(&vfs).expect_err(what);
        assert_eq!(e.kind(), ErrorKind::Corruption, "{what}: {e}");
        assert!(e.message().contains(SEGMENT) && e.message().contains("offset"), "{what}: {e}");
        let report = inspect(&vfs, None, &mut |_| ()).unwrap();
        assert_eq!((report.problems.len(), report.records), (1, 3), "{what}: {report:?}");
    }
    // A record that begins inside another one; alone, its beginning is only unfinished.
    let open = Forged { flags: FIRST, ..Forged::new(end, b"begin") }.bytes();
    assert_eq!(read(&with_tail(&vfs, &open)).unwrap(), want);
    let report = inspect(&with_tail(&vfs, &open), None, &mut |_| ()).unwrap();
    assert_eq!((report.unfinished, report.problems.len()), (Some(end), 0));
    let mut twice = open.clone();
    twice.extend(Forged { flags: FIRST, ..Forged::new(end + 32, b"again") }.bytes());
    assert_eq!(read(&with_tail(&vfs, &twice)).unwrap_err().kind(), ErrorKind::Corruption);
    let mut other = open;
    other.extend(Forged { flags: LAST, kind: 2, ..Forged::new(end + 32, b"again") }.bytes());
    assert_eq!(read(&with_tail(&vfs, &other)).unwrap_err().kind(), ErrorKind::Corruption);
}

#[test]
fn rot_before_a_promised_point_is_an_error_and_behind_it_the_end() {
    let (vfs, want) = log(10);
    // Each record promises its predecessors: only the last one is unprotected.
    for at in (4096..4096 + want[9].1).step_by(3) {
        let rotten = copy(&vfs);
        let mut bytes = rotten.contents(SEGMENT).unwrap();
        bytes[at as usize] ^= 0x40;
        rotten.set_contents(SEGMENT, bytes);
        let hit = want.iter().position(|r| at - 4096 < r.1).unwrap();
        // The padding is not checked: nothing depends on it.
        if (at - 4096) % 128 >= 124 {
            assert_eq!(read(&rotten).unwrap(), want);
        } else if hit < 9 {
            let e = read(&rotten).expect_err("promised");
            assert_eq!(e.kind(), ErrorKind::Corruption);
            let place = format!("offset {}", 4096 + want[hit].0);
            assert!(e.message().contains(&place), "{e}");
            let mut seen = Vec::new();
            let report = inspect(&rotten, None, &mut |r| seen.push(r.lsn)).unwrap();
            assert_eq!((report.problems.len(), report.records), (1, 9), "{report:?}");
            assert!(!seen.contains(&want[hit].0));
        } else {
            assert_eq!(read(&rotten).unwrap(), want[..9]);
        }
    }
    // Settled, the last one is protected as well.
    let disk: Arc<dyn Vfs> = Arc::new(vfs.clone());
    let (wal, _) = reopen(&disk, &opts());
    let at = wal.append(1, b"last").unwrap();
    wal.settle().unwrap();
    let name = vfs.list().unwrap().pop().unwrap();
    let mut bytes = vfs.contents(&name).unwrap();
    bytes[4096 + 25] ^= 1;
    vfs.set_contents(&name, bytes);
    let e = read(&vfs).unwrap_err();
    assert!(e.kind() == ErrorKind::Corruption && e.message().contains(&at.start.to_string()));
}

#[test]
fn damage_in_an_older_segment_is_an_error_wherever_it_is() {
    let vfs = MemVfs::stepped();
    let options = small(8 << 10);
    let wal = Wal::create(Arc::new(vfs.clone()), options.clone()).unwrap();
    let mut rng = Rng(8);
    while wal.status().rotations < 4 {
        let at = wal.append(1, &rng.bytes(700)).unwrap();
        wal.sync_to(at.end).unwrap();
    }
    drop(wal);
    let open = |vfs: &MemVfs| {
        let (_, mut recovered) = Wal::open(Arc::new(vfs.clone()), options.clone())?;
        drain(&mut recovered)
    };
    let all = open(&copy(&vfs)).unwrap();
    for name in ["log.00000001.frl", "log.00000003.frl"] {
        let good = vfs.contents(name).unwrap();
        let damaged = |bytes: Vec<u8>| {
            let out = copy(&vfs);
            out.set_contents(name, bytes);
            out
        };
        for at in [0, 9, 30, 100, 4095, 4096, 4100, 4112, 5000, good.len() - 720] {
            let mut bytes = good.clone();
            bytes[at] ^= 2;
            let vfs = damaged(bytes);
            let kind = open(&vfs).expect_err("promised by its successor").kind();
            assert!(matches!(kind, ErrorKind::Corruption | ErrorKind::UnsupportedFormat), "{at}");
            let report = inspect(&vfs, None, &mut |_| ()).unwrap();
            assert_eq!(report.problems.len(), 1, "{name} {at}: {:?}", report.problems);
            assert!(report.records as usize >= all.len() * 2 / 5);
        }
        for len in [0, 100, 4096, 4200, good.len() - 1000] {
            let vfs = damaged(good[..len].to_vec());
            assert_eq!(open(&vfs).unwrap_err().kind(), ErrorKind::Corruption, "cut to {len}");
            assert!(!inspect(&vfs, None, &mut |_| ()).unwrap().problems.is_empty());
        }
    }
    // A missing segment, and one under another's name.
    let gone = copy(&vfs);
    gone.remove("log.00000002.frl").unwrap();
    assert_eq!(open(&gone).unwrap_err().kind(), ErrorKind::Corruption);
    assert!(!inspect(&gone, None, &mut |_| ()).unwrap().problems.is_empty());
    let swapped = copy(&vfs);
    swapped.rename("log.00000002.frl", "log.00000009.frl").unwrap();
    assert_eq!(open(&swapped).unwrap_err().kind(), ErrorKind::Corruption);
}

#[test]
fn random_damage_never_panics_and_never_yields_a_wrong_record() {
    let (vfs, want) = log(60);
    let size = 4096 + want[59].1 as usize;
    let mut rng = Rng(11);
    for _ in 0..1500 {
        let damaged = copy(&vfs);
        let mut bytes = damaged.contents(SEGMENT).unwrap();
        for _ in 0..1 + rng.below(4) {
            let at = rng.below(size as u64) as usize;
            let len = 1 + rng.below(700) as usize;
            match rng.below(4) {
                _ if bytes.len() <= at + len || bytes.len() < size => bytes.truncate(at.max(4096)),
                0 => bytes[at] ^= 1 << rng.below(8),
                1 => bytes[at..at + len].fill(0),
                2 => {
                    let from = rng.below((size - len) as u64) as usize;
                    bytes.copy_within(from..from + len, at);
                }
                _ => bytes.truncate(at.max(4096)),
            }
        }
        damaged.set_contents(SEGMENT, bytes);
        let mut seen = Vec::new();
        inspect(&damaged, None, &mut |r| seen.push((r.lsn, r.end, r.kind, r.payload.to_vec())))
            .unwrap();
        assert!(seen.iter().all(|r| want.contains(r)));
        if let Ok(got) = read(&damaged) {
            assert!(want.starts_with(&got));
        }
    }
}
