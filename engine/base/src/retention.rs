//! Which versions of a key may still be read: the one rule by which merges of runs and write
//! buffers drop versions.
//!
//! - RT1. A version newer than the last snapshot of a list is needed: snapshots that are taken later may need
//!   any of them.
//! - RT2. Of the rest a version is needed iff it is the newest one that some snapshot of the list sees.
//!
//! So for each dropped version there is a newer published one of the same key, and no snapshot lies
//! between the two, now or later. A list may be out of date: a snapshot that was released since
//! then only keeps too many versions, and a snapshot that is taken later is not below the list's
//! last element.
//!
//! Tested here and in the crates that use it.

use crate::ids::Seq;

/// The source of the live snapshots.
pub trait Readers: Send + Sync {
    /// The live snapshots in ascending order, then the published sequence: no snapshot that is taken
    /// later is below it. An empty list means that nothing is known about readers, so every version is
    /// needed.
    fn retention(&self) -> Vec<Seq>;
}

/// No knowledge of readers: every version is needed.
pub struct AllReaders;

impl Readers for AllReaders {
    fn retention(&self) -> Vec<Seq> {
        Vec::new()
    }
}

/// The state of a visit to the versions of one key, newest first: the snapshots of a list that have
/// not met the version that they see.
#[derive(Clone, Copy, Debug)]
pub struct Unserved {
    /// The number of these snapshots. They are the first ones of the list.
    first: usize,
}

impl Unserved {
    /// The state before the newest version of a key.
    #[inline]
    pub fn all(snapshots: &[Seq]) -> Unserved {
        Unserved { first: snapshots.len() }
    }

    /// The state after a version that all snapshots see.
    #[inline]
    pub fn none() -> Unserved {
        Unserved { first: 0 }
    }

    #[inline]
    pub fn is_none(&self) -> bool {
        self.first == 0
    }

    /// Visits the version `seq`; `snapshots` is the list with which the visit began. `None`: nobody
    /// needs the version. Otherwise: the number of snapshots that are too old to see it.
    #[inline]
    pub fn serve(&mut self, seq: Seq, snapshots: &[Seq]) -> Option<usize> {
        debug_assert!(self.first <= snapshots.len(), "another list than it began with (RT2)");
        let too_old = snapshots.partition_point(|s| *s < seq);
        if too_old == snapshots.len() {
            return Some(too_old);
        }
        if too_old >= self.first {
            return None;
        }
        self.first = too_old;
        Some(too_old)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needed(versions: &[Seq], snapshots: &[Seq]) -> Vec<Seq> {
        let mut unserved = Unserved::all(snapshots);
        versions.iter().copied().filter(|v| unserved.serve(*v, snapshots).is_some()).collect()
    }

    #[test]
    fn what_every_present_and_later_snapshot_sees_is_needed_and_nothing_else() {
        // Versions, as bits, of sequences 1 to 7; snapshots likewise, the last one being the published.
        for versions in 0..128u64 {
            let versions: Vec<Seq> =
                (1..8).rev().filter(|s| versions & 1 << (s - 1) != 0).collect();
            for snapshots in 1..128u64 {
                let snapshots: Vec<Seq> =
                    (1..8).filter(|s| snapshots & 1 << (s - 1) != 0).collect();
                let last = *snapshots.last().unwrap();
                let sees = |at: Seq| versions.iter().copied().find(|v| *v <= at);
                let later = last..9;
                let want: Vec<Seq> = versions
                    .iter()
                    .copied()
                    .filter(|v| {
                        let mut readers = snapshots.iter().copied().chain(later.clone());
                        readers.any(|at| sees(at) == Some(*v))
                    })
                    .collect();
                assert_eq!(needed(&versions, &snapshots), want, "{versions:?} {snapshots:?}");
            }
            assert_eq!(needed(&versions, &[]), versions, "nothing known, nothing dropped");
        }
    }
}
