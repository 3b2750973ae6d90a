//! Fences and filters of runs against their limit.

use std::sync::Arc;

use frond_base::TableId;
use frond_cache::{Budget, IndexCache, Part};
use frond_run::testing::{build_run, MemSource, OwnedEntry};
use frond_run::{Compression, KeyShape, Run, RunFormat, RunIdentity, RunIndex};

/// `n` runs of 500 keys with filters, no index loaded.
fn runs(source: &MemSource, n: u64) -> Vec<Arc<Run>> {
    let format = RunFormat {
        page_bytes: 4096,
        compression: Compression::None,
        key_shape: KeyShape::variable(),
        filter: true,
    };
    let entry = |i: u32| OwnedEntry::put(i.to_be_bytes(), 1, vec![7; 40]);
    let entries: Vec<_> = (0..500).map(entry).collect();
    let id = |block| RunIdentity { table: TableId(1), block };
    (0..n).map(|block| source.add(build_run(&format, id(block), &entries))).collect()
}

struct Indexes {
    source: MemSource,
    budget: Arc<Budget>,
    cache: IndexCache,
}

impl Indexes {
    fn new() -> Indexes {
        let budget = Arc::new(Budget::new(1 << 20));
        Indexes { source: MemSource::new(), cache: IndexCache::new(budget.clone()), budget }
    }

    /// One use of the index, as a table's store gives it.
    fn touch(&self, run: &Arc<Run>) {
        if run.cached_index().is_none() {
            let load = || {
                let tail = run.meta.index;
                let bytes = self.source.read(run.meta.block(), tail.offset, tail.len)?;
                let index = RunIndex::parse(&bytes, &run.meta, "memory")?;
                Ok(if self.cache.has_room() { index } else { index.without_filter() })
            };
            run.index_or_load(load, |index| self.cache.admit(run, index)).expect("in memory");
        }
    }

    fn used(&self) -> usize {
        self.budget.used_by(Part::RunIndexes)
    }
}

#[test]
fn what_was_not_used_goes_when_others_need_the_room() {
    let all = Indexes::new();
    let runs = runs(&all.source, 300);
    all.touch(&runs[0]);
    let one = all.used();
    all.cache.set_limit(20 * one);
    for run in &runs {
        all.touch(run);
        // In use all the time.
        all.touch(&runs[0]);
        assert!(all.used() <= 21 * one, "{} of {one} each", all.used());
    }
    assert!(runs[0].cached_index().is_some());
    let held = runs.iter().filter_map(|run| run.cached_index()).map(|index| index.memory_bytes());
    assert_eq!(all.used(), held.sum::<usize>(), "XC1");
    assert!(!all.cache.has_room());
    // Less room: the next adjustments take more away, down to nothing.
    for _ in 0..20 {
        all.cache.set_limit(0);
    }
    assert_eq!(all.used(), 0);
}

#[test]
fn filters_come_back_when_there_is_room_again() {
    let all = Indexes::new();
    let runs = runs(&all.source, 100);
    all.touch(&runs[0]);
    let one = all.used();
    all.cache.set_limit(20 * one);
    runs.iter().for_each(|run| all.touch(run));
    let lacking = |runs: &[Arc<Run>]| runs.iter().filter(|run| run.lacks_filter()).count();
    assert!(lacking(&runs) > 0);
    for _ in 0..10 {
        all.cache.set_limit(1 << 20);
    }
    runs.iter().for_each(|run| all.touch(run));
    assert_eq!((lacking(&runs), all.used()), (0, 100 * one));
}

#[test]
fn an_index_that_a_reader_keeps_stays_with_its_run() {
    let all = Indexes::new();
    let runs = runs(&all.source, 100);
    all.touch(&runs[0]);
    let one = all.used();
    let reader = runs[0].cached_index().unwrap().keep();
    all.cache.set_limit(10 * one);
    runs.iter().for_each(|run| all.touch(run));
    assert!(runs[0].cached_index().is_some_and(|index| std::ptr::eq(&*index, &*reader)));
}

#[test]
fn an_index_is_charged_until_its_last_reader_lets_go() {
    let all = Indexes::new();
    let runs = runs(&all.source, 1);
    all.touch(&runs[0]);
    let reader = runs[0].cached_index().unwrap().keep();
    let one = all.used();
    let other = Arc::new(Run::with_shared_index(runs[0].meta.clone(), reader.clone()));
    all.cache.admit(&other, &reader);
    assert_eq!(all.used(), one, "two handles have the same memory");
    runs[0].give_up_index();
    drop(other);
    assert_eq!(all.used(), one);
    drop(reader);
    assert_eq!(all.used(), 0);
}

#[test]
fn handles_of_runs_that_are_gone_do_not_pile_up() {
    let all = Indexes::new();
    for _ in 0..50 {
        for run in runs(&all.source, 100) {
            all.touch(&run);
        }
    }
    assert!(all.cache.handles() < 1_000, "XC2: {}", all.cache.handles());
}
