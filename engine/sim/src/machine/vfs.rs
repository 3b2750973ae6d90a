//! The directory of the simulated machine, its clock and its random numbers.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use frond_vfs::{check_name, DirLock, OpenHow, Spawned, Vfs, VfsFile};
use parking_lot::Mutex;

use super::faults::Canary;
use super::file::SimFile;
use super::points::{Action, FileClass};
use super::{failed, no_space, Machine, SimVfs};

/// Each look at the clock moves it by this much: waiting in a loop always ends.
const TICK: Duration = Duration::from_millis(1);

struct SimLock(SimVfs);

impl DirLock for SimLock {}

impl Drop for SimLock {
    fn drop(&mut self) {
        self.0.machine.lock().locked = false;
    }
}

impl Vfs for SimVfs {
    fn open(&self, name: &str, how: OpenHow) -> io::Result<Arc<dyn VfsFile>> {
        check_name(name)?;
        let mut m = self.lock()?;
        let class = FileClass::of(name);
        let inode = match (m.disk.find(name), how.create_new) {
            (Some(_), true) => return Err(io::ErrorKind::AlreadyExists.into()),
            (None, false) => return Err(io::ErrorKind::NotFound.into()),
            (Some(inode), false) => inode,
            (None, true) => {
                m.point(Action::Create, class);
                m.note("create", class, 0, 0);
                if m.space_left() == 0 && m.chance.percent(50) {
                    return Err(no_space());
                }
                m.disk.create(name)
            }
        };
        let write = how.write || how.create_new;
        Ok(Arc::new(SimFile { vfs: self.clone(), inode, class: Mutex::new(class), write }))
    }

    fn exists(&self, name: &str) -> io::Result<bool> {
        check_name(name)?;
        Ok(self.lock()?.disk.find(name).is_some())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        check_name(from)?;
        check_name(to)?;
        let mut m = self.lock()?;
        let class = FileClass::of(to);
        m.point(Action::Rename, class);
        m.note("rename", class, frond_base::checksum64(from.as_bytes()), 0);
        if m.canary == Some(Canary::TrimTooFar) && class == FileClass::Spare {
            trim_one_more(&mut m, from)?;
        }
        if m.space_left() == 0 && m.chance.percent(20) {
            return Err(no_space());
        }
        m.disk.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        check_name(name)?;
        let mut m = self.lock()?;
        let class = FileClass::of(name);
        m.point(Action::Remove, class);
        m.note("remove", class, frond_base::checksum64(name.as_bytes()), 0);
        if m.canary == Some(Canary::TrimTooFar) && class == FileClass::Log {
            trim_one_more(&mut m, name)?;
        }
        m.disk.remove(name)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.lock()?.disk.names())
    }

    fn sync_dir(&self) -> io::Result<()> {
        let mut m = self.lock()?;
        m.point(Action::SyncDir, FileClass::Directory);
        m.note("sync_dir", FileClass::Directory, 0, 0);
        let error = m.faults.sync_error;
        if m.chance.ppm(error) {
            return Err(failed());
        }
        if m.canary != Some(Canary::SkipDirSync) {
            m.disk.sync_dir();
        }
        Ok(())
    }

    fn lock_dir(&self) -> io::Result<Box<dyn DirLock>> {
        let mut m = self.lock()?;
        if std::mem::replace(&mut m.locked, true) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(Box::new(SimLock(self.clone())))
    }

    fn now(&self) -> Duration {
        let mut m = self.machine.lock();
        m.clock += TICK;
        m.clock
    }

    fn wall_clock(&self) -> Duration {
        // Some day in 2020: a plausible date, the same in every run.
        Duration::from_secs(1_600_000_000) + self.now()
    }

    fn random_u64(&self) -> u64 {
        self.machine.lock().random.next()
    }

    fn spawn(&self, _: &str, _: Box<dyn FnOnce() + Send>) -> Spawned {
        Ok(None)
    }
}

/// For [`Canary::TrimTooFar`]: the segment after `oldest` goes too, unless it is the newest.
fn trim_one_more(m: &mut Machine, oldest: &str) -> io::Result<()> {
    let logs: Vec<String> =
        m.disk.names().into_iter().filter(|n| FileClass::of(n) == FileClass::Log).collect();
    match logs.iter().position(|n| n == oldest) {
        Some(at) if at + 2 < logs.len() => m.disk.remove(&logs[at + 1]),
        _ => Ok(()),
    }
}
