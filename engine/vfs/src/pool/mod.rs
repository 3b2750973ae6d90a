//! [`FilePool`]: many files behind few descriptors.
//!
//! Files of certain names are closed while nobody uses them and opened again on the next use. The
//! holder of a [`VfsFile`] notices nothing, so the number of open tables does not depend on how
//! many descriptors the process may have.
//!
//! Which file is closed: CLOCK. A use sets the file's bit; the search for a victim clears bits and
//! takes the first file whose bit was clear. (With an LRU list every read of a page would take one
//! latch.)
//!
//! - FP1. A file that has unsynced changes, or whose sync failed, is not closed: the system reports a failed
//!   write-back to the handles that were open then, and a sync through another handle may succeed (V3 in
//!   `lib.rs`). A file opened for writing is not closed before its first sync: an earlier process may have
//!   left unsynced changes. Freeing space (a hole, a shorter length) does not count as a change: a table's
//!   checkpoint ends with it, and idle tables would stay open for ever. So after a `sync` freed space may
//!   come back in a crash; nobody needs its bytes, and table files do not rely on it.
//! - FP2. A file that was removed is not closed: it could not be opened again.
//! - FP3. A file is not closed during a transfer: the transfer holds the handle.
//! - FP4. At most `limit` files are open, as long as FP1 to FP3 leave something to close. A file is
//!   usually synced soon after it was written; not after a rolled back transaction wrote to it. So
//!   when twice `limit` are open, the next open syncs one first, and only files in use exceed that.
//! - FP5. A handle follows its file when that is renamed.
//! - FP6. When the system has no descriptor left, for this pool's files or for any other file opened
//!   through it, idle files are closed and the call is tried once more. If all of them have unsynced
//!   changes, one is synced first.
//!
//! Lock order: `ring`, then a file's `slot`, then `syncing`.
//!
//! Tested by the unit tests below, by `engine/core/tests/it/descriptors.rs`, and by every simulator run.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard, RwLock};

use crate::{DirLock, OpenHow, ReadAt, Spawned, Vfs, VfsFile};

/// Files closed at once when the system has no descriptor left, so that other parts of the process get some.
const CLOSE_AT_ONCE: usize = 16;

/// The process, or the system, has no descriptor left.
pub fn is_out_of_descriptors(e: &io::Error) -> bool {
    matches!(e.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

/// See the module. A clone is another handle to the same pool.
#[derive(Clone)]
pub struct FilePool {
    shared: Arc<Shared>,
}

struct Shared {
    vfs: Arc<dyn Vfs>,
    limit: usize,
    /// Which names are pooled.
    pooled: fn(&str) -> bool,
    ring: Mutex<Ring>,
    opened_again: AtomicU64,
}

#[derive(Default)]
struct Ring {
    /// The open files, in the order in which the search for a victim visits them.
    open: VecDeque<Arc<Slot>>,
    /// The files that have a handle, by name; not the removed ones.
    named: HashMap<String, Arc<Slot>>,
}

/// One file with a handle.
struct Slot {
    how: OpenHow,
    direct: Option<usize>,
    state: RwLock<State>,
    /// Used since the clock's hand passed.
    used: AtomicBool,
    /// Changes begun and ended, each counted (FP1).
    changes: AtomicU64,
    /// What `changes` was when the last good sync began.
    synced: AtomicU64,
    /// A sync failed.
    failed: AtomicBool,
    /// Held for a sync: of two concurrent syncs the system reports a failure to one only, and the
    /// other must not succeed.
    syncing: Mutex<()>,
}

struct State {
    name: String,
    file: Option<Arc<dyn VfsFile>>,
    removed: bool,
}

impl Slot {
    fn use_it(&self) -> Option<Arc<dyn VfsFile>> {
        let file = self.state.read().file.clone();
        // Read before it is written: the cache line stays shared among readers.
        if !self.used.load(Ordering::Relaxed) {
            self.used.store(true, Ordering::Relaxed);
        }
        file
    }

    /// Syncs the file as its owner would.
    fn sync(&self, file: &dyn VfsFile) -> io::Result<()> {
        let _one = self.syncing.lock();
        if self.failed.load(Ordering::Acquire) {
            return Err(io::Error::other("an earlier sync of this file failed"));
        }
        let changes = self.changes.load(Ordering::Acquire);
        let done = file.sync();
        match done {
            Ok(()) => drop(self.synced.fetch_max(changes, Ordering::AcqRel)),
            // The owner's next sync reports it (FP1).
            Err(_) => self.failed.store(true, Ordering::Release),
        }
        done
    }

    /// The file, if only a sync keeps it from being closed.
    fn unsynced(&self) -> Option<Arc<dyn VfsFile>> {
        let state = self.state.try_read()?;
        let file = state.file.as_ref()?;
        let idle = Arc::strong_count(file) == 1 && !self.used.load(Ordering::Relaxed);
        let hopeful = !state.removed && !self.failed.load(Ordering::Acquire);
        (idle && hopeful && !self.is_clean()).then(|| Arc::clone(file))
    }

    /// Every change that began has ended, and a good sync began after that.
    fn is_clean(&self) -> bool {
        self.changes.load(Ordering::Acquire) == self.synced.load(Ordering::Acquire)
    }

    /// Closes the file if it may be (FP1 to FP3); with `even_unsynced`, unsynced changes are synced first.
    fn close(&self, even_unsynced: bool) -> bool {
        // A file that somebody opens or renames at this moment is in use.
        let Some(mut state) = self.state.try_write() else { return false };
        let idle = state.file.as_ref().is_some_and(|f| Arc::strong_count(f) == 1);
        if idle && even_unsynced && !state.removed {
            let _ = state.file.as_ref().map(|f| self.sync(&**f));
        }
        if !idle || !self.is_clean() || state.removed || self.failed.load(Ordering::Acquire) {
            return false;
        }
        state.file = None;
        true
    }
}

impl Shared {
    /// Makes room for one more open file, if there are files to close (FP4).
    fn make_room(&self, ring: &mut Ring) {
        if ring.open.len() >= self.limit {
            let surplus = ring.open.len() + 1 - self.limit;
            close_some(ring, surplus, false);
        }
    }

    /// Calls `open`. When the system has no descriptor left, closes idle files and calls it once
    /// more (FP6).
    fn insist<T>(&self, ring: &mut Ring, open: impl Fn() -> io::Result<T>) -> io::Result<T> {
        match open() {
            Err(e) if is_out_of_descriptors(&e) => {
                let closed = match close_some(ring, CLOSE_AT_ONCE, false) {
                    0 => close_some(ring, 1, true),
                    some => some,
                };
                if closed > 0 {
                    open()
                } else {
                    Err(e)
                }
            }
            done => done,
        }
    }

    /// Syncs one idle file, to be closed, when twice the limit are open (FP4). Not under the ring's lock:
    /// others open files meanwhile.
    fn relieve(&self) {
        let unsynced = {
            let mut ring = self.ring.lock();
            if ring.open.len() < self.limit.saturating_mul(2) {
                return;
            }
            let surplus = ring.open.len() + 1 - self.limit;
            close_some(&mut ring, surplus, false);
            if ring.open.len() < self.limit.saturating_mul(2) {
                return;
            }
            ring.open.iter().find_map(|slot| Some((Arc::clone(slot), slot.unsynced()?)))
        };
        if let Some((slot, file)) = unsynced {
            // Its owner's next sync reports a failure (FP1).
            let _ = slot.sync(&*file);
        }
    }

    /// The file with a handle and this name, open, so that the handle works when the name is gone
    /// (FP2). Fails when there is no descriptor for it: then the file must keep its name.
    fn keep_open(&self, ring: &mut Ring, name: &str) -> io::Result<Option<Arc<Slot>>> {
        let Some(slot) = ring.named.get(name).cloned() else { return Ok(None) };
        self.open_again(ring, &slot)?;
        Ok(Some(slot))
    }

    fn open_again(&self, ring: &mut Ring, slot: &Arc<Slot>) -> io::Result<Arc<dyn VfsFile>> {
        self.make_room(ring);
        let mut state = slot.state.write();
        if let Some(file) = &state.file {
            return Ok(Arc::clone(file));
        }
        // FP2: it was open when it was removed, and stayed so.
        assert!(!state.removed, "{} was removed while it was closed (FP2)", state.name);
        let file = self.insist(ring, || self.vfs.open(&state.name, slot.how))?;
        state.file = Some(Arc::clone(&file));
        drop(state);
        ring.open.push_back(Arc::clone(slot));
        self.opened_again.fetch_add(1, Ordering::Relaxed);
        Ok(file)
    }
}

/// Closes up to `wanted` files; returns how many.
fn close_some(ring: &mut Ring, wanted: usize, even_unsynced: bool) -> usize {
    let mut closed = 0;
    // The first round may do no more than clear bits.
    for _ in 0..2 * ring.open.len() {
        if closed == wanted {
            break;
        }
        let Some(slot) = ring.open.pop_front() else { break };
        if !slot.used.swap(false, Ordering::Relaxed) && slot.close(even_unsynced) {
            closed += 1;
        } else {
            ring.open.push_back(slot);
        }
    }
    closed
}

impl FilePool {
    /// A pool over `vfs`. Files whose names are `pooled` share `limit` descriptors, at least one.
    pub fn new(vfs: Arc<dyn Vfs>, limit: usize, pooled: fn(&str) -> bool) -> FilePool {
        let (ring, opened_again) = Default::default();
        let shared = Shared { vfs, limit: limit.max(1), pooled, ring, opened_again };
        FilePool { shared: Arc::new(shared) }
    }

    /// How many of the pooled files are open now.
    pub fn open_files(&self) -> usize {
        self.shared.ring.lock().open.len()
    }

    pub fn limit(&self) -> usize {
        self.shared.limit
    }

    /// How often a closed file was opened again.
    pub fn opened_again(&self) -> u64 {
        self.shared.opened_again.load(Ordering::Relaxed)
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.shared.ring.lock()
    }
}

/// A handle to a file that may be closed at the moment.
struct PooledFile {
    pool: Arc<Shared>,
    slot: Arc<Slot>,
}

impl PooledFile {
    fn file(&self) -> io::Result<Arc<dyn VfsFile>> {
        match self.slot.use_it() {
            Some(file) => Ok(file),
            None => {
                self.pool.relieve();
                self.pool.open_again(&mut self.pool.ring.lock(), &self.slot)
            }
        }
    }

    /// A change that needs a sync: counted when it begins and when it ends (FP1).
    fn change<T>(&self, change: impl FnOnce(&dyn VfsFile) -> io::Result<T>) -> io::Result<T> {
        /// Counts the end of the change, even when the change panics.
        struct Ended<'a>(&'a Slot);
        impl Drop for Ended<'_> {
            fn drop(&mut self) {
                self.0.changes.fetch_add(1, Ordering::AcqRel);
            }
        }
        let file = self.file()?;
        self.slot.changes.fetch_add(1, Ordering::AcqRel);
        let _ended = Ended(&self.slot);
        change(&*file)
    }
}

impl VfsFile for PooledFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file()?.read_at(buf, offset)
    }

    fn read_together(&self, reads: &mut [ReadAt<'_>]) {
        match self.file() {
            Ok(file) => file.read_together(reads),
            // Each read reports its own error.
            Err(_) => reads.iter_mut().for_each(|read| {
                read.done = Some(self.read_at(read.buf, read.offset));
            }),
        }
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        self.change(|file| file.write_at(buf, offset))
    }

    fn len(&self) -> io::Result<u64> {
        self.file()?.len()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let file = self.file()?;
        if len <= file.len()? {
            return file.set_len(len); // Given back (FP1).
        }
        drop(file);
        self.change(|file| file.set_len(len))
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.change(|file| file.allocate(len))
    }

    fn punch_hole(&self, offset: u64, len: u64) -> io::Result<()> {
        self.file()?.punch_hole(offset, len) // Given back (FP1).
    }

    /// A closed file has nothing to sync (FP1), so this never fails for want of a descriptor.
    fn sync(&self) -> io::Result<()> {
        match self.slot.use_it() {
            Some(file) => self.slot.sync(&*file),
            None => Ok(()),
        }
    }

    fn direct(&self) -> Option<usize> {
        self.slot.direct
    }
}

impl Drop for PooledFile {
    fn drop(&mut self) {
        let file = {
            let mut ring = self.pool.ring.lock();
            let mut state = self.slot.state.write();
            let file = state.file.take();
            if file.is_some() {
                ring.open.retain(|s| !Arc::ptr_eq(s, &self.slot));
            }
            if ring.named.get(&state.name).is_some_and(|s| Arc::ptr_eq(s, &self.slot)) {
                ring.named.remove(&state.name);
            }
            file
        };
        // Dropped without the locks: the last handle to a removed file frees all of its space,
        // which takes long.
        drop(file);
    }
}

impl Vfs for FilePool {
    /// A file of a pooled name has one handle at a time.
    fn open(&self, name: &str, how: OpenHow) -> io::Result<Arc<dyn VfsFile>> {
        let pool = &self.shared;
        if !(pool.pooled)(name) {
            return pool.insist(&mut self.ring(), || pool.vfs.open(name, how));
        }
        pool.relieve();
        let mut ring = self.ring();
        pool.make_room(&mut ring);
        let file = pool.insist(&mut ring, || pool.vfs.open(name, how))?;
        let direct = file.direct();
        let state = State { name: name.to_owned(), file: Some(file), removed: false };
        let slot = Arc::new(Slot {
            how: OpenHow {
                create_new: false,
                write: how.write || how.create_new,
                direct: direct.is_some(),
            },
            direct,
            state: RwLock::new(state),
            used: AtomicBool::new(true),
            // A new file is a change, and so may be what an earlier process left unsynced.
            changes: AtomicU64::new(u64::from(how.write || how.create_new)),
            synced: AtomicU64::new(0),
            failed: AtomicBool::new(false),
            syncing: Mutex::new(()),
        });
        ring.open.push_back(Arc::clone(&slot));
        ring.named.insert(name.to_owned(), Arc::clone(&slot));
        Ok(Arc::new(PooledFile { pool: Arc::clone(pool), slot }))
    }

    fn exists(&self, name: &str) -> io::Result<bool> {
        self.shared.vfs.exists(name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut ring = self.ring();
        if from == to {
            return self.shared.vfs.rename(from, to);
        }
        // This removes the file that had that name.
        let replaced = self.shared.keep_open(&mut ring, to)?;
        let moved = ring.named.get(from).cloned();
        let mut replaced = replaced.as_ref().map(|slot| slot.state.write());
        let mut state = moved.as_ref().map(|slot| slot.state.write());
        self.shared.vfs.rename(from, to)?;
        if let Some(replaced) = &mut replaced {
            replaced.removed = true;
            ring.named.remove(to);
        }
        if let (Some(state), Some(slot)) = (&mut state, &moved) {
            state.name = to.to_owned();
            ring.named.remove(from);
            ring.named.insert(to.to_owned(), Arc::clone(slot));
        }
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut ring = self.ring();
        let Some(slot) = self.shared.keep_open(&mut ring, name)? else {
            // Frees all of its space at once, which takes long.
            drop(ring);
            return self.shared.vfs.remove(name);
        };
        let mut state = slot.state.write();
        self.shared.vfs.remove(name)?;
        state.removed = true;
        ring.named.remove(name);
        Ok(())
    }

    /// Takes a descriptor (FP6).
    fn list(&self) -> io::Result<Vec<String>> {
        self.shared.insist(&mut self.ring(), || self.shared.vfs.list())
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.shared.vfs.sync_dir()
    }

    fn lock_dir(&self) -> io::Result<Box<dyn DirLock>> {
        self.shared.vfs.lock_dir()
    }

    fn now(&self) -> Duration {
        self.shared.vfs.now()
    }

    fn wall_clock(&self) -> Duration {
        self.shared.vfs.wall_clock()
    }

    fn random_u64(&self) -> u64 {
        self.shared.vfs.random_u64()
    }

    fn spawn(&self, name: &str, work: Box<dyn FnOnce() + Send>) -> Spawned {
        self.shared.vfs.spawn(name, work)
    }

    fn yield_to_others(&self) {
        self.shared.vfs.yield_to_others();
    }

    fn return_free_memory(&self) {
        self.shared.vfs.return_free_memory();
    }

    fn descriptors(&self) -> Option<u64> {
        self.shared.vfs.descriptors()
    }
}

#[cfg(test)]
mod tests;
