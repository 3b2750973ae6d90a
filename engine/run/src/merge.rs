//! Merging sorted sources: the loser tree, and a merge of any entry sources for readers.
//!
//! The tree holds the first sixteen key bytes of each source as one number. After the winner moves
//! on, its path to the root is replayed with one comparison per level and without unpredictable
//! branches (random keys would mispredict every other one); equal heads take a slow path that
//! compares whole keys, then ranks.

use std::hint::select_unpredictable;

use frond_base::{EntryRef, EntrySource, Result};

use crate::batch::{self, wide};

/// A loser tree over sources numbered from 0 by rank.
pub(crate) struct LoserTree {
    /// `losers[1..k]`: head and source that lost at this node; `losers[0]`: the winner.
    losers: Vec<(u128, u32)>,
}

impl LoserTree {
    /// Plays all sources, of which there is at least one. An exhausted source has head `u128::MAX`.
    /// `before(a, b)`: whether a's entry comes before b's though their heads are equal; exhausted
    /// sources come last.
    pub(crate) fn new(heads: &[u128], before: impl Fn(usize, usize) -> bool) -> LoserTree {
        let mut tree = LoserTree { losers: vec![(0, 0); heads.len()] };
        tree.losers[0] = tree.play(1, heads, &before);
        tree
    }

    fn play(
        &mut self,
        node: usize,
        heads: &[u128],
        before: &impl Fn(usize, usize) -> bool,
    ) -> (u128, u32) {
        if node >= heads.len() {
            let source = node - heads.len();
            return (heads[source], source as u32);
        }
        let a = self.play(2 * node, heads, before);
        let b = self.play(2 * node + 1, heads, before);
        let a_wins = match a.0 == b.0 {
            true => before(a.1 as usize, b.1 as usize),
            false => a.0 < b.0,
        };
        let (winner, loser) = if a_wins { (a, b) } else { (b, a) };
        self.losers[node] = loser;
        winner
    }

    /// The source whose entry comes first.
    #[inline]
    pub(crate) fn winner(&self) -> usize {
        self.losers[0].1 as usize
    }

    /// The winner moved on; its new head is `head`.
    #[inline]
    pub(crate) fn replay(&mut self, head: u128, before: impl Fn(usize, usize) -> bool) {
        let losers = &mut self.losers[..];
        let mut winner = (head, losers[0].1);
        let mut node = (winner.1 as usize + losers.len()) / 2;
        while node > 0 {
            let other = losers[node];
            let mut other_wins = other.0 < winner.0;
            if other.0 == winner.0 {
                other_wins = tied(&before, other.1, winner.1);
            }
            losers[node] = choose(other_wins, winner, other);
            winner = choose(other_wins, other, winner);
            node /= 2;
        }
        losers[0] = winner;
    }
}

/// `a` if `first`, else `b`, without a branch: it would be mispredicted half the time.
#[inline]
fn choose(first: bool, a: (u128, u32), b: (u128, u32)) -> (u128, u32) {
    let high = select_unpredictable(first, (a.0 >> 64) as u64, (b.0 >> 64) as u64);
    let low = select_unpredictable(first, a.0 as u64, b.0 as u64);
    (u128::from(high) << 64 | u128::from(low), select_unpredictable(first, a.1, b.1))
}

#[cold]
fn tied(before: &impl Fn(usize, usize) -> bool, a: u32, b: u32) -> bool {
    before(a as usize, b as usize)
}

/// A merge of entry sources, most recent first, that yields every version of every source in order:
/// key ascending; within a key by rank, then as its source has them.
pub struct Merge<S: EntrySource> {
    sources: Vec<S>,
    tree: Option<LoserTree>,
}

fn comes_before<S: EntrySource>(sources: &[S], a: usize, b: usize) -> bool {
    match (sources[a].valid(), sources[b].valid()) {
        (true, true) => (sources[a].entry().key, a) < (sources[b].entry().key, b),
        (a_valid, _) => a_valid,
    }
}

fn head_of<S: EntrySource>(source: &S) -> u128 {
    if source.valid() {
        wide(&batch::head_of::<2>(source.entry().key))
    } else {
        u128::MAX
    }
}

impl<S: EntrySource> Merge<S> {
    pub fn new(sources: Vec<S>) -> Merge<S> {
        let heads: Vec<u128> = sources.iter().map(head_of).collect();
        let before = |a: usize, b: usize| comes_before(&sources, a, b);
        let tree = (!heads.is_empty()).then(|| LoserTree::new(&heads, before));
        Merge { sources, tree }
    }

    /// Which source the current entry is from, 0 being the most recent; requires `valid()`.
    pub fn rank(&self) -> usize {
        match &self.tree {
            Some(tree) => tree.winner(),
            None => panic!("rank() of a merge of nothing"),
        }
    }
}

impl<S: EntrySource> EntrySource for Merge<S> {
    fn valid(&self) -> bool {
        self.tree.as_ref().is_some_and(|t| self.sources[t.winner()].valid())
    }

    fn entry(&self) -> EntryRef<'_> {
        self.sources[self.rank()].entry()
    }

    fn advance(&mut self) -> Result<()> {
        let winner = self.rank();
        self.sources[winner].advance()?;
        let head = head_of(&self.sources[winner]);
        if let Some(tree) = &mut self.tree {
            tree.replay(head, |a, b| comes_before(&self.sources, a, b));
        }
        Ok(())
    }
}
