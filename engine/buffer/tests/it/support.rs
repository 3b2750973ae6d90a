//! A map of versions, key shapes, and scans as a cursor makes them.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Mutex;

use frond_base::{EntryKind, EntryRef, Readers, Seq};
use frond_buffer::{Batch, Scan, SortedBuffer, Versions, WriteBuffer};

pub type Model = BTreeMap<(Vec<u8>, Reverse<Seq>), (EntryKind, Vec<u8>)>;
pub type Owned = (Vec<u8>, Seq, EntryKind, Vec<u8>);

/// Snapshots, and the published sequence.
#[derive(Default)]
pub struct Live(pub Mutex<(Vec<Seq>, Seq)>);

impl Live {
    pub fn publish(&self, seq: Seq) {
        self.0.lock().unwrap().1 = seq;
    }

    /// A snapshot of the published sequence; several of the same if wanted.
    pub fn open(&self) -> Seq {
        let mut live = self.0.lock().unwrap();
        let at = live.1;
        live.0.push(at);
        at
    }

    pub fn close(&self, at: Seq) {
        let mut live = self.0.lock().unwrap();
        let i = live.0.iter().position(|s| *s == at).unwrap();
        live.0.remove(i);
    }
}

impl Readers for Live {
    fn retention(&self) -> Vec<Seq> {
        let live = self.0.lock().unwrap();
        let mut all = live.0.clone();
        all.push(live.1);
        all.sort_unstable();
        all.dedup();
        all
    }
}

pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

/// Key shapes that are hard on heads and fences: shared prefixes, prefixes of each other, all ones.
pub fn key(rng: &mut Rng, shape: u64, space: u64) -> Vec<u8> {
    key_of(rng.below(space), shape)
}

pub fn key_of(n: u64, shape: u64) -> Vec<u8> {
    match shape {
        0 => n.to_be_bytes().to_vec(),
        1 => [&b"tenant-0001/orders/"[..], &n.to_be_bytes()].concat(),
        2 => vec![0xff; 1 + (n % 40) as usize],
        3 => format!("{n}").into_bytes(),
        4 => [&[0][..], &(n as u32 / 64).to_be_bytes(), &[0], &n.to_be_bytes()].concat(),
        _ => [&[b'k'; 10][..], &vec![0; (n % 7) as usize], &(n as u16).to_be_bytes()].concat(),
    }
}

pub fn value(rng: &mut Rng) -> Vec<u8> {
    let len = match rng.below(40) {
        0 => 1000 + rng.below(3000),
        1..=9 => 0,
        _ => rng.below(100),
    };
    vec![rng.next() as u8; len as usize]
}

/// Writes a batch of puts and deletes at `seq` into both.
pub fn write_both(
    buffer: &WriteBuffer,
    model: &mut Model,
    seq: Seq,
    batch: BTreeMap<Vec<u8>, (EntryKind, Vec<u8>)>,
) {
    let entries = batch.iter();
    buffer.insert_batch(entries.map(|(key, (kind, value))| EntryRef {
        key,
        seq,
        kind: *kind,
        value,
    }));
    model.extend(batch.into_iter().map(|(k, e)| ((k, Reverse(seq)), e)));
}

pub fn own(e: EntryRef<'_>) -> Owned {
    (e.key.to_vec(), e.seq, e.kind, e.value.to_vec())
}

pub fn all(model: &Model) -> Vec<Owned> {
    model.iter().map(|((k, s), (kind, v))| (k.clone(), s.0, *kind, v.clone())).collect()
}

pub fn within(k: &[u8], lo: Bound<&[u8]>, hi: Bound<&[u8]>) -> bool {
    (match lo {
        Bound::Unbounded => true,
        Bound::Included(b) => k >= b,
        Bound::Excluded(b) => k > b,
    }) && match hi {
        Bound::Unbounded => true,
        Bound::Included(b) => k <= b,
        Bound::Excluded(b) => k < b,
    }
}

/// The expected result of a scan over the range, in the scan's direction.
pub fn expected(
    model: &Model,
    lo: Bound<&[u8]>,
    hi: Bound<&[u8]>,
    versions: Versions,
    backward: bool,
) -> Vec<Owned> {
    let mut groups: Vec<Vec<Owned>> = Vec::new();
    for e in all(model).into_iter().filter(|e| within(&e.0, lo, hi)) {
        match groups.last_mut() {
            Some(g) if g[0].0 == e.0 => g.push(e),
            _ => groups.push(vec![e]),
        }
    }
    if let Versions::VisibleAt(at) = versions {
        for g in &mut groups {
            g.retain(|e| e.1 <= at);
            g.truncate(1);
        }
    }
    if backward {
        groups.reverse();
    }
    groups.concat()
}

pub trait Buffer {
    fn forward(&self, scan: &Scan<'_>, batch: &mut Batch);
    fn backward(&self, scan: &Scan<'_>, batch: &mut Batch);
}

impl Buffer for SortedBuffer {
    fn forward(&self, scan: &Scan<'_>, batch: &mut Batch) {
        self.scan_forward(scan, batch);
    }
    fn backward(&self, scan: &Scan<'_>, batch: &mut Batch) {
        self.scan_backward(scan, batch);
    }
}

impl Buffer for WriteBuffer {
    fn forward(&self, scan: &Scan<'_>, batch: &mut Batch) {
        self.scan_forward(scan, batch);
    }
    fn backward(&self, scan: &Scan<'_>, batch: &mut Batch) {
        self.scan_backward(scan, batch);
    }
}

/// Scans a range batch by batch, as a cursor does.
pub fn scan_all(
    buffer: &dyn Buffer,
    lo: Bound<&[u8]>,
    hi: Bound<&[u8]>,
    versions: Versions,
    max_entries: usize,
    backward: bool,
) -> Vec<Owned> {
    let mut batch = Batch::new();
    let mut got: Vec<Owned> = Vec::new();
    let mut resume: Option<Vec<u8>> = None;
    loop {
        let (start, end) = if backward { (hi, lo) } else { (lo, hi) };
        let from = resume.as_deref().map_or(start, Bound::Excluded);
        let scan = Scan { from, to: end, versions, max_entries, max_bytes: 2000 };
        match backward {
            true => buffer.backward(&scan, &mut batch),
            false => buffer.forward(&scan, &mut batch),
        }
        got.extend((0..batch.len()).map(|i| own(batch.entry(i))));
        if batch.exhausted() {
            return got;
        }
        let last = batch.last_key().expect("a scan that is not exhausted returns something");
        resume = Some(last.to_vec());
    }
}

pub fn random_bound(rng: &mut Rng, k: &[u8]) -> Bound<Vec<u8>> {
    match rng.below(5) {
        0 => Bound::Unbounded,
        1 | 2 => Bound::Included(k.to_vec()),
        _ => Bound::Excluded(k.to_vec()),
    }
}

pub fn check_scans(
    buffer: &dyn Buffer,
    model: &Model,
    rng: &mut Rng,
    shape: u64,
    space: u64,
    top: Seq,
) {
    for _ in 0..5 {
        let (a, b) = (key(rng, shape, space), key(rng, shape, space));
        let (lo, hi) = (random_bound(rng, &a), random_bound(rng, &b));
        let (lo, hi) = (lo.as_ref().map(|k| k.as_slice()), hi.as_ref().map(|k| k.as_slice()));
        let versions = match rng.below(2) {
            0 => Versions::All,
            _ => Versions::VisibleAt(rng.below(top + 2)),
        };
        for backward in [false, true] {
            let n = 1 + rng.below(50) as usize;
            let got = scan_all(buffer, lo, hi, versions, n, backward);
            let want = expected(model, lo, hi, versions, backward);
            assert!(got == want, "shape {shape} {lo:?} {hi:?} {versions:?} backward {backward}");
        }
    }
}

pub fn newest_in(model: &Model, k: &[u8], at: Seq) -> Option<(Seq, EntryKind, Vec<u8>)> {
    let (p, e) = model.range((k.to_vec(), Reverse(at))..).next().filter(|(p, _)| p.0 == k)?;
    Some((p.1 .0, e.0, e.1.clone()))
}
