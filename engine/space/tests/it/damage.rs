//! Directed damage: every field of the header and image, with and without a repaired checksum.

use frond_base::{checksum64_seeded, ErrorKind, TableId};
use frond_space::{Extent, TableFile, TableFileOptions};

use crate::fault::FaultVfs;
use crate::{contents, options, Rng, NAME};

const HEADER: usize = 4096;

/// Two checkpoints: sequence 2 in slot 0, sequence 3 in slot 1 (0 and 1 are written by the creation).
fn two_checkpoints() -> FaultVfs {
    let vfs = FaultVfs::new();
    let file = TableFile::create(&vfs, NAME, &options(), 5).unwrap();
    let blocks = [file.next_block(), file.next_block()];
    for block in blocks {
        file.write_block(block, &contents(block, 1)).unwrap();
    }
    file.checkpoint(b"one", 10, &blocks).unwrap();
    file.checkpoint(b"two", 20, &blocks).unwrap();
    vfs
}

/// The bytes that a header's checksum covers, itself included.
const SECTOR: usize = 512;

/// Changes header `slot` and makes its checksum right again.
fn forge(bytes: &mut [u8], slot: usize, change: impl FnOnce(&mut [u8])) {
    let header = &mut bytes[slot * HEADER..(slot + 1) * HEADER];
    change(header);
    let sum = checksum64_seeded(&header[..SECTOR - 8], 0x6672_6f6e_6468_6472 + slot as u64);
    header[SECTOR - 8..SECTOR].copy_from_slice(&sum.to_le_bytes());
}

fn open_kind(vfs: &FaultVfs, options: &TableFileOptions) -> Result<Vec<u8>, (ErrorKind, String)> {
    match TableFile::open(vfs, NAME, options) {
        Ok((_, checkpoint)) => Ok(checkpoint.map(|c| c.image).unwrap_or_default()),
        Err(e) => Err((e.kind(), e.to_string())),
    }
}

#[test]
fn each_header_field_is_checked_beyond_its_checksum() {
    let cases: [(&str, usize, &[u8], ErrorKind, &str); 13] = [
        ("newer version", 8, &[2, 0, 0, 0], ErrorKind::UnsupportedFormat, "newer release"),
        ("version 0", 8, &[0; 4], ErrorKind::Corruption, "version 0"),
        ("unknown feature", 12, &[4, 0, 0, 0], ErrorKind::UnsupportedFormat, "newer release"),
        ("database", 16, &[9; 8], ErrorKind::Corruption, "belongs to database"),
        ("table", 24, &[18, 0, 0, 0], ErrorKind::Corruption, "belongs to table 18"),
        ("reserved", 28, &[1], ErrorKind::Corruption, "must be zero"),
        ("sequence of the other slot", 32, &[2], ErrorKind::Corruption, "wrong slot"),
        ("image before the extents", 48, &[0; 8], ErrorKind::Corruption, "impossible image"),
        ("unaligned image", 48, &[1], ErrorKind::Corruption, "impossible image"),
        ("huge image", 56, &[0xff; 8], ErrorKind::Corruption, "impossible image"),
        ("empty image", 56, &[0; 8], ErrorKind::Corruption, "impossible image"),
        ("image checksum", 64, &[0; 8], ErrorKind::Corruption, "checksum does not match"),
        ("tail", 400, &[1], ErrorKind::Corruption, "must be zero"),
    ];
    for (name, at, value, kind, says) in cases {
        let vfs = two_checkpoints();
        let mut bytes = vfs.bytes(NAME);
        forge(&mut bytes, 1, |h| h[at..at + value.len()].copy_from_slice(value));
        vfs.set_bytes(NAME, bytes);
        let (got, message) = open_kind(&vfs, &options()).expect_err(name);
        assert_eq!(got, kind, "{name}: {message}");
        assert!(message.contains(says) && message.contains(NAME), "{name}: {message}");
    }
}

#[test]
fn an_image_elsewhere_or_of_another_length_is_refused() {
    for (name, at, value) in [
        ("behind the end", 48, (1u64 << 30).to_le_bytes()),
        ("far behind the end", 48, (1u64 << 62).to_le_bytes()),
        ("on a block", 48, 8192u64.to_le_bytes()),
        ("longer", 56, 4000u64.to_le_bytes()),
        ("longer than the file", 56, (1u64 << 29).to_le_bytes()),
        ("another sequence", 32, 5u64.to_le_bytes()),
    ] {
        let vfs = two_checkpoints();
        let mut bytes = vfs.bytes(NAME);
        forge(&mut bytes, 1, |h| h[at..at + 8].copy_from_slice(&value));
        vfs.set_bytes(NAME, bytes);
        let (kind, message) = open_kind(&vfs, &options()).expect_err(name);
        assert_eq!(kind, ErrorKind::Corruption, "{name}: {message}");
    }
}

#[test]
fn a_torn_newest_header_falls_back_and_the_gap_to_the_log_is_noticed() {
    let vfs = FaultVfs::new();
    let file = TableFile::create(&vfs, NAME, &options(), 5).unwrap();
    file.checkpoint(b"one", 10, &[]).unwrap();
    // Both images are kept, as if the crash came before the older one was reused.
    let with_one = vfs.bytes(NAME);
    file.checkpoint(b"two", 20, &[]).unwrap();
    let mut bytes = vfs.bytes(NAME);
    bytes[8192..8192 + 4096].copy_from_slice(&with_one[8192..8192 + 4096]);
    bytes[HEADER + 100] ^= 1;
    vfs.set_bytes(NAME, bytes);

    let (file, checkpoint) = TableFile::open(&vfs, NAME, &options()).unwrap();
    assert_eq!(checkpoint.unwrap().image, b"one");
    let fallback = file.fallback().expect("noted");
    assert_eq!(fallback.lsn, 10);
    assert!(fallback.reason.contains("offset 4096"), "{}", fallback.reason);
    let e = file.finish_recovery(11).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Corruption);
    file.finish_recovery(10).unwrap();
    file.checkpoint(b"two again", 21, &[]).unwrap();
    let (file, checkpoint) = TableFile::open(&vfs, NAME, &options()).unwrap();
    assert_eq!(checkpoint.unwrap().image, b"two again");
    assert!(file.fallback().is_none());
}

#[test]
fn two_bad_headers_name_the_file_and_both_offsets() {
    for (first, second) in [(100, HEADER + 100), (0, HEADER), (50, HEADER + SECTOR - 1)] {
        let vfs = two_checkpoints();
        let mut bytes = vfs.bytes(NAME);
        bytes[first] ^= 0x40;
        bytes[second] ^= 0x40;
        vfs.set_bytes(NAME, bytes);
        let (kind, message) = open_kind(&vfs, &options()).unwrap_err();
        assert_eq!(kind, ErrorKind::Corruption);
        for part in [NAME, "offset 0", "offset 4096"] {
            assert!(message.contains(part), "{message}");
        }
    }
}

#[test]
fn a_file_of_another_table_or_database_is_refused() {
    let vfs = two_checkpoints();
    for (options, says) in [
        (TableFileOptions { database: 1, ..options() }, "copied here from another database"),
        (TableFileOptions { table: TableId(3), ..options() }, "belongs to table 17"),
    ] {
        let (kind, message) = open_kind(&vfs, &options).unwrap_err();
        assert_eq!(kind, ErrorKind::Corruption);
        assert!(message.contains(says), "{message}");
    }
}

#[test]
fn short_and_foreign_files_are_refused() {
    let vfs = two_checkpoints();
    let good = vfs.bytes(NAME);
    let mut rng = Rng(9);
    for len in [0, 1, 4096, 8191] {
        vfs.set_bytes(NAME, good[..len].to_vec());
        assert_eq!(open_kind(&vfs, &options()).unwrap_err().0, ErrorKind::Corruption);
    }
    vfs.set_bytes(NAME, (0..20_000).map(|_| rng.draw() as u8).collect());
    assert_eq!(open_kind(&vfs, &options()).unwrap_err().0, ErrorKind::Corruption);
    vfs.set_bytes(NAME, good);
    open_kind(&vfs, &options()).unwrap();
}

#[test]
fn a_damaged_image_is_never_replaced_by_the_older_one() {
    let good = two_checkpoints();
    let bytes = good.bytes(NAME);
    let (file, _) = TableFile::open(&good, NAME, &options()).unwrap();
    let image = file.image_extent().unwrap();
    let mut rng = Rng(4);
    for _ in 0..300 {
        // The image is 64 bytes of front, a block map and three bytes of the caller.
        let at = image.offset as usize + rng.below(64 + 6 + 3) as usize;
        let mut bad = bytes.clone();
        bad[at] ^= 1 << rng.below(8);
        let vfs = two_checkpoints();
        vfs.set_bytes(NAME, bad);
        let (kind, message) = open_kind(&vfs, &options()).expect_err("damage is noticed");
        assert_eq!(kind, ErrorKind::Corruption);
        assert!(message.contains(&format!("offset {}", image.offset)), "{message}");
    }
}

#[test]
fn a_log_that_does_not_fit_the_file_is_refused() {
    let vfs = two_checkpoints();
    let (file, _) = TableFile::open(&vfs, NAME, &options()).unwrap();
    let taken = file.used_extents()[0];
    let kind = |r: frond_base::Result<()>| r.unwrap_err().kind();
    let at = |offset, len| Extent { offset, len };
    assert_eq!(kind(file.replay_add(taken.0, at(1 << 20, 4096))), ErrorKind::Corruption);
    assert_eq!(kind(file.replay_add(99, taken.1)), ErrorKind::Corruption);
    assert_eq!(kind(file.replay_add(u64::MAX, at(1 << 20, 4096))), ErrorKind::Corruption);
    for bad in [
        at(0, 4096),
        at(1 << 20, 0),
        at(4097, 4096),
        at(1 << 20, 5),
        at(1 << 60, 4096),
        at(u64::MAX - 4095, 8192),
    ] {
        assert_eq!(kind(file.replay_add(99, bad)), ErrorKind::Corruption, "{bad}");
    }
    assert_eq!(kind(file.replay_free(99)), ErrorKind::Corruption);
    // Fits the map but not the file: noticed at the end, as it may have been freed and cut off since.
    file.replay_add(99, at(1 << 30, 4096)).unwrap();
    assert_eq!(kind(file.finish_recovery(0)), ErrorKind::Corruption);
    file.replay_free(99).unwrap();
    file.finish_recovery(0).unwrap();
    assert!(file.next_block() > 99);
}

#[test]
fn reads_outside_a_block_are_corruption() {
    let vfs = two_checkpoints();
    let (file, _) = TableFile::open(&vfs, NAME, &options()).unwrap();
    let (block, extent) = file.used_extents()[0];
    for (block, offset, len) in [
        (block, extent.len, 1),
        (block, 0, extent.len as usize + 1),
        (block, u64::MAX, 2),
        (777, 0, 1),
    ] {
        assert_eq!(file.read(block, offset, len).unwrap_err().kind(), ErrorKind::Corruption);
    }
    let mut bytes = vfs.bytes(NAME);
    bytes.truncate(extent.offset as usize + 10);
    vfs.set_bytes(NAME, bytes);
    assert_eq!(file.read(block, 0, 100).unwrap_err().kind(), ErrorKind::Corruption);
}

#[test]
fn a_zeroed_header_after_the_first_checkpoint_is_not_taken_for_an_unused_one() {
    let vfs = FaultVfs::new();
    let file = TableFile::create(&vfs, NAME, &options(), 5).unwrap();
    file.checkpoint(b"one", 10, &[]).unwrap();
    let mut bytes = vfs.bytes(NAME);
    bytes[..HEADER].fill(0);
    vfs.set_bytes(NAME, bytes);
    let (file, checkpoint) = TableFile::open(&vfs, NAME, &options()).unwrap();
    assert!(checkpoint.is_none());
    // The log was trimmed to the checkpoint: its earlier records are gone.
    assert_eq!(file.finish_recovery(10).unwrap_err().kind(), ErrorKind::Corruption);
    file.finish_recovery(5).unwrap();
}
