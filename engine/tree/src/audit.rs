//! Checks all that a tree has stored: its structure, and every page of every run against the
//! trunk's records of it. A page that does not verify does not end the check.

use std::collections::BTreeMap;

use frond_base::{BlockId, EntryKind, Error, Result, Seq};
use frond_run::{Access, Reader};

#[cfg(debug_assertions)]
use crate::book::{Noted, RunChange};
use crate::check;
use crate::place::checksum;
use crate::store::TrunkRun;
use crate::tree::{Tree, TreeInner};
use crate::trunk::Trunk;
use crate::view::Content;

/// Most problems reported of one tree: a destroyed file must not fill the memory.
const PROBLEMS_MAX: usize = 200;

/// The extent of a check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    pub nodes: u64,
    pub runs: u64,
    /// Pages and entries that were read.
    pub pages: u64,
    pub entries: u64,
}

impl Tree {
    /// Checks the trunk's structure; `deep` reads every page of every run and compares with its
    /// meta. Fails with the first problem.
    pub fn check(&self, deep: bool) -> Result<CheckReport> {
        let mut first = None;
        let report = self.check_all(deep, &mut |e| {
            first.get_or_insert(e);
        });
        match first {
            None => Ok(report),
            Some(e) => Err(e),
        }
    }

    /// As [`Self::check`], but goes on after a problem: `found` gets each one, up to a limit.
    pub fn check_all(&self, deep: bool, found: &mut dyn FnMut(Error)) -> CheckReport {
        self.check_all_unless(deep, found, &mut || false)
    }

    /// As [`Self::check_all`], but ends early when `killed`, called before each page, returns true.
    pub fn check_all_unless(
        &self,
        deep: bool,
        found: &mut dyn FnMut(Error),
        killed: &mut dyn FnMut() -> bool,
    ) -> CheckReport {
        let view = self.inner.view.load_full();
        let tree = self.inner.id;
        let file = format!("{}.frd", tree.table);
        let bad = |what: String| Error::corruption(&file, format!("tree {tree}: {what}"));
        let mut told = 0;
        let mut tell = |e: Error| {
            told += 1;
            if told < PROBLEMS_MAX {
                found(e);
            } else if told == PROBLEMS_MAX {
                found(bad("there is more wrong with it than is listed".into()));
            }
        };
        if let Err(what) = check::structure(&view.trunk) {
            tell(bad(what));
        }
        let mut report = CheckReport::default();
        let mut runs = BTreeMap::new();
        view.trunk.walk(&mut |_, _, _| report.nodes += 1);
        view.trunk.each_slice(&mut |s| {
            runs.insert(s.run.block(), s.run.clone());
        });
        for item in &view.frozen {
            if let Content::Runs(lists) = &item.content {
                for slice in lists.iter().flat_map(|runs| runs.iter()) {
                    runs.insert(slice.run.block(), slice.run.clone());
                }
            }
        }
        report.runs = runs.len() as u64;
        if deep {
            self.check_packs(&view.trunk, &mut |wrong| match wrong {
                Wrong::Unreadable(e) => tell(e),
                Wrong::Content(what) => tell(bad(what)),
            });
            for (block, run) in &runs {
                let mut walk = RunWalk::default();
                let mut tell = |wrong| match wrong {
                    Wrong::Unreadable(e) => tell(e),
                    Wrong::Content(what) => tell(bad(in_block(*block, &what))),
                };
                if !self.check_run(run, &mut walk, &mut tell, killed) {
                    break;
                }
                report.entries += walk.entries;
                report.pages += walk.pages;
            }
            if let Err(e) = self.check_rows() {
                tell(e);
            }
        }
        report
    }

    /// Reads every node that is stored.
    fn check_packs(&self, trunk: &Trunk, found: &mut dyn FnMut(Wrong)) {
        let TreeInner { id, store, packs, .. } = &*self.inner;
        trunk.walk(&mut |node, _, range| {
            // While this is held no pack is given back. Packs that were given back before are not
            // in it (NP2).
            let packs = packs.lock();
            let stored = node.stored.get().filter(|place| packs.contains(&place.pack));
            let Some(place) = stored else { return };
            match store.read_block(place.pack, place.offset, place.len) {
                Err(e) => found(Wrong::Unreadable(e)),
                Ok(bytes) => {
                    if checksum(&bytes, id.table, place.pack, place.offset) != place.checksum {
                        let (node, pack) = (node.id, place.pack);
                        let lo = range.lo_bytes().escape_ascii();
                        let what = format!(
                            "the stored trunk node {node} in block {pack}, of keys from '{lo}', does not verify"
                        );
                        found(Wrong::Content(what));
                    }
                }
            }
        });
    }

    /// False when it was killed.
    fn check_run(
        &self,
        run: &TrunkRun,
        walk: &mut RunWalk,
        found: &mut dyn FnMut(Wrong),
        killed: &mut dyn FnMut() -> bool,
    ) -> bool {
        let meta = run.meta();
        let index = match run.index() {
            Ok(index) => index,
            Err(e) => {
                found(Wrong::Unreadable(e));
                return true;
            }
        };
        for number in 0..index.pages() {
            if killed() {
                return false;
            }
            let page = match self.inner.store.page(&run.run, number, Access::Verify) {
                Ok(page) => page,
                Err(e) => {
                    walk.torn = true;
                    // The page before is not its neighbour.
                    walk.key.clear();
                    found(Wrong::Unreadable(e));
                    continue;
                }
            };
            walk.pages += 1;
            let mut key = Vec::new();
            let mut reader = Reader::new(&*page);
            for i in 0..page.len() {
                reader.key_into(i, &mut key);
                let value = reader.value(i).len();
                if !walk.entry(&mut key, meta.seq(&mut reader, i), reader.kind(i), value) {
                    found(Wrong::Content(format!("page {number}: entry {i} is out of order")));
                    break;
                }
                if number == 0 && i == 0 && *walk.key != *meta.min_key {
                    found(Wrong::Content("the first key is not the one recorded".into()));
                }
            }
        }
        if walk.torn {
            return true;
        }
        let held = (walk.entries, walk.tombstones, walk.logical, walk.max_seq);
        let recorded = (meta.entries, meta.tombstones, meta.logical_bytes, meta.max_seq);
        if held != recorded || *walk.key != *meta.max_key {
            found(Wrong::Content(format!("holds {held:?}, its meta says {recorded:?}")));
        }
        true
    }
}

/// TBK1 and TBK2, by a walk.
#[cfg(debug_assertions)]
pub(crate) fn assert_book(trunk: &Trunk, noted: &Noted) {
    let mut live: BTreeMap<BlockId, u64> = noted.packs.keys().map(|block| (*block, 0)).collect();
    trunk.walk(&mut |node, _, _| {
        if let Some(place) = node.stored.get() {
            *live.entry(place.pack).or_insert(0) += place.len;
        }
    });
    for (block, live) in live {
        let noted = noted.packs.get(&block).map(|pack| pack.live);
        assert_eq!(noted, Some(live), "live bytes of pack {block} (TBK1)");
    }
    let mut runs = std::collections::BTreeSet::new();
    trunk.each_slice(&mut |s| {
        runs.insert(s.run.block());
    });
    for (block, change) in &noted.runs {
        let is_there = runs.contains(block);
        assert_eq!(is_there, *change == RunChange::Added, "block {block}: {change:?} (TBK2)");
    }
}

fn in_block(block: BlockId, what: &str) -> String {
    format!("block {block}: {what}")
}

enum Wrong {
    Unreadable(Error),
    Content(String),
}

/// What was read of a run, and the entry before.
#[derive(Default)]
struct RunWalk {
    pages: u64,
    entries: u64,
    tombstones: u64,
    logical: u64,
    max_seq: Seq,
    key: Vec<u8>,
    seq: Seq,
    /// A page could not be read: the sums mean nothing.
    torn: bool,
}

impl RunWalk {
    /// Counts an entry and keeps its key; false when it is not after the entry before.
    fn entry(&mut self, key: &mut Vec<u8>, seq: Seq, kind: EntryKind, value_len: usize) -> bool {
        let ordered = match self.key.cmp(key) {
            std::cmp::Ordering::Less => true,
            std::cmp::Ordering::Equal => seq < self.seq,
            std::cmp::Ordering::Greater => false,
        };
        self.entries += 1;
        self.tombstones += u64::from(kind == EntryKind::Delete);
        self.logical += (key.len() + value_len) as u64;
        self.max_seq = self.max_seq.max(seq);
        self.seq = seq;
        std::mem::swap(&mut self.key, key);
        self.torn |= !ordered;
        ordered
    }
}
