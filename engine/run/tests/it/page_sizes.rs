//! How large pages become, by how well their entries compress.

use frond_run::testing::{build_run, OwnedEntry, TestRng};
use frond_run::{Compression, KeyShape, RunFormat};

use crate::data::id;

const BOTH: [Compression; 2] = [Compression::Lz4, Compression::Zstd(3)];

#[test]
fn pages_of_entries_that_do_not_compress_have_a_quarter_of_the_bytes_but_not_less_than_four_thousand(
) {
    let key_shape = KeyShape::fixed(&[8]);
    let mut rng = TestRng::new(4);
    let put = |i: u64, value: Vec<u8>| OwnedEntry::put(i.to_be_bytes(), i, value);
    let noise: Vec<OwnedEntry> = (0..8000).map(|i| put(i, rng.bytes(92))).collect();
    let text: Vec<OwnedEntry> = (0..8000).map(|i| put(i, vec![b'x'; 92])).collect();
    let page_of = |page_bytes: u32, entries: &[OwnedEntry]| {
        let format =
            RunFormat { page_bytes, compression: Compression::Lz4, key_shape, filter: false };
        100 * entries.len() as u32 / build_run(&format, id(1), entries).meta.pages
    };
    for (page_bytes, of_noise) in [(65536, 16384), (16384, 4096), (8192, 4096), (4096, 4096)] {
        let (noise, text) = (page_of(page_bytes, &noise), page_of(page_bytes, &text));
        assert!((of_noise * 9 / 10..of_noise * 11 / 10).contains(&noise), "{noise}");
        assert!((page_bytes * 9 / 10..page_bytes * 11 / 10).contains(&text), "{text}");
    }
    // One stretch of a run may be noise and the next one text.
    let mut mixed = noise[..4000].to_vec();
    mixed.extend_from_slice(&text[4000..]);
    // 4000 entries in pages of 4100 and 4000 of 16 400 bytes.
    assert!((6000..7200).contains(&page_of(16384, &mixed)), "{}", page_of(16384, &mixed));
}

/// Rows of kinds: those of a kind are alike but for a tenth. Small pages have no two of a kind.
#[test]
fn a_run_that_meets_noise_is_compressed_behind_it() {
    for (kinds, len) in [(1u64, 4200usize), (1, 6000), (2, 2100), (3, 1400), (4, 1100), (8, 700)] {
        let mut rng = TestRng::new(4);
        let like: Vec<Vec<u8>> = (0..kinds).map(|_| rng.bytes(len - len / 10)).collect();
        let clean: Vec<OwnedEntry> = (0..3_000_000 / len as u64)
            .map(|i| {
                let value = [&like[(i % kinds) as usize][..], &rng.bytes(len / 10)].concat();
                OwnedEntry::put(i.to_be_bytes(), i, value)
            })
            .collect();
        let mut noisy = clean.clone();
        noisy.iter_mut().take(16_400 / len + 1).for_each(|e| e.value = rng.bytes(len));
        for compression in BOTH {
            let (clean, noisy) = (stored(compression, &clean), stored(compression, &noisy));
            assert!(noisy < clean + clean / 8, "rows of {len}, {kinds} kinds: {clean}, {noisy}");
        }
    }
}

/// Samples of small pages hold two rows that are alike, a large page none.
#[test]
fn samples_that_mislead_are_taken_less_often() {
    let mut rng = TestRng::new(4);
    let like: Vec<Vec<u8>> = (0..5).map(|_| rng.bytes(3900)).collect();
    let value = |i: u64, rng: &mut TestRng| match i < 5 {
        true => rng.bytes(3900),
        false => like[(i % 5) as usize].clone(),
    };
    let entries: Vec<OwnedEntry> =
        (0..3000u64).map(|i| OwnedEntry::put(i.to_be_bytes(), i, value(i, &mut rng))).collect();
    let key_shape = KeyShape::fixed(&[8]);
    for compression in BOTH {
        let format = RunFormat { page_bytes: 16384, compression, key_shape, filter: false };
        let meta = build_run(&format, id(1), &entries).meta;
        let each = meta.logical_bytes / u64::from(meta.pages);
        assert!(each < 9000, "{each}");
    }
}

/// A key that made pages small says nothing of later ones.
#[test]
fn fences_of_long_keys_behind_short_ones_take_little() {
    let mut rng = TestRng::new(4);
    let mut keys: Vec<Vec<u8>> =
        (0..6000).map(|i| rng.bytes(if i < 400 { 9 } else { 200 })).collect();
    keys.iter_mut().for_each(|k| k[0] = u8::from(k.len() > 9));
    keys.sort_unstable();
    let entries: Vec<OwnedEntry> =
        keys.into_iter().enumerate().map(|(i, k)| OwnedEntry::put(k, i as u64, [])).collect();
    let key_shape = KeyShape::variable();
    let compression = Compression::Lz4;
    let format = RunFormat { page_bytes: 16384, compression, key_shape, filter: false };
    let meta = build_run(&format, id(1), &entries).meta;
    let each = meta.logical_bytes / u64::from(meta.pages);
    assert!(each > 13_000, "{each}");
}

#[test]
fn large_values_between_texts_leave_the_texts_compressed() {
    let mut rng = TestRng::new(4);
    let like: Vec<Vec<u8>> = (0..8).map(|_| rng.bytes(630)).collect();
    let mut entry = |i: u64| {
        let value = match i % 500 {
            7 => rng.bytes(20_000),
            _ => [&like[(i % 8) as usize][..], &rng.bytes(70)].concat(),
        };
        OwnedEntry::put(i.to_be_bytes(), i, value)
    };
    let entries: Vec<OwnedEntry> = (0..12_000).map(&mut entry).collect();
    for compression in BOTH {
        let stored = stored(compression, &entries);
        assert!(stored < 9_000_000 * 6 / 10, "{stored}");
    }
}

/// Pages of long keys are not so small that their fences take more than a sixtieth of them, as far as the format's size allows.
#[test]
fn fences_of_long_keys_take_little() {
    let mut rng = TestRng::new(4);
    for (key, page) in [(8, 4096), (64, 64 * 89), (200, 64 * 225), (400, 16384)] {
        let mut keys: Vec<Vec<u8>> = (0..2_000_000 / key).map(|_| rng.bytes(key)).collect();
        keys.sort_unstable();
        let entries: Vec<OwnedEntry> =
            keys.into_iter().enumerate().map(|(i, k)| OwnedEntry::put(k, i as u64, [])).collect();
        let key_shape = KeyShape::variable();
        let format = RunFormat {
            page_bytes: 16384,
            compression: Compression::Lz4,
            key_shape,
            filter: false,
        };
        let meta = build_run(&format, id(1), &entries).meta;
        let each = meta.logical_bytes as usize / meta.pages as usize;
        assert!((page * 9 / 10..page * 12 / 10).contains(&each), "keys of {key}: {each}");
    }
}

fn stored(compression: Compression, entries: &[OwnedEntry]) -> u64 {
    let key_shape = KeyShape::fixed(&[8]);
    let format = RunFormat { page_bytes: 16384, compression, key_shape, filter: false };
    build_run(&format, id(1), entries).meta.bytes
}

#[test]
fn lz4_is_left_out_only_where_pages_in_a_row_hardly_compress() {
    let mut rng = TestRng::new(9);
    let key_shape = KeyShape::fixed(&[8]);
    let format =
        |compression| RunFormat { page_bytes: 4096, compression, key_shape, filter: false };
    // About 64 entries a page; `random` says which hundreds of them do not compress.
    let mut bytes_of = |random: &dyn Fn(u64) -> bool| {
        let value = |i: u64, rng: &mut TestRng| match random(i / 100) {
            true => rng.bytes(56),
            false => vec![b'a'; 56],
        };
        let entries: Vec<OwnedEntry> = (0u64..20_000)
            .map(|i| OwnedEntry::put(i.to_be_bytes(), 0, value(i, &mut rng)))
            .collect();
        let bytes = |compression| build_run(&format(compression), id(1), &entries).bytes.len();
        (bytes(Compression::Lz4), bytes(Compression::None))
    };
    let (all, plain) = bytes_of(&|_| true);
    assert!(all.abs_diff(plain) <= plain / 50, "{all} {plain}");
    let (ninth, plain) = bytes_of(&|hundred| hundred % 9 == 0);
    assert!(ninth < plain / 4, "{ninth} {plain}");
    // It comes back when pages compress again.
    let (half, plain) = bytes_of(&|hundred| hundred < 100);
    assert!(half < plain * 6 / 10, "{half} {plain}");
}
