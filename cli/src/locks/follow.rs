//! A log that grows. It is read from its present end; after a rotation the new file is read from its
//! beginning. A server writes to the old file until `FLUSH LOGS`, so that is left only when the new one has content and the
//! old one was quiet for `QUIET`.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use frond_locks::text::reader::Reader;
use frond_querylog::input::open::describe;

use super::args::LocksArgs;
use super::show::shown;
use crate::digest::live::stop::{now, Stop};
use crate::out::{Failure, Outcome};

const POLL: Duration = Duration::from_millis(500);
const QUIET: Duration = Duration::from_secs(1);
/// A log does not rotate more often than this within `QUIET`.
const MAX_NEXT: usize = 16;

#[allow(clippy::disallowed_methods)] // It is no file of a database.
fn open(path: &Path) -> std::io::Result<File> {
    File::open(path)
}

/// Follows the one file of `args`; true if nobody waited.
pub fn files(args: &LocksArgs, out: &mut dyn Write) -> Outcome<bool> {
    let [path] = args.files.as_slice() else {
        return Err(Failure::Request("--follow follows one file".into()));
    };
    let fail =
        |e: std::io::Error| Failure::Request(format!("{}: {}", path.display(), describe(&e)));
    let stop = Stop::after(args.run_time);
    let mut file = open(path).map_err(fail)?;
    let mut at = file.seek(SeekFrom::End(0)).map_err(fail)?;
    let mut reader = Reader::default();
    let mut sink = shown(args, path.display().to_string(), out);
    let mut buffer = vec![0; 256 << 10];
    // When the file grew last, or its successor was first seen with content. Files that got the name since, in that order.
    let (mut grew, mut succeeded) = (now(), false);
    let mut next = VecDeque::new();
    loop {
        let n = match file.read(&mut buffer) {
            Ok(n) => n,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(fail(e)),
        };
        if n > 0 {
            at += n as u64;
            grew = now();
            reader.feed(&buffer[..n], &mut sink);
        }
        if sink.result.is_err() || stop.is_due() {
            break;
        }
        if n > 0 {
            continue;
        }
        // At the end of the file: does its name belong to another file by now, or was it truncated?
        let here = file.metadata().map_err(fail)?;
        if here.len() < at {
            // Half a line at the end of the old content is not the begin of a new one.
            std::mem::take(&mut reader).finish(&mut sink);
            at = file.seek(SeekFrom::Start(0)).map_err(fail)?;
        } else {
            let inode = |file: &File| file.metadata().map(|is| (is.dev(), is.ino())).map_err(fail);
            if let Ok(named) = open(path) {
                if inode(&named)? != inode(next.back().unwrap_or(&file))? && next.len() < MAX_NEXT {
                    next.push_back(named);
                }
            }
            // A file that lost the name again gets no more bytes.
            let begun = next.len() > 1
                || next.front().is_some_and(|next| next.metadata().is_ok_and(|is| is.len() > 0));
            if begun && !std::mem::replace(&mut succeeded, true) {
                grew = now();
            }
            let leaves = succeeded && grew.elapsed() >= QUIET;
            if let Some(successor) = leaves.then(|| next.pop_front()).flatten() {
                std::mem::take(&mut reader).finish(&mut sink);
                (file, at, succeeded) = (successor, 0, false);
                continue;
            }
        }
        if stop.sleep_until(now() + POLL) {
            break;
        }
    }
    reader.finish(&mut sink);
    sink.result.map(|()| sink.quiet)
}
