//! The `# Name: value` lines before a statement.
//!
//! One table maps every name that a server writes to the field that it sets. Its hash was chosen so that a lookup is one
//! probe and one comparison. Names that are not in the table go to `Event::extra` unchanged.
//!
//! A server writes the same attributes in the same order again and again. So `Names::line` first
//! compares with the labels that followed the same label in earlier events (a label is a name with
//! the bytes around it), and reads values a word at a time. Anything unexpected it
//! leaves to `attributes`, which reads the whole line again, and learns from it. Both give the same result
//! for a line; the lines before decide which of them reads it.

use super::found::Found;
use frond_event::text::{decimal, short_decimal, stamp};
use frond_event::{Event, Flag, Metric, Unit};

/// The field that an attribute sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    Metric(Metric),
    Flag(Flag),
    Schema,
    ThreadId,
    Errno,
    RateLimit,
    Routine,
    Start,
    End,
}

const SLOTS: usize = 512;

/// The names, by hash.
pub(super) struct Names {
    /// Index into `entries`, by hash; `NOBODY` if free.
    slots: Box<[u8; SLOTS]>,
    entries: Vec<(&'static [u8], Known)>,
    /// One label for each name with each lead.
    labels: Vec<Label>,
}

/// The bytes before an attribute's name: at the beginning of a line, or behind another attribute.
const LEADS: [&[u8]; 3] = [b"# ", b"  ", b" "];

/// A lead, a name, a colon and a blank.
struct Label {
    padded: Padded,
    length: usize,
    known: Known,
}

/// Up to 32 bytes as words, and a mask of the bits that are compared.
#[derive(Clone, Copy)]
struct Padded {
    words: [u64; 4],
    masks: [u64; 4],
}

impl Padded {
    fn of(label: &[u8]) -> Padded {
        assert!(label.len() <= 32, "a label is at most 32 bytes");
        let mut text = [0; 32];
        let mut mask = [0; 32];
        text[..label.len()].copy_from_slice(label);
        mask[..label.len()].fill(0xff);
        Padded { words: words(&text), masks: words(&mask) }
    }

    #[inline]
    fn begins(&self, line: &[u8; 32]) -> bool {
        let line = words(line);
        let differ = |i: usize| (line[i] ^ self.words[i]) & self.masks[i];
        (differ(0) | differ(1) | differ(2) | differ(3)) == 0
    }
}

#[inline]
fn words(bytes: &[u8; 32]) -> [u64; 4] {
    let word = |i: usize| {
        let mut word = [0; 8];
        word.copy_from_slice(&bytes[i * 8..i * 8 + 8]);
        u64::from_le_bytes(word)
    };
    [word(0), word(1), word(2), word(3)]
}

const NOBODY: u8 = u8::MAX;

/// Which labels recently followed which.
pub(super) struct Expected {
    next: [[u8; 2]; 256],
    last: u8,
}

impl Default for Expected {
    fn default() -> Self {
        Expected { next: [[NOBODY; 2]; 256], last: NOBODY }
    }
}

impl Expected {
    /// The label at the beginning of `line`, if it is one of the expected ones.
    #[inline]
    fn guess<'a>(&mut self, names: &'a Names, line: &[u8; 32]) -> Option<&'a Label> {
        for guess in self.next[usize::from(self.last)] {
            let label = names.labels.get(usize::from(guess))?;
            if label.padded.begins(line) {
                self.last = guess;
                return Some(label);
            }
        }
        None
    }

    /// Notes that a label was read.
    fn learn(&mut self, label: u8) {
        let next = &mut self.next[usize::from(self.last)];
        if next[0] != label {
            *next = [label, next[0]];
        }
        self.last = label;
    }
}

#[inline]
fn hash(name: &[u8]) -> usize {
    let length = name.len();
    // Bit 5 distinguishes the case of a letter.
    let at = |i: usize| usize::from(name[i] | 0x20);
    (length * 37 + at(0) * 7 + at(length - 1) * 13 + at(length / 2) * 29 + at(length / 3) * 59)
        % SLOTS
}

impl Names {
    pub(super) fn new() -> Names {
        let mut names =
            Names { slots: Box::new([NOBODY; SLOTS]), entries: Vec::new(), labels: Vec::new() };
        for metric in Metric::ALL {
            names.insert(metric.name(), Known::Metric(*metric));
        }
        for flag in Flag::ALL {
            names.insert(flag.name(), Known::Flag(*flag));
        }
        for (name, known) in [
            ("Schema", Known::Schema),
            ("Thread_id", Known::ThreadId),
            ("Id", Known::ThreadId),
            ("Last_errno", Known::Errno),
            ("Errno", Known::Errno),
            ("Log_slow_rate_limit", Known::RateLimit),
            ("Stored_routine", Known::Routine),
            ("Start", Known::Start),
            ("End", Known::End),
        ] {
            names.insert(name, known);
        }
        names
    }

    fn insert(&mut self, name: &'static str, known: Known) {
        let mut slot = hash(name.as_bytes());
        while self.slots[slot] != NOBODY {
            slot = (slot + 1) % SLOTS;
        }
        self.slots[slot] = self.entries.len() as u8;
        self.entries.push((name.as_bytes(), known));
        for lead in LEADS {
            let label = [lead, name.as_bytes(), b": "].concat();
            self.labels.push(Label { padded: Padded::of(&label), length: label.len(), known });
        }
        assert!(self.labels.len() < usize::from(NOBODY), "a label's number is a byte");
    }

    /// Reads the line at `at` (its `#`) into `event` if it is as expected; returns where the next line begins.
    #[inline]
    pub(super) fn line<'a>(
        &self,
        expected: &mut Expected,
        bytes: &'a [u8],
        at: usize,
        event: &mut Event<'a>,
        found: &mut Found,
    ) -> Option<usize> {
        let mut at = at;
        loop {
            let label = expected.guess(self, bytes.get(at..)?.first_chunk()?)?;
            at += label.length;
            let value = &bytes[at..];
            at += match label.known {
                Known::Metric(metric) => {
                    let (number, used) = short_decimal(value, metric.log_scale())?;
                    // A value that is not a number must not be set.
                    match value.get(used)? {
                        b' ' | b'\n' => {}
                        b'\r' if value.get(used + 1) == Some(&b'\n') => {}
                        _ => return None,
                    }
                    event.metrics.set(metric, number);
                    used
                }
                Known::Flag(flag) => {
                    let yes = value.starts_with(b"Yes");
                    if !yes && !value.starts_with(b"No") {
                        return None;
                    }
                    // The labels have the case that MariaDB uses.
                    found.mariadb |= flag == Flag::QcHit;
                    event.flags.set(flag, yes);
                    2 + usize::from(yes)
                }
                Known::Schema => {
                    let near = &value[..value.len().min(LONGEST_SCHEMA)];
                    let end = memchr::memchr3(b' ', b'\n', b':', near)?;
                    let db = value[..end].strip_suffix(b"\r").unwrap_or(&value[..end]);
                    // A name may contain single blanks, and a word with a colon may be the next attribute.
                    let odd = value[end] == b':'
                        || value[end] == b' ' && value.get(end + 1) != Some(&b' ')
                        || db.last().is_some_and(u8::is_ascii_whitespace);
                    if odd {
                        return None;
                    }
                    event.db = db;
                    found.schema = true;
                    db.len()
                }
                Known::ThreadId => {
                    let (id, used) = short_decimal(value, 1)?;
                    event.thread_id = Some(id);
                    used
                }
                Known::Errno => {
                    let (number, used) = short_decimal(value, 1)?;
                    event.error = u32::try_from(number).ok();
                    used
                }
                Known::RateLimit | Known::Routine | Known::Start | Known::End => return None,
            };
            match bytes.get(at)? {
                b' ' => {}
                b'\n' => return Some(at + 1),
                b'\r' if bytes.get(at + 1) == Some(&b'\n') => return Some(at + 2),
                _ => return None,
            }
        }
    }

    /// The index of a name, whatever its case.
    #[inline]
    fn find(&self, name: &[u8]) -> u8 {
        let mut slot = hash(name);
        loop {
            let entry = self.slots[slot];
            if entry == NOBODY || self.entries[usize::from(entry)].0.eq_ignore_ascii_case(name) {
                return entry;
            }
            slot = (slot + 1) % SLOTS;
        }
    }

    #[cfg(test)]
    fn get(&self, name: &[u8]) -> Option<Known> {
        self.entries.get(usize::from(self.find(name))).map(|e| e.1)
    }
}

/// Reads one line of attributes (without its `#` and line break) into `event`. `found` gathers the values that decide
/// the flavour of the server and the times.
pub(super) fn attributes<'a>(
    names: &Names,
    expected: &mut Expected,
    line: &'a [u8],
    event: &mut Event<'a>,
    found: &mut Found,
) {
    let mut at = 0;
    let mut colon = None;
    loop {
        let before = at;
        while line.get(at) == Some(&b' ') {
            at += 1;
        }
        let lead = match (before, at - before) {
            (0, 1) => Some(0),
            (1.., 2) => Some(1),
            (1.., 1) => Some(2),
            _ => None,
        };
        let Some((name, entry)) = name(names, &line[at..]) else {
            // Free text such as `No InnoDB statistics available for this query`.
            let last_colon = *colon.get_or_insert_with(|| memchr::memrchr(b':', line));
            match memchr::memchr(b' ', &line[at..]) {
                Some(blank) if last_colon.is_some_and(|colon| colon >= at) => at += blank,
                _ => return,
            }
            continue;
        };
        if let Some(lead) = lead.filter(|_| entry != NOBODY) {
            expected.learn(entry * LEADS.len() as u8 + lead);
        }
        at += name.len() + 1;
        let rest = &line[at..];
        let blanks = rest.iter().take_while(|b| **b == b' ').count();
        let value = &rest[blanks..];
        let used = match names.entries.get(usize::from(entry)).map(|e| e.1) {
            Some(Known::Metric(metric)) => number(metric, name, value, event, found),
            Some(Known::Flag(flag)) => {
                if flag == Flag::QcHit && name[3] == b'h' {
                    found.mariadb = true;
                }
                event.flags.set(flag, value.first() == Some(&b'Y'));
                word(value)
            }
            Some(Known::Schema) => {
                let (db, used) = schema(value);
                event.db = db;
                found.schema = true;
                used
            }
            Some(Known::ThreadId) => match decimal(value, 1) {
                Some((id, used)) => {
                    event.thread_id = Some(id);
                    used
                }
                None => word(value),
            },
            Some(Known::Errno) => {
                event.error = decimal(value, 1).and_then(|(n, _)| u32::try_from(n).ok());
                word(value)
            }
            Some(Known::RateLimit) => {
                let used = word(value);
                event.rate =
                    decimal(value, 1).map_or(1, |(n, _)| n.clamp(1, u64::from(u32::MAX)) as u32);
                event.extra.push((name, &value[..used]));
                used
            }
            Some(Known::Routine) => {
                event.routine = value;
                value.len()
            }
            Some(Known::Start) => {
                found.start = stamp(value).map(|(s, _)| s);
                word(value)
            }
            Some(Known::End) => {
                found.end = stamp(value).map(|(s, _)| s);
                word(value)
            }
            None => {
                let used = if next_is_name(value) { 0 } else { word(value) };
                event.extra.push((name, &value[..used]));
                used
            }
        };
        at += blanks + used;
    }
}

/// The name at the beginning of `line`, which a colon must follow, and its index (`NOBODY` if it is not well known).
#[inline]
fn name<'a>(names: &Names, line: &'a [u8]) -> Option<(&'a [u8], u8)> {
    let length = line.iter().take_while(|b| b.is_ascii_alphanumeric() || **b == b'_').count();
    if length == 0 || line.get(length) != Some(&b':') {
        return None;
    }
    Some((&line[..length], names.find(&line[..length])))
}

/// The largest time in nanoseconds: 292 years. A larger one is a negative time that was written as unsigned, in micro-
/// or nanoseconds: `18446744073709.550781`, `18446744073708.796870.000036`.
const LONGEST_TIME: u64 = i64::MAX as u64;

/// Reads a metric's value; returns the bytes used. `Names::line` never reads one that is so long.
#[inline]
fn number<'a>(
    metric: Metric,
    name: &'a [u8],
    value: &'a [u8],
    event: &mut Event<'a>,
    found: &mut Found,
) -> usize {
    let negative = |number| metric.unit() == Unit::Time && number > LONGEST_TIME;
    match decimal(value, metric.log_scale()) {
        Some((number, used)) if !negative(number) && value.get(used).is_none_or(|b| *b == b' ') => {
            event.metrics.set(metric, number);
            used
        }
        _ if next_is_name(value) => 0,
        Some((number, _)) if metric == Metric::QueryTime && negative(number) => {
            found.clock_jumped = true;
            word(value)
        }
        _ => {
            let used = word(value);
            if used > 0 {
                found.bad_value = true;
                event.extra.push((name, &value[..used]));
            }
            used
        }
    }
}

/// The number of bytes up to the next blank.
fn word(value: &[u8]) -> usize {
    value.iter().position(|b| *b == b' ').unwrap_or(value.len())
}

/// True if the value is missing and the next attribute is here.
fn next_is_name(value: &[u8]) -> bool {
    let name = value.iter().take_while(|b| b.is_ascii_alphanumeric() || **b == b'_').count();
    name > 0 && value.get(name) == Some(&b':') && matches!(value.get(name + 1), None | Some(b' '))
}

/// How far the end of a database's name is searched for, in bytes: names have 64 characters.
const LONGEST_SCHEMA: usize = 512;

/// The value of `Schema:`, which may be empty and may contain blanks; attributes are two blanks apart (one in some
/// old versions).
pub(super) fn schema(value: &[u8]) -> (&[u8], usize) {
    if next_is_name(value) {
        return (b"", 0);
    }
    let near = &value[..value.len().min(LONGEST_SCHEMA)];
    let end = memchr::memmem::find(near, b"  ").unwrap_or(near.len());
    let piece = &near[..end];
    let used = if memchr::memmem::find(piece, b": ").is_some() || piece.ends_with(b":") {
        word(value)
    } else {
        end
    };
    (value[..used].trim_ascii_end(), used)
}

/// `user[priv_user] @ host [ip]` with, from MySQL 5.6 on, `  Id: N` behind it.
pub fn user_at_host<'a>(line: &'a [u8], event: &mut Event<'a>) {
    let blank_around =
        |at: &usize| *at > 0 && line[*at - 1] == b' ' && line.get(*at + 1) == Some(&b' ');
    let between = memchr::memchr_iter(b'@', line).find(blank_around).map(|at| at - 1);
    let Some(at) = between.or_else(|| memchr::memchr(b'@', line)) else { return };
    let who = line[..at].trim_ascii();
    event.user = match memchr::memrchr(b'[', who) {
        // `[SQL_SLAVE]` has nothing before the bracket: then the bracketed text is the name.
        Some(0) | None => who,
        Some(bracket) => &who[..bracket],
    };
    let rest = line[at + 1..].trim_ascii_start();
    let rest = rest.strip_prefix(b"@").unwrap_or(rest).trim_ascii();
    let (host, tail) = match memchr::memchr(b'[', rest) {
        Some(open) => (rest[..open].trim_ascii(), &rest[open + 1..]),
        None => (rest, &b""[..]),
    };
    let (ip, tail) = match memchr::memchr(b']', tail) {
        Some(close) => (&tail[..close], &tail[close + 1..]),
        None => (tail, &b""[..]),
    };
    event.ip = ip;
    event.host = if host.is_empty() { ip } else { host };
    let tail = tail.trim_ascii();
    if let Some(id) = tail.strip_prefix(b"Id:") {
        event.thread_id = decimal(id.trim_ascii_start(), 1).map(|(id, _)| id);
    }
}

#[cfg(test)]
mod tests;
