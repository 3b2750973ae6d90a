//! Contradicting numbers with correct checksums: no accident makes them, but a defect of ours or of
//! another tool may. Opening, checking, reading and writing then return an error or the rows
//! that were there; nothing asserts, nothing runs for ever.
//!
//! Reading alone cannot detect two forgeries. Transactions in the log *are* the rows, so forging
//! one is writing other rows. And a trunk says which part of a run belongs to which node: only
//! `check`, which compares with counters and indexes, finds entries that a forged trunk hides.

use std::collections::BTreeMap;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Arc;

use frond_base::{checksum64_seeded, ErrorKind};
use frond_engine::{Engine, Error, TxnOptions};

use crate::damage::{checked, rounds, Random};
use crate::sample::{self, Files, CUSTOMERS, ORDERS, PLAIN};

/// More entries than the sample has in any tree.
const ENTRIES_MAX: usize = 100_000;

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

fn put_u64(bytes: &mut [u8], at: usize, n: u64) {
    bytes[at..at + 8].copy_from_slice(&n.to_le_bytes());
}

/// Where the newest header of a table file is.
fn newest_header(file: &[u8]) -> usize {
    if u64_at(file, 32) > u64_at(file, 4096 + 32) {
        0
    } else {
        4096
    }
}

/// The image that the header at `header` names; nothing for one that names none.
fn image_of(file: &[u8], header: usize) -> std::ops::Range<usize> {
    let (from, len) = (u64_at(file, header + 48) as usize, u64_at(file, header + 56) as usize);
    from..from.saturating_add(len)
}

/// Makes the checksums of a header and its image right.
fn seal(file: &mut [u8], header: usize) {
    let image = image_of(file, header);
    let (database, table) = (u64_at(file, header + 16), u64_at(file, header + 24));
    let sequence = u64_at(file, header + 32);
    if image.start >= 8192 && image.end <= file.len() && image.start < image.end {
        let seed = database ^ table.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ sequence.rotate_left(32);
        let sum = checksum64_seeded(&file[image], seed);
        put_u64(file, header + 64, sum);
    }
    let slot = (header / 4096) as u64;
    let sum = checksum64_seeded(&file[header..header + 504], 0x6672_6f6e_6468_6472 + slot);
    put_u64(file, header + 504, sum);
}

/// Frames of a segment: where each starts, and its LSN.
fn frames(segment: &[u8]) -> Vec<(usize, u64)> {
    let start = u64_at(segment, 32);
    let mut found = Vec::new();
    let mut at = 4096;
    while at + 24 <= segment.len() && frame_check(segment, at) == u64_at(segment, at) {
        found.push((at, start + (at - 4096) as u64));
        at += 24 + stored(segment, at).next_multiple_of(8);
    }
    found
}

fn stored(segment: &[u8], at: usize) -> usize {
    usize::from(segment[at + 8])
        | usize::from(segment[at + 9]) << 8
        | usize::from(segment[at + 10]) << 16
}

fn frame_check(segment: &[u8], at: usize) -> u64 {
    let seed = checksum64_seeded(&segment[16..28], 0x6672_6f6e_6473_6567);
    let lsn = u64_at(segment, 32) + (at - 4096) as u64;
    checksum64_seeded(&segment[at + 8..at + 24], seed ^ lsn.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// Changes a few bytes of `[from, to)`, small numbers and large.
fn change(bytes: &mut [u8], from: usize, to: usize, random: &mut Random) {
    for _ in 0..1 + random.below(3) {
        let at = from + random.below(to - from);
        match random.below(6) {
            0 => bytes[at] = 0xff,
            1 => bytes[at] = 0,
            2 => bytes[at] = random.draw() as u8,
            3 => bytes[at] ^= 1 << random.below(8),
            4 => bytes[at] = bytes[at].wrapping_add(1),
            _ => bytes[at..(at + 8).min(to)].fill(0xff),
        }
    }
}

/// The kind of forgery, by what a reader can detect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Forged {
    /// Header, counters, block map: rows stay as they were, or the forgery is noticed at once.
    Place,
    /// Trunks and their edits: rows stay as they were, or `check` finds the forgery.
    Trunk,
    /// The rows themselves.
    Rows,
}

/// Forges something in one file; `None` where there was nothing to forge.
fn forge(files: &mut Files, random: &mut Random) -> Option<(String, Forged)> {
    let kind = if random.below(4) > 0 { ".frd" } else { ".frl" };
    let names: Vec<String> =
        files.keys().filter(|n| n.ends_with(kind) && !n.starts_with("spare.")).cloned().collect();
    let name = names[random.below(names.len())].clone();
    let bytes = files.get_mut(&name)?;
    if name.ends_with(".frd") {
        let header = newest_header(bytes);
        let image = image_of(bytes, header);
        let parts = if image.is_empty() { 1 } else { 4 };
        let forged = match random.below(parts) {
            0 => {
                change(bytes, header + 24, header + 72, random);
                Forged::Place
            }
            // The counts in front, the block map and what follows, the trunks.
            1 => {
                change(bytes, image.start + 32, image.start + 64, random);
                Forged::Place
            }
            2 => {
                change(bytes, image.start + 64, (image.start + 160).min(image.end), random);
                Forged::Trunk
            }
            _ => {
                change(bytes, image.start + 32, image.end, random);
                Forged::Trunk
            }
        };
        seal(bytes, header);
        return Some((name, forged));
    }
    if random.below(4) == 0 {
        change(bytes, 8, 48, random);
        seal_segment(bytes);
        return Some((name, Forged::Place));
    }
    let all = frames(bytes);
    let (at, _) = *all.get(random.below(all.len()))?;
    let len = stored(bytes, at);
    if len == 0 || bytes[at + 12] & 4 != 0 {
        return None;
    }
    change(bytes, at + 24, at + 24 + len, random);
    let sum = checksum64_seeded(&bytes[at + 24..at + 24 + len], u64_at(bytes, 16));
    put_u64(bytes, at + 16, sum);
    let check = frame_check(bytes, at);
    put_u64(bytes, at, check);
    // Kind 2 is a trunk edit; of the others, counters and lists of images, transactions are most.
    Some((name, if bytes[at + 11] == 2 { Forged::Trunk } else { Forged::Rows }))
}

/// Makes the checksum of a segment's header right.
fn seal_segment(bytes: &mut [u8]) {
    let sum = checksum64_seeded(&bytes[..4088], 0x6672_6f6e_6468_6472);
    put_u64(bytes, 4088, sum);
}

/// The entries of every tree of the tables, as far as they can be read.
type Entries = BTreeMap<(&'static str, usize), Vec<(Vec<u8>, Vec<u8>)>>;

/// Whether the entries read are a prefix of the original ones (all of them, where nothing failed).
fn is_right(read: &Entries, whole: bool, sound: &Entries) -> bool {
    let begins = |(tree, entries): (&(&str, usize), &Vec<_>)| sound[tree].starts_with(entries);
    match whole {
        true => read == sound,
        false => read.iter().all(begins),
    }
}

/// Opens, reads every tree both ways, writes, flushes, merges, closes. Errors are answers. What is read goes
/// to `read`; true when nothing failed before the writing.
fn use_it(files: &Files, read: &mut Entries) -> (bool, Result<(), Error>) {
    let engine = match Engine::open(Arc::new(sample::directory(files)), sample::options()) {
        Ok(engine) => engine,
        Err(e) => return (false, Err(e)),
    };
    let whole = read_all(&engine, read);
    (whole, write_on(&engine))
}

/// False when something could not be read.
fn read_all(engine: &Engine, read: &mut Entries) -> bool {
    let mut whole = true;
    for name in [ORDERS, CUSTOMERS, PLAIN] {
        let Ok(table) = engine.open_table(name) else {
            whole = false;
            continue;
        };
        for index in 0..table.trees().len() {
            let mut txn = engine.begin(TxnOptions::default());
            let Ok(mut cursor) = engine.cursor(&mut txn, &table, index as u16) else {
                whole = false;
                continue;
            };
            let forward = read.entry((name, index)).or_default();
            let mut valid = cursor.first(&txn);
            while let Ok(true) = valid {
                forward.push((cursor.key().to_vec(), cursor.value().to_vec()));
                assert!(forward.len() < ENTRIES_MAX, "a scan does not end");
                valid = cursor.next(&txn);
            }
            let failed = valid.is_err();
            let mut valid = cursor.last(&txn);
            let mut n = forward.len();
            let mut backward = 0;
            while let Ok(true) = valid {
                backward += 1;
                assert!(backward < ENTRIES_MAX, "a scan backwards does not end");
                n = n.wrapping_sub(1);
                let same = || forward[n] == (cursor.key().to_vec(), cursor.value().to_vec());
                assert!(failed || n < forward.len() && same(), "backwards it is another entry");
                valid = cursor.prev(&txn);
            }
            whole &= !failed && valid.is_ok();
        }
    }
    whole
}

/// Writes, flushes and merges. An error is a valid result.
fn write_on(engine: &Engine) -> Result<(), Error> {
    let table = engine.open_table(PLAIN)?;
    for part in 0..3 {
        let mut txn = engine.begin(TxnOptions::default());
        for n in 0..200 {
            txn.put(&table, format!("key{:06}", part * 300 + n).as_bytes(), &[7; 300], false)?;
        }
        txn.commit()?;
    }
    // The second flush builds on the images of the first.
    engine.flush_all()?;
    engine.flush_all()
}

/// The result of using a database: entries, whether those are all, and the first error.
type Used = (Entries, bool, Result<(), Error>);

fn survives(files: &Files) -> Result<Used, String> {
    let mut read = Entries::new();
    let used = catch_unwind(AssertUnwindSafe(|| use_it(files, &mut read)));
    let (whole, done) = used.map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("?").to_string()
    })?;
    Ok((read, whole, done))
}

#[test]
fn forged_numbers_behind_right_checksums_never_panic_and_never_give_other_rows() {
    let files = sample::sample();
    let (sound, whole, done) = survives(&files).unwrap();
    done.unwrap();
    assert!(whole && sound.len() == 8 && sound[&(ORDERS, 0)].len() == 3800);
    let (mut refused, mut forged, mut found) = (0, 0, 0);
    for round in 0..rounds(500) {
        let mut random = Random(round * 1_000_003);
        let mut files = files.clone();
        let Some((name, what)) = forge(&mut files, &mut random) else { continue };
        forged += 1;
        match survives(&files) {
            Ok((read, whole, done)) => {
                refused += u64::from(done.is_err());
                let right = what == Forged::Rows || is_right(&read, whole, &sound);
                assert!(right || what == Forged::Trunk, "round {round}, {name}: other rows");
                if !right {
                    found += 1;
                    let clean = checked(&files).is_clean();
                    assert!(!clean, "round {round}, {name}: other rows, and check says clean");
                }
            }
            Err(panic) => panic!("round {round}, {name}: {panic}"),
        }
        if round % 4 == 0 {
            checked(&files);
        }
    }
    assert!(forged > rounds(300) && refused > forged / 4, "{refused} of {forged} refused");
    assert!(found < forged / 20, "{found} of {forged} found by check alone");
}

/// The table file `1.frd` with a change of its newest image or header, the checksums right.
fn with_image(change: impl FnOnce(&mut [u8], usize, usize)) -> Files {
    let mut files = sample::sample();
    let bytes = files.get_mut("1.frd").unwrap();
    let header = newest_header(bytes);
    let image = image_of(bytes, header);
    change(bytes, header, image.start);
    seal(bytes, header);
    files
}

fn assert_refused(files: &Files, word: &str) {
    let e = survives(files).unwrap().2.expect_err("it is opened and used");
    assert_eq!(e.kind(), ErrorKind::Corruption, "{e}");
    assert!(e.to_string().contains("1.frd") && e.to_string().contains(word), "{e}");
    let report = checked(files);
    assert!(report.findings.iter().any(|f| f.what.contains(word)), "{:#?}", report.findings);
}

#[test]
fn block_of_a_trunk_that_the_block_map_lacks_is_corruption() {
    // Every block of the map gets a number behind all others.
    let files = with_image(|bytes, _, image| {
        let next = u64_at(bytes, image + 32);
        put_u64(bytes, image + 32, 2 * next);
        bytes[image + 64] += next as u8;
        assert!(bytes[image + 64] < 0x80, "one byte of a varint");
    });
    assert_refused(&files, "is not in the block map");
}

#[test]
fn block_that_the_block_map_has_elsewhere_is_corruption() {
    // The first block claims to be a unit shorter.
    let files = with_image(|bytes, _, image| {
        let varint = |at: usize| (at..).find(|i| bytes[*i] < 0x80).unwrap() + 1;
        let len = varint(varint(image + 64));
        bytes[len] -= 1;
    });
    assert_refused(&files, "does not fit its extent");
}

#[test]
fn block_and_checkpoint_numbers_near_the_end_are_corruption() {
    let files = with_image(|bytes, _, image| put_u64(bytes, image + 32, u64::MAX));
    assert_refused(&files, "impossible next block id");
    let files = with_image(|bytes, header, image| {
        let last = u64_at(bytes, header + 32) | !1;
        put_u64(bytes, header + 32, last);
        put_u64(bytes, image + 24, last);
    });
    assert_refused(&files, "impossible checkpoint number");
}

#[test]
fn checkpoint_ahead_of_the_log_is_corruption() {
    let files = with_image(|bytes, header, _| put_u64(bytes, header + 40, 1 << 50));
    assert_refused(&files, "newest segments");
}

/// The sample, crashed in the last of several log segments with no image written: its log alone has it.
#[test]
fn forged_start_of_the_newest_segment_is_corruption_and_the_log_stays() {
    let sound = sample::sample();
    let (want, _, done) = survives(&sound).unwrap();
    done.unwrap();
    let logs: Vec<&String> = sound.keys().filter(|n| n.starts_with("log.")).collect();
    for name in logs {
        let start = u64_at(&sound[name], 32);
        for forged in [0, 8, start + 8, start.wrapping_sub(8), start + 4096, 1 << 40] {
            if forged == start {
                continue;
            }
            let mut files = sound.clone();
            let bytes = files.get_mut(name).unwrap();
            put_u64(bytes, 32, forged);
            seal_segment(bytes);
            let e = survives(&files).unwrap().2.expect_err("it is opened");
            assert_eq!(e.kind(), ErrorKind::Corruption, "{name}, {forged}: {e}");
            assert!(!checked(&files).is_clean(), "{name}, {forged}: check says clean, open {e}");
            let vfs = sample::directory(&files);
            Engine::open(Arc::new(vfs.clone()), sample::options()).err().unwrap();
            let mut after = sample::files(&vfs);
            if let Some(bytes) = after.get_mut(name) {
                put_u64(bytes, 32, start);
                seal_segment(bytes);
                let (read, whole, _) = survives(&after).unwrap();
                assert!(whole && read == want, "{name}, {forged}: put right, rows are gone");
            }
        }
    }
}
