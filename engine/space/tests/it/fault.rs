//! A directory in memory that remembers synced bytes, and can lose the rest.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use frond_vfs::{DirLock, OpenHow, Spawned, Vfs, VfsFile, DIRECT_ALIGN};
use parking_lot::Mutex;

use crate::Rng;

/// Disks write sectors whole.
const SECTOR: usize = 512;

#[derive(Clone)]
enum Op {
    Write(u64, Vec<u8>),
    SetLen(u64),
    Punch(u64, u64),
}

fn apply(bytes: &mut Vec<u8>, op: &Op) {
    match op {
        Op::Write(at, data) => {
            let end = *at as usize + data.len();
            if bytes.len() < end {
                bytes.resize(end, 0);
            }
            bytes[*at as usize..end].copy_from_slice(data);
        }
        Op::SetLen(len) => bytes.resize(*len as usize, 0),
        Op::Punch(at, len) => {
            let end = bytes.len().min((at + len) as usize);
            let start = end.min(*at as usize);
            bytes[start..end].fill(0);
        }
    }
}

#[derive(Default)]
struct Data {
    seen: Vec<u8>,
    durable: Vec<u8>,
    unsynced: Vec<Op>,
}

#[derive(Default)]
struct State {
    files: Vec<Data>,
    names: BTreeMap<String, usize>,
    durable_names: BTreeMap<String, usize>,
    /// Changes until the machine stops; then every call fails.
    fuse: Option<u64>,
    fail_sync: bool,
    fail_write: bool,
    fail_sync_dir: bool,
    /// The alignment that direct reads insist on; `None`: files are not direct.
    direct: Option<usize>,
    /// Bytes that reads asked for.
    asked: usize,
    punched: u64,
}

fn stopped() -> io::Error {
    io::Error::other("the machine stopped")
}

impl State {
    fn alive(&self) -> io::Result<()> {
        if self.fuse == Some(0) {
            return Err(stopped());
        }
        Ok(())
    }

    fn burn(&mut self) -> io::Result<()> {
        self.alive()?;
        if let Some(n) = &mut self.fuse {
            *n -= 1;
        }
        Ok(())
    }
}

#[derive(Clone, Default)]
pub struct FaultVfs(Arc<Mutex<State>>);

impl FaultVfs {
    pub fn new() -> FaultVfs {
        FaultVfs::default()
    }

    /// Files insist on aligned buffers, offsets and lengths.
    pub fn direct(align: usize) -> FaultVfs {
        let vfs = FaultVfs::default();
        vfs.0.lock().direct = Some(align);
        vfs
    }

    /// The machine stops after `changes` more changing calls.
    pub fn stop_after(&self, changes: u64) {
        self.0.lock().fuse = Some(changes);
    }

    pub fn is_stopped(&self) -> bool {
        self.0.lock().fuse == Some(0)
    }

    /// Starts again after the death of the process only: everything written is still there, not all
    /// of it durable.
    pub fn restart_process(&self) {
        self.0.lock().fuse = None;
    }

    /// Starts again after a power cut: any unsynced sector may be there or not.
    pub fn power_cut(&self, rng: &mut Rng) {
        let mut state = self.0.lock();
        state.fuse = None;
        if rng.chance(50) {
            state.names = state.durable_names.clone();
        }
        state.durable_names = state.names.clone();
        let keep = [0, 50, 95, 100][rng.below(4) as usize];
        for file in &mut state.files {
            for op in std::mem::take(&mut file.unsynced) {
                match op {
                    Op::Write(at, data) => {
                        for (i, sector) in data.chunks(SECTOR).enumerate() {
                            if rng.chance(keep) {
                                let at = at + (i * SECTOR) as u64;
                                apply(&mut file.durable, &Op::Write(at, sector.to_vec()));
                            }
                        }
                    }
                    other if rng.chance(keep) => apply(&mut file.durable, &other),
                    _ => {}
                }
            }
            file.seen = file.durable.clone();
        }
    }

    pub fn fail_syncs(&self, fail: bool) {
        self.0.lock().fail_sync = fail;
    }

    pub fn fail_writes(&self, fail: bool) {
        self.0.lock().fail_write = fail;
    }

    /// Bytes that reads have asked for until now.
    pub fn asked(&self) -> usize {
        self.0.lock().asked
    }

    /// Syncs of the directory fail with a full disk.
    pub fn fail_syncs_of_directory(&self, fail: bool) {
        self.0.lock().fail_sync_dir = fail;
    }

    pub fn punched(&self) -> u64 {
        self.0.lock().punched
    }

    pub fn bytes(&self, name: &str) -> Vec<u8> {
        let state = self.0.lock();
        state.files[state.names[name]].seen.clone()
    }

    /// Replaces a file's bytes, durably.
    pub fn set_bytes(&self, name: &str, bytes: Vec<u8>) {
        let mut state = self.0.lock();
        let i = state.names[name];
        state.files[i] = Data { seen: bytes.clone(), durable: bytes, unsynced: Vec::new() };
    }
}

struct FaultFile {
    state: Arc<Mutex<State>>,
    index: usize,
    write: bool,
}

impl FaultFile {
    fn change(&self, op: Op) -> io::Result<()> {
        assert!(self.write, "writing to a file opened for reading");
        let mut state = self.state.lock();
        if state.fail_write && matches!(op, Op::Write(..)) {
            return Err(io::Error::from_raw_os_error(28));
        }
        state.burn()?;
        let file = &mut state.files[self.index];
        apply(&mut file.seen, &op);
        file.unsynced.push(op);
        Ok(())
    }
}

impl VfsFile for FaultFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut state = self.state.lock();
        state.alive()?;
        if let Some(align) = state.direct {
            assert_eq!(buf.as_ptr() as usize % align, 0);
            assert_eq!((buf.len() % align, offset as usize % align), (0, 0));
        }
        state.asked += buf.len();
        let bytes = &state.files[self.index].seen;
        let start = bytes.len().min(offset as usize);
        // At most 8 KiB at a time, so that callers must loop.
        let n = buf.len().min(bytes.len() - start).min(8192);
        buf[..n].copy_from_slice(&bytes[start..start + n]);
        Ok(n)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        if self.direct().is_some() {
            assert_eq!(buf.as_ptr() as usize % DIRECT_ALIGN, 0);
            assert_eq!((buf.len() % DIRECT_ALIGN, offset as usize % DIRECT_ALIGN), (0, 0));
        }
        let n = buf.len().min(1 << 16);
        self.change(Op::Write(offset, buf[..n].to_vec()))?;
        Ok(n)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.state.lock().files[self.index].seen.len() as u64)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.change(Op::SetLen(len))
    }

    fn punch_hole(&self, offset: u64, len: u64) -> io::Result<()> {
        self.change(Op::Punch(offset, len))?;
        self.state.lock().punched += len;
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.state.lock();
        state.burn()?;
        if state.fail_sync {
            return Err(io::Error::from_raw_os_error(5));
        }
        let file = &mut state.files[self.index];
        for op in std::mem::take(&mut file.unsynced) {
            apply(&mut file.durable, &op);
        }
        Ok(())
    }

    fn direct(&self) -> Option<usize> {
        self.state.lock().direct
    }
}

impl Vfs for FaultVfs {
    fn open(&self, name: &str, how: OpenHow) -> io::Result<Arc<dyn VfsFile>> {
        let mut state = self.0.lock();
        state.alive()?;
        let index = match (state.names.get(name).copied(), how.create_new) {
            (Some(_), true) => return Err(io::ErrorKind::AlreadyExists.into()),
            (None, false) => return Err(io::ErrorKind::NotFound.into()),
            (Some(i), false) => i,
            (None, true) => {
                state.burn()?;
                state.files.push(Data::default());
                let i = state.files.len() - 1;
                state.names.insert(name.into(), i);
                i
            }
        };
        Ok(Arc::new(FaultFile { state: Arc::clone(&self.0), index, write: how.write }))
    }

    fn exists(&self, name: &str) -> io::Result<bool> {
        Ok(self.0.lock().names.contains_key(name))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.0.lock();
        state.burn()?;
        let i = state.names.remove(from).ok_or(io::ErrorKind::NotFound)?;
        state.names.insert(to.into(), i);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.0.lock();
        state.burn()?;
        state.names.remove(name).map(drop).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.0.lock().names.keys().cloned().collect())
    }

    fn sync_dir(&self) -> io::Result<()> {
        let mut state = self.0.lock();
        state.burn()?;
        if state.fail_sync_dir {
            return Err(io::Error::from_raw_os_error(28));
        }
        state.durable_names = state.names.clone();
        Ok(())
    }

    fn lock_dir(&self) -> io::Result<Box<dyn DirLock>> {
        Err(io::ErrorKind::Unsupported.into())
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
