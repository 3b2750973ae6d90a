//! `frond top`: the terminal, the server and the recording for `frond_top`.
//!
//! Tested in `tests/cli/top.rs` from a recording, and in a terminal in `tests/sql/top.py`.

mod args;
mod server;

use std::fs::File;
use std::io::{BufReader, BufWriter, IsTerminal, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use frond_top::draw::{draw, text, Focus, Screen};
use frond_top::recording;
use frond_top::sample::Sample;
use frond_top::view::View;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::DefaultTerminal;

use crate::digest::live::stop::{now, Stop};
use crate::digest::when;
use crate::out::{Failure, Outcome};
use crate::server_args::ServerOptions;
pub use args::TopArgs;
use server::Asked;

const LIVE: &str = "q end  space pause  1 all  2 waits  3 trees  4 statements";
const REPLAYED: &str = "q end  space play  left/right  1 all  2 waits  3 trees  4 statements";
/// A recording ends at this many bytes.
const LARGEST: u64 = 1 << 30;

pub fn run(args: &TopArgs, out: &mut dyn Write) -> Outcome<bool> {
    let terminal = std::io::stdout().is_terminal() && std::io::stdin().is_terminal();
    if !args.once && !terminal {
        return Err(Failure::Request(
            "frond top needs a terminal; --once prints one screen as text".into(),
        ));
    }
    let stop = Stop::after(args.run_time);
    let mut source = match &args.replay {
        Some(path) => Source::Recording(read(path)?, 0),
        None => Source::Server(Some(Box::new(Asked::connect(&args.server)?))),
    };
    let mut record = args.record.as_deref().map(Record::new).transpose()?;
    if args.once {
        once(args, &mut source, record.as_mut(), &stop, out)?;
        return Ok(true);
    }
    // The first query may fail; then the terminal is still in its normal mode for the message.
    let first = source.next(&args.server)?;
    let mut shown = Shown {
        before: None,
        now: first,
        screen: Screen { keys: source.keys(), ..Screen::default() },
        paused: matches!(source, Source::Recording(..)),
        waits: false,
    };
    let mut terminal = ratatui::try_init().map_err(Failure::Output)?;
    let ended = shown.run(args, &mut source, record.as_mut(), &stop, &mut terminal);
    ratatui::restore();
    ended.map(|()| true)
}

/// Where samples come from.
enum Source {
    /// `None`: the last question had no answer.
    Server(Option<Box<Asked>>),
    /// The samples, and the index of the next one.
    Recording(Vec<Sample>, usize),
}

impl Source {
    fn next(&mut self, server: &ServerOptions) -> Outcome<Sample> {
        match self {
            Source::Server(kept) => {
                let asked = kept.take().map_or_else(|| Asked::connect(server).map(Box::new), Ok);
                let mut asked = asked?;
                let sample = asked.sample(when::now() as f64 / 1e6)?;
                *kept = Some(asked);
                Ok(sample)
            }
            Source::Recording(samples, at) => {
                let sample = samples[(*at).min(samples.len() - 1)].clone();
                *at = (*at + 1).min(samples.len());
                Ok(sample)
            }
        }
    }

    fn keys(&self) -> &'static str {
        match self {
            Source::Server(_) => LIVE,
            Source::Recording(..) => REPLAYED,
        }
    }
}

fn once(
    args: &TopArgs,
    source: &mut Source,
    mut record: Option<&mut Record>,
    stop: &Stop,
    out: &mut dyn Write,
) -> Outcome<()> {
    if let Source::Recording(samples, at) = source {
        *at = samples.len().saturating_sub(2);
    }
    let first = source.next(&args.server)?;
    if let Some(record) = &mut record {
        record.write(&first)?;
    }
    if matches!(source, Source::Server(_)) {
        stop.sleep_until(now() + args.every);
    }
    let second = source.next(&args.server)?;
    if let Some(record) = record {
        record.write(&second)?;
    }
    let screen = Screen { keys: "", ..Screen::default() };
    write!(out, "{}", text(&View::new(&second, Some(&first)), &screen, 100, 40))?;
    Ok(())
}

/// The contents of the screen.
struct Shown {
    before: Option<Sample>,
    now: Sample,
    screen: Screen,
    paused: bool,
    /// The server did not answer in time.
    waits: bool,
}

impl Shown {
    fn run(
        &mut self,
        args: &TopArgs,
        source: &mut Source,
        mut record: Option<&mut Record>,
        stop: &Stop,
        terminal: &mut DefaultTerminal,
    ) -> Outcome<()> {
        if let Some(record) = &mut record {
            record.write(&self.now)?;
        }
        let mut due = now() + args.every;
        while !stop.is_due() {
            self.note(source, record.is_some());
            let view = View::new(&self.now, self.before.as_ref());
            let screen = &self.screen;
            terminal.draw(|frame| draw(frame, &view, screen)).map_err(Failure::Output)?;
            if !self.keys(due, source)? {
                return Ok(());
            }
            if self.paused || now() < due {
                continue;
            }
            due = now() + args.every;
            let next = source.next(&args.server);
            // A server that hangs is what somebody wants to see the end of.
            self.waits = matches!(next, Err(Failure::NoAnswer(_)));
            if self.waits {
                continue;
            }
            let next = next?;
            if let Some(record) = &mut record {
                record.write(&next)?;
            }
            self.before = Some(std::mem::replace(&mut self.now, next));
        }
        Ok(())
    }

    fn note(&mut self, source: &Source, records: bool) {
        self.screen.note = match source {
            Source::Recording(samples, at) => format!("sample {at} of {}", samples.len()),
            Source::Server(_) if self.paused => "paused".into(),
            Source::Server(_) if self.waits => "no answer".into(),
            Source::Server(_) if records => "recording".into(),
            Source::Server(_) => String::new(),
        };
    }

    /// Waits for a key until `due` at most; false: the program ends.
    fn keys(&mut self, due: Instant, source: &mut Source) -> Outcome<bool> {
        // A signal has to be noticed meanwhile.
        const SLICE: Duration = Duration::from_millis(100);
        let left = due.saturating_duration_since(now());
        let wait = if self.paused { SLICE } else { left.min(SLICE) };
        if !event::poll(wait).map_err(Failure::Output)? {
            return Ok(true);
        }
        let Event::Key(key) = event::read().map_err(Failure::Output)? else { return Ok(true) };
        if key.kind != KeyEventKind::Press {
            return Ok(true);
        }
        let focus = |c: char| match c {
            '1' => Some(Focus::All),
            '2' => Some(Focus::Waits),
            '3' => Some(Focus::Trees),
            '4' => Some(Focus::Statements),
            _ => None,
        };
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return Ok(false),
            // In a raw terminal Ctrl-C is a key.
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => {
                return Ok(false)
            }
            KeyCode::Char(' ') => self.paused = !self.paused,
            KeyCode::Char(c) => self.screen.focus = focus(c).unwrap_or(self.screen.focus),
            KeyCode::Right => self.step(1, source),
            KeyCode::Left => self.step(-1, source),
            KeyCode::PageDown => self.step(30, source),
            KeyCode::PageUp => self.step(-30, source),
            _ => {}
        }
        Ok(true)
    }

    /// Moves to another sample of a recording.
    fn step(&mut self, by: i64, source: &mut Source) {
        let Source::Recording(samples, at) = source else { return };
        let place = (*at as i64 - 1 + by).clamp(0, samples.len() as i64 - 1) as usize;
        *at = place + 1;
        self.paused = true;
        self.now = samples[place].clone();
        self.before = place.checked_sub(1).map(|before| samples[before].clone());
    }
}

/// A file that samples are written to.
struct Record {
    out: BufWriter<File>,
    name: String,
    bytes: u64,
}

impl Record {
    #[allow(clippy::disallowed_methods)] // It is no file of a database.
    fn new(path: &Path) -> Outcome<Record> {
        let name = path.display().to_string();
        let file = File::create_new(path).map_err(|e| Failure::Request(format!("{name}: {e}")))?;
        let mut record = Record { out: BufWriter::new(file), name, bytes: 0 };
        recording::begin(&mut record.out).map_err(|e| record.failed(&e))?;
        Ok(record)
    }

    fn failed(&self, error: &std::io::Error) -> Failure {
        Failure::Request(format!("{}: {error}", self.name))
    }

    fn write(&mut self, sample: &Sample) -> Outcome<()> {
        if self.bytes > LARGEST {
            return Err(Failure::Request(format!(
                "{}: the recording has 1 GiB: begin another",
                self.name
            )));
        }
        recording::write(sample, &mut self.out).map_err(|e| self.failed(&e))?;
        // An estimate: the length of a JSON line with this many values.
        self.bytes +=
            100 * (sample.trees.len() + sample.statements.len() + sample.waits.len() + 40) as u64;
        Ok(())
    }
}

#[allow(clippy::disallowed_methods)] // It is no file of a database.
fn read(path: &Path) -> Outcome<Vec<Sample>> {
    let fail = |what: String| Failure::Request(format!("{}: {what}", path.display()));
    let file = File::open(path).map_err(|e| fail(e.to_string()))?;
    recording::read(&mut BufReader::new(file)).map_err(fail)
}
