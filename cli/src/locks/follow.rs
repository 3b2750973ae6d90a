//! A log that grows. It is read from its present end; after a rotation the new file is read from its
//! beginning. A server writes to the old file until `FLUSH LOGS`, so that is left only when the new one has content and the
//! old one was quiet for `QUIET`.

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
    // When the file grew last, or its successor was first seen with content.
    let (mut grew, mut succeeded) = (now(), false);
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
        } else if let Ok(named) = open(path) {
            let other = named.metadata().map_err(fail)?;
            let is_other = (other.dev(), other.ino()) != (here.dev(), here.ino());
            if is_other && other.len() > 0 && !std::mem::replace(&mut succeeded, true) {
                grew = now();
            }
            if is_other && succeeded && grew.elapsed() >= QUIET {
                std::mem::take(&mut reader).finish(&mut sink);
                (file, at, succeeded) = (named, 0, false);
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
