//! A file of bounded size with the last samples: the state of a machine and its server at a past minute.
//!
//! The file is a circle of blocks; a block begins at a multiple of `UNIT` and has the samples of some seconds, packed:
//!
//! | bytes | |
//! |---|---|
//! | 8 | `MAGIC`, which has the format's version |
//! | 8 | number of the block: one more than that of the block before it |
//! | 4 | packed length |
//! | 8 | xxh3 of the number, the length and the packed bytes |
//! | packed length | zstd of JSON lines: a sample whole, then each with the values that changed and the names that are gone |
//!
//! All numbers are little-endian. A writer continues behind the block with the highest number, and at the file's beginning
//! when the next block would exceed the bound. A partly overwritten block is no longer a block.
//!
//! Invariants:
//!
//! - RG1. The file is never longer than the bound that its writer was given.
//! - RG2. A block is used only if its hash is right: a crash loses only the block being written and the blocks that
//!   it overwrites.
//! - RG3. Lengths in a block are checked against limits before memory is allocated for them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use crate::snapshot::{Snapshot, Value};

const MAGIC: [u8; 8] = *b"FRDDOC01";
/// Where blocks may begin.
pub const UNIT: u64 = 4096;
const HEAD: usize = 28;
/// The most bytes of a block, packed and unpacked.
const MOST_PACKED: u32 = 4 << 20;
const MOST_PLAIN: u64 = 8 << 20;
/// The most samples of a block, and the most values of a sample; servers have some thousands.
const SAMPLES: usize = 10;
const MOST_VALUES: usize = 50_000;

/// A line of a block: all values of the first sample; of the others, the values that are new or changed.
#[derive(Serialize, Deserialize)]
struct Line {
    at: f64,
    values: BTreeMap<String, Value>,
    /// Names that the sample no longer has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    gone: Vec<String>,
}

/// The hash of a block.
fn hash(number: u64, packed: &[u8]) -> u64 {
    let mut bytes = number.to_le_bytes().to_vec();
    bytes.extend((packed.len() as u32).to_le_bytes());
    bytes.extend(packed);
    xxh3_64(&bytes)
}

/// Number, packed length and hash of the block at `at`.
fn head(file: &File, at: u64) -> Option<(u64, u32, u64)> {
    let mut bytes = [0; HEAD];
    file.read_exact_at(&mut bytes, at).ok()?;
    let eight = |at: usize| bytes[at..at + 8].try_into().map(u64::from_le_bytes).ok();
    let length = bytes[16..20].try_into().map(u32::from_le_bytes).ok()?;
    if bytes[..8] != MAGIC || length == 0 || length > MOST_PACKED {
        return None;
    }
    Some((eight(8)?, length, eight(20)?))
}

/// The packed bytes of the block at `at`, with its number.
fn block(file: &File, at: u64) -> Option<(u64, Vec<u8>)> {
    let (number, length, wanted) = head(file, at)?;
    let mut packed = vec![0; length as usize];
    file.read_exact_at(&mut packed, at + HEAD as u64).ok()?;
    (hash(number, &packed) == wanted).then_some((number, packed))
}

fn units(packed: usize) -> u64 {
    (HEAD + packed) as u64 / UNIT * UNIT + UNIT
}

/// All blocks: (number, place), in the order of their numbers.
fn blocks(file: &File) -> io::Result<Vec<(u64, u64)>> {
    let (mut found, mut at, end) = (Vec::new(), 0, file.metadata()?.len());
    while at + HEAD as u64 <= end {
        at += match block(file, at) {
            Some((number, packed)) => {
                found.push((number, at));
                units(packed.len())
            }
            None => UNIT,
        };
    }
    found.sort_unstable();
    Ok(found)
}

/// Writes samples.
pub struct Writer {
    file: File,
    bound: u64,
    next: u64,
    number: u64,
    pending: Vec<Snapshot>,
}

impl Writer {
    /// Continues `file`, which must be readable and writable, and empty or a ring. `bound`: the most bytes of the file.
    pub fn open(file: File, bound: u64) -> io::Result<Writer> {
        let end = file.metadata()?.len();
        let known = blocks(&file)?;
        if end > 0 && known.is_empty() {
            return Err(io::Error::other("it has something else in it than samples"));
        }
        let mut writer = Writer { file, bound, next: 0, number: 0, pending: Vec::new() };
        if let Some((number, at)) = known.last() {
            let length = head(&writer.file, *at).map_or(0, |(_, length, _)| length);
            let number = number.checked_add(1);
            writer.number = number.ok_or_else(|| io::Error::other("its numbers are used up"))?;
            writer.next = at + units(length as usize);
        }
        if end > bound {
            writer.file.set_len(bound)?;
        }
        Ok(writer)
    }

    /// Adds a sample. Every tenth sample is written, with those before it.
    pub fn add(&mut self, sample: Snapshot) -> io::Result<()> {
        self.pending.push(sample);
        if self.pending.len() >= SAMPLES {
            self.flush()?;
        }
        Ok(())
    }

    /// Writes the samples that were not written yet.
    pub fn flush(&mut self) -> io::Result<()> {
        let Some(first) = self.pending.first() else { return Ok(()) };
        let whole = Line { at: first.at, values: first.values.clone(), gone: Vec::new() };
        let mut lines = serde_json::to_vec(&whole)?;
        for pair in self.pending.windows(2) {
            let (before, now) = (&pair[0].values, &pair[1].values);
            let changed = now.iter().filter(|(name, value)| before.get(*name) != Some(value));
            let line = Line {
                at: pair[1].at,
                values: changed.map(|(name, value)| (name.clone(), value.clone())).collect(),
                gone: before.keys().filter(|name| !now.contains_key(*name)).cloned().collect(),
            };
            lines.push(b'\n');
            serde_json::to_writer(&mut lines, &line)?;
        }
        self.pending.clear();
        let packed = zstd::encode_all(lines.as_slice(), 3)?;
        let length = units(packed.len());
        let plain = lines.len() as u64;
        if packed.len() as u64 > u64::from(MOST_PACKED) || plain > MOST_PLAIN || length > self.bound
        {
            return Err(io::Error::other("a sample is larger than the file may become"));
        }
        if self.next + length > self.bound {
            self.next = 0;
        }
        let mut bytes = MAGIC.to_vec();
        bytes.extend(self.number.to_le_bytes());
        bytes.extend((packed.len() as u32).to_le_bytes());
        bytes.extend(hash(self.number, &packed).to_le_bytes());
        bytes.extend(packed);
        self.file.write_all_at(&bytes, self.next)?;
        self.next += length;
        self.number += 1;
        Ok(())
    }
}

/// Passes all samples of a ring, the oldest first, to `each` until it returns false.
pub fn read(file: &File, each: &mut dyn FnMut(Snapshot) -> bool) -> io::Result<()> {
    let known = blocks(file)?;
    if known.is_empty() {
        return Err(io::Error::other("there are no samples in it"));
    }
    for (_, at) in known {
        let Some((_, packed)) = block(file, at) else { continue };
        let mut plain = Vec::new();
        let decoder = zstd::stream::read::Decoder::new(packed.as_slice())?;
        if decoder.take(MOST_PLAIN).read_to_end(&mut plain).is_err() {
            continue;
        }
        let mut whole = Snapshot::default();
        for line in plain.split(|b| *b == b'\n').take(SAMPLES) {
            let Ok(line) = serde_json::from_slice::<Line>(line) else { break };
            whole.at = line.at;
            whole.values.extend(line.values);
            line.gone.iter().for_each(|name| {
                whole.values.remove(name);
            });
            if whole.values.len() > MOST_VALUES {
                break;
            }
            if !each(whole.clone()) {
                return Ok(());
            }
        }
    }
    Ok(())
}
