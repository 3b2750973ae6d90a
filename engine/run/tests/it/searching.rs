//! Searches in a page give what a plain bisection over its decoded keys gives.

use frond_run::testing::{build_run, MemSource, OwnedEntry, TestRng};
use frond_run::{KeyShape, PageSource, Reader};

use crate::data::{entries_of, id, pages, random_format, random_key, random_mix, Mix};

/// Entries whose keys have runs of versions that go over the ends of groups, and runs of keys that differ in
/// their last column only.
fn entries(rng: &mut TestRng, shape: &KeyShape, mix: &Mix, n: usize) -> Vec<OwnedEntry> {
    let mut out: Vec<OwnedEntry> = Vec::new();
    while out.len() < n {
        let mut key = random_key(rng, shape, mix);
        for _ in 0..[1, 1, 2, 40, 300][rng.below(5) as usize] {
            match rng.below(4) {
                0 => out.push(OwnedEntry::put(key.clone(), 0, [])),
                1 => {
                    // The next key of the same length, if there is one.
                    let Some(at) = key.iter().rposition(|b| *b < u8::MAX) else { break };
                    key[at] += 1;
                    key[at + 1..].fill(0);
                    out.push(OwnedEntry::put(key.clone(), 0, []));
                }
                _ => out.push(OwnedEntry::put(key.clone(), 1 + rng.below(10_000), [])),
            }
        }
    }
    out.sort();
    out.dedup_by(|a, b| a.key == b.key && a.seq == b.seq);
    out
}

/// Keys around one of the page.
fn near(rng: &mut TestRng, key: &[u8]) -> Vec<u8> {
    let mut key = key.to_vec();
    match rng.below(8) {
        0 => key.push(rng.next_u64() as u8),
        1 => key.truncate(rng.below(key.len() as u64 + 1) as usize),
        2 => {
            let at = rng.below(key.len() as u64) as usize;
            key[at] = key[at].wrapping_add(1);
        }
        3 => {
            let at = rng.below(key.len() as u64) as usize;
            key[at] = key[at].wrapping_sub(1);
        }
        4 => key = rng.bytes(12),
        _ => {}
    }
    key
}

#[test]
fn searches_agree_with_a_plain_bisection_wherever_they_begin() {
    let mut rng = TestRng::new(31);
    let (mut fixed, mut variable, mut groups) = (0, 0, 0);
    for round in 0..120 {
        let (format, mix) = (random_format(&mut rng), random_mix(&mut rng));
        let n = [1, 5, 127, 128, 129, 256, 2000][rng.below(7) as usize];
        let all = entries(&mut rng, &format.key_shape, &mix, n);
        let built = build_run(&format, id(round), &all);
        let bytes = built.bytes.clone();
        let source = MemSource::new();
        let run = source.add(built);
        let index = source.index(&run).unwrap();
        for page in pages(&run, &index, &bytes).unwrap() {
            let keys: Vec<Vec<u8>> = entries_of(&page).into_iter().map(|e| e.key).collect();
            let mut reader = Reader::new(&*page);
            groups = groups.max(keys.len() / 128);
            *if format.key_shape.is_variable() { &mut variable } else { &mut fixed } += 1;
            for _ in 0..60 {
                let at = rng.below(keys.len() as u64) as usize;
                let key = near(&mut rng, &keys[at]);
                let plain = keys.partition_point(|k| *k < key);
                let from = match rng.below(4) {
                    0 => 0,
                    1 => rng.below(keys.len() as u64 + 1) as usize,
                    _ => plain.saturating_sub(rng.below(10) as usize),
                };
                let what = format!("round {round}, {format:?}, {mix:?}: {key:?} from {from}");
                assert_eq!(reader.lower_bound(&key, from), plain.max(from), "{what}");
                assert_eq!(page.lower_bound(&key), plain, "{what}");
                // The reader goes on with other entries.
                assert!(reader.compare_key(at, &keys[at]).is_eq(), "{what}");
            }
        }
    }
    assert!(fixed > 100 && variable > 10 && groups > 10, "{fixed} {variable} {groups}");
}
