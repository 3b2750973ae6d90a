//! Log segments: the header and the frames of `engine/wal/src/format.rs`, found, put together and unpacked.
//!
//! An input is whether to seal it (one byte: 0 no), and one segment file.

use std::sync::Arc;

use frond_base::checksum64_seeded;
use frond_run::testing::TestRng;
use frond_vfs::{MemVfs, OpenHow, Vfs};
use frond_wal::{inspect, Wal, WalOptions};

use super::database::files;
use super::refused;

const DATABASE: u64 = 0x1234_5678_9abc;
const NAME: &str = "log.00000001.frl";
const HEADER: usize = 4096;
const FRAME: usize = 24;

fn options() -> WalOptions {
    WalOptions { segment_bytes: 64 << 10, buffer_bytes: 128 << 10, ..WalOptions::new(DATABASE) }
}

pub fn segments(seed: u64) -> Vec<Vec<u8>> {
    let mut rng = TestRng::new(seed);
    let mut out = Vec::new();
    for n in 0..4 {
        let vfs = MemVfs::stepped();
        let Ok(wal) = Wal::create(Arc::new(vfs.clone()), options()) else { continue };
        for _ in 0..1 + rng.below(12) {
            let length = rng.below(3000) as usize;
            // Every other payload can be packed.
            let payload = if rng.below(2) == 0 { rng.bytes(length) } else { vec![7; length] };
            if let Ok(at) = wal.append(1 + rng.below(6) as u8, &payload) {
                let _ = wal.sync_to(at.end);
            }
        }
        drop(wal);
        for (name, mut bytes) in files(&vfs) {
            if name == NAME {
                let used = bytes.iter().rposition(|b| *b != 0).map_or(0, |last| last + 1);
                bytes.truncate(used.next_multiple_of(8));
                out.push([&[u8::from(n > 0)], &bytes[..]].concat());
            }
        }
    }
    out
}

/// Makes every checksum right: that of the header, and those of frames as far as they lie behind each other.
fn seal(bytes: &mut [u8]) {
    if bytes.len() < HEADER {
        return;
    }
    bytes[16..24].copy_from_slice(&DATABASE.to_le_bytes());
    let sum = checksum64_seeded(&bytes[..HEADER - 8], 0x6672_6f6e_6468_6472);
    bytes[HEADER - 8..HEADER].copy_from_slice(&sum.to_le_bytes());
    let mut id = DATABASE.to_le_bytes().to_vec();
    id.extend_from_slice(&bytes[24..28]);
    let seed = checksum64_seeded(&id, 0x6672_6f6e_6473_6567);
    let start = u64::from_le_bytes(bytes[32..40].try_into().expect("eight bytes"));
    let mut at = HEADER;
    while at + FRAME <= bytes.len() {
        let length =
            u32::from_le_bytes(bytes[at + 8..at + 12].try_into().expect("four")) & 0xff_ffff;
        let end = at + FRAME + length as usize;
        // What lies behind the last record is no frame.
        if end > bytes.len() || bytes[at..at + FRAME] == [0; FRAME] {
            return;
        }
        let payload = checksum64_seeded(&bytes[at + FRAME..end], DATABASE);
        bytes[at + 16..at + FRAME].copy_from_slice(&payload.to_le_bytes());
        let lsn = start.wrapping_add((at - HEADER) as u64);
        let sum = checksum64_seeded(
            &bytes[at + 8..at + FRAME],
            seed ^ lsn.wrapping_mul(0x9e37_79b9_7f4a_7c15),
        );
        bytes[at..at + 8].copy_from_slice(&sum.to_le_bytes());
        at = end.next_multiple_of(8);
    }
}

pub fn segment(input: &[u8]) -> bool {
    let Some((sealed, bytes)) = input.split_first() else { return false };
    let mut bytes = bytes.to_vec();
    if *sealed != 0 {
        seal(&mut bytes);
    }
    let vfs = MemVfs::stepped();
    let _ = vfs.open(NAME, OpenHow::CREATE);
    vfs.set_contents(NAME, bytes);
    let _ = inspect(&vfs, Some(DATABASE), &mut |record| assert!(record.payload.len() < 1 << 30))
        .map_err(|e| refused(&e));
    match Wal::open(Arc::new(vfs.clone()), options()) {
        Err(e) => {
            refused(&e);
            false
        }
        Ok((wal, mut recovered)) => {
            loop {
                match recovered.next() {
                    Ok(Some(record)) => assert!(record.lsn < record.end),
                    Ok(None) => break,
                    Err(e) => {
                        refused(&e);
                        return false;
                    }
                }
            }
            let end = recovered.end();
            assert!(wal.end() >= end, "the log goes on behind what was read");
            let at = wal.append(1, b"it goes on").expect("an open log takes records");
            wal.sync_to(at.end).expect("memory does not fail");
            true
        }
    }
}
