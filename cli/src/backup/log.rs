//! The log of a backup: its segments, and which of their bytes earlier backups have.
//!
//! - BQ1. Bytes of the log below a backup's commit sequence never change, and each start of a server begins a segment. So the bytes
//!   that the base has of a segment must be the beginning of that segment now. If not, the server's data were restored since, and
//!   the base is refused. If the server has removed all segments of the base, the oldest one that it has begins behind the base.
//! - BQ2. Parts are at most [`PIECE`] bytes, so that comparing the newest part reads no more than one piece.

use std::path::Path;

use frond_engine::Description;
use frond_vfs::OpenHow;

use super::copy::{self, failed, Meter, PIECE};
use super::into::Into;
use super::manifest::{hex, Manifest, Part, PlainFile};
use super::parallel::{extents, Range};
use crate::out::{Failure, Outcome};

/// Bytes in front of a segment's frames.
const HEADER: u64 = 4096;

/// A segment up to the moment of the backup.
#[derive(PartialEq, Eq, Debug)]
pub struct Segment {
    pub name: String,
    len: u64,
    /// Parts that earlier backups have.
    shared: Vec<Part>,
    new: Vec<Range>,
}

/// The segments; an error says why `base` cannot be the base (BQ1).
pub fn plan(described: &Description, base: Option<&Manifest>) -> Result<Vec<Segment>, String> {
    let ends = described.segments.iter().skip(1).map(|(_, start)| *start).chain([described.at]);
    base.map_or(Ok(()), |base| follows(described, base))?;
    let mut all = Vec::new();
    for ((number, start), end) in described.segments.iter().zip(ends) {
        let name = format!("log.{number:08}.frl");
        let len = HEADER + end.saturating_sub(*start);
        let known = base.and_then(|b| Some((b.files.get(&path(&name))?, b.chain.len())));
        let (shared, has) = known.map_or((Vec::new(), 0), |(f, own)| (f.parts(own), f.bytes));
        if has > len {
            return Err(format!(
                "it has {has} bytes of {name}, which ended after {len}: {RESTORED}"
            ));
        }
        let starts = (has..len).step_by(PIECE);
        let new = starts.map(|at| (at, (len - at).min(PIECE as u64))).collect();
        all.push(Segment { name, len, shared, new });
    }
    Ok(all)
}

/// Whether the server's segments can be a continuation of those of `base` (BQ1).
fn follows(described: &Description, base: &Manifest) -> Result<(), String> {
    let number =
        |path: &String| path.strip_prefix("frond/log.")?.strip_suffix(".frl")?.parse().ok();
    let newest: Option<u32> = base.files.keys().filter_map(number).max();
    let (Some(newest), [(first, start), ..]) = (newest, &*described.segments) else {
        return Ok(());
    };
    if described.segments.iter().all(|(number, _)| *number < newest) {
        return Err(format!(
            "it has log segment {newest}, which the server has not begun: {RESTORED}"
        ));
    }
    if newest < *first && *start < base.commit_sequence {
        return Err(format!("it ends behind the begin of log segment {first}: {RESTORED}"));
    }
    Ok(())
}

const RESTORED: &str = "the server's data were restored since";

/// The path inside a backup.
fn path(name: &str) -> String {
    format!("frond/{name}")
}

impl Segment {
    /// Bytes to copy.
    pub fn bytes(&self) -> u64 {
        self.new.iter().map(|(_, len)| len).sum()
    }

    /// Copies the new bytes from the directory `from`. `own`: the place of this backup in its chain.
    pub fn copy(
        &self,
        from: &Path,
        into: &Into,
        own: usize,
        threads: usize,
        meter: &Meter,
    ) -> Outcome<(String, PlainFile)> {
        let (source_path, path) = (from.join(&self.name), path(&self.name));
        let mut parts = self.shared.clone();
        if !self.new.is_empty() {
            let source = copy::open(&source_path, OpenHow::READ)?;
            let to = into.open(&path)?;
            let sums = extents(&source, &to, &self.new, threads, meter).map_err(|e| {
                Failure::Request(format!("copying {} to the backup: {e}", source_path.display()))
            })?;
            let sums = self.new.iter().zip(sums);
            parts.extend(sums.map(|((at, len), sum)| Part(*at, *len, hex(sum), own)));
        }
        Ok((path, PlainFile { bytes: self.len, checksum: String::new(), parts }))
    }
}

/// Checks that the newest bytes that the base has are also the server's; an inner error says that they are not (BQ1).
pub fn same_bytes(from: &Path, segments: &[Segment], meter: &Meter) -> Outcome<Result<(), String>> {
    let newest = segments.iter().rev().find_map(|s| Some((s, s.shared.last()?)));
    let Some((segment, part)) = newest else { return Ok(Ok(())) };
    let path = from.join(&segment.name);
    let source = copy::open(&path, OpenHow::READ)?;
    let is = copy::range(&*source, None, part.0, part.1, meter).map_err(failed("read", &path))?;
    Ok(match hex(is) == part.2 {
        true => Ok(()),
        false => Err(format!("{} has other bytes at {} now: {RESTORED}", segment.name, part.0)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(segments: &[(u32, u64)], at: u64) -> Description {
        let (files, names, rows) = (Vec::new(), Vec::new(), Vec::new());
        Description { pin: 1, database: 2, at, segments: segments.to_vec(), files, names, rows }
    }

    #[test]
    fn what_the_base_has_of_a_segment_is_not_copied() {
        let piece = PIECE as u64;
        let full = plan(&described(&[(3, 0), (4, 5000)], 5000 + piece), None).unwrap();
        assert_eq!((full[0].new.clone(), full[0].bytes()), (vec![(0, 9096)], 9096));
        assert_eq!(full[1].new, [(0, piece), (piece, 4096)]);
        let mut base = Manifest::new(1, "here");
        let whole = |len, own| PlainFile {
            bytes: len,
            checksum: String::new(),
            parts: vec![Part(0, len, hex(1), own)],
        };
        // One segment of this format, and one of a format without parts.
        base.files.insert("frond/log.00000003.frl".into(), whole(9096, 0));
        base.files.insert("frond/log.00000004.frl".into(), PlainFile::whole(4096 + 80, 2));
        let more = plan(&described(&[(3, 0), (4, 5000), (5, 9000)], 9100), Some(&base)).unwrap();
        assert_eq!((more[0].bytes(), more[0].shared.len()), (0, 1));
        assert_eq!(more[1].new, [(4096 + 80, 4000 - 80)]);
        assert_eq!(more[1].shared, [Part(0, 4096 + 80, hex(2), 0)]);
        assert_eq!(more[2].new, [(0, 4096 + 100)]);
        // A server that was restored to an earlier moment has ended that segment there.
        let other = plan(&described(&[(3, 0), (4, 4800)], 9100), Some(&base));
        assert!(other.unwrap_err().contains("restored since"));
        // It has not come as far as the base, or has removed what they could have in common.
        let behind = plan(&described(&[(3, 0)], 9100), Some(&base));
        assert!(behind.unwrap_err().contains("segment 4, which the server has not begun"));
        base.commit_sequence = 7000;
        assert!(plan(&described(&[(5, 7000), (6, 9000)], 9100), Some(&base)).is_ok());
        let removed = plan(&described(&[(5, 6999), (6, 9000)], 9100), Some(&base));
        assert!(removed.unwrap_err().contains("behind the begin of log segment 5"));
    }
}
