//! The allocator benchmark: the same work for [`ExtentTree`] and [`LinearFirstFit`], side by side.
//!
//! A file is filled with extents, and every second one is freed, so that as many holes as extents
//! remain. Most holes are smaller than the next request, as in a file with a long history of changes:
//! first fit must then skip nearly all of them. Both allocators must place every extent alike; that
//! is asserted.

use std::fmt;
use std::time::Duration;

use frond_space::{Extent, ExtentTree, EXTENT_ALIGN};

use crate::linear::LinearFirstFit;
use crate::numbers::Numbers;

/// Bytes at a file's beginning that are never handed out: headers.
const RESERVED: u64 = 8 << 10;

/// The parameters.
#[derive(Clone, Copy, Debug)]
pub struct AllocatorBench {
    /// Used extents in the fragmented file (and about as many holes).
    pub extents: usize,
    /// Pairs of one free and one allocation that are timed.
    pub pairs: usize,
    pub seed: u64,
}

impl Default for AllocatorBench {
    fn default() -> Self {
        AllocatorBench { extents: 100_000, pairs: 20_000, seed: 1 }
    }
}

/// Figures of one allocator.
#[derive(Clone, Copy, Debug, Default)]
pub struct AllocatorFigures {
    pub alloc_ns: f64,
    pub free_ns: f64,
    /// Extents or nodes looked at per allocation.
    pub mean_steps: f64,
    pub most_steps: u64,
}

/// Figures of both, from one run.
#[derive(Clone, Copy, Debug)]
pub struct AllocatorReport {
    pub holes: usize,
    pub tree: AllocatorFigures,
    pub linear: AllocatorFigures,
}

impl fmt::Display for AllocatorReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} holes in the file", self.holes)?;
        writeln!(
            f,
            "{:8} {:>12} {:>12} {:>12} {:>12}",
            "", "alloc ns", "free ns", "mean steps", "most steps"
        )?;
        for (name, a) in [("tree", &self.tree), ("linear", &self.linear)] {
            writeln!(
                f,
                "{name:8} {:>12.0} {:>12.0} {:>12.1} {:>12}",
                a.alloc_ns, a.free_ns, a.mean_steps, a.most_steps
            )?;
        }
        write!(f, "ratio    {:>12.1}", self.linear.alloc_ns / self.tree.alloc_ns.max(1e-9))?;
        write!(f, " {:>12.1}", self.linear.free_ns / self.tree.free_ns.max(1e-9))
    }
}

/// Length of a run: 64 KiB to 1 MiB.
fn run_len(numbers: &mut Numbers) -> u64 {
    (16 + numbers.below(240)) * EXTENT_ALIGN
}

/// The interface of both allocators.
trait Allocator {
    fn alloc(&mut self, len: u64) -> Extent;
    fn free(&mut self, extent: Extent);
    fn take_steps(&mut self) -> u64;
}

impl Allocator for ExtentTree {
    fn alloc(&mut self, len: u64) -> Extent {
        ExtentTree::alloc(self, len)
    }
    fn free(&mut self, extent: Extent) {
        ExtentTree::free(self, extent);
    }
    fn take_steps(&mut self) -> u64 {
        ExtentTree::take_steps(self)
    }
}

impl Allocator for LinearFirstFit {
    fn alloc(&mut self, len: u64) -> Extent {
        LinearFirstFit::alloc(self, len)
    }
    fn free(&mut self, extent: Extent) {
        LinearFirstFit::free(self, extent);
    }
    fn take_steps(&mut self) -> u64 {
        LinearFirstFit::take_steps(self)
    }
}

/// Runs the benchmark; `now` is a monotonic clock.
pub fn allocators(options: &AllocatorBench, now: &dyn Fn() -> Duration) -> AllocatorReport {
    assert!(options.extents > 0 && options.pairs > 0, "something to measure");
    let mut tree = ExtentTree::new(RESERVED);
    let (tree_figures, tree_places) = drive(&mut tree, options, now);
    let mut linear = LinearFirstFit::new(RESERVED);
    let (linear_figures, linear_places) = drive(&mut linear, options, now);
    assert!(tree_places == linear_places, "both allocators place every extent alike");
    AllocatorReport { holes: tree.holes(), tree: tree_figures, linear: linear_figures }
}

/// The work, for one allocator; returns its figures and every offset it chose.
fn drive(
    allocator: &mut dyn Allocator,
    options: &AllocatorBench,
    now: &dyn Fn() -> Duration,
) -> (AllocatorFigures, Vec<u64>) {
    let mut rng = Numbers(options.seed);
    let mut live = Vec::with_capacity(options.extents);
    let mut doomed = Vec::with_capacity(options.extents);
    for _ in 0..options.extents {
        live.push(allocator.alloc(run_len(&mut rng)));
        // Holes of one unit to 64 KiB, with a larger one now and then.
        let hole =
            if rng.below(64) == 0 { run_len(&mut rng) } else { (1 + rng.below(16)) * EXTENT_ALIGN };
        doomed.push(allocator.alloc(hole));
    }
    for extent in doomed {
        allocator.free(extent);
    }
    allocator.take_steps();
    let mut figures = AllocatorFigures::default();
    let mut places = Vec::with_capacity(options.pairs);
    let (mut alloc_time, mut free_time, mut steps) = (Duration::ZERO, Duration::ZERO, 0);
    // Timed in batches, so that the cost of reading the clock vanishes.
    const BATCH: usize = 100;
    for _ in 0..options.pairs.div_ceil(BATCH) {
        let victims: Vec<Extent> = (0..BATCH.min(live.len()))
            .map(|_| live.swap_remove(rng.below(live.len() as u64) as usize))
            .collect();
        let lengths: Vec<u64> = victims.iter().map(|_| run_len(&mut rng)).collect();
        let start = now();
        victims.iter().for_each(|e| allocator.free(*e));
        let middle = now();
        for len in lengths {
            live.push(allocator.alloc(len));
            let took = allocator.take_steps();
            steps += took;
            figures.most_steps = figures.most_steps.max(took);
        }
        alloc_time += now() - middle;
        free_time += middle - start;
        places.extend(live.iter().rev().take(victims.len()).map(|e| e.offset));
    }
    let n = places.len() as f64;
    figures.alloc_ns = alloc_time.as_nanos() as f64 / n;
    figures.free_ns = free_time.as_nanos() as f64 / n;
    figures.mean_steps = steps as f64 / n;
    (figures, places)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_looks_at_far_fewer_extents() {
        let options = AllocatorBench { extents: 2_000, pairs: 1_000, seed: 3 };
        let report = allocators(&options, &|| Duration::ZERO);
        assert!(report.tree.most_steps <= 20, "{report}");
        assert!(report.linear.mean_steps > 20.0 * report.tree.mean_steps, "{report}");
    }

    #[test]
    fn tree_places_extents_where_the_linear_search_does() {
        let mut rng = Numbers(77);
        let (mut tree, mut linear) = (ExtentTree::new(8), LinearFirstFit::new(8));
        let mut live = Vec::new();
        for _ in 0..20_000 {
            if live.len() < 500 || rng.below(2) == 0 {
                let len = 1 + rng.below(300);
                let e = tree.alloc(len);
                assert_eq!(e, linear.alloc(len));
                live.push(e);
            } else {
                let e = live.swap_remove(rng.below(live.len() as u64) as usize);
                tree.free(e);
                linear.free(e);
            }
            assert_eq!(tree.tail(), linear.tail());
        }
    }
}
