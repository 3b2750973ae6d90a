//! Pages, scans and searches return the entries that were pushed into a builder.

use frond_run::testing::{build_run, drain, MemSource, OwnedEntry, TestRng};
use frond_run::{Compression, KeyShape, PageSource, Run, RunFormat, RunIndex, RunMeta, RunScan};
use std::sync::Arc;

use crate::data::{entries_of, id, pages, random_entries, random_format, random_mix, MERGE};

#[test]
fn runs_of_random_shapes_give_back_their_entries() {
    let mut rng = TestRng::new(1);
    for round in 0..250 {
        let (format, mix) = (random_format(&mut rng), random_mix(&mut rng));
        let n = [1, 2, 17, 128, 129, 3000][rng.below(6) as usize];
        let entries = random_entries(&mut rng, &format.key_shape, &mix, n);
        let built = build_run(&format, id(round), &entries);
        let what = format!("round {round}, {format:?}, {mix:?}");
        assert_eq!(built.bytes.len() % 4096, 0);
        assert_eq!(built.meta.entries, entries.len() as u64, "{what}");
        assert_eq!(*built.meta.min_key, entries[0].key[..]);
        assert_eq!(*built.meta.max_key, entries[entries.len() - 1].key[..]);
        assert_eq!(built.meta.max_seq, entries.iter().map(|e| e.seq).max().unwrap());
        let deletes = entries.iter().filter(|e| e.kind == crate::data::DELETE).count();
        assert_eq!(built.meta.tombstones, deletes as u64);

        let bytes = built.bytes.clone();
        let source = Arc::new(MemSource::new());
        let run = source.add(built);
        let index = source.index(&run).unwrap();
        let pages = pages(&run, &index, &bytes).unwrap();
        let read: Vec<OwnedEntry> = pages.iter().flat_map(|p| entries_of(p)).collect();
        assert_eq!(read, entries, "{what}");
        let mut scan = RunScan::new(source.clone(), run.clone(), b"", None, MERGE).unwrap();
        assert_eq!(drain(&mut scan).unwrap(), entries, "{what}");

        for _ in 0..50 {
            let from = rng.below(entries.len() as u64) as usize;
            let mut key = entries[from].key.clone();
            match rng.below(4) {
                0 => key.push(0),
                1 => drop(key.pop()),
                2 => key[0] = key[0].wrapping_add(1),
                _ => {}
            }
            let expect = entries.partition_point(|e| e.key < key);
            let page = index.page_for_seek(&key);
            let before: usize = pages[..page as usize].iter().map(|p| p.len()).sum();
            let at = before + pages[page as usize].lower_bound(&key);
            assert_eq!(at, expect, "{what}: seek {key:?}");
            if expect < entries.len() && entries[expect].key == key {
                assert!(index.may_contain(&key), "{what}: filter denies {key:?}");
            }
            let hi = entries[rng.below(entries.len() as u64) as usize].key.clone();
            let end = entries.partition_point(|e| e.key < hi).max(expect);
            let scan = RunScan::new(source.clone(), run.clone(), &key, Some(&hi), MERGE);
            let got = drain(&mut scan.unwrap()).unwrap();
            assert_eq!(got, entries[expect..end], "{what}: scan {key:?}..{hi:?}");
        }
    }
}

#[test]
fn metadata_round_trip_and_cuts_are_refused() {
    let mut rng = TestRng::new(2);
    for _ in 0..50 {
        let (format, mix) = (random_format(&mut rng), random_mix(&mut rng));
        let entries = random_entries(&mut rng, &format.key_shape, &mix, 40);
        let meta = build_run(&format, id(rng.next_u64()), &entries).meta;
        let mut out = Vec::new();
        meta.encode(&mut out);
        let mut r = frond_base::ByteReader::new(&out);
        assert_eq!(RunMeta::decode(&mut r), Ok(meta));
        assert_eq!(r.remaining(), 0);
        for cut in 0..out.len() {
            assert!(RunMeta::decode(&mut frond_base::ByteReader::new(&out[..cut])).is_err());
        }
    }
}

#[test]
fn entries_of_a_run_of_one_sequence_have_it_whatever_the_pages_say() {
    let mut rng = TestRng::new(4);
    let key_shape = KeyShape::fixed(&[8]);
    let compression = Compression::Lz4;
    let format = RunFormat { page_bytes: 4096, compression, key_shape, filter: true };
    let entries: Vec<OwnedEntry> =
        (0u64..3_000).map(|i| OwnedEntry::put(i.to_be_bytes(), 0, rng.bytes(9))).collect();
    let built = build_run(&format, id(1), &entries);
    let (plain, one) = (built.meta.clone(), built.meta.clone().committed_at(77));
    assert!(!plain.is_after(0) && one.is_after(76) && !one.is_after(77));
    let mut out = Vec::new();
    one.encode(&mut out);
    let decoded = RunMeta::decode(&mut frond_base::ByteReader::new(&out)).unwrap();
    assert_eq!(decoded, one);
    // A run of one sequence has one.
    out.clear();
    RunMeta { max_seq: 0, ..one.clone() }.encode(&mut out);
    assert!(RunMeta::decode(&mut frond_base::ByteReader::new(&out)).is_err());

    let source = Arc::new(MemSource::new());
    let run = source.add(frond_run::BuiltRun { meta: one, bytes: built.bytes });
    let mut scan = RunScan::new(source, run, &[], None, MERGE).unwrap();
    let expected: Vec<OwnedEntry> =
        entries.iter().map(|e| OwnedEntry { seq: 77, ..e.clone() }).collect();
    assert_eq!(drain(&mut scan).unwrap(), expected);
}

#[test]
fn oversized_values_get_pages_of_their_own() {
    for compression in [Compression::None, Compression::Lz4, Compression::Zstd(1)] {
        let key_shape = KeyShape::fixed(&[8]);
        let format = RunFormat { page_bytes: 4096, compression, key_shape, filter: true };
        let mut rng = TestRng::new(3);
        let entries: Vec<OwnedEntry> = (0u64..40)
            .map(|i| {
                let value = if i % 3 == 0 { rng.bytes(300_000) } else { rng.bytes(20) };
                OwnedEntry::put(i.to_be_bytes(), i, value)
            })
            .collect();
        let built = build_run(&format, id(1), &entries);
        assert!(built.meta.pages >= 14, "{} pages", built.meta.pages);
        let bytes = built.bytes.clone();
        let tail = built.meta.index;
        let tail = &bytes[tail.offset as usize..][..tail.len as usize];
        let index = RunIndex::parse(tail, &built.meta, "test").unwrap();
        let run = Run::new(built.meta);
        let pages = pages(&run, &index, &bytes).unwrap();
        let read: Vec<OwnedEntry> = pages.iter().flat_map(|p| entries_of(p)).collect();
        assert_eq!(read, entries);
    }
}

#[test]
fn versions_of_a_key_that_span_pages_are_found_from_the_newest() {
    let key_shape = KeyShape::fixed(&[4]);
    let format =
        RunFormat { page_bytes: 4096, compression: Compression::None, key_shape, filter: false };
    let mut entries = vec![OwnedEntry::put([0, 0, 0, 1], 5, [])];
    entries.extend((1..5000).rev().map(|seq| OwnedEntry::put([0, 0, 0, 2], seq, [])));
    entries.push(OwnedEntry::put([0, 0, 0, 3], 7, []));
    let source = Arc::new(MemSource::new());
    let run = source.add(build_run(&format, id(9), &entries));
    assert!(run.meta.pages > 3);
    let mut scan = RunScan::new(source, run, &[0, 0, 0, 2], Some(&[0, 0, 0, 3]), MERGE).unwrap();
    assert_eq!(drain(&mut scan).unwrap(), entries[1..5000]);
}

#[test]
#[should_panic(expected = "in order")]
fn builders_refuse_entries_out_of_order() {
    let entries = [OwnedEntry::put(*b"b", 0, []), OwnedEntry::put(*b"a", 0, [])];
    let key_shape = KeyShape::variable();
    let format =
        RunFormat { page_bytes: 4096, compression: Compression::None, key_shape, filter: false };
    build_run(&format, id(1), &entries);
}
