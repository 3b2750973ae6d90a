//! From inputs to classes: reads every input, on several threads where its format allows, and adds up.
//!
//! Invariants:
//!
//! - DG1. The result does not depend on the number of threads (except for which rare classes are folded once
//!   `max_classes` is reached).
//! - DG2. A slow log and raw statements are parsed on all threads. General logs and captured traffic are parsed in
//!   order on one thread; so is everything if patterns are requested.
//! - DG3. An input that cannot be read, or not to its end, is a `Problem`; the others are read all the same.

mod attributes;
mod crew;
pub mod follow;
mod order;
mod outcome;
mod settings;
mod skips;
mod slow;
pub(crate) mod unanswered;
mod worker;

use std::cell::RefCell;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex};

use crew::{serve, Alone, Buffers, Crew, Job, Team};
use frond_capture::Traffic;
use frond_event::text::decimal;
use frond_event::{Losses, Micros, Place, Stream};
use frond_querylog::input::{pump, Format, Input, InputError, Origin};
use frond_querylog::slowlog::{self, Carry};
pub use outcome::{FileInfo, Outcome, Problem, Progress};
pub use settings::{GroupBy, Settings, MAX_CLASSES};
pub use skips::Skips;
pub use unanswered::Unanswered;
pub use worker::Worker;

/// Reads `origins` and returns their classes. `Err` if none of them could be read. `progress` is
/// called once per piece.
pub fn run(
    origins: &[Origin],
    settings: &Arc<Settings>,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Outcome, Vec<Problem>> {
    let (mut inputs, mut problems) = open_all(origins, settings.format);
    if inputs.is_empty() && !problems.is_empty() {
        return Err(problems);
    }
    let mut reading = Reading {
        files: Vec::new(),
        problems: Vec::new(),
        losses: None,
        summary: None,
        traffic: None,
        zone: settings.zone,
        done: 0,
        total: inputs.iter().map(|i| i.size).sum(),
    };
    let (worker, mut others) = if settings.threads <= 1 || settings.patterns {
        let mut alone = Alone { worker: Worker::new(settings.clone()) };
        reading.read_all(&mut inputs, settings, &mut alone, progress);
        (alone.worker, Vec::new())
    } else {
        std::thread::scope(|scope| {
            let others = settings.threads - 1;
            // Enough jobs for the other threads while this one parses a piece.
            let (jobs, next) = sync_channel(2 * others + 2);
            let (full, empty) = std::sync::mpsc::channel();
            let next = Arc::new(Mutex::new(next));
            let shared = Arc::new(settings.shared(settings.threads));
            let worker = || Worker::of_team(settings.clone(), shared.clone());
            let threads: Vec<_> = (0..others)
                .map(|_| {
                    let (worker, next, full) = (worker(), next.clone(), full.clone());
                    scope.spawn(move || serve(worker, &next, &full))
                })
                .collect();
            let mut team = Team { worker: worker(), jobs, empty };
            reading.read_all(&mut inputs, settings, &mut team, progress);
            let Team { worker, jobs, .. } = team;
            drop(jobs);
            let worker = serve(worker, &next, &full);
            let others: Vec<_> = threads.into_iter().map(|t| t.join()).collect();
            (worker, others)
        })
    };
    let mut total = worker.finish();
    for other in others.drain(..) {
        match other {
            Ok(other) => total.merge(other.finish()),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
    problems.append(&mut reading.problems);
    let outcome = total.outcome(reading.files, reading.zone);
    let packets = reading.losses.as_ref().map_or(0, |losses| losses.packets);
    // A log that was cut within its first event still has a problem to report, with its place.
    if outcome.events == 0
        && packets == 0
        && outcome.skips.count() == 0
        && !problems.is_empty()
        && problems.len() >= origins.len()
    {
        return Err(problems);
    }
    Ok(Outcome { problems, losses: reading.losses, traffic: reading.summary, ..outcome })
}

/// Opens all inputs, sorted by their first times, as the files of a rotation need it.
fn open_all(origins: &[Origin], format: Option<Format>) -> (Vec<Input>, Vec<Problem>) {
    let (mut inputs, mut problems) = (Vec::new(), Vec::new());
    for origin in origins {
        match Input::open(origin, format) {
            Ok(input) => inputs.push(input),
            Err(InputError { name, what }) => problems.push(Problem { name, what }),
        }
    }
    // The sort is stable: inputs without a time keep their order, in front.
    inputs.sort_by_cached_key(first_time);
    (inputs, problems)
}

/// The first time in an input.
fn first_time(input: &Input) -> Option<Micros> {
    let stamp_of = |line: &[u8]| {
        let line = line.strip_prefix(b"# Time: ").unwrap_or(line);
        frond_event::text::stamp(line).map(|(stamp, _)| stamp.utc(0))
    };
    let lines = || input.head.split(|b| *b == b'\n');
    match input.format? {
        Format::SlowLog => {
            // Not every server writes `# Time` for every event, and it is not in UTC.
            let timestamp_of = |line: &[u8]| {
                let (value, _) = decimal(line.strip_prefix(b"SET timestamp=")?, 1_000_000)?;
                Micros::try_from(value).ok()
            };
            lines().find_map(timestamp_of).or_else(|| lines().find_map(stamp_of))
        }
        Format::GeneralLog => lines().find_map(stamp_of),
        // All captures of one run have the same zone, so it does not matter for their order.
        Format::Pcap | Format::PcapNg | Format::TcpdumpText => {
            frond_capture::first_time(&input.head, 0)
        }
        _ => None,
    }
}

/// State of reading one input after the other.
struct Reading {
    files: Vec<FileInfo>,
    problems: Vec<Problem>,
    losses: Option<Losses>,
    summary: Option<frond_capture::Summary>,
    traffic: Option<Traffic>,
    zone: Option<i32>,
    done: u64,
    total: Option<u64>,
}

impl Reading {
    fn read_all(
        &mut self,
        inputs: &mut Vec<Input>,
        settings: &Settings,
        crew: &mut dyn Crew,
        progress: &mut dyn FnMut(Progress<'_>),
    ) {
        for (number, mut input) in inputs.drain(..).enumerate() {
            let mut bytes = 0;
            let result = match input.format {
                None => Ok(()),
                Some(format) if format.is_capture() => {
                    self.capture(&mut input, number as u32, settings, crew, &mut bytes, progress)
                }
                Some(format) => self.log(
                    &mut input,
                    number as u32,
                    format,
                    settings,
                    crew,
                    &mut bytes,
                    progress,
                ),
            };
            if let Err(what) = result {
                self.problems.push(Problem { name: input.name.clone(), what });
            }
            self.done += input.bytes_read();
            self.files.push(FileInfo { name: input.name, format: input.format, bytes });
        }
        self.end(crew);
    }

    /// A text log, piece by piece.
    #[allow(clippy::too_many_arguments)]
    fn log(
        &mut self,
        input: &mut Input,
        number: u32,
        format: Format,
        settings: &Settings,
        crew: &mut dyn Crew,
        bytes: &mut u64,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<(), String> {
        let mut reader = std::mem::replace(&mut input.reader, Box::new(std::io::empty()));
        let (done, total) = (self.done, self.total);
        let mut progress = |end: u64, input: &Input| {
            *bytes = end;
            let done = done + input.bytes_read();
            progress(Progress { name: &input.name, done, total });
        };
        let result = match format {
            Format::SlowLog => {
                let parser = slowlog::Parser::new(settings.slow_log());
                let slow = RefCell::new(slow::SlowLog::new(parser, self.zone, number));
                let crew = RefCell::new(crew);
                let result = pump::pump(
                    &mut *reader,
                    &mut |buffer, offset| slow.borrow_mut().cut(buffer, offset, *crew.borrow_mut()),
                    &mut |buffer, length, offset, last| {
                        slow.borrow_mut().take(buffer, length, offset, last, *crew.borrow_mut());
                        progress(offset + length as u64, input);
                    },
                );
                self.zone = self.zone.or(slow.borrow().carry.zone);
                result
            }
            Format::GeneralLog => {
                let mut general = frond_querylog::genlog::Parser::new(settings.zone.unwrap_or(0));
                let boundary =
                    &mut |buffer: &[u8], _| frond_querylog::genlog::last_boundary(buffer);
                pump::pump(&mut *reader, boundary, &mut |buffer, length, offset, _| {
                    let place = Place { file: number, offset };
                    crew.own().begin(place);
                    general.parse(&buffer[..length], place, crew.own());
                    progress(offset + length as u64, input);
                })
            }
            _ => {
                let boundary =
                    &mut |buffer: &[u8], _| frond_querylog::rawlog::last_boundary(buffer);
                pump::pump(&mut *reader, boundary, &mut |buffer, length, offset, last| {
                    let place = Place { file: number, offset };
                    let bytes = std::mem::take(buffer);
                    let buffers = Buffers { bytes, marks: Vec::new() };
                    let carry = Carry::default();
                    *buffer = crew.take(Job { buffers, length, place, carry, last, format }).bytes;
                    progress(offset + length as u64, input);
                })
            }
        };
        result.map_err(|e| {
            format!("stopped at byte {bytes}: {}", frond_querylog::input::open::describe(&e))
        })
    }

    /// Captures go to one decoder, whose connections continue from file to file.
    fn capture(
        &mut self,
        input: &mut Input,
        number: u32,
        settings: &Settings,
        crew: &mut dyn Crew,
        bytes: &mut u64,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<(), String> {
        let mut reader = std::mem::replace(&mut input.reader, Box::new(std::io::empty()));
        let traffic = self.traffic.get_or_insert_with(|| Traffic::new(settings.traffic.clone()));
        traffic.next_file(number, crew.own())?;
        crew.own().begin(Place { file: number, offset: 0 });
        let mut buffer = Vec::new();
        loop {
            buffer.clear();
            let result =
                frond_querylog::input::open::read_up_to(&mut *reader, pump::PIECE, &mut buffer);
            traffic.feed(&buffer, crew.own())?;
            *bytes += buffer.len() as u64;
            progress(Progress {
                name: &input.name,
                done: self.done + input.bytes_read(),
                total: self.total,
            });
            match result {
                Ok(n) if n == pump::PIECE => {}
                Ok(_) => return traffic.end_file(crew.own()),
                Err(e) => {
                    return Err(format!(
                        "stopped at byte {bytes}: {}",
                        frond_querylog::input::open::describe(&e)
                    ))
                }
            }
        }
    }

    /// Ends the reading when every input was read: yields statements without an answer.
    fn end(&mut self, crew: &mut dyn Crew) {
        if let Some(mut traffic) = self.traffic.take() {
            traffic.finish(crew.own());
            self.losses = Some(traffic.losses());
            self.summary = Some(traffic.summary());
        }
    }
}

#[cfg(test)]
mod tests;
