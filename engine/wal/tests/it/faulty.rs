//! A small machine that fails: what was not synced may be lost, torn or reordered by a crash.
//!
//! Per file: the durable bytes, and the writes and length changes since the last sync, of which a
//! crash keeps any subset, sector by sector. Per directory: the durable names and the changes since
//! the last `sync_dir`, of which a crash keeps any subset. A chosen call can fail (a failed sync
//! drops what it should have saved and leaves it visible), or the power can go with it.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use frond_vfs::{check_name, DirLock, OpenHow, Spawned, Vfs, VfsFile};
use parking_lot::Mutex;

use crate::Rng;

const SECTOR: usize = 512;

#[derive(Clone)]
enum Change {
    Write(usize, Vec<u8>),
    Len(usize),
}

#[derive(Clone, Default)]
struct Inode {
    durable: Vec<u8>,
    /// What reads see.
    visible: Vec<u8>,
    pending: Vec<Change>,
}

#[derive(Clone)]
enum NameChange {
    Set(String, usize),
    Gone(String),
    Renamed(String, String, usize),
}

#[derive(Clone, Default)]
struct State {
    inodes: Vec<Inode>,
    durable_names: BTreeMap<String, usize>,
    names: BTreeMap<String, usize>,
    pending_names: Vec<NameChange>,
    calls: u64,
    fail_call: Option<u64>,
    /// From this call on everything fails: the power is gone.
    power_off: Option<u64>,
    syncs: u64,
    /// Syncs of files wait for it.
    gate: Arc<Mutex<()>>,
    /// Syncs of files that have come to the gate.
    at_gate: u64,
}

impl State {
    /// Every call that changes something counts; reads only fail without power.
    fn call(&mut self, changes: bool) -> io::Result<()> {
        self.calls += u64::from(changes);
        if self.power_off.is_some_and(|n| self.calls >= n) {
            return Err(io::Error::other("no power"));
        }
        if changes && self.fail_call == Some(self.calls) {
            return Err(io::Error::from_raw_os_error(5));
        }
        Ok(())
    }
}

fn apply_name(names: &mut BTreeMap<String, usize>, change: &NameChange) {
    match change {
        NameChange::Set(name, inode) => {
            names.insert(name.clone(), *inode);
        }
        NameChange::Gone(name) => {
            names.remove(name);
        }
        NameChange::Renamed(from, to, inode) => {
            names.remove(from);
            names.insert(to.clone(), *inode);
        }
    }
}

fn write_into(bytes: &mut Vec<u8>, at: usize, new: &[u8]) {
    if bytes.len() < at + new.len() {
        bytes.resize(at + new.len(), 0);
    }
    bytes[at..at + new.len()].copy_from_slice(new);
}

#[derive(Clone, Default)]
pub struct FaultyVfs(Arc<Mutex<State>>);

impl FaultyVfs {
    pub fn new() -> FaultyVfs {
        FaultyVfs::default()
    }

    pub fn calls(&self) -> u64 {
        self.0.lock().calls
    }

    pub fn syncs(&self) -> u64 {
        self.0.lock().syncs
    }

    /// While this is locked, no sync of a file ends.
    pub fn gate(&self) -> Arc<Mutex<()>> {
        self.0.lock().gate.clone()
    }

    pub fn at_gate(&self) -> u64 {
        self.0.lock().at_gate
    }

    pub fn fail_call(&self, n: u64) {
        self.0.lock().fail_call = Some(n);
    }

    pub fn power_off_at(&self, n: u64) {
        self.0.lock().power_off = Some(n);
    }

    /// The process dies, the machine stays up: a machine with the same contents and no faults.
    pub fn kill(&self) -> FaultyVfs {
        let mut state = self.0.lock().clone();
        (state.fail_call, state.power_off) = (None, None);
        FaultyVfs(Arc::new(Mutex::new(state)))
    }

    /// What a power failure may leave behind, one of many by `seed`.
    pub fn crash(&self, seed: u64) -> FaultyVfs {
        let mut rng = Rng(seed);
        let old = self.0.lock().clone();
        // Per crash: mostly lost, mostly kept, or anything.
        let keep = [10, 50, 90][rng.below(3) as usize];
        let mut kept = |_: &()| rng.below(100) < keep;
        let mut names = old.durable_names.clone();
        for change in &old.pending_names {
            if kept(&()) {
                apply_name(&mut names, change);
            }
        }
        let live: BTreeSet<usize> = names.values().copied().collect();
        let mut inodes = Vec::new();
        for (i, inode) in old.inodes.iter().enumerate() {
            let mut bytes = inode.durable.clone();
            for change in inode.pending.iter().filter(|_| live.contains(&i)) {
                match change {
                    Change::Len(len) if kept(&()) => bytes.resize(*len, 0),
                    Change::Len(_) => {}
                    Change::Write(at, new) => {
                        let mut from = 0;
                        while from < new.len() {
                            let to = ((at + from) / SECTOR + 1) * SECTOR - at;
                            let to = to.min(new.len());
                            if kept(&()) {
                                write_into(&mut bytes, at + from, &new[from..to]);
                            }
                            from = to;
                        }
                    }
                }
            }
            inodes.push(Inode { durable: bytes.clone(), visible: bytes, pending: Vec::new() });
        }
        FaultyVfs(Arc::new(Mutex::new(State {
            inodes,
            durable_names: names.clone(),
            names,
            ..State::default()
        })))
    }
}

struct FaultyFile(FaultyVfs, usize);

impl FaultyFile {
    fn change(&self, change: Change) -> io::Result<()> {
        let mut state = self.0 .0.lock();
        state.call(true)?;
        let inode = &mut state.inodes[self.1];
        match &change {
            Change::Write(at, new) => write_into(&mut inode.visible, *at, new),
            Change::Len(len) => inode.visible.resize(*len, 0),
        }
        inode.pending.push(change);
        Ok(())
    }
}

impl VfsFile for FaultyFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut state = self.0 .0.lock();
        state.call(false)?;
        let bytes = &state.inodes[self.1].visible;
        let start = bytes.len().min(offset as usize);
        // Short reads, to have the loops do something.
        let n = buf.len().min(bytes.len() - start).min(50_000);
        buf[..n].copy_from_slice(&bytes[start..start + n]);
        Ok(n)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        let n = buf.len().min(5000);
        self.change(Change::Write(offset as usize, buf[..n].to_vec()))?;
        Ok(n)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0 .0.lock().inodes[self.1].visible.len() as u64)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.change(Change::Len(len as usize))
    }

    fn punch_hole(&self, _offset: u64, _len: u64) -> io::Result<()> {
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.0 .0.lock().at_gate += 1;
        drop(self.0.gate().lock());
        let mut state = self.0 .0.lock();
        state.syncs += 1;
        let done = state.call(true);
        let power = state.power_off.is_none_or(|n| state.calls < n);
        let inode = &mut state.inodes[self.1];
        match (&done, power) {
            (Ok(()), _) => {
                // Changes in order, not the visible bytes: those may hold what a failed sync
                // dropped.
                for change in std::mem::take(&mut inode.pending) {
                    match change {
                        Change::Write(at, new) => write_into(&mut inode.durable, at, &new),
                        Change::Len(len) => inode.durable.resize(len, 0),
                    }
                }
            }
            // Clean pages, and the data gone: what Linux does.
            (Err(_), true) => inode.pending.clear(),
            (Err(_), false) => {}
        }
        done
    }

    fn direct(&self) -> Option<usize> {
        None
    }
}

struct NoLock;
impl DirLock for NoLock {}

impl Vfs for FaultyVfs {
    fn open(&self, name: &str, how: OpenHow) -> io::Result<Arc<dyn VfsFile>> {
        check_name(name)?;
        let mut state = self.0.lock();
        state.call(how.create_new)?;
        let inode = match (state.names.get(name).copied(), how.create_new) {
            (Some(_), true) => return Err(io::ErrorKind::AlreadyExists.into()),
            (Some(inode), false) => inode,
            (None, false) => return Err(io::ErrorKind::NotFound.into()),
            (None, true) => {
                state.inodes.push(Inode::default());
                let inode = state.inodes.len() - 1;
                state.names.insert(name.to_string(), inode);
                state.pending_names.push(NameChange::Set(name.to_string(), inode));
                inode
            }
        };
        Ok(Arc::new(FaultyFile(self.clone(), inode)))
    }

    fn exists(&self, name: &str) -> io::Result<bool> {
        Ok(self.0.lock().names.contains_key(name))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.0.lock();
        state.call(true)?;
        let inode = *state.names.get(from).ok_or(io::ErrorKind::NotFound)?;
        let change = NameChange::Renamed(from.to_string(), to.to_string(), inode);
        apply_name(&mut state.names, &change);
        state.pending_names.push(change);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.0.lock();
        state.call(true)?;
        state.names.remove(name).ok_or(io::ErrorKind::NotFound)?;
        state.pending_names.push(NameChange::Gone(name.to_string()));
        Ok(())
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut state = self.0.lock();
        state.call(false)?;
        Ok(state.names.keys().cloned().collect())
    }

    fn sync_dir(&self) -> io::Result<()> {
        let mut state = self.0.lock();
        state.syncs += 1;
        state.call(true)?;
        for change in std::mem::take(&mut state.pending_names) {
            apply_name(&mut state.durable_names, &change);
        }
        Ok(())
    }

    fn lock_dir(&self) -> io::Result<Box<dyn DirLock>> {
        Ok(Box::new(NoLock))
    }

    fn now(&self) -> Duration {
        Duration::ZERO
    }

    fn wall_clock(&self) -> Duration {
        Duration::ZERO
    }

    fn random_u64(&self) -> u64 {
        4
    }

    fn spawn(&self, _: &str, _: Box<dyn FnOnce() + Send>) -> Spawned {
        Ok(None)
    }
}
