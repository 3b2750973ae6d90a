//! The merge job: any number of runs and write buffers in, reduced and re-encoded runs out, in
//! bounded steps.
//!
//! Inputs are decoded into batches of entries with keys as machine words; the hot loop picks the
//! next entry by loser tree, decides about its version and appends its words to the pending page.
//! Nothing is allocated and nothing is called through a pointer per entry. Pages of variable-length
//! keys, values, tombstones and sequences take the same path with more work per entry.

use frond_base::{EntrySource, Result};
use frond_vfs::AlignedBuf;

use crate::batch::{wide, Batch, BatchSource, Copied};
use crate::cutter::{CutRun, RunCutter};
use crate::merge::LoserTree;
use crate::reduce::{Retention, VersionFilter};
use crate::scan::RunScan;
use crate::source::PageSource;

/// One input of a merge job.
pub struct MergeInput(Box<dyn AnyWidth + Send>);

impl MergeInput {
    /// What is left of a scan of a run.
    pub fn run<P: PageSource + ?Sized + Send + Sync + 'static>(scan: RunScan<P>) -> MergeInput {
        MergeInput(Box::new(scan.into_batches()))
    }

    /// Any other source, such as a frozen write buffer. Its entries are trusted to be in order.
    pub fn entries(source: impl EntrySource + Send + 'static) -> MergeInput {
        MergeInput(Box::new(Copied(source)))
    }

    /// Decodes the input as a merge of keys of 17 to 24 bytes does, and returns the number of entries. For
    /// measuring what reading costs without merging.
    pub fn drain(self) -> Result<u64> {
        let mut source = self.0.w3();
        let mut batch = Batch::new();
        let mut entries = 0;
        loop {
            source.fill(&mut batch)?;
            match batch.len() {
                0 => return Ok(entries),
                n => entries += n as u64,
            }
        }
    }
}

type Source<const W: usize> = Box<dyn BatchSource<W> + Send>;

/// A batch source for heads of any width; the job picks one.
trait AnyWidth {
    fn w1(self: Box<Self>) -> Source<1>;
    fn w2(self: Box<Self>) -> Source<2>;
    fn w3(self: Box<Self>) -> Source<3>;
    fn w4(self: Box<Self>) -> Source<4>;
}

impl<S> AnyWidth for S
where
    S: BatchSource<1> + BatchSource<2> + BatchSource<3> + BatchSource<4> + Send + 'static,
{
    fn w1(self: Box<Self>) -> Source<1> {
        self
    }
    fn w2(self: Box<Self>) -> Source<2> {
        self
    }
    fn w3(self: Box<Self>) -> Source<3> {
        self
    }
    fn w4(self: Box<Self>) -> Source<4> {
        self
    }
}

/// Counters of a job so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MergeStats {
    pub entries_in: u64,
    pub entries_out: u64,
}

/// A merge in progress.
pub struct MergeJob {
    width: Width,
    filter: VersionFilter,
    cutter: RunCutter,
    stats: MergeStats,
    done: bool,
}

enum Width {
    W1(Inputs<1>),
    W2(Inputs<2>),
    W3(Inputs<3>),
    W4(Inputs<4>),
}

impl MergeJob {
    /// A job over `inputs`, most recent first, which keeps what `retention` says and writes through
    /// `cutter`. Reads the first page of every input.
    pub fn new(
        inputs: Vec<MergeInput>,
        retention: Retention,
        cutter: RunCutter,
    ) -> Result<MergeJob> {
        let inputs = inputs.into_iter().map(|i| i.0);
        let width = match cutter.format().key_shape.key_bytes() {
            1..=8 => Width::W1(Inputs::new(inputs.map(|i| i.w1()).collect())?),
            17..=24 => Width::W3(Inputs::new(inputs.map(|i| i.w3()).collect())?),
            25.. => Width::W4(Inputs::new(inputs.map(|i| i.w4()).collect())?),
            // Keys of 9 to 16 bytes, and variable ones, which mostly differ within 16 bytes.
            _ => Width::W2(Inputs::new(inputs.map(|i| i.w2()).collect())?),
        };
        let filter = VersionFilter::new(retention);
        Ok(MergeJob { width, filter, cutter, stats: MergeStats::default(), done: false })
    }

    /// Takes up to `max_entries` entries; true when the job is done and its last run finished.
    /// After an error the job must not be used any more.
    pub fn step(&mut self, max_entries: usize) -> Result<bool> {
        if self.done {
            return Ok(true);
        }
        let (filter, cutter, stats) = (&mut self.filter, &mut self.cutter, &mut self.stats);
        self.done = match &mut self.width {
            Width::W1(inputs) => inputs.step(max_entries, filter, cutter, stats)?,
            Width::W2(inputs) => inputs.step(max_entries, filter, cutter, stats)?,
            Width::W3(inputs) => inputs.step(max_entries, filter, cutter, stats)?,
            Width::W4(inputs) => inputs.step(max_entries, filter, cutter, stats)?,
        };
        if self.done {
            self.cutter.finish();
        }
        Ok(self.done)
    }

    /// The runs finished since the last call, in key order.
    pub fn take_finished(&mut self) -> Vec<CutRun> {
        self.cutter.take_finished()
    }

    /// As [`RunCutter::reuse`].
    pub fn reuse(&mut self, bytes: AlignedBuf) {
        self.cutter.reuse(bytes);
    }

    /// As [`RunCutter::take_spare`].
    pub fn take_spare(&mut self) -> AlignedBuf {
        self.cutter.take_spare()
    }

    pub fn stats(&self) -> MergeStats {
        self.stats
    }
}

/// The inputs with their current batches, and the last key met.
struct Inputs<const W: usize> {
    sources: Vec<Source<W>>,
    batches: Vec<Batch<W>>,
    tree: Option<LoserTree>,
    last_head: [u64; W],
    last_len: usize,
    last_long: Vec<u8>,
}

/// The head by which the tree orders a source.
#[inline]
fn tree_head<const W: usize>(batch: &Batch<W>) -> u128 {
    batch.heads.get(batch.pos).map_or(u128::MAX, wide)
}

#[inline]
fn comes_before<const W: usize>(batches: &[Batch<W>], a: usize, b: usize) -> bool {
    let (x, y) = (&batches[a], &batches[b]);
    match (x.pos < x.len(), y.pos < y.len()) {
        (true, true) => x.compare(x.pos, y, y.pos).then(a.cmp(&b)).is_lt(),
        (x_valid, _) => x_valid,
    }
}

impl<const W: usize> Inputs<W> {
    fn new(mut sources: Vec<Source<W>>) -> Result<Inputs<W>> {
        let mut batches: Vec<Batch<W>> = sources.iter().map(|_| Batch::new()).collect();
        for (source, batch) in sources.iter_mut().zip(&mut batches) {
            source.fill(batch)?;
            batch.note_bare();
        }
        let heads: Vec<u128> = batches.iter().map(tree_head).collect();
        let before = |a: usize, b: usize| comes_before(&batches, a, b);
        let tree = (!heads.is_empty()).then(|| LoserTree::new(&heads, before));
        Ok(Inputs { sources, batches, tree, last_head: [0; W], last_len: 0, last_long: Vec::new() })
    }

    /// True when all inputs are used up.
    fn step(
        &mut self,
        max_entries: usize,
        filter: &mut VersionFilter,
        cutter: &mut RunCutter,
        stats: &mut MergeStats,
    ) -> Result<bool> {
        let Some(tree) = &mut self.tree else { return Ok(true) };
        let mut out = 0;
        for taken in 0..max_entries {
            let winner = tree.winner();
            let batch = &mut self.batches[winner];
            let i = batch.pos;
            if i >= batch.len() {
                stats.entries_in += taken as u64;
                stats.entries_out += out;
                return Ok(true);
            }
            let (head, len) = (batch.heads[i], batch.key_len(i));
            // The last word first: it usually differs, and a comparison of all words would wait for
            // the stores.
            let same = head[W - 1] == self.last_head[W - 1]
                && head == self.last_head
                && len == self.last_len
                && (len <= 8 * W || batch.long_key(i) == &self.last_long[..]);
            if batch.bare && !same {
                filter.admit_oldest();
                cutter.push_bare(batch, i);
                out += 1;
            } else if let Some(seq) = filter.admit(same, batch.seq(i), batch.kind(i)) {
                cutter.push_entry(batch, i, seq, same);
                out += 1;
            }
            self.last_head = head;
            self.last_len = len;
            if len > 8 * W && !same {
                self.last_long.clear();
                self.last_long.extend_from_slice(batch.long_key(i));
            }
            batch.pos = i + 1;
            if i + 1 == batch.len() {
                self.sources[winner].fill(batch)?;
                batch.note_bare();
            }
            let head = tree_head(&self.batches[winner]);
            tree.replay(head, |a, b| comes_before(&self.batches, a, b));
        }
        stats.entries_in += max_entries as u64;
        stats.entries_out += out;
        Ok(false)
    }
}
