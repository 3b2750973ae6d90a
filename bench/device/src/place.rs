//! What the system reports about a directory: file system, device, space, alignment, atomic writes.
//!
//! All of it is hearsay: what a device claims of its sectors and caches is not measured here, and
//! no program can prove it without cutting the power.

use std::fs::File;
use std::path::Path;

use rustix::fs::{AtFlags, StatxFlags};
use serde::Serialize;

use crate::error::{Error, Result};

/// The block device below a file system that has exactly one.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Device {
    pub name: String,
    pub model: Option<String>,
    pub rotational: Option<bool>,
    pub logical_block_bytes: Option<u64>,
    pub physical_block_bytes: Option<u64>,
    /// `write back` (a sync must empty a cache) or `write through`.
    pub write_cache: Option<String>,
    pub scheduler: Option<String>,
    /// Largest write that the device claims never to tear; Linux 6.11 and later report it.
    pub atomic_write_bytes: Option<u64>,
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct Place {
    pub dir: String,
    pub file_system: String,
    pub file_system_bytes: u64,
    pub free_bytes: u64,
    pub read_only: bool,
    pub memory_bytes: Option<u64>,
    pub processors: u32,
    /// `None`: the file system is on no device, or on several (btrfs, ZFS, overlay, network).
    pub device: Option<Device>,
}

/// What the system reports about one file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct FileFacts {
    /// Alignment of memory and of offsets for direct I/O; Linux 6.1 and later.
    pub direct_memory_alignment: Option<u32>,
    pub direct_offset_alignment: Option<u32>,
    /// Least and largest write that is never torn if it is asked for (`RWF_ATOMIC`); Linux 6.11 and
    /// later. No engine asks for it.
    pub atomic_write_min_bytes: Option<u32>,
    pub atomic_write_max_bytes: Option<u32>,
}

fn line(path: String) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned()).filter(|t| !t.is_empty())
}

fn number(path: String) -> Option<u64> {
    line(path)?.parse().ok()
}

/// The device `major`:`minor`, as sysfs below `sys` has it.
fn device(sys: &str, major: u32, minor: u32) -> Option<Device> {
    let node = std::fs::canonicalize(format!("{sys}/dev/block/{major}:{minor}")).ok()?;
    let name = node.file_name()?.to_str()?.to_owned();
    // A partition has no queue of its own; that of the whole device is one directory up.
    let whole = [node.as_path(), node.parent()?].into_iter().find(|p| p.join("queue").is_dir())?;
    let of = |what: &str| whole.join(what).to_string_lossy().into_owned();
    Some(Device {
        name,
        model: line(of("device/model")),
        rotational: number(of("queue/rotational")).map(|n| n == 1),
        logical_block_bytes: number(of("queue/logical_block_size")),
        physical_block_bytes: number(of("queue/physical_block_size")),
        write_cache: line(of("queue/write_cache")),
        scheduler: line(of("queue/scheduler")).map(|s| chosen(&s)),
        atomic_write_bytes: number(of("queue/atomic_write_unit_max_bytes")).filter(|&n| n > 0),
    })
}

/// `none [mq-deadline] kyber` -> `mq-deadline`.
fn chosen(schedulers: &str) -> String {
    let inner = schedulers.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    inner.map_or(schedulers, |(name, _)| name).to_owned()
}

/// File system type of the mount that `dir` is on: the longest mount point that contains it. Of
/// equal ones the last, since it hides the others.
fn file_system(mounts: &str, dir: &Path) -> Option<String> {
    let mut best: Option<(usize, &str)> = None;
    for mount in mounts.lines() {
        let (before, after) = mount.split_once(" - ")?;
        let point = before.split(' ').nth(4)?.replace("\\040", " ");
        if dir.starts_with(&point) && best.is_none_or(|(len, _)| point.len() >= len) {
            best = Some((point.len(), after.split(' ').next()?));
        }
    }
    best.map(|(_, kind)| kind.to_owned())
}

fn memory(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|l| l.strip_prefix("MemTotal:"))?;
    Some(line.split_ascii_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

impl Place {
    /// Looks at `dir`, which must be a directory.
    pub fn of(dir: &Path) -> Result<Place> {
        let dir = std::fs::canonicalize(dir).map_err(Error::at(dir, "find"))?;
        let stat = rustix::fs::stat(&dir).map_err(|e| Error::at(&dir, "look at")(e.into()))?;
        if !dir.is_dir() {
            return Err(Error::Request(format!(
                "{} is not a directory: give one on the device to be measured",
                dir.display()
            )));
        }
        let fs = rustix::fs::statvfs(&dir).map_err(|e| Error::at(&dir, "look at")(e.into()))?;
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let (major, minor) = (rustix::fs::major(stat.st_dev), rustix::fs::minor(stat.st_dev));
        Ok(Place {
            file_system: file_system(&mounts, &dir).unwrap_or_else(|| "unknown".into()),
            file_system_bytes: fs.f_blocks.saturating_mul(fs.f_frsize),
            free_bytes: fs.f_bavail.saturating_mul(fs.f_frsize),
            read_only: fs.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY),
            memory_bytes: memory(&meminfo),
            processors: std::thread::available_parallelism().map_or(1, |n| n.get() as u32),
            device: device("/sys", major, minor),
            dir: dir.to_string_lossy().into_owned(),
        })
    }

    /// Bytes that stay free whatever is asked for (DEV2): 5 % of the file system, at most 8 GiB.
    pub fn reserve_bytes(&self) -> u64 {
        (self.file_system_bytes / 20).min(8 << 30)
    }
}

impl FileFacts {
    pub fn of(file: &File) -> FileFacts {
        // STATX_WRITE_ATOMIC; the library has no name for it yet.
        let atomic = StatxFlags::from_bits_retain(0x0001_0000);
        let mask = StatxFlags::DIOALIGN | atomic;
        let Ok(told) = rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, mask) else {
            return FileFacts::default();
        };
        let got = StatxFlags::from_bits_retain(told.stx_mask);
        let some = |flag, value: u32| (got.contains(flag) && value > 0).then_some(value);
        FileFacts {
            direct_memory_alignment: some(StatxFlags::DIOALIGN, told.stx_dio_mem_align),
            direct_offset_alignment: some(StatxFlags::DIOALIGN, told.stx_dio_offset_align),
            atomic_write_min_bytes: some(atomic, told.stx_atomic_write_unit_min),
            atomic_write_max_bytes: some(atomic, told.stx_atomic_write_unit_max),
        }
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)] // A pretended sysfs.
mod tests {
    use super::*;

    #[test]
    fn a_partition_has_the_queue_of_its_disk() {
        let sys = tempfile::tempdir().unwrap();
        let disk = sys.path().join("devices/sda");
        std::fs::create_dir_all(disk.join("queue")).unwrap();
        std::fs::create_dir_all(disk.join("sda1")).unwrap();
        std::fs::create_dir_all(sys.path().join("dev/block")).unwrap();
        std::os::unix::fs::symlink(disk.join("sda1"), sys.path().join("dev/block/8:1")).unwrap();
        std::fs::write(disk.join("queue/rotational"), "1\n").unwrap();
        std::fs::write(disk.join("queue/physical_block_size"), "4096\n").unwrap();
        std::fs::write(disk.join("queue/scheduler"), "none [mq-deadline] bfq\n").unwrap();
        std::fs::write(disk.join("queue/atomic_write_unit_max_bytes"), "0\n").unwrap();
        let found = device(sys.path().to_str().unwrap(), 8, 1).unwrap();
        assert_eq!((found.name.as_str(), found.rotational), ("sda1", Some(true)));
        assert_eq!(found.physical_block_bytes, Some(4096));
        assert_eq!(found.scheduler.as_deref(), Some("mq-deadline"));
        assert_eq!((found.atomic_write_bytes, found.write_cache), (None, None));
        assert_eq!(device(sys.path().to_str().unwrap(), 0, 52), None);
    }

    #[test]
    fn the_nearest_and_last_mount_counts() {
        let mounts = "21 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
            22 21 8:2 / /var/lib rw - xfs /dev/sda2 rw\n\
            23 21 0:5 / /var/li rw - tmpfs tmpfs rw\n\
            24 21 8:3 / /a\\040b rw - ext3 /dev/sda3 rw\n\
            25 24 8:4 / /a\\040b rw,x shared:1 - btrfs /dev/sda4 rw\n";
        let of = |dir: &str| file_system(mounts, Path::new(dir)).unwrap();
        assert_eq!([of("/var/lib/mysql"), of("/var/lib"), of("/home")], ["xfs", "xfs", "ext4"]);
        assert_eq!(of("/a b/c"), "btrfs");
        assert_eq!(file_system("", Path::new("/")), None);
    }

    #[test]
    fn this_machine_tells_about_itself() {
        let dir = tempfile::tempdir().unwrap();
        let place = Place::of(dir.path()).unwrap();
        assert!(place.file_system_bytes >= place.free_bytes && place.processors > 0);
        assert!(place.memory_bytes.is_some_and(|n| n > 64 << 20));
        assert!(place.reserve_bytes() <= place.file_system_bytes / 20);
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert!(matches!(Place::of(&file), Err(Error::Request(_))));
        assert!(matches!(Place::of(&dir.path().join("none")), Err(Error::System(..))));
    }
}
