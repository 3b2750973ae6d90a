//! A process that may open no more files: what is refused, and what was promised before.

use std::sync::Arc;

use frond_base::ErrorKind;
use frond_vfs::testing::FewFiles;
use frond_vfs::{MemVfs, Vfs};
use frond_wal::{Claim, Wal};

use crate::{reopen, small, Rng};

const SEGMENT: u64 = 64 << 10;

fn create() -> (FewFiles, Wal) {
    let few = FewFiles::new(MemVfs::stepped(), 100);
    let wal = Wal::create(Arc::new(few.clone()), small(SEGMENT)).unwrap();
    wal.prepare_segment().unwrap();
    (few, wal)
}

#[test]
fn a_segment_is_begun_when_the_process_may_open_no_more_files() {
    let (few, wal) = create();
    few.leave(few.open_files());
    let payload = Rng(1).bytes(500);
    for _ in 0..1000 {
        match wal.reserve(payload.len() as u64, Claim::Freeing) {
            Ok(_room) => {
                let at = wal.append(1, &payload).unwrap();
                wal.sync_to(at.end).unwrap();
            }
            Err(e) => assert_eq!(e.kind(), ErrorKind::TooManyFiles, "{e}"),
        }
    }
    assert!(wal.status().rotations > 0);
    // No descriptor is left, not even for a file in place of a closed one. Ever smaller records are
    // appended until the smallest has no room.
    few.leave(0);
    let mut size = payload.len();
    for _ in 0..10_000 {
        match wal.reserve(size as u64, Claim::Freeing) {
            Ok(_room) => drop(wal.append(1, &payload[..size]).unwrap()),
            Err(_) if size == 0 => break,
            Err(_) => size -= 1,
        }
    }
    assert_eq!(wal.reserve(0, Claim::Freeing).err().unwrap().kind(), ErrorKind::TooManyFiles);
    // The marker that closing the log adds has no room either; that breaks nothing.
    wal.settle().unwrap();
    assert!(wal.failure().is_none());
    few.leave(100);
    wal.reserve(payload.len() as u64, Claim::Ordinary).map(drop).unwrap();
}

/// Others take every descriptor between the reservation and the first of several rotations.
#[test]
fn a_reserved_record_over_many_segments_needs_no_further_descriptor() {
    let (few, wal) = create();
    let payload = Rng(3).bytes(5 * SEGMENT as usize);
    let room = wal.reserve(payload.len() as u64, Claim::Ordinary).unwrap();
    few.leave(0);
    let at = wal.append(1, &payload).unwrap();
    wal.sync_to(at.end).unwrap();
    drop(room);
    assert!(wal.status().rotations >= 5 && wal.failure().is_none());
    // There is nothing open for another one, which is refused and breaks nothing.
    let refused = wal.reserve(payload.len() as u64, Claim::Ordinary).err().expect("refused");
    assert_eq!(refused.kind(), ErrorKind::TooManyFiles, "{refused}");
    assert!(refused.to_string().contains("open files"), "{refused}");
    assert!(wal.failure().is_none());
    few.leave(100);
    let room = wal.reserve(payload.len() as u64, Claim::Ordinary).unwrap();
    let at = wal.append(2, &payload).unwrap();
    wal.sync_to(at.end).unwrap();
    drop(room);
    drop(wal);
    let vfs: Arc<dyn Vfs> = Arc::new(few);
    let (_, records) = reopen(&vfs, &small(SEGMENT));
    assert_eq!(records.iter().map(|r| r.2).collect::<Vec<_>>(), [1, 2]);
}

/// Spares that were opened for a large record are closed when it is done, or was given up.
#[test]
fn descriptors_of_a_large_reservation_are_given_back() {
    let (few, wal) = create();
    let before = few.open_files();
    let room = wal.reserve(10 * SEGMENT, Claim::Ordinary).unwrap();
    assert!(few.open_files() >= before + 9, "{} open", few.open_files());
    wal.prepare_segment().unwrap();
    assert!(few.open_files() >= before + 9, "{} open", few.open_files());
    drop(room);
    wal.prepare_segment().unwrap();
    assert_eq!(few.open_files(), before);
}

/// A rotation gives the descriptor of the segment before to the next one, before anybody else has it.
#[test]
fn after_a_rotation_the_next_segment_is_open_already() {
    let (few, wal) = create();
    // Two spares, one of them open.
    wal.reserve(SEGMENT, Claim::Ordinary).map(drop).unwrap();
    wal.prepare_segment().unwrap();
    few.leave(few.open_files());
    let payload = Rng(1).bytes(500);
    let rotate = || {
        let before = wal.status().rotations;
        while wal.status().rotations == before {
            let _room = wal.reserve(payload.len() as u64, Claim::Freeing)?;
            let at = wal.append(1, &payload)?;
            wal.sync_to(at.end)?;
        }
        frond_base::Result::Ok(())
    };
    rotate().unwrap();
    few.leave(0);
    rotate().unwrap();
    assert!(wal.failure().is_none());
}
