//! Threads that read, write and sync.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use crate::buffer::{Buffer, Random};
use crate::clock::{now, Stop};
use crate::error::{Error, Result};
use crate::files::Files;
use crate::latency::Histogram;

/// Unit of sequential work and of filling.
pub const SEQUENTIAL_BLOCK: u32 = 1 << 20;
/// What is written before each sync: a group of commits' log.
pub const SYNC_BLOCK: u32 = 4096;
/// Threads that read beside syncs, and the size of their reads.
pub const READERS: u32 = 4;
pub const READERS_BLOCK: u32 = 16 << 10;

const STACK_BYTES: usize = 128 << 10;

/// The result of a measurement.
pub struct Measured {
    pub latency: Histogram,
    /// From the first operation's start to the last one's end.
    pub elapsed: Duration,
    /// Time of the `fdatasync` after writes: work that the device or the system had left over.
    pub settle: Duration,
}

/// Runs `operation` on `depth` threads again and again until `time` is over. `operation` gets the
/// number of the thread, the number of the operation within the thread, random numbers, and the
/// thread's buffer of `block` bytes.
fn threads<F>(depth: u32, block: u32, time: Duration, stop: &Stop, operation: F) -> Result<Measured>
where
    F: Fn(u32, u64, &mut Random, &mut Buffer) -> io::Result<()> + Sync,
{
    struct Sum {
        latency: Histogram,
        begin: Option<Instant>,
        end: Option<Instant>,
        error: Option<io::Error>,
    }
    let sum = Sum { latency: Histogram::default(), begin: None, end: None, error: None };
    let sum = Mutex::new(sum);
    let failed = AtomicBool::new(false);
    // The threads' buffers are filled before any of them starts.
    let starts = now() + Duration::from_millis(1) * depth.min(64);
    let body = |number: u32| {
        let mut random = Random::new(seed() ^ u64::from(number) << 32);
        let mut buffer = Buffer::new(block as usize, &mut random);
        let mut latency = Histogram::default();
        let mut error = None;
        thread::park_timeout(starts.saturating_duration_since(now()));
        let begin = now();
        let until = begin + time;
        let mut at = begin;
        let mut operations = 0;
        // At least one, however slow the machine is.
        while (operations == 0 || at < until)
            && !stop.requested()
            && !failed.load(Ordering::Relaxed)
        {
            let before = now();
            if let Err(e) = operation(number, operations, &mut random, &mut buffer) {
                failed.store(true, Ordering::Relaxed);
                error = Some(e);
                break;
            }
            at = now();
            latency.add(at - before);
            operations += 1;
        }
        let mut sum = sum.lock().unwrap_or_else(|e| e.into_inner());
        sum.latency.merge(&latency);
        sum.begin = Some(sum.begin.map_or(begin, |other| other.min(begin)));
        sum.end = Some(sum.end.map_or(at, |other| other.max(at)));
        sum.error = error.or(sum.error.take());
    };
    thread::scope(|scope| {
        for number in 0..depth {
            let body = &body;
            let builder = thread::Builder::new().stack_size(STACK_BYTES);
            if let Err(e) = builder.spawn_scoped(scope, move || body(number)) {
                failed.store(true, Ordering::Relaxed);
                return Err(Error::System(
                    format!("cannot start thread {} of {depth}", number + 1),
                    e,
                ));
            }
        }
        Ok(())
    })?;
    let sum = sum.into_inner().unwrap_or_else(|e| e.into_inner());
    stop.check()?;
    if let Some(e) = sum.error {
        return Err(Error::System("an operation on the test files failed".into(), e));
    }
    let elapsed = match (sum.begin, sum.end) {
        (Some(begin), Some(end)) => end - begin,
        _ => Duration::ZERO,
    };
    Ok(Measured { latency: sum.latency, elapsed, settle: Duration::ZERO })
}

/// A new seed for each measurement, so that each visits other places.
fn seed() -> u64 {
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

fn settle(file: &File) -> Result<Duration> {
    let before = now();
    file.sync_data().map_err(|e| Error::System("cannot sync the test file".into(), e))?;
    Ok(now() - before)
}

/// Writes the data from its beginning until it is full or `time` is over, but at least `least`
/// bytes. Also returns the number of bytes written.
pub fn fill(files: &Files, least: u64, time: Duration, stop: &Stop) -> Result<(Measured, u64)> {
    let mut buffer = Buffer::new(SEQUENTIAL_BLOCK as usize, &mut Random::new(2));
    let mut latency = Histogram::default();
    let begin = now();
    let mut written = 0;
    while written < files.data_bytes && (written < least || now() - begin < time) {
        stop.check()?;
        let before = now();
        files
            .data
            .write_all_at(buffer.stamped(written), written)
            .map_err(Error::at(&files.data_path, "write"))?;
        latency.add(now() - before);
        written += u64::from(SEQUENTIAL_BLOCK);
    }
    let elapsed = now() - begin;
    Ok((Measured { latency, elapsed, settle: settle(&files.data)? }, written))
}

/// What is read or written, and in which order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    RandomRead,
    RandomWrite,
    SequentialRead,
    SequentialWrite,
}

impl Access {
    fn writes(self) -> bool {
        matches!(self, Access::RandomWrite | Access::SequentialWrite)
    }

    /// Offset of operation `n` of thread `number` of `depth`. In sequential order every thread has
    /// its own part of the data, and starts it again when it reaches its end.
    fn offset(self, bytes: u64, block: u32, at: (u32, u32, u64), random: &mut Random) -> u64 {
        let (number, depth, n) = at;
        let blocks = (bytes / u64::from(block)).max(1);
        let index = match self {
            Access::RandomRead | Access::RandomWrite => random.below(blocks),
            Access::SequentialRead | Access::SequentialWrite => {
                let part = (blocks / u64::from(depth)).max(1);
                (u64::from(number) * part + n % part) % blocks
            }
        };
        index * u64::from(block)
    }
}

/// Reads or writes the data in blocks of `block` bytes on `depth` threads.
pub fn access(
    files: &Files,
    access: Access,
    block: u32,
    depth: u32,
    time: Duration,
    stop: &Stop,
) -> Result<Measured> {
    if !access.writes() {
        files.forget().map_err(|e| Error::System("cannot sync the test file".into(), e))?;
    }
    let mut measured = threads(depth, block, time, stop, |number, n, random, buffer| {
        let offset = access.offset(files.data_bytes, block, (number, depth, n), random);
        match access.writes() {
            true => files.data.write_all_at(buffer.stamped(offset), offset),
            false => files.data.read_exact_at(buffer.bytes(), offset),
        }
    })?;
    if access.writes() {
        measured.settle = settle(&files.data)?;
    }
    Ok(measured)
}

/// Which call makes the log durable, and what has changed since the last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Syncing {
    /// `fdatasync`; otherwise `fsync`.
    pub data_only: bool,
    /// The file has grown; otherwise blocks that it had were written again.
    pub append: bool,
    /// Threads that read the data meanwhile.
    pub readers: u32,
}

/// Writes [`SYNC_BLOCK`] bytes to the log and syncs it, again and again, on one thread. Latencies
/// are those of the sync alone; the write before it goes to memory.
pub fn sync(files: &Files, how: Syncing, time: Duration, stop: &Stop) -> Result<Measured> {
    let failure = |e| Error::System("cannot write and sync the test log".into(), e);
    let block = u64::from(SYNC_BLOCK);
    let blocks = files.log_bytes / block;
    if how.append {
        files.log.set_len(0).and_then(|()| files.log.sync_all()).map_err(failure)?;
    }
    let done = Stop::default();
    let result = thread::scope(|scope| {
        let done = &done;
        let readers = (how.readers > 0).then(|| {
            scope.spawn(move || {
                let hour = Duration::from_secs(3600);
                threads(how.readers, READERS_BLOCK, hour, done, |_, _, random, buffer| {
                    let at = Access::RandomRead;
                    let offset = at.offset(files.data_bytes, READERS_BLOCK, (0, 1, 0), random);
                    files.data.read_exact_at(buffer.bytes(), offset)
                })
            })
        });
        let result = syncs(files, how, blocks, time, stop);
        done.request();
        let read = readers.map(|r| r.join());
        // Readers are interrupted by `done`, which is no error.
        match read {
            Some(Ok(Err(e @ Error::System(..)))) => Err(e),
            _ => result.map_err(failure),
        }
    });
    if how.append {
        // The log gets its old length back, for the measurements that overwrite it.
        refill(files).map_err(failure)?;
    }
    stop.check()?;
    result
}

fn syncs(
    files: &Files,
    how: Syncing,
    blocks: u64,
    time: Duration,
    stop: &Stop,
) -> io::Result<Measured> {
    let mut random = Random::new(seed());
    let mut buffer = Buffer::new(SYNC_BLOCK as usize, &mut random);
    let mut latency = Histogram::default();
    let begin = now();
    let mut left_out = Duration::ZERO;
    let mut n = 0u64;
    while (n == 0 || now() - begin < time) && !stop.requested() {
        if how.append && n > 0 && n.is_multiple_of(blocks) {
            // The space is bounded (DEV2): empty the log and start again, outside of what is
            // measured.
            let before = now();
            files.log.set_len(0)?;
            files.log.sync_all()?;
            left_out += now() - before;
        }
        let offset = n % blocks * u64::from(SYNC_BLOCK);
        files.log.write_all_at(buffer.stamped(offset), offset)?;
        let before = now();
        match how.data_only {
            true => files.log.sync_data()?,
            false => files.log.sync_all()?,
        }
        latency.add(now() - before);
        n += 1;
    }
    let elapsed = (now() - begin).saturating_sub(left_out);
    Ok(Measured { latency, elapsed, settle: Duration::ZERO })
}

fn refill(files: &Files) -> io::Result<()> {
    let mut buffer = Buffer::new(SEQUENTIAL_BLOCK as usize, &mut Random::new(seed()));
    for at in (0..files.log_bytes).step_by(SEQUENTIAL_BLOCK as usize) {
        files.log.write_all_at(buffer.stamped(at), at)?;
    }
    files.log.sync_all()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn random_places_cover_the_data_and_stay_inside() {
        let mut random = Random::new(3);
        let mut seen = HashSet::new();
        for _ in 0..20_000 {
            let at = Access::RandomRead.offset(1000 * 4096 + 100, 4096, (0, 1, 0), &mut random);
            assert!(at.is_multiple_of(4096) && at < 1000 * 4096);
            seen.insert(at);
        }
        assert_eq!(seen.len(), 1000);
    }

    #[test]
    fn each_thread_reads_its_own_part_in_order() {
        let mut random = Random::new(3);
        let mut of = |number, n| {
            Access::SequentialRead.offset(8 << 20, 1 << 20, (number, 4, n), &mut random) >> 20
        };
        assert_eq!([of(0, 0), of(0, 1), of(0, 2)], [0, 1, 0]);
        assert_eq!([of(3, 0), of(3, 1), of(3, 2)], [6, 7, 6]);
    }

    #[test]
    fn a_failing_operation_ends_all_threads_with_its_error() {
        let hour = Duration::from_secs(3600);
        let result = threads(8, 4096, hour, &Stop::default(), |number, n, _, _| {
            match number == 5 && n == 3 {
                true => Err(io::Error::other("planted")),
                false => Ok(()),
            }
        });
        let text = result.err().map(|e| e.to_string()).unwrap();
        assert!(text.contains("planted"), "{text}");
    }

    #[test]
    fn whoever_stops_it_gets_no_figure() {
        let stop = Stop::default();
        let hour = Duration::from_secs(3600);
        let result = threads(2, 4096, hour, &stop, |_, n, _, _| {
            if n == 10 {
                stop.request();
            }
            Ok(())
        });
        assert!(matches!(result, Err(Error::Interrupted)));
    }
}
