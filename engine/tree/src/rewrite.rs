//! A merge of inputs into stored runs: the common part of flushes, leaf merges and private runs.

use std::sync::atomic::Ordering;
use std::sync::Arc;

use frond_base::Result;
use frond_run::{
    Compression, Cut, MergeInput, MergeJob, Retention, Run, RunCutter, RunFormat, RunMeta,
};

use crate::extent::Extent;
use crate::input::Input;
use crate::options::Formats;
use crate::renewal::Renewal;
use crate::slice::{scale, sum, Range, Slice};
use crate::store::{CountedPiece, RunStore, TrunkRun};
use crate::tree::{Tree, TreeInner};

/// See the module.
pub(crate) struct Rewrite {
    work: Work,
    store: Arc<dyn RunStore>,
    finished: bool,
    format: RunFormat,
    /// Never read. It is held so that rewrites that use it can be counted (RNW1).
    _renewal: Arc<Renewal>,
}

enum Work {
    Merge(Box<MergeJob>),
    /// The results of a store of counts.
    Counted(Vec<RunMeta>),
}

impl Rewrite {
    /// Opens `inputs`, newest first; `None` when they are empty. `ranges`: where their entries lie; none
    /// given: anywhere between the first and the last.
    pub fn open(
        tree: &Arc<TreeInner>,
        inputs: Vec<Input>,
        ranges: &[Range],
        retention: Retention,
        format: RunFormat,
        target_bytes: u64,
    ) -> Result<Option<Rewrite>> {
        let renewal = tree.renewal();
        let pieces = || counted_pieces(&inputs, ranges);
        if let Some(runs) = tree.store.count_merge(&pieces, &format, target_bytes) {
            let work = Work::Counted(runs);
            let store = tree.store.clone();
            return Ok(Some(Rewrite { work, store, finished: false, format, _renewal: renewal }));
        }
        let mut opened = Vec::with_capacity(inputs.len());
        for input in inputs {
            opened.extend(input.open(&tree.store, &renewal)?);
        }
        if opened.is_empty() {
            return Ok(None);
        }
        Rewrite::new(tree, renewal, opened, retention, format, target_bytes).map(Some)
    }

    /// `inputs` newest first, opened with `renewal`; runs of about `target_bytes`.
    pub fn new(
        tree: &Arc<TreeInner>,
        renewal: Arc<Renewal>,
        inputs: Vec<MergeInput>,
        retention: Retention,
        format: RunFormat,
        target_bytes: u64,
    ) -> Result<Rewrite> {
        let store = tree.store.clone();
        let blocks = store.clone();
        let next_block = Box::new(move || blocks.next_block());
        let cut = Cut { target_bytes, boundaries: Vec::new() };
        let cutter = RunCutter::new(&format, tree.id.table, cut, next_block);
        let mut job = MergeJob::new(inputs, retention, cutter)?;
        if let Some(memory) = store.run_memory() {
            job.reuse(memory.take());
        }
        let work = Work::Merge(Box::new(job));
        Ok(Rewrite { work, store, finished: false, format, _renewal: renewal })
    }

    /// Merges some entries and stores the runs that are complete; true when all is done.
    pub fn step(&mut self, tree: &Arc<TreeInner>, out: &mut Vec<Slice>) -> Result<bool> {
        let job = match &mut self.work {
            Work::Merge(job) => job,
            Work::Counted(runs) => {
                for meta in std::mem::take(runs) {
                    note_written(tree, &meta, &self.format);
                    let extent = Extent { offset: 0, len: meta.bytes };
                    let run = TrunkRun::fresh(Run::new(meta), extent, tree.store.clone());
                    out.push(Slice::whole(Arc::new(run)));
                }
                return Ok(true);
            }
        };
        if !self.finished {
            self.finished = job.step(tree.options.step_entries)?;
        }
        for cut in job.take_finished() {
            let built = cut.run;
            let index = built.index(&format!("{}.frd", tree.id.table))?;
            let extent = tree.store.write_run(&built, &index)?;
            let meta = built.meta;
            job.reuse(built.bytes);
            note_written(tree, &meta, &self.format);
            let run = TrunkRun::fresh(Run::with_index(meta, index), extent, tree.store.clone());
            out.push(Slice::whole(Arc::new(run)));
        }
        Ok(self.finished)
    }
}

impl Drop for Rewrite {
    fn drop(&mut self) {
        if let (Work::Merge(job), Some(memory)) = (&mut self.work, self.store.run_memory()) {
            memory.give(job.take_spare());
        }
    }
}

impl TreeInner {
    /// The formats of runs that are begun now.
    pub fn formats(&self) -> Formats {
        self.formats.lock().as_deref().copied().unwrap_or(self.options.formats)
    }
}

impl Tree {
    /// From now on runs are begun with pages of this size and compression. Those that are there stay: readers take
    /// the size of a page from the run's fences, and its compression from the page.
    pub fn set_pages(&self, page_bytes: u32, compression: Compression) {
        let mut formats = self.inner.formats.lock();
        let now = formats.as_deref().copied().unwrap_or(self.inner.options.formats);
        let new = now.with_pages(page_bytes, compression);
        *formats = (new != self.inner.options.formats).then(|| Box::new(new));
    }
}

/// The estimated entries of `inputs` by place. A write buffer has none: counts are of runs.
fn counted_pieces(inputs: &[Input], ranges: &[Range]) -> Vec<CountedPiece> {
    let slices = inputs.iter().flat_map(|input| match input {
        Input::Buffer(..) => &[],
        Input::Slices(slices) => &slices[..],
    });
    let end = |s: &Slice| match &s.hi {
        Some(hi) => hi.to_vec(),
        None => [&s.run.meta().max_key[..], &[0]].concat(),
    };
    if ranges.is_empty() {
        let lo = slices.clone().map(|s| s.first().to_vec()).min().unwrap_or_default();
        let hi = slices.clone().map(end).max();
        return vec![CountedPiece { lo, hi, entries: sum(slices).entries }];
    }
    let piece = |range: &Range| {
        let entries = slices.clone().map(|s| s.counts_in(range).entries).sum();
        CountedPiece {
            lo: range.lo_bytes().to_vec(),
            hi: range.hi.as_ref().map(|hi| hi.to_vec()),
            entries,
        }
    };
    ranges.iter().map(piece).collect()
}

fn note_written(tree: &TreeInner, meta: &RunMeta, format: &RunFormat) {
    let counters = &tree.counters;
    counters.bytes_written.fetch_add(meta.bytes, Ordering::Relaxed);
    counters.entries_written.fetch_add(meta.entries, Ordering::Relaxed);
    // Private runs may have a third format, without compression.
    let Formats { leaf, upper } = tree.formats();
    let is_upper = *format != leaf && *format == RunFormat { filter: format.filter, ..upper };
    if is_upper && meta.logical_bytes > 0 && meta.bytes > 16 << 10 {
        let now = scale(meta.bytes, 1024, meta.logical_bytes).clamp(1, 4096);
        let before = tree.ratio.load(Ordering::Relaxed);
        tree.ratio.store((before * 3 + now) / 4, Ordering::Relaxed);
    }
}
