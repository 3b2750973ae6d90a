//! Writes a slow log of any size: real statements with new literals, in thousands of classes.
//!
//! The seed is a log that MariaDB 10.11 wrote (`log_slow_verbosity=query_plan,engine`) while a small shop was used.
//! Each written event is an event of the seed with every digit of its literals and of its measured values drawn anew.
//! Each table's name gets one of several suffixes, which makes another class of the statement. The suffixes are letters,
//! because pt-query-digest takes digits in names for literals.
//!
//! Invariants:
//!
//! - GN1. The same seed, size and number of classes give the same bytes.
//! - GN2. The frequency of a class follows Zipf's law, or all classes are equally frequent, in no order (`Extent`). The log
//!   is never shorter than requested and ends with a whole event.
//! - GN3. `# Time:` and `SET timestamp` agree and give a statement's begin, as MariaDB writes them. Events are ordered by
//!   their statements' ends, because a server writes an event when its statement has ended.
//! - GN4. A connection is of one user, and runs one statement at a time.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use frond_event::{Event, ForEach, Metric, Place};
use frond_querylog::slowlog::{Carry, Options, Parser, Piece};
use frond_sqltext::{tables, SqlMode, TableRef};

/// The log that is repeated.
const SEED: &[u8] = include_bytes!("../seed.log");

/// The second of the first event (UTC), and by how much the server's clock was ahead.
const BEGIN: u64 = 1_795_329_490;
const ZONE: u64 = 3600;

/// Databases, users and client hosts.
const DBS: u64 = 4;
const USERS: u64 = 12;
const HOSTS: u64 = 30;

/// Connections, and the number of the first.
const CONNECTIONS: usize = 900;
const FIRST_CONNECTION: usize = 100;

/// One event in this many takes a hundred times as long.
const OUTLIERS: u64 = 50;

/// A generator with a known sequence.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let x = self.0 ^ self.0 >> 33;
        x.wrapping_mul(0xff51_afd7_ed55_8ccd) ^ x >> 29
    }

    fn below(&mut self, n: u64) -> u64 {
        ((self.next() >> 32) * n) >> 32
    }

    /// A number in [0, 1).
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// A stretch of an event's text.
enum Part {
    Same(Vec<u8>),
    /// This many random digits, the first not 0.
    Digits(usize),
    /// The suffix of a table's name.
    Suffix,
}

/// An event of the seed.
struct Template {
    /// The lines from `# Rows_affected` to the last one with a `#`.
    head: Vec<Part>,
    sql: Vec<Part>,
    /// Microseconds.
    time: u64,
    rows: [u64; 2],
}

/// How much is written.
#[derive(Clone, Copy, Debug)]
pub enum Extent {
    /// At least this many bytes; a few classes have most of the events.
    Bytes(u64),
    /// About this many events of each class.
    EventsOfEach(u64),
}

/// Writes a log of `classes` classes to `path`.
pub fn write(path: &Path, extent: Extent, classes: u64) -> io::Result<()> {
    let templates = templates();
    let mut log = BufWriter::with_capacity(1 << 20, std::fs::File::create(path)?);
    // The lines that a server writes when it starts.
    log.write_all(&SEED[..find(SEED, b"# Time")])?;
    let mut random = Random(42);
    let (mut written, mut events, mut second, mut stamped, mut db) = (0, 0, BEGIN, 0, u64::MAX);
    let mut connections = Connections([0; CONNECTIONS]);
    let mut text = Vec::new();
    loop {
        let done = match extent {
            Extent::Bytes(size) => written >= size,
            Extent::EventsOfEach(each) => events >= each * classes,
        };
        if done {
            return log.flush();
        }
        text.clear();
        events += 1;
        second += u64::from(random.below(40) == 0);
        let class = match extent {
            // Zipf: the rank's logarithm is uniform.
            Extent::Bytes(_) => {
                ((classes as f64 + 1.0).powf(random.unit()) as u64).clamp(1, classes) - 1
            }
            Extent::EventsOfEach(_) => random.below(classes),
        };
        let (template, suffix) = choose(&templates, class);
        let database = class % DBS;
        let time = duration(template, &mut random);
        let begin = second - time / 1_000_000;
        if begin != stamped {
            stamped = begin;
            write_stamp(&mut text, begin)?;
        }
        let connection = connections.idle(begin, second, &mut random);
        write_head(&mut text, template, database, (connection, time), &mut random)?;
        if std::mem::replace(&mut db, database) != database {
            writeln!(text, "use `shop{}`;", letters(database))?;
        }
        writeln!(text, "SET timestamp={begin};")?;
        write_parts(&mut text, &template.sql, &suffix, &mut random);
        text.extend_from_slice(b";\n");
        written += text.len() as u64;
        log.write_all(&text)?;
    }
}

/// The seed's events; those that name tables, and so can be made many classes, come first.
fn templates() -> Vec<Template> {
    let mut templates = Vec::new();
    let mut sink = ForEach::new(|event: &Event<'_>| {
        let head = head_of(event);
        let mut named = Vec::new();
        tables(event.sql, SqlMode::default(), &mut named);
        let value = |metric| event.metrics.get(metric).unwrap_or(0);
        templates.push(Template {
            head: parts(head, &[]),
            sql: parts(event.sql, &named),
            time: event.query_time().unwrap_or(0) / 1000,
            rows: [value(Metric::RowsSent), value(Metric::RowsExamined)],
        });
    });
    let carry = Carry::default();
    let piece = Piece { bytes: SEED, place: Place::default(), carry: &carry, last: true };
    Parser::new(Options::default()).parse(piece, &mut sink);
    templates.sort_by_key(|t| !t.sql.iter().any(|p| matches!(p, Part::Suffix)));
    templates
}

/// The lines of the seed between the row counts and the statement.
fn head_of(event: &Event<'_>) -> &'static [u8] {
    let all = &SEED[event.place.offset as usize..];
    let begin = find(all, b"# Rows_affected");
    let end = find(all, b"SET timestamp");
    let used = find(&all[..end], b"use `");
    &all[begin.min(end)..used]
}

fn find(text: &[u8], word: &[u8]) -> usize {
    text.windows(word.len()).position(|w| w == word).unwrap_or(text.len())
}

/// Cuts a text at the places where new digits and suffixes are put.
fn parts(text: &[u8], tables: &[TableRef<'_>]) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut same = Vec::new();
    let mut at = 0;
    let in_name = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'$') || *b >= 0x80;
    while let Some(&b) = text.get(at) {
        let name = text[at..].iter().take_while(|b| in_name(b)).count();
        let digits = text[at..].iter().take_while(|b| b.is_ascii_digit()).count();
        let boring = text[at..at + digits].iter().all(|b| *b == b'0');
        if name == 0 {
            same.push(b);
            at += 1;
        } else if digits > 0 && !boring {
            parts.push(Part::Same(std::mem::take(&mut same)));
            parts.push(Part::Digits(digits));
            at += digits;
        } else if digits > 0 {
            same.extend_from_slice(&text[at..at + digits]);
            at += digits;
        } else {
            let word = &text[at..at + name];
            same.extend_from_slice(word);
            if tables.iter().any(|t| t.table == word) {
                parts.push(Part::Same(std::mem::take(&mut same)));
                parts.push(Part::Suffix);
            }
            at += name;
        }
    }
    parts.push(Part::Same(same));
    parts
}

/// The template of a class, and the suffix of its tables' names.
fn choose(templates: &[Template], class: u64) -> (&Template, String) {
    let all = templates.len() as u64;
    if class < all {
        return (&templates[class as usize], String::new());
    }
    let many = templates.iter().filter(|t| t.sql.iter().any(|p| matches!(p, Part::Suffix))).count();
    let rest = class - all;
    let template = &templates[(rest % many as u64) as usize];
    (template, format!("_{}", letters(rest / many as u64 + 1)))
}

/// A number written in letters.
fn letters(mut number: u64) -> String {
    let mut text = String::new();
    while number > 0 {
        text.insert(0, char::from(b'a' + (number % 20) as u8));
        number /= 20;
    }
    text
}

fn write_stamp(text: &mut Vec<u8>, second: u64) -> io::Result<()> {
    let local = second + ZONE;
    let (year, month, day) = frond_event::text::civil_from_days((local / 86_400) as i64);
    let (hour, minute) = (local / 3600 % 24, local / 60 % 60);
    writeln!(
        text,
        "# Time: {:02}{month:02}{day:02} {hour:2}:{minute:02}:{:02}",
        year % 100,
        local % 60
    )
}

/// When each connection's last statement ended.
struct Connections([u64; CONNECTIONS]);

impl Connections {
    /// A connection that is idle at `begin`; it is busy until `end`.
    fn idle(&mut self, begin: u64, end: u64, random: &mut Random) -> usize {
        let first = random.below(CONNECTIONS as u64) as usize;
        let from = |i: usize| (first + i) % CONNECTIONS;
        // If all are busy, any of them will do.
        let found = (0..CONNECTIONS).map(from).find(|c| self.0[*c] <= begin).unwrap_or(first);
        self.0[found] = end;
        found
    }
}

/// Microseconds that a statement takes.
fn duration(template: &Template, random: &mut Random) -> u64 {
    let slow = if random.below(OUTLIERS) == 0 { 100.0 } else { 1.0 };
    (template.time as f64 * slow * (random.unit() * 3.0).exp()) as u64 + 1
}

fn write_head(
    text: &mut Vec<u8>,
    template: &Template,
    database: u64,
    (connection, time): (usize, u64),
    random: &mut Random,
) -> io::Result<()> {
    let (user, host) = (connection as u64 % USERS, connection as u64 % HOSTS + 1);
    writeln!(text, "# User@Host: app{user}[app{user}] @ web{host} [10.0.0.{host}]")?;
    let (thread, db) = (connection + FIRST_CONNECTION, letters(database));
    writeln!(text, "# Thread_id: {thread}  Schema: shop{db}  QC_hit: No")?;
    let rows = |n: u64, random: &mut Random| n + random.below(n + 1);
    writeln!(
        text,
        "# Query_time: {}.{:06}  Lock_time: 0.{:06}  Rows_sent: {}  Rows_examined: {}",
        time / 1_000_000,
        time % 1_000_000,
        random.below(150),
        rows(template.rows[0], random),
        rows(template.rows[1], random)
    )?;
    write_parts(text, &template.head, "", random);
    Ok(())
}

fn write_parts(text: &mut Vec<u8>, parts: &[Part], suffix: &str, random: &mut Random) {
    for part in parts {
        match part {
            Part::Same(same) => text.extend_from_slice(same),
            Part::Suffix => text.extend_from_slice(suffix.as_bytes()),
            Part::Digits(digits) => {
                let first = text.len();
                text.extend((0..*digits).map(|_| b'0' + random.below(10) as u8));
                text[first] = text[first].max(b'1');
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{HashMap, HashSet};

    #[test]
    fn the_log_has_the_classes_that_were_asked_for() {
        let path = std::env::temp_dir().join(format!("frond-generate-{}.log", std::process::id()));
        write(&path, Extent::Bytes(8 << 20), 200).unwrap();
        let log = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(log.len() >= 8 << 20 && log.ends_with(b";\n"));
        let (mut classes, mut key, mut last) = (HashSet::new(), Vec::new(), 0);
        let mut running: HashMap<u64, (Vec<u8>, i64)> = HashMap::new();
        let mut sink = ForEach::new(|event: &Event<'_>| {
            frond_sqltext::fingerprint(event.sql, Default::default(), &mut key);
            classes.insert(key.clone());
            // Stamps are whole seconds.
            let (start, end) = (event.start.unwrap(), event.end.unwrap());
            assert!(end >= last - 1_000_000, "the clock goes back by {} us", last - end);
            last = last.max(end);
            let before = running.insert(event.thread_id.unwrap(), (event.user.to_vec(), end));
            if let Some((user, ended)) = before {
                assert_eq!(user, event.user);
                assert!(start >= ended - 1_000_000, "two statements at the same time");
            }
        });
        let carry = Carry::default();
        let piece = Piece { bytes: &log, place: Place::default(), carry: &carry, last: true };
        let after = Parser::new(Options::default()).parse(piece, &mut sink);
        assert_eq!(sink.skips, []);
        assert_eq!(after.zone, Some(ZONE as i32));
        assert_eq!(classes.len(), 200);
    }
}
