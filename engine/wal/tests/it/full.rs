//! A full disk: what is refused, what still goes, and opening on one.

use std::sync::Arc;

use frond_base::ErrorKind;
use frond_vfs::testing::SmallDisk;
use frond_vfs::{MemVfs, OpenHow, Vfs};
use frond_wal::{Claim, Wal};

use crate::{drain, reopen, small, Rng};

const PAGE: u64 = 4096;
const SEGMENT: u64 = 64 << 10;

fn disk() -> SmallDisk {
    SmallDisk::new(MemVfs::stepped(), u64::MAX)
}

fn count(disk: &SmallDisk, prefix: &str) -> usize {
    disk.list().unwrap().iter().filter(|n| n.starts_with(prefix)).count()
}

fn create(vfs: &SmallDisk) -> Wal {
    Wal::create(Arc::new(vfs.clone()), small(SEGMENT)).unwrap()
}

fn refused(wal: &Wal, bytes: u64, claim: Claim) {
    let e = wal.reserve(bytes, claim).err().expect("refused");
    assert_eq!(e.kind(), ErrorKind::NoSpace, "{e}");
}

/// Reserves, appends and syncs until a reservation of that kind is refused; returns how many records went.
fn fill(wal: &Wal, payload: &[u8], claim: Claim) -> u64 {
    for n in 0.. {
        match wal.reserve(payload.len() as u64, claim) {
            Ok(_room) => {
                let at = wal.append(1, payload).unwrap();
                wal.sync_to(at.end).unwrap();
            }
            Err(e) => {
                assert_eq!(e.kind(), ErrorKind::NoSpace, "{e}");
                return n;
            }
        }
    }
    unreachable!()
}

#[test]
fn the_last_spare_is_left_to_what_frees_space() {
    let vfs = disk();
    let wal = create(&vfs);
    wal.prepare_segment().unwrap();
    vfs.leave(0);
    let payload = Rng(1).bytes(500);
    let ordinary = fill(&wal, &payload, Claim::Ordinary);
    assert!(ordinary > 20, "{ordinary} records in the first segment");
    refused(&wal, 500, Claim::Ordinary);
    // Most of a segment is left for these.
    let freeing = fill(&wal, &payload, Claim::Freeing);
    assert!(freeing > 60, "{freeing} records in the last spare");
    assert!(wal.failure().is_none());
    // Trimming gives spares back, and everything goes on.
    wal.trim(wal.end()).unwrap();
    assert!(fill(&wal, &payload, Claim::Freeing) > 60);
    vfs.leave(u64::MAX);
    wal.reserve(500, Claim::Ordinary).map(drop).unwrap();
}

#[test]
fn reservations_made_at_the_same_time_do_not_count_on_the_same_room() {
    let vfs = disk();
    let wal = create(&vfs);
    wal.prepare_segment().unwrap();
    // Room for the current segment, the spare to be left alone and three more.
    vfs.leave(3 * SEGMENT);
    let large = Rng(2).bytes(100_000);
    let first = wal.reserve(large.len() as u64, Claim::Ordinary).unwrap();
    refused(&wal, large.len() as u64, Claim::Ordinary);
    let at = wal.append(1, &large).unwrap();
    wal.sync_to(at.end).unwrap();
    drop(first);
    assert!(wal.failure().is_none());
}

/// Giving up the rest of a segment is refused where somebody counts on it.
#[test]
fn a_segment_that_is_begun_early_leaves_what_is_reserved_its_room() {
    let vfs = disk();
    let wal = create(&vfs);
    wal.prepare_segment().unwrap();
    let large = Rng(4).bytes(40_000);
    for spares in 0..4 {
        let room = wal.reserve(large.len() as u64, Claim::Ordinary).unwrap();
        vfs.leave(spares * SEGMENT);
        match wal.begin_segment() {
            Ok(start) => assert_eq!(start, wal.end()),
            Err(e) => assert_eq!(e.kind(), ErrorKind::NoSpace, "{e}"),
        }
        let at = wal.append(1, &large).unwrap();
        wal.sync_to(at.end).unwrap();
        drop(room);
        assert!(wal.failure().is_none(), "{spares} segments were free");
        vfs.leave(u64::MAX);
        wal.prepare_segment().unwrap();
    }
}

#[test]
fn a_refused_reservation_leaves_no_spares_behind() {
    let vfs = disk();
    let wal = create(&vfs);
    vfs.leave(6 * SEGMENT);
    refused(&wal, 20 * SEGMENT, Claim::Ordinary);
    assert!(count(&vfs, "spare.") <= 3, "{} spares", count(&vfs, "spare."));
    // Neither does one that was not used.
    drop(wal.reserve(4 * SEGMENT / 2, Claim::Ordinary).unwrap());
    wal.prepare_segment().unwrap();
    assert!(count(&vfs, "spare.") <= 3, "{} spares", count(&vfs, "spare."));
}

/// The process is killed and started again, over and over, without a free byte.
#[test]
fn a_log_opens_on_a_full_disk_again_and_again() {
    let vfs = disk();
    let payload = Rng(3).bytes(300);
    let mut kept;
    {
        let wal = create(&vfs);
        wal.prepare_segment().unwrap();
        vfs.leave(0);
        kept = fill(&wal, &payload, Claim::Ordinary);
    }
    let shared: Arc<dyn Vfs> = Arc::new(vfs.clone());
    for round in 0..8 {
        vfs.leave(0);
        let (wal, records) = reopen(&shared, &small(SEGMENT));
        assert_eq!(records.len() as u64, kept, "round {round}");
        // Somebody else takes what opening gave back.
        vfs.leave(0);
        // Either refused or good.
        if let Ok(_room) = wal.reserve(300, Claim::Freeing) {
            let at = wal.append(1, &payload).unwrap();
            wal.sync_to(at.end).unwrap();
            kept += 1;
        }
        assert!(wal.failure().is_none());
        assert!(wal.settle().is_ok());
    }
    vfs.leave(u64::MAX);
    let (wal, records) = reopen(&shared, &small(SEGMENT));
    assert_eq!(records.len() as u64, kept);
    wal.prepare_segment().unwrap();
    let room = wal.reserve(300, Claim::Ordinary).unwrap();
    let at = wal.append(1, &payload).unwrap();
    wal.sync_to(at.end).unwrap();
    drop(room);
}

#[test]
fn a_segment_begun_without_space_takes_records_once_there_is_some() {
    let vfs = disk();
    let shared: Arc<dyn Vfs> = Arc::new(vfs.clone());
    let payload = Rng(4).bytes(300);
    {
        let wal = create(&vfs);
        let at = wal.append(1, &payload).unwrap();
        wal.sync_to(at.end).unwrap();
    }
    // The segment is cut to what it holds; opening then finds a block and no more.
    drop(reopen(&shared, &small(SEGMENT)));
    for name in vfs.list().unwrap().iter().filter(|n| n.starts_with("spare.")) {
        vfs.remove(name).unwrap();
    }
    let names = vfs.list().unwrap();
    let last = names.iter().rfind(|n| n.starts_with("log.")).unwrap();
    vfs.open(last, OpenHow::WRITE).unwrap().set_len(PAGE).unwrap();
    vfs.leave(PAGE);
    let (wal, records) = reopen(&shared, &small(SEGMENT));
    assert_eq!(records.len(), 1);
    refused(&wal, 300, Claim::Ordinary);
    vfs.leave(0);
    refused(&wal, 300, Claim::Freeing);
    assert_eq!(wal.prepare_segment().unwrap_err().kind(), ErrorKind::NoSpace);
    wal.settle().unwrap();
    // A little: enough for what frees space.
    vfs.leave(6 * PAGE);
    refused(&wal, 300, Claim::Ordinary);
    let freed = fill(&wal, &payload, Claim::Freeing);
    assert!((20..100).contains(&freed), "{freed} records in 24 KiB");
    vfs.leave(u64::MAX);
    wal.prepare_segment().unwrap();
    let room = wal.reserve(50_000, Claim::Ordinary).unwrap();
    let at = wal.append(1, &Rng(5).bytes(50_000)).unwrap();
    wal.sync_to(at.end).unwrap();
    drop(room);
    drop(wal);
    let (_, records) = reopen(&shared, &small(SEGMENT));
    assert_eq!(records.len() as u64, 1 + freed + 1);
}

#[test]
fn opening_without_a_single_block_says_what_it_needs() {
    let vfs = disk();
    let shared: Arc<dyn Vfs> = Arc::new(vfs.clone());
    drop(create(&vfs));
    for name in vfs.list().unwrap() {
        vfs.open(&name, OpenHow::WRITE).unwrap().set_len(PAGE).unwrap();
    }
    vfs.leave(0);
    for _ in 0..2 {
        let e = Wal::open(Arc::clone(&shared), small(SEGMENT)).err().expect("no space");
        assert_eq!(e.kind(), ErrorKind::NoSpace);
        assert!(e.message().contains("4096 bytes"), "{e}");
    }
    vfs.leave(PAGE);
    let (wal, mut recovered) = Wal::open(shared, small(SEGMENT)).unwrap();
    assert!(drain(&mut recovered).unwrap().is_empty());
    assert!(wal.failure().is_none());
}

/// Opening on a full disk has made the last segment, which a torn record began, a spare. Then the machine stopped.
#[test]
fn a_segment_taken_out_of_the_log_never_comes_back_under_its_number() {
    let files = MemVfs::stepped();
    let vfs: Arc<dyn Vfs> = Arc::new(files.clone());
    let opts = small(SEGMENT);
    let record = |n: u64| Rng(n).bytes(200);
    let append = |wal: &Wal, n| wal.append(1, &record(n)).unwrap().end;
    let wal = Wal::create(vfs.clone(), opts.clone()).unwrap();
    wal.sync_to(append(&wal, 1)).unwrap();
    drop(wal);
    let (wal, _) = reopen(&vfs, &opts);
    let end = [2, 3, 4].map(|n| append(&wal, n))[2];
    wal.sync_to(end).unwrap();
    drop(wal);
    for spare in vfs.list().unwrap().iter().filter(|n| n.starts_with("spare.")) {
        vfs.remove(spare).unwrap();
    }
    let mut bytes = files.contents("log.00000002.frl").unwrap();
    bytes[PAGE as usize + 100] ^= 1;
    files.set_contents("log.00000002.frl", bytes);
    vfs.rename("log.00000002.frl", "spare.00000002.frl").unwrap();
    let (wal, records) = reopen(&vfs, &opts);
    assert_eq!(records.len(), 1);
    // As long as the torn one.
    wal.sync_to(append(&wal, 5)).unwrap();
    drop(wal);
    let (_, records) = reopen(&vfs, &opts);
    let payloads: Vec<_> = records.into_iter().map(|r| r.3).collect();
    assert_eq!(payloads, [record(1), record(5)]);
}
