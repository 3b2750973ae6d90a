//! An overlay in memory over a directory: reads come from the directory, writes stay in memory.
//!
//! Lets recovery run on a database that must not be changed (checking, dumping): its writes and
//! syncs change nothing on disk and are gone when the overlay is dropped.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use crate::{DirLock, OpenHow, Spawned, Vfs, VfsFile};

/// Bytes of a copied block.
const BLOCK: u64 = 4096;

/// See the module's description.
pub struct OverlayVfs {
    below: Arc<dyn Vfs>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Files opened for writing, created, or renamed here, by name.
    files: HashMap<String, Arc<Sheet>>,
    /// Names that exist below but were removed or renamed away here.
    hidden: BTreeSet<String>,
}

/// One file: the file below it, if there is one, and the blocks written since.
struct Sheet {
    below: Option<Arc<dyn VfsFile>>,
    inner: Mutex<SheetInner>,
}

struct SheetInner {
    len: u64,
    /// Bytes of the file below that still show.
    below_len: u64,
    blocks: BTreeMap<u64, Box<[u8]>>,
}

struct Handle(Arc<Sheet>);

fn guard<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl OverlayVfs {
    pub fn new(below: Arc<dyn Vfs>) -> OverlayVfs {
        OverlayVfs { below, state: Mutex::new(State::default()) }
    }

    fn sheet(&self, state: &mut State, name: &str, how: OpenHow) -> io::Result<Arc<Sheet>> {
        if let Some(sheet) = state.files.get(name) {
            return Ok(sheet.clone());
        }
        let below = if how.create_new {
            None
        } else if state.hidden.contains(name) {
            return Err(io::ErrorKind::NotFound.into());
        } else {
            let how = OpenHow { create_new: false, write: false, direct: false };
            Some(self.below.open(name, how)?)
        };
        let len = below.as_ref().map_or(Ok(0), |f| f.len())?;
        let inner = SheetInner { len, below_len: len, blocks: BTreeMap::new() };
        let sheet = Arc::new(Sheet { below, inner: Mutex::new(inner) });
        state.files.insert(name.to_owned(), sheet.clone());
        Ok(sheet)
    }

    fn shows(&self, state: &State, name: &str) -> io::Result<bool> {
        if state.files.contains_key(name) {
            return Ok(true);
        }
        Ok(!state.hidden.contains(name) && self.below.exists(name)?)
    }
}

impl Sheet {
    fn load(&self, inner: &SheetInner, block: u64) -> io::Result<Box<[u8]>> {
        let mut bytes = vec![0u8; BLOCK as usize].into_boxed_slice();
        let start = block * BLOCK;
        let shown = inner.below_len.saturating_sub(start).min(BLOCK) as usize;
        if let (Some(below), true) = (&self.below, shown > 0) {
            below.read_exact_at(&mut bytes[..shown], start)?;
        }
        Ok(bytes)
    }
}

impl VfsFile for Handle {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let inner = guard(&self.0.inner);
        let n = usize::try_from(inner.len.saturating_sub(offset)).unwrap_or(usize::MAX);
        let n = n.min(buf.len());
        let mut done = 0;
        while done < n {
            let at = offset + done as u64;
            let (block, from) = (at / BLOCK, (at % BLOCK) as usize);
            let take = (BLOCK as usize - from).min(n - done);
            let out = &mut buf[done..done + take];
            match inner.blocks.get(&block) {
                Some(bytes) => out.copy_from_slice(&bytes[from..from + take]),
                None => out.copy_from_slice(&self.0.load(&inner, block)?[from..from + take]),
            }
            done += take;
        }
        Ok(n)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        let mut inner = guard(&self.0.inner);
        let (block, from) = (offset / BLOCK, (offset % BLOCK) as usize);
        let take = (BLOCK as usize - from).min(buf.len());
        if !inner.blocks.contains_key(&block) {
            let bytes = self.0.load(&inner, block)?;
            inner.blocks.insert(block, bytes);
        }
        if let Some(bytes) = inner.blocks.get_mut(&block) {
            bytes[from..from + take].copy_from_slice(&buf[..take]);
        }
        inner.len = inner.len.max(offset + take as u64);
        Ok(take)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(guard(&self.0.inner).len)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut inner = guard(&self.0.inner);
        if len < inner.len {
            inner.below_len = inner.below_len.min(len);
            let _beyond = inner.blocks.split_off(&len.div_ceil(BLOCK));
            if let Some(bytes) = inner.blocks.get_mut(&(len / BLOCK)) {
                bytes[(len % BLOCK) as usize..].fill(0);
            }
        }
        inner.len = len;
        Ok(())
    }

    fn punch_hole(&self, offset: u64, len: u64) -> io::Result<()> {
        let zeros = [0u8; BLOCK as usize];
        let end = (offset + len).min(self.len()?);
        let mut at = offset;
        while at < end {
            let n = (BLOCK - at % BLOCK).min(end - at);
            at += self.write_at(&zeros[..n as usize], at)? as u64;
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn direct(&self) -> Option<usize> {
        None
    }
}

impl Vfs for OverlayVfs {
    fn open(&self, name: &str, how: OpenHow) -> io::Result<Arc<dyn VfsFile>> {
        let mut state = guard(&self.state);
        if how.create_new && self.shows(&state, name)? {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let sheet = self.sheet(&mut state, name, how)?;
        Ok(Arc::new(Handle(sheet)))
    }

    fn exists(&self, name: &str) -> io::Result<bool> {
        self.shows(&guard(&self.state), name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = guard(&self.state);
        let how = OpenHow { create_new: false, write: true, direct: false };
        let sheet = self.sheet(&mut state, from, how)?;
        state.files.remove(from);
        state.hidden.insert(from.to_owned());
        state.files.insert(to.to_owned(), sheet);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = guard(&self.state);
        if !self.shows(&state, name)? {
            return Err(io::ErrorKind::NotFound.into());
        }
        state.files.remove(name);
        state.hidden.insert(name.to_owned());
        Ok(())
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let state = guard(&self.state);
        let mut names: BTreeSet<String> = self.below.list()?.into_iter().collect();
        names.retain(|n| !state.hidden.contains(n));
        names.extend(state.files.keys().cloned());
        Ok(names.into_iter().collect())
    }

    fn sync_dir(&self) -> io::Result<()> {
        Ok(())
    }

    fn lock_dir(&self) -> io::Result<Box<dyn DirLock>> {
        self.below.lock_dir()
    }

    fn now(&self) -> Duration {
        self.below.now()
    }

    fn wall_clock(&self) -> Duration {
        self.below.wall_clock()
    }

    fn random_u64(&self) -> u64 {
        self.below.random_u64()
    }

    fn spawn(&self, name: &str, work: Box<dyn FnOnce() + Send>) -> Spawned {
        self.below.spawn(name, work)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemVfs;

    const WRITE: OpenHow = OpenHow { create_new: false, write: true, direct: false };
    const CREATE: OpenHow = OpenHow { create_new: true, write: true, direct: false };

    #[test]
    fn writes_stay_in_memory_and_reads_see_them() {
        let below = MemVfs::stepped();
        let file = below.open("a", CREATE).unwrap();
        file.write_all_at(&[7u8; 10_000], 0).unwrap();
        let over = OverlayVfs::new(Arc::new(below.clone()));
        let sheet = over.open("a", WRITE).unwrap();
        sheet.write_all_at(b"hello", 5_000).unwrap();
        sheet.set_len(6_000).unwrap();
        sheet.set_len(9_000).unwrap();
        let mut back = vec![1u8; 9_000];
        sheet.read_exact_at(&mut back, 0).unwrap();
        assert_eq!(&back[5_000..5_005], b"hello");
        assert!(back[..5_000].iter().all(|b| *b == 7));
        assert!(back[6_000..].iter().all(|b| *b == 0), "cut bytes do not come back");
        assert_eq!(below.contents("a").unwrap(), vec![7u8; 10_000]);
    }

    #[test]
    fn removed_renamed_and_created_names_show_in_the_overlay_only() {
        let below = MemVfs::stepped();
        for name in ["a", "b"] {
            below.open(name, CREATE).unwrap().write_all_at(name.as_bytes(), 0).unwrap();
        }
        let over = OverlayVfs::new(Arc::new(below.clone()));
        over.remove("a").unwrap();
        over.rename("b", "c").unwrap();
        over.open("d", CREATE).unwrap();
        let mut names = over.list().unwrap();
        names.sort();
        assert_eq!(names, ["c", "d"]);
        assert!(over.open("b", WRITE).is_err());
        let mut one = [0u8];
        over.open("c", WRITE).unwrap().read_exact_at(&mut one, 0).unwrap();
        assert_eq!(&one, b"b");
        assert_eq!(below.list().unwrap().len(), 2);
    }
}
