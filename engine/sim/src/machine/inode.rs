//! One simulated file: the contents that programs see, the durable contents, and the changes in between.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::content::{Content, SECTOR};
use crate::rng::Rng;

/// A change that no sync has covered yet.
#[derive(Clone)]
pub enum Pending {
    Write {
        offset: u64,
        bytes: Arc<[u8]>,
    },
    /// The bytes of the range became zero: a punched hole, or a part that was cut off.
    Zero {
        offset: u64,
        end: u64,
    },
    SetLen(u64),
}

/// How a crash treats unsynced changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    Nothing,
    Everything,
    /// Each sector takes, on its own, any version since the last sync; most take the newest with
    /// `Most`, the oldest with `Few`.
    Mixed,
    Most,
    Few,
}

impl Keep {
    pub fn draw(rng: &mut Rng) -> Keep {
        [Keep::Nothing, Keep::Everything, Keep::Mixed, Keep::Most, Keep::Few]
            [rng.weighted(&[2, 2, 3, 2, 2])]
    }

    /// How many of `n` changes in a row survive.
    pub fn choose(self, n: usize, rng: &mut Rng) -> usize {
        match self {
            Keep::Nothing => 0,
            Keep::Everything => n,
            Keep::Mixed => rng.index(n + 1),
            Keep::Most if rng.percent(90) => n,
            Keep::Few if rng.percent(90) => 0,
            Keep::Most | Keep::Few => rng.index(n + 1),
        }
    }
}

/// A file, whatever its name.
#[derive(Clone, Default)]
pub struct Inode {
    /// The contents that reads return.
    pub current: Content,
    /// The contents at the last good sync.
    pub durable: Content,
    pub pending: Vec<Pending>,
    /// A failed sync dropped changes: `current` is not `durable` plus `pending` any more.
    pub diverged: bool,
}

impl Inode {
    pub fn write(&mut self, bytes: &[u8], offset: u64) {
        self.current.write(bytes, offset);
        self.pending.push(Pending::Write { offset, bytes: bytes.into() });
    }

    pub fn set_len(&mut self, len: u64) {
        let old = self.current.len();
        if len < old {
            self.pending.push(Pending::Zero { offset: len, end: old });
        }
        self.current.set_len(len);
        self.pending.push(Pending::SetLen(len));
    }

    pub fn punch(&mut self, offset: u64, end: u64) {
        self.current.zero(offset, end);
        self.pending.push(Pending::Zero { offset, end });
    }

    /// A good sync: everything pending is durable.
    pub fn sync(&mut self) {
        if self.diverged {
            for change in std::mem::take(&mut self.pending) {
                apply(&mut self.durable, &change);
            }
            return;
        }
        for change in std::mem::take(&mut self.pending) {
            match change {
                Pending::Write { offset, bytes } => {
                    self.durable.share(&self.current, offset, bytes.len());
                }
                Pending::Zero { offset, end } => {
                    let len = end.saturating_sub(offset) as usize;
                    self.durable.share(&self.current, offset, len);
                }
                Pending::SetLen(_) => {}
            }
        }
        self.durable.set_len(self.current.len());
    }

    /// A failed sync: some of the pending changes reached the disk, the rest never will, though
    /// reads go on showing them.
    pub fn fail_sync(&mut self, rng: &mut Rng) {
        self.durable = self.after_crash(Keep::draw(rng), rng);
        self.diverged = !self.pending.is_empty() || self.diverged;
        self.pending.clear();
    }

    /// The contents after a crash now.
    pub fn after_crash(&self, keep: Keep, rng: &mut Rng) -> Content {
        let mut out = self.durable.clone();
        match keep {
            Keep::Nothing => return out,
            Keep::Everything => {
                for change in &self.pending {
                    apply(&mut out, change);
                }
                return out;
            }
            Keep::Mixed | Keep::Most | Keep::Few => {}
        }
        let mut lengths = Vec::new();
        let mut len = out.len();
        let mut touched: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        for (i, change) in self.pending.iter().enumerate() {
            let (from, to, new_len) = match change {
                Pending::Write { offset, bytes } => {
                    let end = offset + bytes.len() as u64;
                    (*offset, end, len.max(end))
                }
                Pending::Zero { offset, end } => (*offset, *end, len),
                Pending::SetLen(n) => (0, 0, *n),
            };
            for sector in from / SECTOR as u64..to.div_ceil(SECTOR as u64) {
                touched.entry(sector).or_default().push(i);
            }
            if new_len != len {
                len = new_len;
                lengths.push(len);
            }
        }
        for (sector, changes) in touched {
            let kept = keep.choose(changes.len(), rng);
            if kept == 0 {
                continue;
            }
            let mut bytes = out.sector(sector);
            let base = sector * SECTOR as u64;
            for &i in &changes[..kept] {
                patch(&mut bytes, base, &self.pending[i]);
            }
            out.write_within(&bytes, base);
        }
        let kept = keep.choose(lengths.len(), rng);
        let len = if kept == 0 { self.durable.len() } else { lengths[kept - 1] };
        // Data that reached the disk behind the surviving length is not seen, and never again.
        out.set_len_only(u64::MAX >> 1);
        out.set_len(len);
        out
    }
}

fn apply(content: &mut Content, change: &Pending) {
    match change {
        Pending::Write { offset, bytes } => content.write(bytes, *offset),
        Pending::Zero { offset, end } => content.zero(*offset, *end),
        Pending::SetLen(len) => content.set_len(*len),
    }
}

/// Applies the part of `change` that lies in the sector starting at `base`.
fn patch(sector: &mut [u8; SECTOR], base: u64, change: &Pending) {
    let limit = base + SECTOR as u64;
    match change {
        Pending::Write { offset, bytes } => {
            let from = base.max(*offset);
            let to = limit.min(offset + bytes.len() as u64);
            let source = &bytes[(from - offset) as usize..(to - offset) as usize];
            sector[(from - base) as usize..(to - base) as usize].copy_from_slice(source);
        }
        Pending::Zero { offset, end } => {
            let (from, to) = (base.max(*offset), limit.min(*end));
            sector[(from - base) as usize..(to - base) as usize].fill(0);
        }
        Pending::SetLen(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(content: &Content) -> Vec<u8> {
        let mut out = vec![0; content.len() as usize];
        content.read(&mut out, 0);
        out
    }

    #[test]
    fn a_crash_mixes_whole_sectors_of_synced_and_later_bytes() {
        let mut inode = Inode::default();
        inode.write(&[1; 4 * SECTOR], 0);
        inode.sync();
        inode.write(&[2; 4 * SECTOR], 0);
        inode.write(&[3; 4 * SECTOR], 0);
        let mut seen = [false; 4];
        let mut rng = Rng::new(1);
        for _ in 0..100 {
            let after = bytes(&inode.after_crash(Keep::Mixed, &mut rng));
            assert_eq!(after.len(), 4 * SECTOR);
            for sector in after.chunks(SECTOR) {
                assert!(sector.iter().all(|&b| b == sector[0]), "a sector is never torn");
                seen[usize::from(sector[0])] = true;
            }
        }
        assert_eq!(seen, [false, true, true, true]);
    }

    #[test]
    fn length_and_data_survive_independently() {
        let mut inode = Inode::default();
        inode.write(&[1; 2 * SECTOR], 0);
        let (mut zeros, mut short) = (false, false);
        let mut rng = Rng::new(2);
        for _ in 0..100 {
            let after = bytes(&inode.after_crash(Keep::Mixed, &mut rng));
            zeros |= after.len() == 2 * SECTOR && after[0] == 0;
            short |= after.is_empty();
        }
        assert!(zeros && short);
    }

    #[test]
    fn what_a_failed_sync_dropped_never_becomes_durable() {
        let mut inode = Inode::default();
        inode.write(&[1; SECTOR], 0);
        inode.sync();
        let mut rng = Rng::new(3);
        loop {
            let mut failed = inode.clone();
            failed.write(&[2; SECTOR], 0);
            failed.fail_sync(&mut rng);
            if bytes(&failed.durable)[0] == 2 {
                continue;
            }
            assert_eq!(bytes(&failed.current)[0], 2);
            failed.sync();
            assert_eq!(bytes(&failed.after_crash(Keep::Everything, &mut rng))[0], 1);
            break;
        }
    }
}
