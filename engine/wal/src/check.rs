//! The offline reader: reads a log without changing it and lists what is wrong instead of stopping.
//!
//! For `frond check` and `frond log`. The directory must not be open elsewhere.
//! Where frames do not verify it looks for the next header that does and goes on there, so that
//! damage to one record hides no other; records are visited in stream order, with holes.

use std::sync::Arc;

use frond_base::{Error, Lsn, Result};
use frond_vfs::{OpenHow, Vfs, VfsFile};

use crate::format::{SegmentHeader, FIRST};
use crate::open::check_chain;
use crate::record::{Assembler, Record, Taken};
use crate::scan::{Bad, SegmentReader};
use crate::segment::{list, log_name, read_header, Segment};

/// Problems listed at most; a destroyed file need not fill the memory.
const MAX_PROBLEMS: usize = 1000;

/// Something wrong, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    pub file: String,
    pub offset: u64,
    pub what: String,
}

/// One segment file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SegmentReport {
    pub file: String,
    /// `None` when the header does not verify.
    pub start: Option<Lsn>,
    /// Where its frames end.
    pub end: Lsn,
    pub frames: u64,
    pub file_bytes: u64,
}

/// What a log holds.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LogReport {
    pub segments: Vec<SegmentReport>,
    pub problems: Vec<Problem>,
    pub records: u64,
    /// Payload bytes of the records.
    pub payload_bytes: u64,
    /// LSN where the log ends.
    pub end: Lsn,
    /// Everything below is known to have been durable.
    pub promised: Lsn,
    /// A record at the end that was never finished. Normal after a crash.
    pub unfinished: Option<Lsn>,
}

impl LogReport {
    fn problem(&mut self, file: &str, offset: u64, what: impl Into<String>) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(Problem { file: file.to_string(), offset, what: what.into() });
        }
    }
}

/// Reads the whole log, calling `visit` for every intact record. `database` is checked when given.
/// Fails only when the directory or a file cannot be read at all.
pub fn inspect(
    vfs: &dyn Vfs,
    mut database: Option<u64>,
    visit: &mut dyn FnMut(Record<'_>),
) -> Result<LogReport> {
    let mut report = LogReport::default();
    let mut found = Vec::new();
    let mut before = None;
    for number in list(vfs)?.segments {
        let name = log_name(number);
        let header = match read_header(vfs, number, database, OpenHow::READ)
            .and_then(|(header, _)| check_chain(before.as_ref(), &header).map(|()| header))
        {
            Ok(header) => {
                before = Some(Segment { number, start: header.start });
                database.get_or_insert(header.database);
                Some(header)
            }
            Err(e) => {
                report.problem(&name, 0, e.message());
                None
            }
        };
        found.push((number, header));
    }
    if found.is_empty() {
        report.problem("log.*.frl", 0, "there is no log segment");
    }
    let mut assembler = Assembler::default();
    for (i, &(number, header)) in found.iter().enumerate() {
        let name = log_name(number);
        let file = vfs.open(&name, OpenHow::READ).map_err(|e| Error::io("open", &name, e))?;
        let file_bytes = file.len().map_err(|e| Error::io("read the length of", &name, e))?;
        let reader = match (header, database) {
            (Some(header), _) => Some(SegmentReader::new(header, file)),
            (None, Some(database)) => guess_header(database, number, report.end, file)?,
            (None, None) => None,
        };
        let mut frames = 0;
        if let Some(mut reader) = reader {
            if reader.header.restart {
                assembler.abandon();
            }
            report.promised = report.promised.max(reader.header.start);
            let limit = found.get(i + 1).and_then(|(_, next)| next.map(|h| h.start));
            frames = read_segment(&mut reader, limit, &mut assembler, &mut report, visit)?;
            report.end = reader.position();
            if limit == Some(report.end) && reader.goes_on_at(report.end)? {
                let what = format!("starts at LSN {}, but {} goes on there", report.end, name);
                report.problem(&log_name(found[i + 1].0), 0, format!("segment header: {what}"));
            }
        } else {
            assembler.lost_frames();
        }
        let start = header.map(|h| h.start);
        report.segments.push(SegmentReport {
            file: name,
            start,
            end: report.end,
            frames,
            file_bytes,
        });
    }
    report.unfinished = assembler.unfinished();
    Ok(report)
}

/// A reader for a segment whose header is damaged. It must begin where its predecessor ended, and its
/// first frame verifies only there. `None` when that frame does not verify.
fn guess_header(
    database: u64,
    number: u32,
    start: Lsn,
    file: Arc<dyn VfsFile>,
) -> Result<Option<SegmentReader>> {
    let mut header = SegmentHeader { database, number, start, restart: false };
    let first = match SegmentReader::new(header, Arc::clone(&file)).frame()? {
        Ok(frame) => frame.header.flags & FIRST != 0,
        Err(_) => return Ok(None),
    };
    // If a record was under construction, it was given up.
    header.restart = first;
    Ok(Some(SegmentReader::new(header, file)))
}

/// Reads a segment up to `limit` (the last one: to the end of the log). Returns the number of
/// frames.
fn read_segment(
    reader: &mut SegmentReader,
    limit: Option<Lsn>,
    assembler: &mut Assembler,
    report: &mut LogReport,
    visit: &mut dyn FnMut(Record<'_>),
) -> Result<u64> {
    let mut frames = 0;
    while limit.is_none_or(|l| reader.position() < l) {
        let (at, offset) = (reader.position(), reader.offset());
        let (what, go_on) = match reader.frame()? {
            Ok(frame) => {
                frames += 1;
                report.promised = report.promised.max(frame.header.promised.unwrap_or(0));
                match assembler.take(frame.lsn, &frame.header, frame.stored, true) {
                    _ if limit.is_some_and(|l| frame.end > l) => {
                        ("a log record reaches into the next segment", frame.end)
                    }
                    Ok(Taken::Nothing) => continue,
                    Ok(Taken::Whole(kind, lsn)) => {
                        report.records += 1;
                        let payload = assembler.payload();
                        report.payload_bytes += payload.len() as u64;
                        visit(Record { lsn, end: frame.end, kind, payload });
                        continue;
                    }
                    Err(what) => (what, frame.end),
                }
            }
            Err(bad) => {
                // In the last segment it may be the end, unless something promises these bytes.
                if limit.is_none() && bad != Bad::Fields && at >= report.promised {
                    let mut promised = at;
                    reader.find_header(at + 8, |_, h| {
                        promised = promised.max(h.promised.unwrap_or(0));
                        promised > at
                    })?;
                    if promised == at {
                        return Ok(frames);
                    }
                    // Kept, so that the same search is not repeated for each bad frame below it.
                    report.promised = promised;
                }
                let next = reader.find_header(at + 8, |_, _| true)?;
                let next = next.filter(|&lsn| limit.is_none_or(|l| lsn < l));
                match (next, limit) {
                    (Some(lsn), _) => (bad.describe(), lsn),
                    (None, Some(limit)) => (bad.describe(), limit),
                    (None, None) => {
                        report.problem(
                            &reader.name,
                            offset,
                            format!("LSN {at}: {}", bad.describe()),
                        );
                        return Ok(frames);
                    }
                }
            }
        };
        report.problem(&reader.name, offset, format!("LSN {at}: {what}"));
        assembler.lost_frames();
        reader.seek(go_on);
    }
    Ok(frames)
}
