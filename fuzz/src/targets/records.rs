//! What log records say: the records of `engine/core/src/record.rs`, read as recovery reads them.
//!
//! An input is a sequence of records, each behind its length, its kind in the first byte. They are appended
//! to the log of a database that was cut off, which is then opened: so the decoders run, and all that
//! recovery makes of what they accept.

use std::sync::Arc;

use frond_base::ByteReader;
use frond_wal::{Wal, WalOptions};

use super::{accepted, database, join};

pub fn records(seed: u64) -> Vec<Vec<u8>> {
    let records: Vec<Vec<u8>> = database::standard()
        .records
        .iter()
        .map(|(kind, payload)| [&[*kind], &payload[..]].concat())
        .collect();
    let whole: Vec<&[u8]> = records.iter().map(Vec::as_slice).collect();
    let mut out: Vec<Vec<u8>> = records.iter().map(|record| join(&[record])).collect();
    let some = 1 + seed as usize % records.len();
    out.extend([join(&whole), join(&whole[..some]), join(&whole[some / 2..some])]);
    out
}

pub fn record(input: &[u8]) -> bool {
    let standard = database::standard();
    let vfs = database::directory(&standard.before);
    let options =
        WalOptions { segment_bytes: database::SEGMENT_BYTES, ..WalOptions::new(standard.id) };
    let (wal, _) = Wal::open(Arc::new(vfs.clone()), options).expect("the log is sound");
    let mut r = ByteReader::new(input);
    while let Ok(record) = r.bytes() {
        let Some((kind, payload)) = record.split_first() else { break };
        // Kind 0 is the log's own.
        if let Ok(at) = wal.append((*kind).max(1), payload) {
            wal.sync_to(at.end).expect("memory does not fail");
        }
    }
    drop(wal);
    accepted(database::open_and_read(&vfs))
}
