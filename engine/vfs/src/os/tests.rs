//! Tests of `os.rs`.

use std::panic::AssertUnwindSafe;

use super::*;
use crate::AlignedBuf;

fn dir() -> (tempfile::TempDir, OsVfs) {
    let dir = tempfile::tempdir().unwrap();
    let vfs = OsVfs::new(dir.path()).unwrap();
    (dir, vfs)
}

#[test]
fn names_that_could_leave_the_directory_are_refused() {
    let (_dir, vfs) = dir();
    let long = "x".repeat(256);
    for name in ["", ".", "..", "a/b", "/etc/passwd", "a\0b", &long] {
        let kind = vfs.open(name, OpenHow::CREATE).err().unwrap().kind();
        assert_eq!(kind, io::ErrorKind::InvalidInput, "{name:?}");
        assert!(vfs.remove(name).is_err());
        assert!(vfs.rename("a", name).is_err());
        assert!(vfs.exists(name).is_err());
    }
}

#[test]
fn links_and_pipes_are_not_opened() {
    let (dir, vfs) = dir();
    vfs.open("real", OpenHow::CREATE).unwrap();
    std::os::unix::fs::symlink("real", dir.path().join("link")).unwrap();
    assert!(vfs.open("link", OpenHow::READ).is_err());
    assert!(vfs.exists("link").unwrap());
    let pipe = CString::new(dir.path().join("pipe").as_os_str().as_bytes()).unwrap();
    // SAFETY: a valid path.
    assert_eq!(unsafe { libc::mkfifo(pipe.as_ptr(), 0o600) }, 0);
    let e = vfs.open("pipe", OpenHow::READ).err().unwrap();
    assert_eq!(e.kind(), io::ErrorKind::InvalidInput);
    std::os::unix::fs::symlink("/dev/null", dir.path().join(LOCK_FILE)).unwrap();
    assert!(vfs.lock_dir().is_err());
}

#[test]
fn files_read_back_and_names_behave() {
    let (dir, vfs) = dir();
    let f = vfs.open("a", OpenHow::CREATE).unwrap();
    assert!(vfs.open("a", OpenHow::CREATE).is_err());
    f.write_all_at(b"hello", 10).unwrap();
    f.sync().unwrap();
    vfs.sync_dir().unwrap();
    let mut got = [9u8; 15];
    f.read_exact_at(&mut got, 0).unwrap();
    assert_eq!(&got, b"\0\0\0\0\0\0\0\0\0\0hello");
    assert_eq!(f.read_at(&mut got, 15).unwrap(), 0);
    vfs.rename("a", "b").unwrap();
    assert!(vfs.open("a", OpenHow::READ).is_err());
    std::fs::create_dir(dir.path().join("sub")).unwrap();
    assert_eq!(vfs.list().unwrap(), ["b"]);
    assert_eq!(vfs.list().unwrap(), ["b"], "listing twice sees the same");
    let read_only = vfs.open("b", OpenHow::READ).unwrap();
    assert!(read_only.write_at(b"x", 0).is_err());
    vfs.remove("b").unwrap();
    assert!(!vfs.exists("b").unwrap());
    f.set_len(3).unwrap();
    assert_eq!(f.len().unwrap(), 3);
}

#[test]
fn allocated_space_has_its_length_and_holes_read_as_zeros() {
    let (_dir, vfs) = dir();
    let f = vfs.open("a", OpenHow::CREATE).unwrap();
    f.allocate(1 << 20).unwrap();
    assert_eq!(f.len().unwrap(), 1 << 20);
    f.write_all_at(&[7; 16384], 0).unwrap();
    f.punch_hole(4096, 4096).unwrap();
    let mut got = vec![1; 16384];
    f.read_exact_at(&mut got, 0).unwrap();
    assert!(got[..4096].iter().chain(&got[8192..]).all(|&b| b == 7));
    // A file system may be unable to punch; then the bytes stay.
    assert!(got[4096..8192].iter().all(|&b| b == 0) || got[4096..8192].iter().all(|&b| b == 7));
}

#[test]
fn direct_transfers_work_from_aligned_buffers() {
    let (_dir, vfs) = dir();
    let f = vfs.open("a", OpenHow { direct: true, ..OpenHow::CREATE }).unwrap();
    let mut buf = AlignedBuf::zeroed(8192);
    buf.fill(3);
    f.write_all_at(&buf, 4096).unwrap();
    let mut got = AlignedBuf::zeroed(12288);
    f.read_exact_at(&mut got, 0).unwrap();
    assert!(got[..4096].iter().all(|&b| b == 0));
    assert!(got[4096..].iter().all(|&b| b == 3));
    let align = f.direct().unwrap_or(DIRECT_ALIGN);
    assert!(align.is_power_of_two() && align <= DIRECT_ALIGN, "{align}");
    let mut got = AlignedBuf::zeroed(2 * align);
    f.read_exact_at(&mut got, 4096 - align as u64).unwrap();
    assert!(got[..align].iter().all(|&b| b == 0) && got[align..].iter().all(|&b| b == 3));
    if f.direct().is_some() {
        let odd = std::panic::catch_unwind(AssertUnwindSafe(|| {
            let _ = f.write_at(&buf[1..4097], 0);
        }));
        assert!(odd.is_err(), "a misaligned direct write is a programmer's mistake");
    }
}

#[test]
fn a_direct_file_that_ends_within_a_unit_is_read_to_its_end_and_no_further() {
    let (_dir, vfs) = dir();
    let f = vfs.open("a", OpenHow { direct: true, ..OpenHow::CREATE }).unwrap();
    f.set_len(5000).unwrap();
    let mut got = AlignedBuf::zeroed(8192);
    let cut = f.read_exact_at(&mut got, 0).unwrap_err();
    assert_eq!(cut.kind(), io::ErrorKind::UnexpectedEof);
}

#[test]
fn reads_together_give_what_single_reads_give() {
    let (_dir, vfs) = dir();
    for direct in [false, true] {
        let f = vfs.open(&format!("{direct}"), OpenHow { direct, ..OpenHow::CREATE }).unwrap();
        let units = 50u64;
        let mut content = AlignedBuf::zeroed(units as usize * DIRECT_ALIGN);
        for (i, unit) in content.chunks_mut(DIRECT_ALIGN).enumerate() {
            unit.fill(i as u8);
        }
        f.write_all_at(&content, 0).unwrap();
        // More than the kernel takes at once, in no order, two past the end, one across it.
        let first = |i: u64| i * 37 % (units + 2);
        let read_all = || {
            let mut bufs: Vec<_> =
                (0..units + 2).map(|_| AlignedBuf::zeroed(2 * DIRECT_ALIGN)).collect();
            let offset = |i: usize| first(i as u64) * DIRECT_ALIGN as u64;
            let read = |(i, buf)| ReadAt { buf, offset: offset(i), done: None };
            let with_buf = bufs.iter_mut().map(|b| &mut b[..]).enumerate();
            let mut reads: Vec<_> = with_buf.map(read).collect();
            f.read_together(&mut reads);
            let done: Vec<_> = reads.into_iter().map(|r| r.done.unwrap().unwrap()).collect();
            for (i, (n, buf)) in done.iter().zip(&bufs).enumerate() {
                let whole = (units.saturating_sub(first(i as u64)) as usize).min(2);
                assert_eq!(*n, whole * DIRECT_ALIGN, "read {i}");
                for (k, byte) in buf[..*n].iter().enumerate() {
                    assert_eq!(*byte as usize, first(i as u64) as usize + k / DIRECT_ALIGN);
                }
            }
        };
        std::thread::scope(|s| {
            for _ in 0..3 {
                s.spawn(|| (0..20).for_each(|_| read_all()));
            }
        });
    }
}

#[test]
fn the_directory_is_locked_once_even_within_a_process() {
    let (dir, vfs) = dir();
    let held = vfs.lock_dir().unwrap();
    let second = OsVfs::new(dir.path()).unwrap().lock_dir().err().unwrap();
    assert_eq!(second.kind(), io::ErrorKind::WouldBlock);
    drop(held);
    vfs.lock_dir().unwrap();
}

#[test]
fn create_makes_the_directory_and_accepts_an_existing_one() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    assert!(OsVfs::new(&path).is_err());
    OsVfs::create(&path).unwrap();
    OsVfs::create(&path).unwrap().open("a", OpenHow::CREATE).unwrap();
    assert!(OsVfs::create(dir.path().join("x/y")).is_err());
}

#[test]
fn clocks_threads_and_random_numbers_come_from_the_machine() {
    let (_dir, vfs) = dir();
    let (tx, rx) = std::sync::mpsc::channel();
    let work = move || tx.send(std::thread::current().name().map(str::to_string)).unwrap();
    vfs.spawn("frond-test", Box::new(work)).unwrap().unwrap().join();
    assert_eq!(rx.recv().unwrap().as_deref(), Some("frond-test"));
    let before = vfs.now();
    assert!(vfs.now() >= before);
    assert!(vfs.wall_clock() > Duration::from_secs(1_600_000_000));
    assert_ne!(vfs.random_u64(), vfs.random_u64());
}
