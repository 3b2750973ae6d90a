//! Threads: writers, readers, freezes and jobs at once. Money moves between accounts; every
//! snapshot must see the same total, every account exactly once, in both directions.
#![allow(clippy::disallowed_methods)]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use frond_base::{AllReaders, EntryKind, EntryRef, Readers, Seq, SEQ_MAX};
use frond_run::testing::TestRng;
use frond_tree::testing::{MemLog, MemStore};
use frond_tree::{Bounds, JobKind, Step, Tree, TreeOptions};
use parking_lot::{Mutex, RwLock};

use crate::support::{below, tiny, TREE};

const ACCOUNTS: u64 = 3000;
const EACH: u64 = 1000;
const WRITERS: u64 = 2;

/// Snapshots that are held.
#[derive(Default)]
struct Book {
    published: AtomicU64,
    live: Mutex<Vec<Seq>>,
}

impl Readers for Book {
    fn retention(&self) -> Vec<Seq> {
        let live = self.live.lock();
        let mut all = live.clone();
        all.push(self.published.load(Ordering::Acquire));
        all.sort_unstable();
        all.dedup();
        all
    }
}

struct Bank {
    tree: Tree,
    /// Writers hold it shared, freezes alone.
    gate: RwLock<()>,
    commit: Mutex<Seq>,
    book: Arc<Book>,
    stop: AtomicBool,
    commits: AtomicU64,
    scans: AtomicU64,
    jobs: AtomicU64,
}

fn account(n: u64) -> Vec<u8> {
    format!("account {n:06}").into_bytes()
}

impl Bank {
    fn commit(&self, entries: &[(Vec<u8>, u64)]) {
        let values: Vec<[u8; 8]> = entries.iter().map(|(_, v)| v.to_be_bytes()).collect();
        let _gate = self.gate.read();
        let seq = {
            let mut last = self.commit.lock();
            *last += 1;
            *last
        };
        let batch = entries.iter().zip(&values).map(|((key, _), value)| EntryRef {
            key,
            seq,
            kind: EntryKind::Put,
            value,
        });
        self.tree.write(seq, batch);
        while self.book.published.load(Ordering::Acquire) != seq - 1 {
            std::thread::yield_now();
        }
        self.book.published.store(seq, Ordering::Release);
        self.commits.fetch_add(1, Ordering::Relaxed);
    }

    fn snapshot(&self) -> Seq {
        let mut live = self.book.live.lock();
        let at = self.book.published.load(Ordering::Acquire);
        live.push(at);
        at
    }

    fn release(&self, at: Seq) {
        let mut live = self.book.live.lock();
        let i = live.iter().position(|s| *s == at).unwrap();
        live.swap_remove(i);
    }

    fn running(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }

    fn write_loop(&self, writer: u64) {
        let mut rng = TestRng::new(100 + writer);
        let mut value = Vec::new();
        let mut balance = |n: u64| {
            self.tree.get(&account(n), SEQ_MAX, &mut value).unwrap().expect("an account");
            u64::from_be_bytes(value[..].try_into().unwrap())
        };
        while self.running() {
            // Each writer has its own accounts, as row locks would see to.
            let pick = |rng: &mut TestRng| below(rng, ACCOUNTS / WRITERS) * WRITERS + writer;
            let (a, b) = (pick(&mut rng), pick(&mut rng));
            if a == b {
                continue;
            }
            let (from, to) = (balance(a), balance(b));
            let amount = below(&mut rng, from + 1);
            let mut both = [(account(a), from - amount), (account(b), to + amount)];
            both.sort();
            self.commit(&both);
        }
    }

    fn read_loop(&self, forward: bool) {
        while self.running() {
            let at = self.snapshot();
            let mut cursor = self.tree.cursor(at, Bounds::all());
            let (mut total, mut count) = (0, 0);
            let mut more = if forward { cursor.first() } else { cursor.last() }.unwrap();
            while more {
                let n = if forward { count } else { ACCOUNTS - 1 - count };
                assert_eq!(cursor.key(), account(n), "at {at}");
                total += u64::from_be_bytes(cursor.value().try_into().unwrap());
                count += 1;
                more = if forward { cursor.next() } else { cursor.prev() }.unwrap();
            }
            assert_eq!((count, total), (ACCOUNTS, ACCOUNTS * EACH), "at {at}");
            drop(cursor);
            self.release(at);
            self.scans.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn job_loop(&self) {
        while self.running() {
            let plan = self.tree.plan();
            let Some(mut job) = plan.and_then(|p| self.tree.begin(&p, self.book.retention()))
            else {
                std::thread::yield_now();
                continue;
            };
            while job.step().unwrap() == Step::More {
                if !self.running() {
                    return;
                }
            }
            self.jobs.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[test]
fn every_snapshot_sees_the_same_total_while_all_is_in_motion() {
    let options = TreeOptions { cursor_refills: 40, ..tiny() };
    let book = Arc::new(Book::default());
    let store = MemStore::with_rows(100 << 10);
    let tree = Tree::new(TREE, options, store, MemLog::new(), book.clone());
    let bank = Bank {
        tree,
        gate: RwLock::new(()),
        commit: Mutex::new(0),
        book,
        stop: AtomicBool::new(false),
        commits: AtomicU64::new(0),
        scans: AtomicU64::new(0),
        jobs: AtomicU64::new(0),
    };
    bank.commit(&(0..ACCOUNTS).map(|n| (account(n), EACH)).collect::<Vec<_>>());
    let end = Instant::now() + Duration::from_secs(3);
    std::thread::scope(|threads| {
        for writer in 0..WRITERS {
            let bank = &bank;
            threads.spawn(move || bank.write_loop(writer));
        }
        for forward in [true, false] {
            let bank = &bank;
            threads.spawn(move || bank.read_loop(forward));
        }
        threads.spawn(|| bank.job_loop());
        threads.spawn(|| bank.job_loop());
        while Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
            if bank.tree.frozen_count() < 3 {
                let _gate = bank.gate.write();
                bank.tree.freeze(*bank.commit.lock() + 1);
            }
        }
        bank.stop.store(true, Ordering::Relaxed);
    });
    bank.tree.check(true).unwrap();
    let figures = [&bank.commits, &bank.scans, &bank.jobs].map(|n| n.load(Ordering::Relaxed));
    println!("commits, scans, jobs: {figures:?}");
    assert!(figures.iter().all(|n| *n > 3), "{figures:?}");
}

/// Two jobs on one frozen item would put entries above newer ones, and a freeze that begins where the one
/// before was would leave entries out.
#[test]
fn a_frozen_item_is_one_job_at_a_time() {
    let options = TreeOptions { group_bytes: 1, min_slice: 1, ..tiny() };
    let tree = Tree::new(TREE, options, MemStore::new(), MemLog::new(), Arc::new(AllReaders));
    let (held, twice) = (AtomicU64::new(0), AtomicBool::new(false));
    let stop = AtomicBool::new(false);
    let take = || {
        // A plan may be begun late, when another thread has begun the same one.
        let mut late = None;
        while !stop.load(Ordering::Relaxed) {
            let Some(plan) = late.take().or_else(|| tree.plan()) else { continue };
            let job = tree.begin(&plan, vec![SEQ_MAX]);
            let freezes = plan.kind == JobKind::Freeze;
            late = Some(plan).filter(|_| freezes && tree.frozen_count() > 0);
            let Some(mut job) = job else { continue };
            loop {
                // Between two steps it is not over.
                if freezes && held.fetch_add(1, Ordering::SeqCst) > 0 {
                    twice.store(true, Ordering::SeqCst);
                }
                std::thread::yield_now();
                if freezes {
                    held.fetch_sub(1, Ordering::SeqCst);
                }
                if job.step().unwrap() == Step::Done {
                    break;
                }
            }
        }
    };
    let end = Instant::now() + Duration::from_secs(1);
    let mut newest = 0u64;
    std::thread::scope(|threads| {
        for _ in 0..3 {
            threads.spawn(take);
        }
        while Instant::now() < end || newest < 4 {
            if tree.frozen_count() > 3 {
                std::thread::yield_now();
                continue;
            }
            newest += 1;
            let value = [&newest.to_be_bytes()[..], &[7; 50]].concat();
            let keys: Vec<_> = (0..ACCOUNTS).step_by(3).map(account).collect();
            let put = |key| EntryRef { key, seq: newest, kind: EntryKind::Put, value: &value };
            tree.write(newest, keys.iter().map(|key| put(&key[..])));
            tree.freeze(newest + 1);
        }
        while tree.frozen_count() > 0 {
            std::thread::yield_now();
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(!twice.load(Ordering::SeqCst), "two jobs on one frozen item");
    let mut value = Vec::new();
    for n in (0..ACCOUNTS).step_by(3) {
        let found = tree.get(&account(n), SEQ_MAX, &mut value).unwrap();
        assert!(found.is_some() && value[..8] == newest.to_be_bytes(), "{n}");
    }
}
