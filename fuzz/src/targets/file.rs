//! Table files: headers, block map, and image; the identity file; and what describes the pin of a backup.
//!
//! The input of `file` is whether to seal it (one byte: 0 no; 2: and to open it for reading only), the 512 bytes of each header that count, and
//! an image, which is put where each sealed header says.

use frond_base::{checksum64, checksum64_seeded, TableId};
use frond_engine::{read_identity, Description, ExportDescription, IndexDef, TableDef, TableImage};
use frond_space::{Extent, PinnedFile, TableFile, TableFileOptions};
use frond_vfs::{MemVfs, OpenHow, Vfs};

use super::{accepted, database, refused};

const NAME: &str = "1.frd";
const SLOT: usize = 4096;
const SECTOR: usize = 512;
/// An image at an offset beyond is not looked for.
const LONGEST: usize = 256 << 10;

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

pub fn files(_: u64) -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    let standard = database::standard();
    for (name, bytes) in standard.before.iter().chain(&standard.after) {
        if !name.ends_with(".frd") || bytes.len() < 2 * SLOT {
            continue;
        }
        let newest = if u64_at(bytes, 32) > u64_at(bytes, SLOT + 32) { 0 } else { SLOT };
        let number = |at: usize| u64_at(bytes, newest + at) as usize;
        let image = bytes.get(number(48)..number(48) + number(56)).unwrap_or_default();
        for sealed in [1, 2] {
            let sectors = [&bytes[..SECTOR], &bytes[SLOT..SLOT + SECTOR]].concat();
            let mut input = [&[sealed], &sectors[..], image].concat();
            // The file is table 1 here, whatever it was.
            for header in [1, 1 + SECTOR] {
                input[header + 24] = 1;
            }
            if image.len() > 16 {
                input[1 + 2 * SECTOR + 16] = 1;
            }
            out.push(input);
        }
    }
    out
}

pub fn file(input: &[u8]) -> bool {
    let Some((sealed, rest)) = input.split_first() else { return false };
    if rest.len() < 2 * SECTOR {
        return false;
    }
    let (headers, image) = rest.split_at(2 * SECTOR);
    let database = database::standard().id;
    let mut bytes = vec![0; 2 * SLOT];
    for slot in 0..2 {
        let mut header = headers[slot * SECTOR..(slot + 1) * SECTOR].to_vec();
        if *sealed != 0 {
            let seq = u64_at(&header, 32);
            let table = 1u64.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            if u64_at(&header, 48) != 0 {
                header[56..64].copy_from_slice(&(image.len() as u64).to_le_bytes());
                let sum = checksum64_seeded(image, database ^ table ^ seq.rotate_left(32));
                header[64..72].copy_from_slice(&sum.to_le_bytes());
            }
            let sum = checksum64_seeded(&header[..SECTOR - 8], 0x6672_6f6e_6468_6472 + slot as u64);
            header[SECTOR - 8..].copy_from_slice(&sum.to_le_bytes());
        }
        bytes[slot * SLOT..slot * SLOT + SECTOR].copy_from_slice(&header);
    }
    for slot in 0..2 {
        let offset = u64_at(&bytes, slot * SLOT + 48);
        let Ok(from) = usize::try_from(offset) else { continue };
        if (2 * SLOT..LONGEST).contains(&from) {
            let end = (from + image.len()).next_multiple_of(SLOT);
            bytes.resize(bytes.len().max(end), 0);
            bytes[from..from + image.len()].copy_from_slice(image);
        }
    }
    let vfs = MemVfs::stepped();
    let _ = vfs.open(NAME, OpenHow::CREATE);
    vfs.set_contents(NAME, bytes);
    let options =
        TableFileOptions { database, table: TableId(1), direct: false, read_only: *sealed == 2 };
    match TableFile::open(&vfs, NAME, &options) {
        Err(e) => {
            refused(&e);
            false
        }
        Ok((file, checkpoint)) => {
            for (block, extent) in file.used_extents() {
                assert_eq!(file.extent(block), Some(extent));
            }
            file.stats();
            checkpoint.is_none_or(|c| accepted(TableImage::decode(&c.image, NAME)))
        }
    }
}

pub fn identities(_: u64) -> Vec<Vec<u8>> {
    let files = &database::standard().after;
    files.iter().filter(|(name, _)| name == "frond.id").map(|(_, bytes)| bytes.clone()).collect()
}

pub fn identity(input: &[u8]) -> bool {
    let mut bytes = input.to_vec();
    if bytes.len() >= 32 {
        let sum = checksum64_seeded(&bytes[..24], 0);
        bytes[24..32].copy_from_slice(&sum.to_le_bytes());
    }
    let vfs = MemVfs::stepped();
    let _ = vfs.open("frond.id", OpenHow::CREATE);
    vfs.set_contents("frond.id", bytes);
    accepted(read_identity(&vfs))
}

pub fn pins(n: u64) -> Vec<Vec<u8>> {
    let unit = |at: u64, len: u64| Extent { offset: (2 + at) * 4096, len: len * 4096 };
    let file = |table: u32| PinnedFile {
        table: TableId(table),
        seq: n,
        lsn: 100 * n,
        front: vec![n as u8; 2 * SLOT],
        image: (table > 0).then(|| unit(n, 3)),
        next_block: 90 + n,
        blocks: (0..n.min(80)).map(|b| (b + 1, unit(50 + 4 * b, 1 + b % 4))).collect(),
    };
    let described = Description {
        pin: n,
        database: !n,
        at: 5000 + n,
        segments: vec![(1, 0), (2, 4096 + n)],
        files: vec![file(0), file(1), file(7 + n as u32 % 9)],
        names: vec![String::new(), "a/b".into(), "a/c".into()],
        rows: vec![("a/b".into(), n), ("a/c".into(), !n), ("a/d".into(), 0)],
    };
    vec![described.encode()]
}

pub fn exports(n: u64) -> Vec<Vec<u8>> {
    let table = TableId(1 + n as u32 % 100);
    let indexes = vec![IndexDef::plain(); 1 + n as usize % 5];
    let mut definition = TableDef::new(table, "a/b".into(), indexes);
    definition.schema = vec![n as u8; n as usize % 50];
    let described = ExportDescription {
        database: !n,
        table,
        header: vec![n as u8; SLOT],
        len: n << 12,
        name: "a/b".into(),
        release: "frond".into(),
        rows: n,
        auto_increment: n + 1,
        row_id: 1 + n % 7,
        definition,
    };
    vec![described.encode()]
}

/// `input` with the right checksum is read as the description of an exported table.
pub fn export(input: &[u8]) -> bool {
    let Some(split) = input.len().checked_sub(8) else { return false };
    let mut bytes = input.to_vec();
    let sum = checksum64(&bytes[..split]);
    bytes[split..].copy_from_slice(&sum.to_le_bytes());
    match ExportDescription::decode(&bytes, "t.cfg") {
        Ok(described) => {
            let again = ExportDescription::decode(&described.encode(), "t.cfg");
            assert_eq!(again.ok(), Some(described));
            true
        }
        Err(e) => {
            refused(&e);
            false
        }
    }
}

/// `input` with the right checksum is read as the description of a pin.
pub fn pin(input: &[u8]) -> bool {
    let Some(split) = input.len().checked_sub(8) else { return false };
    let mut bytes = input.to_vec();
    let sum = checksum64(&bytes[..split]);
    bytes[split..].copy_from_slice(&sum.to_le_bytes());
    match Description::decode(&bytes) {
        Ok(described) => {
            assert_eq!(Description::decode(&described.encode()).ok(), Some(described));
            true
        }
        Err(e) => {
            refused(&e);
            false
        }
    }
}
