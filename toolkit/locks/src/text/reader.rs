//! Assigns each line to its dump, section or deadlock.
//!
//! A monitor's dump is a header, sections under lines of dashes, and an end. Deadlocks are in a section of it, and in an
//! error log between its own lines (`innodb_print_all_deadlocks`). Other threads write lines of the error log in
//! between; those lines are left out.

use super::clock::{clock, log_line};
use super::lines::{unescaped, Lines};
use super::lock::Names;
use super::paragraph::{Paragraph, ROOM};
use super::{number, number_after};
use crate::model::{Deadlock, Dump};

/// Receives dumps and deadlocks.
pub trait Sink {
    fn dump(&mut self, dump: Dump);
    fn deadlock(&mut self, deadlock: Deadlock);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Section {
    /// A section that is not needed.
    Other,
    Deadlock,
    Transactions,
    Log,
}

/// The section that begins with `line`.
fn section(line: &[u8]) -> Option<Section> {
    Some(match line {
        b"LATEST DETECTED DEADLOCK" => Section::Deadlock,
        b"TRANSACTIONS" => Section::Transactions,
        b"LOG" => Section::Log,
        b"BACKGROUND THREAD"
        | b"SEMAPHORES"
        | b"LATEST FOREIGN KEY ERROR"
        | b"FILE I/O"
        | b"INSERT BUFFER"
        | b"INSERT BUFFER AND ADAPTIVE HASH INDEX"
        | b"ADAPTIVE HASH INDEX"
        | b"BUFFER POOL AND MEMORY"
        | b"ROW OPERATIONS" => Section::Other,
        _ => return None,
    })
}

/// Reads the lines of one file.
#[derive(Default)]
pub struct Reader {
    lines: Lines,
    state: State,
}

#[derive(Default)]
struct State {
    names: Names,
    dump: Option<Dump>,
    section: Option<Section>,
    /// The previous line was one of dashes.
    dashes: bool,
    /// The open transaction of the list.
    trx: Option<Paragraph>,
    deadlock: Option<Deadlock>,
    /// The open member of the deadlock.
    member: Option<Paragraph>,
    room: usize,
    /// The last time in the error log.
    at: Option<i64>,
    /// Something was missing from the dump.
    lost: bool,
}

impl Reader {
    pub fn feed(&mut self, bytes: &[u8], sink: &mut dyn Sink) {
        let state = &mut self.state;
        self.lines.feed(bytes, &mut |line| state.line(line, sink));
    }

    /// The end of the file: incomplete dumps and deadlocks are passed on as far as they go.
    pub fn finish(&mut self, sink: &mut dyn Sink) {
        let state = &mut self.state;
        self.lines.finish(&mut |line| state.line(line, sink));
        state.end_deadlock(sink);
        state.end_dump(false, sink);
    }
}

impl State {
    fn line(&mut self, line: &[u8], sink: &mut dyn Sink) {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let line = line.strip_prefix(b"Status: ").unwrap_or(line);
        if line.starts_with(b"InnoDB\t") && memchr::memmem::find(line, b"\\n").is_some() {
            let whole = unescaped(line);
            whole.split(|b| *b == b'\n').for_each(|line| self.one(line, sink));
            return;
        }
        self.one(line, sink);
    }

    fn one(&mut self, line: &[u8], sink: &mut dyn Sink) {
        let dashes = std::mem::take(&mut self.dashes);
        match line.first() {
            // Most lines are the bytes of records.
            Some(b' ') => return self.body(line),
            Some(b'0'..=b'9' | b'E') if line.ends_with(b"INNODB MONITOR OUTPUT") => {
                self.end_deadlock(sink);
                let begins = !line.starts_with(b"END OF ");
                self.end_dump(!begins, sink);
                if begins {
                    self.begin_dump(clock(line).map(|(at, _)| at));
                }
                return;
            }
            Some(b'0'..=b'9') => {
                if let Some((at, said)) = log_line(line) {
                    self.at = Some(at);
                    self.dashes = dashes;
                    return self.said(said, sink);
                }
            }
            Some(b'-') if line.iter().all(|b| *b == b'-') && line.len() >= 3 => {
                self.dashes = true;
                // Such lines also occur between transactions and inside them.
                if self.section == Some(Section::Deadlock) {
                    self.end_deadlock(sink);
                }
                return;
            }
            Some(b'*') => return self.stars(line, sink),
            _ => {}
        }
        if dashes && self.dump.is_some() {
            if let Some(section) = section(line) {
                self.end_deadlock(sink);
                self.end_trx();
                self.section = Some(section);
                return;
            }
        }
        if line.starts_with(b"FAIL TO OBTAIN LOCK MUTEX") || line.starts_with(b"... truncated...") {
            self.lost = true;
        }
        self.body(line);
    }

    fn begin_dump(&mut self, at: Option<i64>) {
        self.dump = Some(Dump { at, ..Dump::default() });
        self.section = None;
        self.room = ROOM;
        self.lost = false;
    }

    fn end_dump(&mut self, complete: bool, sink: &mut dyn Sink) {
        self.end_trx();
        self.section = None;
        if let Some(mut dump) = self.dump.take() {
            dump.complete = complete && !self.lost && self.room > 0;
            sink.dump(dump);
        }
    }

    fn end_trx(&mut self) {
        if let (Some(paragraph), Some(dump)) = (self.trx.take(), &mut self.dump) {
            dump.trxs.push(paragraph.finish().trx);
        }
    }

    /// Handles a line of the error log's own.
    fn said(&mut self, said: &[u8], sink: &mut dyn Sink) {
        if said.starts_with(b"***") {
            self.stars(said, sink);
        } else if said.ends_with(b"deadlock detected, dumping detailed information.") {
            self.end_deadlock(sink);
            self.begin_deadlock(self.at);
        }
    }

    fn begin_deadlock(&mut self, at: Option<i64>) {
        self.deadlock = Some(Deadlock { at, ..Deadlock::default() });
        if self.dump.is_none() {
            self.room = ROOM;
        }
    }

    fn end_member(&mut self) {
        if let (Some(paragraph), Some(deadlock)) = (self.member.take(), &mut self.deadlock) {
            deadlock.members.push(paragraph.finish());
        }
    }

    fn end_deadlock(&mut self, sink: &mut dyn Sink) {
        self.end_member();
        if let Some(deadlock) = self.deadlock.take() {
            if deadlock.members.iter().any(|member| member.trx.waiting_lock().is_some()) {
                sink.deadlock(deadlock);
            }
        }
    }

    /// Handles `*** (1) TRANSACTION:` and similar lines.
    fn stars(&mut self, line: &[u8], sink: &mut dyn Sink) {
        if self.section == Some(Section::Transactions) {
            return self.body(line);
        }
        let stars = line.iter().take_while(|b| **b == b'*').count();
        let what = line[stars..].trim_ascii_start();
        let (of, what) = match what.strip_prefix(b"(").and_then(number) {
            Some((n, rest)) => (Some(n), rest.strip_prefix(b")").unwrap_or(rest).trim_ascii()),
            None => (None, what.trim_ascii()),
        };
        if what == b"TRANSACTION:" {
            self.end_member();
            if self.deadlock.is_none() {
                // The beginning of the log is missing, and the section has not had a time yet.
                self.begin_deadlock(self.at);
            }
        } else if what.starts_with(b"WAITING FOR THIS LOCK") {
            self.member.iter_mut().for_each(|member| member.others(false));
        } else if what.starts_with(b"CONFLICTING WITH") || what.starts_with(b"HOLDS THE LOCK") {
            self.member.iter_mut().for_each(|member| member.others(true));
        } else if what.starts_with(b"WE ROLL BACK TRANSACTION") {
            self.end_member();
            let victim = number_after(what, b"TRANSACTION (").or(of);
            if let Some(deadlock) = &mut self.deadlock {
                deadlock.victim = victim.and_then(|n| usize::try_from(n.checked_sub(1)?).ok());
            }
            self.end_deadlock(sink);
        }
    }

    fn body(&mut self, line: &[u8]) {
        match (self.section, &mut self.dump) {
            (Some(Section::Transactions), Some(dump)) => {
                if let Some(rest) = line.strip_prefix(b"---TRANSACTION ") {
                    let head = [b"TRANSACTION ", rest].concat();
                    self.end_trx();
                    self.trx = self.paragraph(&head);
                } else if let Some(trx) = &mut self.trx {
                    trx.line(line, &mut self.names, &mut self.room);
                } else if let Some(rest) = line.strip_prefix(b"History list length ") {
                    dump.history = number(rest).map(|(n, _)| n);
                }
            }
            (Some(Section::Log), Some(dump)) => {
                if let Some(rest) = line.strip_prefix(b"Log sequence number ") {
                    dump.lsn = lsn(rest);
                } else if let Some(rest) = line.strip_prefix(b"Last checkpoint at ") {
                    dump.checkpoint = lsn(rest);
                }
            }
            (Some(Section::Deadlock), _) | (None, None) => self.deadlock_line(line),
            _ => {}
        }
    }

    /// The paragraph that begins with `line`, if there is room for it.
    fn paragraph(&mut self, line: &[u8]) -> Option<Paragraph> {
        self.room = self.room.saturating_sub(600 + line.len().min(4096));
        if self.room > 0 {
            Paragraph::begin(line)
        } else {
            None
        }
    }

    fn deadlock_line(&mut self, line: &[u8]) {
        let Some(deadlock) = &mut self.deadlock else {
            let begins = (self.section == Some(Section::Deadlock)).then(|| clock(line)).flatten();
            if let Some((at, rest)) = begins {
                self.begin_deadlock(Some(at));
                self.deadlock_line(rest);
            }
            return;
        };
        if let Some(member) = &mut self.member {
            member.line(line, &mut self.names, &mut self.room);
        } else if line.starts_with(b"TRANSACTION ") {
            self.member = self.paragraph(line);
        } else if memchr::memmem::find(line, b"TOO DEEP OR LONG SEARCH").is_some() {
            deadlock.given_up = true;
        }
    }
}

/// `43655`; in MySQL up to 5.1 `0 43655`: the upper and the lower 32 bits.
fn lsn(text: &[u8]) -> Option<u64> {
    let (first, rest) = number(text.trim_ascii())?;
    match number(rest.trim_ascii_start()) {
        Some((low, _)) => first.checked_mul(1 << 32)?.checked_add(low),
        None => Some(first),
    }
}
