//! Packed backups: heads, frames, contents with their manifest, as they are read from a file and as they arrive.
//!
//! The input is a pack. Its checksums are made right first, that of the manifest too where the contents are one frame of
//! JSON; so seeds are not compressed.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use frond_base::checksum64;
use frond_cli::backup::manifest::{Manifest, PlainFile, TableFile};
use frond_cli::backup::pack::{end, piece, Contents, Frames, Head, Kind, Next, Pack, Stream};
use frond_vfs::{MemVfs, OpenHow, Vfs, VfsFile};

/// Bytes of a head in front of its text: magic, version, length of the text.
const HEAD_FRONT: usize = 16;
/// Bytes of a frame in front of its payload: kind, packing, two lengths, number.
const FRONT: usize = 18;
const SUM: usize = 8;
const KIND_CONTENTS: u8 = 2;
/// Bytes of a file that are read.
const READ: usize = 64 << 10;

pub fn packs(seed: u64) -> Vec<Vec<u8>> {
    [None, Some(1 + (seed % 9) as i32)].map(|level| pack(seed, level)).into()
}

/// Three pieces of a table's file, one of a plain file, an empty file.
fn pack(seed: u64, level: Option<i32>) -> Vec<u8> {
    let mut manifest = Manifest::new(seed, "10.11 at here");
    let plain = |bytes| PlainFile::whole(bytes, 0);
    manifest.files.insert("server/x".into(), plain(10));
    manifest.files.insert("server/empty".into(), plain(0));
    let table = TableFile {
        table: 4,
        name: "a/b".into(),
        bytes: 16384,
        next_block: 11,
        own: Vec::new(),
        blocks: Vec::new(),
    };
    manifest.tables.push(table);
    let manifest = manifest.seal().expect("it has a text");
    let head = Head {
        id: manifest.id.clone(),
        chain: Vec::new(),
        created: seed,
        database: "0000000000000005".into(),
        key: None,
    };
    let frames = Frames::new(head, None, [0, 0]).expect("it is short");
    let mut out = frames.bytes.clone();
    let mut places = BTreeMap::from([("server/empty".to_string(), Vec::new())]);
    let rows = b"rows and ".repeat(40);
    let pieces = [
        ("frond/4.frd", 0, &rows[..100]),
        ("frond/4.frd", 4096, &rows[..]),
        ("frond/4.frd", 8192, &rows[..200]),
        ("server/x", 0, &rows[..10]),
    ];
    for (number, (path, offset, bytes)) in (0..).zip(pieces) {
        let place = (offset, bytes.len() as u64, out.len() as u64);
        places.entry(path.to_string()).or_default().push(place);
        out.extend(frames.encode(Kind::Piece, number, &piece(path, offset, bytes), level));
    }
    let (at, number) = (out.len() as u64, pieces.len() as u64);
    let text = serde_json::to_vec(&Contents { manifest, places }).expect("it is JSON");
    out.extend(frames.encode(Kind::Contents, number, &text, level));
    out.extend(frames.encode(Kind::End, number + 1, &end(at, number), None));
    out
}

pub fn check(input: &[u8]) -> bool {
    let bytes = sealed(input);
    let streamed = stream(&bytes);
    let vfs = MemVfs::new();
    let file = vfs.open("pack", OpenHow::CREATE).expect("memory does not fail");
    file.write_all_at(&bytes, 0).expect("memory does not fail");
    match Pack::read(Path::new("pack"), file, None) {
        Ok((pack, manifest)) => read(&pack, &manifest) && streamed,
        Err(_) => false,
    }
}

fn stream(bytes: &[u8]) -> bool {
    let Ok(mut stream) = Stream::begin(bytes) else { return false };
    loop {
        match stream.next_frame() {
            Ok(Next::Frame(_)) => {}
            Ok(Next::End(_)) => return stream.at == bytes.len() as u64,
            Err(_) => return false,
        }
    }
}

/// What the manifest names, and where the files end.
fn read(pack: &Arc<Pack>, manifest: &Manifest) -> bool {
    let tables = manifest.tables.iter().map(|table| format!("frond/{}", table.file_name()));
    let mut all = manifest.bytes() > 0;
    for name in tables.chain(manifest.files.keys().cloned()).take(100) {
        let Some(file) = pack.file(&name) else { continue };
        let len = file.len().expect("it is known");
        let mut bytes = vec![0; READ.min(usize::try_from(len).unwrap_or(READ))];
        for at in [0, len / 2, len - len.min(bytes.len() as u64)] {
            all &= file.read_at(&mut bytes, at).is_ok();
        }
        assert!(file.write_at(b"x", 0).is_err(), "a backup is not written to");
    }
    all
}

/// `input` with right checksums.
fn sealed(input: &[u8]) -> Vec<u8> {
    let mut out = input.to_vec();
    let Some(text) = length(&out, 12) else { return out };
    let head = HEAD_FRONT.saturating_add(text);
    let Some(sum) = put_sum(&mut out, 0..head, 0) else { return out };
    let mut at = head + SUM;
    while let Some(stored) = length(&out, at + 2) {
        let mut frame = at..at.saturating_add(FRONT).saturating_add(stored);
        if out[at] == KIND_CONTENTS && frame.end <= out.len() {
            let text = manifest_sealed(&out[at + FRONT..frame.end]);
            let len = u32::try_from(text.len()).unwrap_or(0).to_le_bytes();
            // Equal lengths stay equal; a wrong length stays wrong.
            if out[at + 2..at + 6] == out[at + 6..at + 10] {
                out[at + 6..at + 10].copy_from_slice(&len);
            }
            out[at + 2..at + 6].copy_from_slice(&len);
            out.splice(at + FRONT..frame.end, text.iter().copied());
            frame.end = at + FRONT + text.len();
        }
        if put_sum(&mut out, frame.clone(), sum).is_none() {
            break;
        }
        at = frame.end + SUM;
    }
    out
}

/// The checksum of `range`, xor `with`, put behind it; `None`: it ends before.
fn put_sum(bytes: &mut [u8], range: Range<usize>, with: u64) -> Option<u64> {
    let sum = checksum64(bytes.get(range.clone())?);
    bytes
        .get_mut(range.end..range.end.checked_add(SUM)?)?
        .copy_from_slice(&(sum ^ with).to_le_bytes());
    Some(sum)
}

fn length(bytes: &[u8], at: usize) -> Option<usize> {
    let number = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(number.try_into().ok()?) as usize)
}

/// Contents with the right checksum of their manifest; anything else as it is.
fn manifest_sealed(text: &[u8]) -> Vec<u8> {
    let Ok(contents) = serde_json::from_slice::<Contents>(text) else { return text.to_vec() };
    let Ok(manifest) = contents.manifest.seal() else { return text.to_vec() };
    serde_json::to_vec(&Contents { manifest, ..contents }).unwrap_or_else(|_| text.to_vec())
}
