//! Bytes that differ from those written.

use std::sync::Arc;

use frond_base::{checksum64_seeded, ErrorKind};
use frond_run::testing::{build_run, drain, MemSource, OwnedEntry, TestRng};
use frond_run::{
    BuiltRun, Cut, MergeInput, MergeJob, Page, Retention, RunCutter, RunIndex, RunScan,
};

use crate::data::{entries_of, id, random_entries, random_format, random_mix, MERGE};

/// Reads a run in every way. `Ok` only if everything verified.
fn read_all(built: BuiltRun) -> frond_base::Result<Vec<OwnedEntry>> {
    let source = Arc::new(MemSource::new());
    let run = source.add(built);
    let mut scan = RunScan::new(source.clone(), run.clone(), b"", None, MERGE)?;
    let entries = drain(&mut scan)?;
    let scan = RunScan::new(source, run, b"b", Some(b"x"), MERGE)?;
    let format = frond_run::RunFormat {
        page_bytes: 4096,
        compression: frond_run::Compression::None,
        key_shape: frond_run::KeyShape::fixed(&[1, 4, 1, 4, 8]),
        filter: false,
    };
    let table = frond_base::TableId(1);
    let cut = Cut { target_bytes: 10_000, boundaries: vec![b"m"[..].into()] };
    let cutter = RunCutter::new(&format, table, cut, Box::new(|| 1));
    let mut job = MergeJob::new(vec![MergeInput::run(scan)], Retention::newest(50, true), cutter)?;
    while !job.step(1000)? {}
    Ok(entries)
}

#[test]
fn every_flipped_bit_is_an_error_or_harmless() {
    let mut rng = TestRng::new(21);
    for round in 0..12 {
        let (format, mix) = (random_format(&mut rng), random_mix(&mut rng));
        let entries = random_entries(&mut rng, &format.key_shape, &mix, 60);
        let built = build_run(&format, id(round), &entries);
        let used = built.meta.index.offset as usize + built.meta.index.len as usize;
        for at in (0..built.bytes.len()).step_by(if built.bytes.len() > 8192 { 7 } else { 1 }) {
            let mut bytes = built.bytes.clone();
            bytes[at] ^= 1 << rng.below(8);
            match read_all(BuiltRun { bytes, meta: built.meta.clone() }) {
                Ok(read) => assert!(at >= used && read == entries, "byte {at} was not noticed"),
                Err(e) => assert_eq!(e.kind(), ErrorKind::Corruption),
            }
        }
    }
}

/// The checksum seed of a page, found by trying: part of the format, so it is spelt out here.
fn seed(table: u64, block: u64, page: u64) -> u64 {
    table.wrapping_mul(0x9e37_79b9_7f4a_7c15)
        ^ block.wrapping_mul(0xc2b2_ae3d_27d4_eb4f).rotate_left(23)
        ^ (page + 1).wrapping_mul(0x1656_67b1_9e37_79f9).rotate_left(47)
}

#[test]
fn forged_pages_with_good_checksums_never_panic() {
    let mut rng = TestRng::new(22);
    let (mut refused, mut accepted) = (0, 0);
    for round in 0..40 {
        let (mut format, mix) = (random_format(&mut rng), random_mix(&mut rng));
        if rng.below(2) == 0 {
            format.compression = frond_run::Compression::None;
        }
        let entries = random_entries(&mut rng, &format.key_shape, &mix, 300);
        let built = build_run(&format, id(round), &entries);
        let tail = built.meta.index;
        let tail = &built.bytes[tail.offset as usize..][..tail.len as usize];
        let index = RunIndex::parse(tail, &built.meta, "test").unwrap();
        for _ in 0..300 {
            let page = rng.below(u64::from(index.pages())) as u32;
            let (offset, len) = index.page_range(page);
            let (from, to) = (offset as usize, offset as usize + len as usize);
            let mut bytes = built.bytes.clone();
            for _ in 0..1 + rng.below(3) {
                // Mostly where lengths, widths and offsets are.
                let reach = if rng.below(3) > 0 { 120.min(len as u64 - 8) } else { len as u64 - 8 };
                let at = from + 8 + rng.below(reach) as usize;
                bytes[at] = match rng.below(4) {
                    0 => 0xff,
                    1 => 0,
                    2 => bytes[at] ^ (1 << rng.below(8)),
                    _ => rng.next_u64() as u8,
                };
            }
            let checksum = checksum64_seeded(&bytes[from + 8..to], seed(17, round, page.into()));
            bytes[from..from + 8].copy_from_slice(&checksum.to_le_bytes());
            match Page::parse(&bytes[from..to], &built.meta, page, "test") {
                Ok(page) => {
                    accepted += 1;
                    for e in entries_of(&page) {
                        assert!(page.lower_bound(&e.key) <= page.len());
                    }
                }
                Err(e) => {
                    refused += 1;
                    assert_eq!(e.kind(), ErrorKind::Corruption, "{e}");
                }
            }
            if let Err(e) = read_all(BuiltRun { bytes, meta: built.meta.clone() }) {
                assert_eq!(e.kind(), ErrorKind::Corruption, "{e}");
            }
        }
    }
    assert!(refused > 1000 && accepted > 1000, "{refused} refused, {accepted} accepted");
}

#[test]
fn forged_fences_with_good_checksums_never_panic() {
    let mut rng = TestRng::new(23);
    for round in 0..60 {
        let (mut format, mix) = (random_format(&mut rng), random_mix(&mut rng));
        format.page_bytes = 4096;
        let entries = random_entries(&mut rng, &format.key_shape, &mix, 1500);
        let built = build_run(&format, id(round), &entries);
        let (from, len) = (built.meta.index.offset as usize, built.meta.index.len as usize);
        for _ in 0..100 {
            let (mut bytes, mut meta) = (built.bytes.clone(), built.meta.clone());
            for _ in 0..1 + rng.below(3) {
                bytes[from + rng.below(len as u64) as usize] = rng.next_u64() as u8;
            }
            meta.index.checksum =
                checksum64_seeded(&bytes[from..from + len], seed(17, round, (1 << 32) - 1));
            if let Err(e) = read_all(BuiltRun { bytes, meta }) {
                assert_eq!(e.kind(), ErrorKind::Corruption, "{e}");
            }
        }
    }
}

#[test]
fn fences_that_share_everything_take_memory_in_proportion_to_the_tail() {
    let format = frond_run::RunFormat {
        page_bytes: 4096,
        compression: frond_run::Compression::None,
        key_shape: frond_run::KeyShape::variable(),
        filter: false,
    };
    let key = vec![b'k'; 3500];
    let mut meta = build_run(&format, id(1), &[OwnedEntry::put(key.clone(), 0, [])]).meta;
    // Four bytes a fence; each stands for 3500.
    let pages = 100_000u32;
    let (mut fences, mut tail) = (Vec::new(), Vec::new());
    for page in 0..pages {
        let shared = if page == 0 { 0 } else { key.len() };
        frond_base::put_varint(&mut fences, shared as u64);
        frond_base::put_bytes(&mut fences, &key[shared..]);
        fences.push(2);
    }
    frond_base::put_varint(&mut tail, u64::from(pages));
    frond_base::put_bytes(&mut tail, &fences);
    (meta.pages, meta.entries) = (pages, u64::from(pages));
    meta.index.offset = u64::from(pages);
    meta.index.len = tail.len() as u32;
    meta.index.checksum = checksum64_seeded(&tail, seed(17, 1, (1 << 32) - 1));
    let index = RunIndex::parse(&tail, &meta, "test").unwrap();
    let memory = index.memory_bytes();
    assert!(memory < 12 * tail.len(), "{memory} bytes for a tail of {}", tail.len());
    assert_eq!(&*index.fence(pages - 1), &key[..]);
}

#[test]
fn fences_of_long_keys_begin_the_first_keys_of_their_pages() {
    let mut rng = TestRng::new(25);
    for prefix in [0, 100, 1000, 3400] {
        let mut format = random_format(&mut rng);
        (format.page_bytes, format.key_shape) = (4096, frond_run::KeyShape::variable());
        let mut keys: Vec<Vec<u8>> = (0..1500)
            .map(|_| {
                let shared = prefix - rng.below(1 + prefix / 10);
                let rest = format!("{}", rng.below(100_000));
                [vec![b'p'; shared as usize], rest.into_bytes()].concat()
            })
            .collect();
        keys.sort();
        keys.dedup();
        let entries: Vec<_> = keys.iter().map(|k| OwnedEntry::put(k.clone(), 0, [7])).collect();
        let built = build_run(&format, id(1), &entries);
        let tail = built.meta.index;
        let tail = &built.bytes[tail.offset as usize..][..tail.len as usize];
        let index = RunIndex::parse(tail, &built.meta, "test").unwrap();
        assert!(index.memory_bytes() < 12 * tail.len() + 1000);
        let (mut first, mut pages) = (0, 0);
        for number in 0..index.pages() {
            let (offset, len) = index.page_range(number);
            let bytes = built.bytes[offset as usize..][..len as usize].to_vec();
            let page = Page::parse(bytes, &built.meta, number, "test").unwrap();
            let fence = index.fence(number);
            let whole = fence.len() == keys[first].len() || keys[first].len() > 1024;
            assert!(whole && keys[first].starts_with(&fence), "page {number}");
            assert!(first == 0 || *fence > *keys[first - 1], "page {number}");
            assert_eq!(index.page_for_seek(&keys[first]), number);
            (first, pages) = (first + page.len(), pages + 1);
        }
        assert!(first == keys.len() && pages > 1);
        assert_eq!(read_all(built).unwrap().len(), keys.len());
    }
}

#[test]
fn a_page_in_the_wrong_place_does_not_verify() {
    let mut rng = TestRng::new(24);
    let format = frond_run::RunFormat {
        page_bytes: 4096,
        compression: frond_run::Compression::None,
        key_shape: frond_run::KeyShape::fixed(&[8]),
        filter: false,
    };
    let entries: Vec<OwnedEntry> =
        (0u64..4000).map(|i| OwnedEntry::put(i.to_be_bytes(), 0, rng.bytes(8))).collect();
    let built = build_run(&format, id(5), &entries);
    let tail = built.meta.index;
    let tail = &built.bytes[tail.offset as usize..][..tail.len as usize];
    let index = RunIndex::parse(tail, &built.meta, "test").unwrap();
    let (offset, len) = index.page_range(2);
    let bytes = built.bytes[offset as usize..][..len as usize].to_vec();
    assert!(Page::parse(bytes.clone(), &built.meta, 2, "test").is_ok());
    assert!(Page::parse(bytes.clone(), &built.meta, 3, "test").is_err());
    let mut other = built.meta.clone();
    other.id.block += 1;
    assert!(Page::parse(bytes.clone(), &other, 2, "test").is_err());
    other.id = built.meta.id;
    other.id.table.0 += 1;
    let error = Page::parse(bytes, &other, 2, "17.frd").err().unwrap();
    assert!(error.to_string().contains("17.frd: block 5, page 2: checksum"), "{error}");
}
