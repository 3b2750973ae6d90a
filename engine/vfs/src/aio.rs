//! Several reads in flight at once: Linux's native asynchronous I/O (`io_submit`), for direct files.
//!
//! A thread that reads the pages of four runs one after another waits four times for the device and
//! then for a core. Started together they cost one wait: with two busy cores three reads took 0.28 instead of
//! 0.43 ms at the median and 4.3 instead of 5.9 ms at the 99th percentile.
//!
//! - AIO1. [`read`] returns only when the kernel is done with every buffer it was given.
//! - AIO2. Where the kernel refuses (no contexts left, not permitted, not a direct file) the caller reads one
//!   after another: [`read`] says which reads it did.
//!
//! Rejected: io_uring, which many hosts and containers forbid; a pool of reading threads, each of which
//! would itself wait for a core.
//!
//! Tested by the unit tests of `os.rs`.

use std::io;
use std::os::fd::RawFd;
use std::sync::{Mutex, PoisonError};

use crate::ReadAt;

/// Reads in flight per context.
const DEPTH: usize = 16;
/// Contexts kept for the next reader; all programs of the system share its limit (`fs.aio-max-nr`).
const KEPT: usize = 32;

const IOCB_CMD_PREAD: u16 = 0;

/// `struct iocb` of linux/aio_abi.h. (`key` and `rw_flags` change places with the byte order; both are 0.)
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Iocb {
    data: u64,
    key: u32,
    rw_flags: u32,
    opcode: u16,
    priority: i16,
    fd: u32,
    buf: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    event_fd: u32,
}

/// `struct io_event` of linux/aio_abi.h.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Event {
    data: u64,
    iocb: u64,
    result: i64,
    result2: i64,
}

/// A kernel context with nothing in flight.
struct Context(u64);

/// Contexts that nobody uses now.
static CONTEXTS: Mutex<Vec<Context>> = Mutex::new(Vec::new());

impl Context {
    fn take() -> io::Result<Context> {
        let kept = CONTEXTS.lock().unwrap_or_else(PoisonError::into_inner).pop();
        if let Some(context) = kept {
            return Ok(context);
        }
        let mut id = 0u64;
        // SAFETY: `id` is zero and lives through the call, which writes the context's number there.
        match unsafe { libc::syscall(libc::SYS_io_setup, DEPTH as libc::c_long, &mut id) } {
            0 => Ok(Context(id)),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn put_back(self) {
        let mut kept = CONTEXTS.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < KEPT {
            kept.push(self);
        }
    }

    /// Hands the first of `iocbs` to the kernel; returns how many it took.
    fn submit(&self, iocbs: &mut [Iocb]) -> usize {
        let mut pointers = [std::ptr::null_mut::<Iocb>(); DEPTH];
        for (pointer, iocb) in pointers.iter_mut().zip(iocbs.iter_mut()) {
            *pointer = iocb;
        }
        let n = iocbs.len().min(DEPTH) as libc::c_long;
        // SAFETY: `n` pointers to control blocks that outlive the call (the kernel copies them).
        let took = unsafe { libc::syscall(libc::SYS_io_submit, self.0, n, pointers.as_mut_ptr()) };
        usize::try_from(took).unwrap_or(0)
    }

    /// Waits for `n` results; `done` gets position and outcome of each.
    fn wait(&self, n: usize, mut done: impl FnMut(usize, io::Result<usize>)) {
        let mut left = n;
        while left > 0 {
            let mut events = [Event::default(); DEPTH];
            let want = left as libc::c_long;
            let forever = std::ptr::null_mut::<libc::timespec>();
            // SAFETY: `events` has room for DEPTH >= `want` events; no time limit is passed.
            let got = unsafe {
                let events = events.as_mut_ptr();
                libc::syscall(libc::SYS_io_getevents, self.0, want, want, events, forever)
            };
            if got < 0 {
                let e = io::Error::last_os_error();
                if e.kind() == io::ErrorKind::Interrupted {
                    continue;
                }
                // With these arguments it fails for no other reason. AIO1: the kernel still writes to buffers
                // that even a panic would free.
                eprintln!("frond: cannot wait for reads that are under way: {e}");
                std::process::abort();
            }
            for event in &events[..got as usize] {
                let result = usize::try_from(event.result)
                    .map_err(|_| io::Error::from_raw_os_error(-event.result as i32));
                done(event.data as usize, result);
            }
            left -= got as usize;
        }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: the number came from io_setup and is used by nobody else.
        unsafe { libc::syscall(libc::SYS_io_destroy, self.0) };
    }
}

/// Starts as many of `reads` of `fd` as the kernel takes, waits for these, and sets their `done`.
/// The others are left as they were.
pub(crate) fn read(fd: RawFd, reads: &mut [ReadAt<'_>]) {
    let Ok(context) = Context::take() else { return };
    for some in reads.chunks_mut(DEPTH) {
        let mut iocbs = [Iocb::default(); DEPTH];
        for (i, (iocb, read)) in iocbs.iter_mut().zip(some.iter_mut()).enumerate() {
            *iocb = Iocb {
                data: i as u64,
                opcode: IOCB_CMD_PREAD,
                fd: fd as u32,
                buf: read.buf.as_mut_ptr() as u64,
                bytes: read.buf.len() as u64,
                offset: i64::try_from(read.offset).unwrap_or(i64::MAX),
                ..Iocb::default()
            };
        }
        let took = context.submit(&mut iocbs[..some.len()]);
        context.wait(took, |i, result| some[i].done = Some(result));
        if took < some.len() {
            break;
        }
    }
    context.put_back();
}
