//! Creating a log, and opening one that may have been cut off at any point.
//!
//! What open does, and why it is safe when it is itself cut off:
//!
//! 1. Syncs the directory: a rename or removal seen now may not be durable yet (the process died,
//!    the machine did not), and the steps below build on it.
//! 2. Reads all headers. They are valid in every crash state (G1 in `segment.rs`) and must chain.
//! 3. Finds the end: the first position of the last segment that holds no frame. Nothing behind it
//!    may promise it (see `format.rs`), or it is damage and not the end. Earlier segments are
//!    promised whole by their successors; [`Recovered`] verifies them as it reads. A last segment
//!    without a frame has nothing that proves its start: there its predecessor must end.
//! 4. Writes the frames that nothing promises once more and syncs them. They were read, but perhaps
//!    from the cache of the operating system, which after a failed sync holds them as clean: a sync
//!    alone would succeed without writing them.
//! 5. Begins a new segment at the end found. This is what keeps torn frames dead: those behind the
//!    end could verify again as soon as new frames had filled the gap before them, were the segment
//!    continued. From now on the segment ends where its successor starts, and the leftovers are
//!    outside the log. Overwriting them in place was rejected: it needs a sync before the first
//!    append as well, and a crash within it leaves the same problem.
//! 6. Only then cuts the leftovers off the old file, or removes it when it holds no frame at all.
//!
//! A full disk does not keep the log from opening as long as there is a spare segment, which
//! `log_space.rs` sees to. Without one, step 6 comes before step 5:
//!
//! - A last segment without a frame is taken out of the log and becomes the spare. A crash then finds
//!   the log as it was before that segment was begun. (Not the only segment: there must be a log.)
//!   Its number is in the spare's name and is not used again: its leftovers would verify.
//! - Else the leftovers are cut off first. The end was found in front of them and nothing promises
//!   them; a crash in between does not change that.
//!
//! If that did not make room for a segment, the new one is begun bare (RM3), which takes one block.

use std::collections::VecDeque;
use std::sync::Arc;

use frond_base::{Error, ErrorKind, Lsn, Result};
use frond_vfs::{OpenHow, Vfs, VfsFile};
use parking_lot::Mutex;

use crate::format::{SegmentHeader, HEADER_BYTES};
use crate::log::Wal;
use crate::recovered::Recovered;
use crate::scan::{Bad, SegmentReader};
use crate::segment::{list, log_name, read_full, read_header, sync_dir, Segment, Spares};
use crate::WalOptions;

/// Bytes written again at a time.
const COPY_BYTES: usize = 1 << 20;
/// Leftovers are cut off at a multiple of this, so that no sector with live frames is touched.
const CUT_ALIGN: u64 = 4096;

impl Wal {
    /// Makes an empty log that starts at LSN 0, durable on return. There must be none yet.
    pub fn create(vfs: Arc<dyn Vfs>, opts: WalOptions) -> Result<Wal> {
        opts.validate()?;
        let found = list(&*vfs)?;
        if let Some(&number) = found.segments.first() {
            let what = format!("{}: a log exists already in this directory", log_name(number));
            return Err(Error::new(ErrorKind::Exists, what));
        }
        sync_dir(&*vfs)?;
        let mut spares =
            Spares::adopt(&*vfs, found.spares, opts.segment_bytes, opts.spare_segments)?;
        let header = SegmentHeader { database: opts.database, number: 1, start: 0, restart: false };
        let file = spares.begin(&*vfs, &header)?;
        let segments = VecDeque::from([Segment { number: 1, start: 0 }]);
        Ok(Wal::start(vfs, opts, segments, Mutex::new(spares), file, false))
    }

    /// Opens the log: finds its end, makes it durable and begins a new segment there. The records
    /// found are handed out by [`Recovered`]. Fails with `Corruption` where the log is damaged
    /// before a point that was durable once; a torn end is not an error.
    pub fn open(vfs: Arc<dyn Vfs>, opts: WalOptions) -> Result<(Wal, Recovered)> {
        opts.validate()?;
        sync_dir(&*vfs)?;
        let found = list(&*vfs)?;
        let Some(&last) = found.segments.last() else {
            let what = "no log segment (log.*.frl) is in the database directory: restore them, \
                        or the whole directory, from a backup";
            return Err(Error::new(ErrorKind::NotFound, what));
        };
        let mut segments = VecDeque::new();
        for &number in &found.segments {
            let (header, _) = read_header(&*vfs, number, Some(opts.database), OpenHow::READ)?;
            check_chain(segments.back(), &header)?;
            segments.push_back(Segment { number, start: header.start });
        }
        let (header, file) = read_header(&*vfs, last, Some(opts.database), OpenHow::WRITE)?;
        let mut reader = SegmentReader::new(header, Arc::clone(&file));
        let (promised, end) = find_end(&mut reader)?;
        if end == header.start {
            check_start(&*vfs, opts.database, &segments)?;
        }
        write_again(&*file, &header, promised, end)?;

        let mut spares =
            Spares::adopt(&*vfs, found.spares, opts.segment_bytes, opts.spare_segments)?;
        let number = found.newest + 1;
        let next = SegmentHeader { database: opts.database, number, start: end, restart: true };
        let only = segments.len() == 1;
        let begun = begin_next(&*vfs, &mut spares, &next, (&*file, &header), only)?;

        if end == header.start {
            if !begun.recycled {
                // A lost removal does no harm: an empty segment fits in the chain.
                let name = log_name(last);
                vfs.remove(&name).map_err(|e| Error::io("remove", &name, e))?;
            }
            segments.pop_back();
        } else {
            cut_leftovers(&*file, &header, end)?;
        }
        let recovered = Recovered::new(Arc::clone(&vfs), opts.database, segments.clone(), end);
        segments.push_back(Segment { number, start: end });
        let wal = Wal::start(vfs, opts, segments, Mutex::new(spares), begun.file, begun.bare);
        Ok((wal, recovered))
    }
}

/// Headers must follow each other: numbers ascend (with gaps where empty segments were removed),
/// starts never go back, and the first one ever starts at 0.
pub fn check_chain(before: Option<&Segment>, header: &SegmentHeader) -> Result<()> {
    match before {
        None if header.number == 1 && header.start != 0 => Err(Error::corruption(
            &log_name(1),
            format_args!(
                "segment header: starts at LSN {}, but the first segment of a log starts at 0",
                header.start
            ),
        )),
        Some(before) if header.start < before.start => Err(Error::corruption(
            &log_name(header.number),
            format_args!(
                "segment header: starts at LSN {}, before its predecessor {} does ({})",
                header.start,
                log_name(before.number),
                before.start
            ),
        )),
        _ => Ok(()),
    }
}

/// The last segment has no frame, which would be bound to its place: its predecessors must lead exactly to
/// its start. Segments with frames are proven by these; [`Recovered`] verifies the rest.
fn check_start(vfs: &dyn Vfs, database: u64, segments: &VecDeque<Segment>) -> Result<()> {
    let Some(last) = segments.back() else { return Ok(()) };
    for before in segments.iter().rev().skip(1) {
        let (header, file) = read_header(vfs, before.number, Some(database), OpenHow::READ)?;
        let mut reader = SegmentReader::new(header, file);
        while reader.position() < last.start {
            if let Err(bad) = reader.frame()? {
                return Err(reader.corruption(&format!(
                    "{}, but {} says that it starts at LSN {}",
                    bad.describe(),
                    log_name(last.number),
                    last.start
                )));
            }
        }
        if reader.goes_on_at(last.start)? {
            return Err(Error::corruption(
                &log_name(last.number),
                format_args!(
                    "segment header: starts at LSN {}, but {} goes on there",
                    last.start, reader.name
                ),
            ));
        }
        if header.start < last.start {
            break;
        }
    }
    Ok(())
}

/// Reads the last segment. Returns the newest promise in it and the end of the log.
fn find_end(reader: &mut SegmentReader) -> Result<(Lsn, Lsn)> {
    let mut promised = reader.header.start;
    let bad = loop {
        match reader.frame()? {
            Ok(frame) => promised = promised.max(frame.header.promised.unwrap_or(0)),
            Err(bad) => break bad,
        }
    };
    if bad == Bad::Fields {
        // A torn write cannot make a header that verifies.
        return Err(reader.corruption(bad.describe()));
    }
    let end = reader.position();
    // Promises read before the end never reach behind it; look at what follows.
    let promise = reader.find_header(end, |_, h| h.promised.is_some_and(|p| p > end))?;
    match promise {
        Some(at) => {
            let what = format!("{}, but was durable by a later one (LSN {at})", bad.describe());
            Err(reader.corruption(&what))
        }
        None => Ok((promised, end)),
    }
}

/// Step 4 of the module's list: makes `[from, to)` durable without trusting the cache.
fn write_again(file: &dyn VfsFile, header: &SegmentHeader, from: Lsn, to: Lsn) -> Result<()> {
    let name = log_name(header.number);
    let mut buf = Vec::new();
    let mut at = from;
    while at < to {
        buf.resize(COPY_BYTES.min((to - at) as usize), 0);
        let got = read_full(file, &mut buf, header.offset(at))
            .map_err(|e| Error::io("read", &name, e))?;
        if got != buf.len() {
            return Err(Error::corruption(&name, "the file became shorter while it was read"));
        }
        file.write_all_at(&buf, header.offset(at)).map_err(|e| Error::io("write to", &name, e))?;
        at += got as u64;
    }
    file.sync().map_err(|e| Error::io("sync", &name, e))
}

/// The segment that opening has begun.
struct Begun {
    file: Arc<dyn VfsFile>,
    /// It has no disk space yet (RM3).
    bare: bool,
    /// It was made of the last segment's file.
    recycled: bool,
}

/// Step 5: begins the segment `next` behind `last`. `only`: `last` is the only segment.
fn begin_next(
    vfs: &dyn Vfs,
    spares: &mut Spares,
    next: &SegmentHeader,
    (last_file, last): (&dyn VfsFile, &SegmentHeader),
    only: bool,
) -> Result<Begun> {
    let full = |e: &Error| e.kind() == ErrorKind::NoSpace;
    let mut recycled = false;
    // Each attempt but the last two takes another spare.
    for left in (0..spares.count() + 2).rev() {
        if left == 0 && next.start == last.start && !only {
            spares.take_over(vfs, last.number)?;
            recycled = true;
        } else if left == 0 {
            cut_leftovers(last_file, last, next.start)?;
        }
        match spares.begin(vfs, next) {
            Err(e) if full(&e) => {}
            done => return Ok(Begun { file: done?, bare: false, recycled }),
        }
    }
    let file = spares.begin_bare(vfs, next).map_err(|e| match full(&e) {
        true => e.context(format_args!(
            "the disk is full, and opening the database takes {HEADER_BYTES} bytes of it for the \
             log: free some and try again, or open it for reading only"
        )),
        false => e,
    })?;
    spares.clear(vfs)?;
    Ok(Begun { file, bare: true, recycled })
}

fn cut_leftovers(file: &dyn VfsFile, header: &SegmentHeader, end: Lsn) -> Result<()> {
    let keep = header.offset(end).next_multiple_of(CUT_ALIGN).max(HEADER_BYTES);
    let cut = file.len().and_then(|len| if len > keep { file.set_len(keep) } else { Ok(()) });
    cut.map_err(|e| Error::io("truncate", &log_name(header.number), e))
}
