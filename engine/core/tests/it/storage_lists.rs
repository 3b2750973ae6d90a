//! Lists of indexes, files, cached pages and jobs; what a thread reads.

use std::sync::Arc;

use frond_engine::{
    read_counts, CachedInfo, Engine, FileInfo, IndexInfo, JobInfo, ReadCounts, Table,
};

use crate::support::*;

fn indexes(engine: &Engine) -> Vec<IndexInfo> {
    let mut all = Vec::new();
    engine.each_index(&mut |i| {
        all.push(i.clone());
        true
    });
    all
}

fn files(engine: &Engine) -> Vec<FileInfo> {
    let mut all = Vec::new();
    engine.each_file(&mut |f| {
        all.push(f.clone());
        true
    });
    all
}

fn cached(engine: &Engine) -> Vec<CachedInfo> {
    let mut all = Vec::new();
    engine.each_cached(&mut |c| {
        all.push(c.clone());
        true
    });
    all
}

fn jobs(engine: &Engine) -> Vec<JobInfo> {
    let mut all = Vec::new();
    engine.each_job(&mut |j| {
        all.push(j.clone());
        true
    });
    all
}

/// Values that do not pack.
fn fill(engine: &Engine, table: &Arc<Table>, rows: u64) {
    let mut txn = begin(engine);
    for n in 0..rows {
        let mut rng = Rng(n);
        let value: Vec<u8> = (0..100).map(|_| rng.next() as u8).collect();
        txn.put(table, &key(n), &value, false).unwrap();
    }
    txn.commit().unwrap();
}

#[test]
fn tables_have_figures_when_they_are_open_and_are_listed_when_not() {
    let vfs = memory();
    {
        let engine = open(&vfs);
        let t = engine.create_table(plain("t")).unwrap();
        assert_eq!(files(&engine).len(), 0, "nothing has been written");
        fill(&engine, &t, 3_000);
        let i = &indexes(&engine)[0];
        assert_eq!((i.table.as_str(), i.tree, i.def.page_bytes), ("t", 0, 4096));
        assert_eq!(i.stats.as_ref().unwrap().buffered_entries, 3_000);
        engine.flush_all().unwrap();
        assert_eq!(indexes(&engine)[0].stats.as_ref().unwrap().entries, 3_000);
        let f = files(&engine).into_iter().find(|f| f.table == "t").unwrap();
        let stats = f.stats.unwrap();
        assert_eq!((f.file.as_str(), f.held_bytes), ("1.frd", 0));
        assert_eq!(vfs.contents("1.frd").unwrap().len() as u64, stats.file_bytes);
        assert!(stats.blocks > 0 && stats.checkpoint_lsn > 0);
        // Until the log has nothing of the table any more, so that a start need not open it.
        let other = engine.create_table(plain("other")).unwrap();
        for _ in 0..4 {
            fill(&engine, &other, 1_000);
            while engine.background_step() {}
        }
        engine.flush_all().unwrap();
        while engine.background_step() {}
    }
    let engine = open(&vfs);
    let of_t = |all: Vec<IndexInfo>| all.into_iter().find(|i| i.table == "t").unwrap().stats;
    let file = || files(&engine).into_iter().find(|f| f.table == "t").unwrap();
    assert!(of_t(indexes(&engine)).is_none() && file().stats.is_none());
    engine.open_table("t").unwrap();
    assert_eq!(of_t(indexes(&engine)).unwrap().entries, 3_000);
    assert!(file().stats.is_some());
}

#[test]
fn cached_pages_are_those_of_their_table_until_it_is_dropped() {
    let engine = open(&memory());
    let (a, b) =
        (engine.create_table(plain("a")).unwrap(), engine.create_table(plain("b")).unwrap());
    fill(&engine, &a, 3_000);
    fill(&engine, &b, 500);
    engine.flush_all().unwrap();
    assert_eq!((all(&engine, &a).len(), all(&engine, &b).len()), (3_000, 500));
    let list = cached(&engine);
    let pages = |name: &str| list.iter().find(|c| c.table == name).map_or(0, |c| c.held.pages);
    assert!(pages("a") > 4 * pages("b") && pages("b") > 5, "{list:?}");
    let sum: u64 = list.iter().map(|c| c.held.bytes).sum();
    let status = engine.status();
    assert_eq!(sum, status.iter().find(|(n, _)| *n == "page_cache_bytes").unwrap().1);
    assert!(list.iter().all(|c| c.tree == Some(0)));
    drop(a);
    engine.drop_table("a").unwrap();
    let list = cached(&engine);
    assert!(list.iter().any(|c| c.tree.is_none()) && list.iter().all(|c| c.table != "a"));
    while engine.background_step() {}
    assert!(cached(&engine).iter().all(|c| c.tree.is_some()));
}

#[test]
fn work_that_waits_is_listed_until_it_is_done_and_a_backup_until_it_ends() {
    let engine = open(&memory());
    let t = engine.create_table(plain("t")).unwrap();
    let of_t = |engine: &Engine| jobs(engine).into_iter().filter(|j| j.table == "t").collect();
    fill(&engine, &t, 20_000);
    let waiting: Vec<JobInfo> = of_t(&engine);
    let j = &waiting[0];
    assert_eq!((j.kind, j.state, j.age), ("ATTACH", "WAITING", None));
    while engine.background_step() {}
    let done: Vec<JobInfo> = of_t(&engine);
    assert!(done.is_empty(), "{done:?}");
    let id = engine.backup_begin().unwrap();
    let all = jobs(&engine);
    assert_eq!((all[0].kind, all[0].state), ("BACKUP", "ARMED"));
    assert!(engine.backup_mark().unwrap());
    let all = jobs(&engine);
    assert!(all[0].state == "PINNED" && all[0].details.contains("files are pinned"), "{all:?}");
    drop(t);
    engine.drop_table("t").unwrap();
    let is_kept = |j: &JobInfo| j.kind == "DROP TABLE" && j.details.contains("for a backup");
    assert!(jobs(&engine).iter().any(is_kept));
    engine.backup_abandon(id);
    while engine.background_step() {}
    assert!(jobs(&engine).is_empty());
}

#[test]
fn a_thread_counts_its_own_reads_while_it_asks_for_it() {
    let vfs = memory();
    {
        let engine = open(&vfs);
        let t = engine.create_table(plain("t")).unwrap();
        fill(&engine, &t, 3_000);
        engine.flush_all().unwrap();
    }
    let engine = open(&vfs);
    let t = engine.open_table("t").unwrap();
    let read = |n| assert!(begin(&engine).get(&t, 0, &key(n), &mut Vec::new()).unwrap());
    assert!(read_counts::begin() && !read_counts::begin());
    read(7);
    let first = read_counts::end();
    assert!(first.accessed >= 1 && first.from_file >= 2, "a page and its fences: {first:?}");
    assert!(read_counts::begin());
    read(7);
    let again = read_counts::end();
    assert!(again.accessed < first.accessed && again.from_file == 0, "{again:?}");
    read(7);
    assert_eq!(read_counts::end(), ReadCounts::default(), "not while nobody asks");
    assert!(read_counts::begin());
    std::thread::scope(|threads| threads.spawn(|| read(2_000)).join().unwrap());
    assert_eq!(read_counts::end(), ReadCounts::default());
    assert!(read_counts::begin());
    assert_eq!(all(&engine, &t).len(), 3_000);
    let scan = read_counts::end();
    assert!(scan.read_ahead > scan.from_file && scan.from_file > 0, "{scan:?}");
    assert!(scan.accessed >= scan.read_ahead + scan.from_file, "{scan:?}");
}
