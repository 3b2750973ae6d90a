//! A merge of inputs into stored runs: the common part of flushes, leaf merges and private runs.

use std::sync::atomic::Ordering;
use std::sync::Arc;

use frond_base::Result;
use frond_run::{Cut, MergeInput, MergeJob, Retention, Run, RunCutter, RunFormat, RunMeta};

use crate::renewal::Renewal;
use crate::slice::{scale, Slice};
use crate::store::TrunkRun;
use crate::tree::TreeInner;

/// See the module.
pub(crate) struct Rewrite {
    job: MergeJob,
    finished: bool,
    format: RunFormat,
    /// Not read: that it is held says which form the values have (RNW1).
    _renewal: Arc<Renewal>,
}

impl Rewrite {
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
        let next_block = Box::new(move || store.next_block());
        let cut = Cut { target_bytes, boundaries: Vec::new() };
        let cutter = RunCutter::new(&format, tree.id.table, cut, next_block);
        let job = MergeJob::new(inputs, retention, cutter)?;
        Ok(Rewrite { job, finished: false, format, _renewal: renewal })
    }

    /// Merges some entries and stores the runs that are complete; true when all is done.
    pub fn step(&mut self, tree: &Arc<TreeInner>, out: &mut Vec<Slice>) -> Result<bool> {
        if !self.finished {
            self.finished = self.job.step(tree.options.step_entries)?;
        }
        for cut in self.job.take_finished() {
            let built = cut.run;
            let index = built.index(&format!("{}.frd", tree.id.table))?;
            let extent = tree.store.write_run(&built, &index)?;
            let meta = built.meta;
            note_written(tree, &meta, self.format == tree.options.format_leaf);
            let run = TrunkRun::fresh(Run::with_index(meta, index), extent, tree.store.clone());
            out.push(Slice::whole(Arc::new(run)));
        }
        Ok(self.finished)
    }

    pub fn entries_in(&self) -> u64 {
        self.job.stats().entries_in
    }
}

fn note_written(tree: &TreeInner, meta: &RunMeta, leaf: bool) {
    let counters = &tree.counters;
    counters.bytes_written.fetch_add(meta.bytes, Ordering::Relaxed);
    counters.entries_written.fetch_add(meta.entries, Ordering::Relaxed);
    if !leaf && meta.logical_bytes > 0 && meta.bytes > 16 << 10 {
        let now = scale(meta.bytes, 1024, meta.logical_bytes).clamp(1, 4096);
        let before = tree.ratio.load(Ordering::Relaxed);
        tree.ratio.store((before * 3 + now) / 4, Ordering::Relaxed);
    }
}
