//! Keys beyond a page, up to the longest: random ones against the list that they came from, and what fences
//! keep of them.

use std::sync::Arc;

use frond_base::EntryKind;
use frond_run::testing::{build_run, drain, MemSource, OwnedEntry, TestRng};
use frond_run::{KeyShape, PageSource, RunFormat, RunScan, MAX_KEY};

use crate::data::{entries_of, id, pages, random_format, MERGE};

const LENGTHS: [usize; 8] = [1, 40, 3501, 4096, 20_000, 65_535, 65_536, MAX_KEY];

/// Keys of these lengths that share all but their end, all but their middle, or nothing.
fn random_key(rng: &mut TestRng, longest: usize) -> Vec<u8> {
    let length = LENGTHS[rng.below(longest as u64) as usize];
    let mut key = vec![b'k'; length];
    let at = [length - 1, length / 2, 0][rng.below(3) as usize];
    key[at] = rng.below(256) as u8;
    key
}

fn random_entries(rng: &mut TestRng, n: usize, longest: usize) -> Vec<OwnedEntry> {
    let mut entries: Vec<OwnedEntry> = Vec::new();
    while entries.len() < n {
        let key = random_key(rng, longest);
        for seq in 0..1 + rng.below(3) {
            let value_bytes = [0, 7, 5000][rng.below(3) as usize];
            let value = rng.bytes(value_bytes);
            let kind = if rng.below(5) == 0 { EntryKind::Delete } else { EntryKind::Put };
            let value = if kind == EntryKind::Put { value } else { Vec::new() };
            entries.push(OwnedEntry { key: key.clone(), seq: seq + 1, kind, value });
        }
    }
    entries.sort_by(|a, b| a.key.cmp(&b.key).then(b.seq.cmp(&a.seq)));
    entries.dedup_by(|a, b| a.key == b.key && a.seq == b.seq);
    entries
}

#[test]
fn runs_of_long_keys_give_back_their_entries() {
    let mut rng = TestRng::new(21);
    for round in 0..40 {
        let format = random_format(&mut rng);
        // The longest are few: their runs are large.
        let (n, longest) = [(300, 5), (60, 7), (12, 8)][round as usize % 3];
        let entries = random_entries(&mut rng, n, longest);
        let built = build_run(&format, id(round), &entries);
        let bytes = built.bytes.clone();
        let source = Arc::new(MemSource::new());
        let run = source.add(built);
        let index = source.index(&run).unwrap();
        let pages = pages(&run, &index, &bytes).unwrap();
        let read: Vec<OwnedEntry> = pages.iter().flat_map(|p| entries_of(p)).collect();
        assert!(read == entries, "round {round}, {format:?}");
        for _ in 0..60 {
            let key = random_key(&mut rng, longest);
            let expect = entries.partition_point(|e| e.key < key);
            let page = index.page_for_seek(&key);
            let before: usize = pages[..page as usize].iter().map(|p| p.len()).sum();
            let at = before + pages[page as usize].lower_bound(&key);
            assert_eq!(at, expect, "round {round}, {format:?}: a key of {} bytes", key.len());
            let hi = random_key(&mut rng, longest);
            let end = entries.partition_point(|e| e.key < hi).max(expect);
            let scan = RunScan::new(source.clone(), run.clone(), &key, Some(&hi), MERGE);
            let got = drain(&mut scan.unwrap()).unwrap();
            assert!(got == entries[expect..end], "round {round}, {format:?}");
        }
    }
}

#[test]
fn fences_keep_of_long_keys_what_tells_them_apart() {
    let mut rng = TestRng::new(22);
    let mut keys: Vec<Vec<u8>> = (0..200).map(|_| rng.bytes(30_000)).collect();
    keys.sort();
    let entries: Vec<_> = keys.into_iter().map(|key| OwnedEntry::put(key, 1, [1])).collect();
    let format =
        RunFormat { page_bytes: 4096, key_shape: KeyShape::variable(), ..random_format(&mut rng) };
    let source = Arc::new(MemSource::new());
    let run = source.add(build_run(&format, id(1), &entries));
    let index = source.index(&run).unwrap();
    assert_eq!(index.pages(), 200);
    // The first is whole.
    assert!(index.memory_bytes() < 30_000 + 200 * 100 + 1000, "{}", index.memory_bytes());
    let mut scan = RunScan::new(source, run, b"", None, MERGE).unwrap();
    assert!(drain(&mut scan).unwrap() == entries);
}
