//! Runs: metadata, pages, tails (fences and filter), and all of it read and merged.

use std::sync::Arc;

use frond_base::{checksum64_seeded, ByteReader, EntrySource, TableId};
use frond_run::testing::{build_run, MemSource, OwnedEntry, TestRng};
use frond_run::{
    Access, BuiltRun, Compression, Cut, KeyShape, MergeInput, MergeJob, Page, Reader, Retention,
    RunCutter, RunFormat, RunIdentity, RunIndex, RunMeta, RunScan,
};

use super::{join, refused};

const FILE: &str = "1.frd";
/// Entries that are looked at one by one: a page of constant columns has many in few bytes.
const WALK: usize = 2000;
/// A tail's checksum is seeded as that of a page of this number.
const TAIL: u32 = u32::MAX;
/// Bytes of a page's checksum, at its beginning.
const CHECKSUM: usize = 8;

const SHAPES: [&[u8]; 6] = [&[], &[8], &[1], &[4, 4], &[1, 4, 1, 4, 8], &[3, 7, 5, 8, 8]];

/// A run of one of every kind that the encoder knows, by `n`.
fn build(rng: &mut TestRng, n: u64) -> BuiltRun {
    let shape = SHAPES[rng.below(SHAPES.len() as u64) as usize];
    let format = RunFormat {
        page_bytes: 4096,
        compression: [Compression::None, Compression::None, Compression::Lz4, Compression::Zstd(1)]
            [n as usize % 4],
        key_shape: KeyShape::fixed(shape),
        filter: n.is_multiple_of(2),
    };
    let (seqs, values) = (rng.below(3), rng.below(3) * 20);
    let count = 1 + rng.below(600);
    let mut entries: Vec<OwnedEntry> = (0..count)
        .map(|i| {
            let key = match shape.len() {
                0 => format!("{}/{}", "p".repeat(rng.below(40) as usize), rng.below(1000)).into(),
                _ if rng.below(100) == 0 => b"misfit".to_vec(),
                _ => {
                    let field =
                        |w: &u8| rng.below(300).to_be_bytes()[8 - usize::from(*w)..].to_vec();
                    shape.iter().flat_map(field).collect()
                }
            };
            match rng.below(10) {
                0 => OwnedEntry::delete(key, i * seqs),
                _ => OwnedEntry::put(key, i * seqs, rng.bytes(values as usize)),
            }
        })
        .collect();
    entries.sort();
    entries.dedup_by(|a, b| a.key == b.key && (a.seq == b.seq || seqs == 0));
    build_run(&format, RunIdentity { table: TableId(1), block: 1 + n }, &entries)
}

fn built(seed: u64) -> Vec<BuiltRun> {
    let mut rng = TestRng::new(seed);
    (0..12).map(|n| build(&mut rng, n)).collect()
}

fn meta_bytes(meta: &RunMeta) -> Vec<u8> {
    let mut out = Vec::new();
    meta.encode(&mut out);
    out
}

fn tail_of(run: &BuiltRun) -> &[u8] {
    &run.bytes[run.meta.index.offset as usize..][..run.meta.index.len as usize]
}

/// The seed of a page's or tail's checksum: which page of which run it is.
fn seed_of(meta: &RunMeta, page: u32) -> u64 {
    let table = u64::from(meta.id.table.0).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let block = meta.id.block.wrapping_mul(0xc2b2_ae3d_27d4_eb4f).rotate_left(23);
    let page = (u64::from(page) + 1).wrapping_mul(0x1656_67b1_9e37_79f9).rotate_left(47);
    table ^ block ^ page
}

fn seal_page(bytes: &mut [u8], meta: &RunMeta, page: u32) {
    if bytes.len() >= CHECKSUM {
        let sum = checksum64_seeded(&bytes[CHECKSUM..], seed_of(meta, page));
        bytes[..CHECKSUM].copy_from_slice(&sum.to_le_bytes());
    }
}

pub fn metas(seed: u64) -> Vec<Vec<u8>> {
    built(seed).iter().map(|run| meta_bytes(&run.meta)).collect()
}

/// Entries that were read are equal after writing and reading them.
pub fn meta(input: &[u8]) -> bool {
    let Ok(meta) = RunMeta::decode(&mut ByteReader::new(input)) else { return false };
    let bytes = meta_bytes(&meta);
    assert_eq!(RunMeta::decode(&mut ByteReader::new(&bytes)), Ok(meta));
    true
}

/// The metadata, then one page.
pub fn pages(seed: u64) -> Vec<Vec<u8>> {
    let mut rng = TestRng::new(seed);
    let of = |run: &BuiltRun| {
        let index = RunIndex::parse(tail_of(run), &run.meta, FILE).ok()?;
        let (offset, len) = index.page_range(rng.below(u64::from(index.pages())) as u32);
        let page = &run.bytes[offset as usize..][..len as usize];
        Some([join(&[&meta_bytes(&run.meta)]), page.to_vec()].concat())
    };
    built(seed).iter().filter_map(of).collect()
}

/// The metadata behind its length, then the rest: how the inputs here begin.
fn split(input: &[u8]) -> Option<(RunMeta, Vec<u8>)> {
    let mut r = ByteReader::new(input);
    let meta = RunMeta::decode(&mut ByteReader::new(r.bytes().ok()?)).ok()?;
    Some((meta, input[r.position()..].to_vec()))
}

pub fn page(input: &[u8]) -> bool {
    let Some((meta, mut bytes)) = split(input) else { return false };
    seal_page(&mut bytes, &meta, 0);
    match Page::parse(bytes, &meta, 0, FILE) {
        Ok(page) => {
            walk(&page);
            true
        }
        Err(e) => {
            refused(&e);
            assert!(!e.to_string().contains("checksum"), "the input is sealed: {e}");
            false
        }
    }
}

fn walk(page: &Page) {
    let (mut key, n) = (Vec::new(), page.len());
    assert!(n > 0);
    let mut reader = Reader::new(page);
    for i in (0..n.min(WALK)).chain(n.saturating_sub(100)..n) {
        key.clear();
        reader.key_into(i, &mut key);
        let value = reader.value(i);
        let _ = (reader.stored_seq(i), reader.kind(i), page.value_at(value), page.key_head(i));
        let _ = reader.compare_key(i, &key);
    }
    for key in [&key[..], b"", b"\xff\xff", &[0; 40], b"p/5"] {
        assert!(page.lower_bound(key) <= n);
    }
}

/// The metadata, then the tail.
pub fn tails(seed: u64) -> Vec<Vec<u8>> {
    let of = |run: &BuiltRun| [join(&[&meta_bytes(&run.meta)]), tail_of(run).to_vec()].concat();
    built(seed).iter().map(of).collect()
}

pub fn tail(input: &[u8]) -> bool {
    let Some((mut meta, bytes)) = split(input) else { return false };
    meta.index.len = bytes.len() as u32;
    meta.index.checksum = checksum64_seeded(&bytes, seed_of(&meta, TAIL));
    match RunIndex::parse(&bytes, &meta, FILE) {
        Ok(index) => {
            ask(&index, &meta);
            true
        }
        Err(e) => {
            refused(&e);
            assert!(!e.to_string().contains("checksum"), "the input is sealed: {e}");
            false
        }
    }
}

fn ask(index: &RunIndex, meta: &RunMeta) {
    assert_eq!(index.pages(), meta.pages);
    let mut end = 0;
    for page in 0..index.pages().min(WALK as u32) {
        let (offset, len) = index.page_range(page);
        assert_eq!(offset, end, "pages lie one behind the other");
        end = offset + u64::from(len);
    }
    for key in [&meta.min_key[..], &meta.max_key[..], b"", b"\xff\xff\xff", b"p/5"] {
        assert!(index.page_for_seek(key) < index.pages());
        index.may_contain(key);
    }
}

/// The metadata, then all of the run.
pub fn runs(seed: u64) -> Vec<Vec<u8>> {
    let of = |run: &BuiltRun| [join(&[&meta_bytes(&run.meta)]), run.bytes.to_vec()].concat();
    built(seed).iter().map(of).collect()
}

pub fn whole(input: &[u8]) -> bool {
    let Some((mut meta, mut bytes)) = split(input) else { return false };
    let from = usize::try_from(meta.index.offset).unwrap_or(usize::MAX);
    let to = from.saturating_add(meta.index.len as usize);
    let Some(tail) = bytes.get(from..to) else { return false };
    meta.index.checksum = checksum64_seeded(tail, seed_of(&meta, TAIL));
    if let Ok(index) = RunIndex::parse(tail, &meta, FILE) {
        for page in 0..index.pages() {
            let (offset, len) = index.page_range(page);
            seal_page(&mut bytes[offset as usize..][..len as usize], &meta, page);
        }
    }
    let mut sound = true;
    for outcome in [
        scan(&meta, &bytes, b"", None),
        scan(&meta, &bytes, b"p/5", Some(b"z")),
        merge(&meta, &bytes),
    ] {
        if let Err(e) = outcome {
            refused(&e);
            assert!(!e.to_string().contains("checksum"), "the input is sealed: {e}");
            sound = false;
        }
    }
    sound
}

fn open(
    meta: &RunMeta,
    bytes: &[u8],
    lo: &[u8],
    hi: Option<&[u8]>,
) -> frond_base::Result<RunScan<MemSource>> {
    let source = Arc::new(MemSource::new());
    let run = source.add(BuiltRun { bytes: bytes.into(), meta: meta.clone() });
    RunScan::new(source, run, lo, hi, Access::Merge)
}

fn scan(meta: &RunMeta, bytes: &[u8], lo: &[u8], hi: Option<&[u8]>) -> frond_base::Result<()> {
    let mut scan = open(meta, bytes, lo, hi)?;
    let mut left = 20 * WALK;
    while scan.valid() && left > 0 {
        let entry = scan.entry();
        std::hint::black_box((entry.key.len(), entry.value.len()));
        scan.advance()?;
        left -= 1;
    }
    Ok(())
}

fn merge(meta: &RunMeta, bytes: &[u8]) -> frond_base::Result<()> {
    let format = RunFormat {
        page_bytes: 4096,
        compression: Compression::None,
        key_shape: meta.shape,
        filter: false,
    };
    let cut = Cut { target_bytes: 10_000, boundaries: vec![b"m"[..].into()] };
    let cutter = RunCutter::new(&format, TableId(1), cut, Box::new(|| 1));
    let scan = MergeInput::run(open(meta, bytes, b"", None)?);
    let mut job = MergeJob::new(vec![scan], Retention::newest(50, true), cutter)?;
    let mut left = 20;
    while !job.step(WALK)? && left > 0 {
        left -= 1;
    }
    Ok(())
}
