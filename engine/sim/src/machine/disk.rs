//! All files and the directory, and their state after a crash.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use super::content::{Content, PAGE};
use super::inode::{Inode, Keep};
use crate::rng::Rng;

pub type InodeNo = u64;

/// A change of the directory that no `sync_dir` has covered yet.
#[derive(Clone, Debug)]
enum DirChange {
    Create(String, InodeNo),
    Rename { from: String, to: String, inode: InodeNo },
    Remove(String, InodeNo),
}

/// The state of the machine's storage. Cloning shares all unchanged pages.
#[derive(Clone, Default)]
pub struct Disk {
    inodes: BTreeMap<InodeNo, Inode>,
    next: InodeNo,
    dir: BTreeMap<String, InodeNo>,
    durable_dir: BTreeMap<String, InodeNo>,
    dir_pending: Vec<DirChange>,
    /// Bytes that `allocate` reserved from the start of a file.
    reserved: BTreeMap<InodeNo, u64>,
}

impl Disk {
    pub fn find(&self, name: &str) -> Option<InodeNo> {
        self.dir.get(name).copied()
    }

    pub fn names(&self) -> Vec<String> {
        self.dir.keys().cloned().collect()
    }

    pub fn inode(&self, no: InodeNo) -> &Inode {
        &self.inodes[&no]
    }

    pub fn inode_mut(&mut self, no: InodeNo) -> &mut Inode {
        self.inodes.get_mut(&no).unwrap_or_else(|| unreachable!("inodes live while open"))
    }

    pub fn create(&mut self, name: &str) -> InodeNo {
        let no = self.next;
        self.next += 1;
        self.inodes.insert(no, Inode::default());
        self.dir.insert(name.to_owned(), no);
        self.dir_pending.push(DirChange::Create(name.to_owned(), no));
        no
    }

    pub fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        let inode = self.dir.remove(from).ok_or(io::ErrorKind::NotFound)?;
        self.dir.insert(to.to_owned(), inode);
        let (from, to) = (from.to_owned(), to.to_owned());
        self.dir_pending.push(DirChange::Rename { from, to, inode });
        Ok(())
    }

    pub fn remove(&mut self, name: &str) -> io::Result<()> {
        let inode = self.dir.remove(name).ok_or(io::ErrorKind::NotFound)?;
        self.dir_pending.push(DirChange::Remove(name.to_owned(), inode));
        Ok(())
    }

    pub fn sync_dir(&mut self) {
        self.dir_pending.clear();
        self.durable_dir = self.dir.clone();
    }

    pub fn reserve(&mut self, no: InodeNo, len: u64) {
        let reserved = self.reserved.entry(no).or_default();
        *reserved = len.max(*reserved);
    }

    pub fn unreserve_behind(&mut self, no: InodeNo, len: u64) {
        if let Some(reserved) = self.reserved.get_mut(&no) {
            *reserved = len.min(*reserved);
        }
    }

    /// Pages in use by named files, reservations included.
    pub fn pages_used(&self) -> u64 {
        self.dir.values().map(|&no| self.charge(no)).sum()
    }

    fn charge(&self, no: InodeNo) -> u64 {
        let content = &self.inodes[&no].current;
        let reserved = self.reserved.get(&no).copied().unwrap_or(0);
        content.allocated() + content.missing(0, reserved as usize)
    }

    /// Pages that a write to `[offset, offset + len)` takes.
    pub fn pages_for_write(&self, no: InodeNo, offset: u64, len: usize) -> u64 {
        let reserved = self.reserved.get(&no).copied().unwrap_or(0) / PAGE as u64 * PAGE as u64;
        let from = offset.max(reserved);
        let end = offset + len as u64;
        if from >= end {
            return 0;
        }
        self.inodes[&no].current.missing(from, (end - from) as usize)
    }

    /// Pages that reserving the first `len` bytes takes.
    pub fn pages_for_reserve(&self, no: InodeNo, len: u64) -> u64 {
        let reserved = self.reserved.get(&no).copied().unwrap_or(0);
        let content = &self.inodes[&no].current;
        content.missing(0, len as usize).saturating_sub(content.missing(0, reserved as usize))
    }

    /// A copy without files that nothing names any more (they are open, or were).
    pub fn snapshot(&self) -> Disk {
        let mut named: BTreeSet<InodeNo> = self.dir.values().copied().collect();
        named.extend(self.durable_dir.values());
        named.extend(self.dir_pending.iter().map(|c| match c {
            DirChange::Create(_, no) | DirChange::Remove(_, no) => *no,
            DirChange::Rename { inode, .. } => *inode,
        }));
        let keep = |no: &InodeNo| named.contains(no);
        Disk {
            inodes: self
                .inodes
                .iter()
                .filter(|(no, _)| keep(no))
                .map(|(no, inode)| (*no, inode.clone()))
                .collect(),
            next: self.next,
            dir: self.dir.clone(),
            durable_dir: self.durable_dir.clone(),
            dir_pending: self.dir_pending.clone(),
            reserved: self
                .reserved
                .iter()
                .filter(|(no, _)| keep(no))
                .map(|(n, r)| (*n, *r))
                .collect(),
        }
    }

    /// The state after a power loss: of every file and of the directory the synced part and a
    /// random part of the rest.
    pub fn after_power_loss(&self, rng: &mut Rng) -> Disk {
        let uniform = rng.percent(40).then(|| Keep::draw(rng));
        let keep = |rng: &mut Rng| uniform.unwrap_or_else(|| Keep::draw(rng));
        let dir = self.dir_after_crash(keep(rng), rng);
        let mut inodes = BTreeMap::new();
        for &no in dir.values() {
            if inodes.contains_key(&no) {
                continue;
            }
            let content = self.inodes[&no].after_crash(keep(rng), rng);
            let inode = Inode { current: content.clone(), durable: content, ..Inode::default() };
            inodes.insert(no, inode);
        }
        Disk {
            inodes,
            next: self.next,
            durable_dir: dir.clone(),
            dir,
            dir_pending: Vec::new(),
            reserved: BTreeMap::new(),
        }
    }

    fn dir_after_crash(&self, keep: Keep, rng: &mut Rng) -> BTreeMap<String, InodeNo> {
        let n = self.dir_pending.len();
        let mut dir = self.durable_dir.clone();
        // Either a prefix of the changes, as journals leave, or any of them.
        let prefix = rng.percent(50).then(|| keep.choose(n, rng));
        for (i, change) in self.dir_pending.iter().enumerate() {
            let kept = match (prefix, keep) {
                (_, Keep::Nothing) => false,
                (_, Keep::Everything) => true,
                (Some(k), _) => i < k,
                (None, keep) => keep.choose(1, rng) == 1,
            };
            if !kept {
                continue;
            }
            match change {
                DirChange::Create(name, no) => {
                    dir.insert(name.clone(), *no);
                }
                DirChange::Rename { from, to, inode } => {
                    if dir.get(from) == Some(inode) {
                        dir.remove(from);
                    }
                    dir.insert(to.clone(), *inode);
                }
                DirChange::Remove(name, no) => {
                    if dir.get(name) == Some(no) {
                        dir.remove(name);
                    }
                }
            }
        }
        dir
    }

    /// Takes a name away, durably: damage at rest.
    pub fn lose(&mut self, name: &str) {
        self.dir.remove(name);
        self.sync_dir();
    }

    /// Replaces the bytes of a file, durably: damage at rest.
    pub fn replace(&mut self, name: &str, content: Content) {
        if let Some(no) = self.find(name) {
            let inode = Inode { current: content.clone(), durable: content, ..Inode::default() };
            self.inodes.insert(no, inode);
        }
    }
}
