//! A log that grows, read from its present end.

use std::io::Write;
use std::time::Duration;

use frond_locks::text::reader::Reader;
use frond_querylog::input::tail::{Found, Tail};

use super::args::LocksArgs;
use super::show::shown;
use crate::digest::live::stop::{now, Stop};
use crate::out::{Failure, Outcome};

const POLL: Duration = Duration::from_millis(500);

/// Follows the one file of `args`; true if nobody waited.
pub fn files(args: &LocksArgs, out: &mut dyn Write) -> Outcome<bool> {
    let [path] = args.files.as_slice() else {
        return Err(Failure::Request("--follow follows one file".into()));
    };
    let stop = Stop::after(args.run_time);
    let mut tail = Tail::open(path).map_err(Failure::Request)?;
    tail.skip_content(0).map_err(Failure::Request)?;
    let (mut reader, mut held) = (Reader::default(), Vec::new());
    let mut sink = shown(args, path.display().to_string(), out);
    while sink.result.is_ok() && !stop.is_due() {
        match tail.read(&mut held).map_err(Failure::Request)? {
            Found::Bytes(_) => reader.feed(&std::mem::take(&mut held), &mut sink),
            // Half a line at the end of a file is not the begin of another one's.
            Found::End => std::mem::take(&mut reader).finish(&mut sink),
            Found::Nothing(_) if stop.sleep_until(now() + POLL) => break,
            Found::Nothing(_) => {}
        }
    }
    reader.finish(&mut sink);
    sink.result.map(|()| sink.quiet)
}
