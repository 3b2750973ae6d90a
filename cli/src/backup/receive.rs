//! `receive`: a stream becomes a packed backup in a directory.
//!
//! - RV1. Each frame is verified as it arrives, which needs no key. If the stream is cut off, the whole frames are kept under a name that no
//!   command takes for a backup; the end frame makes the command rename it.

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use frond_vfs::{OpenHow, OsVfs, Vfs, VfsFile};
use serde::Serialize;

use super::args::ReceiveArgs;
use super::copy::{self, failed, Meter, Show};
use super::pack::{Next, Stream};
use super::store::{fail, PACK, PART};
use crate::out::{bytes, Failure, Outcome};

#[derive(Serialize)]
struct Received<'a> {
    event: &'a str,
    id: &'a str,
    dir: &'a Path,
    bytes: u64,
}

pub fn run(args: &ReceiveArgs, out: &mut dyn Write) -> Outcome<()> {
    if args.received {
        let part = args.dir.join(PART);
        writeln!(out, "{}", if part.exists() { whole_frames(&part)?.1 } else { 0 })?;
        return Ok(());
    }
    let dir = &args.dir;
    let part = dir.join(PART);
    if !args.resume {
        let what = match part.exists() {
            true => "part of a backup is in it: go on with --resume, or remove it",
            false => "a backup is received into a new directory",
        };
        copy::new_directory(dir, what)?;
    }
    let meter = Meter::new(dir, None, Show::of(args.quiet, args.json))?;
    let stdin = io::stdin().lock();
    let cannot = |e: io::Error| fail(dir, format!("receiving: {e}"));
    let (id, size) = match args.resume && part.exists() {
        true => {
            let (stream, at) = whole_frames(&part)?;
            let file = copy::open(&part, OpenHow::WRITE)?;
            file.set_len(at).map_err(failed("write", &part))?;
            keep(stream.go_on(stdin), file, &meter)
        }
        false => match Stream::begin(stdin) {
            Ok(stream) => {
                let file = copy::open(&part, OpenHow::CREATE)?;
                file.write_all_at(stream.head(), 0).map_err(failed("write", &part))?;
                keep(stream, file, &meter)
            }
            Err(e) => return Err(cannot(e)),
        },
    }
    .map_err(|e| match e.kind() {
        io::ErrorKind::UnexpectedEof => fail(
            dir,
            format!(
                "{e}; what came is kept, and is no backup. If the sender has the pack as a file, the rest can follow: \
                 --received tells how many bytes are here, and --resume takes those behind them; otherwise remove it"
            ),
        ),
        _ => cannot(e),
    })?;
    let vfs = OsVfs::new(dir).map_err(failed("open", dir))?;
    vfs.rename(PART, PACK).and_then(|()| vfs.sync_dir()).map_err(failed("write", dir))?;
    meter.finish();
    if args.json {
        let told = Received { event: "done", id: &id, dir, bytes: size };
        let text = serde_json::to_string(&told).map_err(|e| Failure::Request(e.to_string()))?;
        writeln!(out, "{text}")?;
        return Ok(());
    }
    writeln!(out, "received backup {id} in {}: {}", dir.display(), bytes(size))?;
    Ok(())
}

/// Writes all that arrives to `file` and syncs it.
fn keep<R: io::Read>(
    mut stream: Stream<R>,
    file: Arc<dyn VfsFile>,
    meter: &Meter,
) -> io::Result<(String, u64)> {
    loop {
        let at = stream.at;
        match stream.next_frame()? {
            Next::Frame(frame) => file.write_all_at(&frame, at)?,
            Next::End(frame) => {
                file.write_all_at(&frame, at)?;
                file.sync()?;
                return Ok((stream.id().to_string(), stream.at));
            }
        }
        meter.add(stream.at - at)?;
    }
}

/// Reads the part of a stream that arrived before it was cut off, and tells how many bytes of it are whole frames.
fn whole_frames(part: &Path) -> Outcome<(Stream<Reader>, u64)> {
    let file = copy::open(part, OpenHow::READ)?;
    let told = |e: io::Error| fail(part, format!("{e}; remove it and begin anew"));
    let mut stream = Stream::begin(Reader { file, at: 0 }).map_err(told)?;
    loop {
        match stream.next_frame() {
            Ok(Next::Frame(_)) => {}
            Ok(Next::End(_)) => return Err(fail(part, "it is whole: rename it to backup.frb")),
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => break,
            Err(e) => return Err(told(e)),
        }
    }
    let at = stream.at;
    Ok((stream, at))
}

struct Reader {
    file: Arc<dyn VfsFile>,
    at: u64,
}

impl io::Read for Reader {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.file.read_at(buf, self.at)?;
        self.at += n as u64;
        Ok(n)
    }
}
