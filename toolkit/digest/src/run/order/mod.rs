//! Checks that the events of logs and captures follow each other as those of one server do.
//!
//! Two things cannot happen in the log of one server whose clock runs: an event cannot end long before an event that
//! was written earlier, and one connection cannot run statements of two users at the same time. The first shows
//! logs put one behind the other, or a clock that was set back. The second shows mixed logs of two
//! servers, whose connections have the same numbers. Files whose times overlap come from two servers (or are one file
//! twice).
//!
//! A general log has only begins, which are treated as ends: servers write an entry at once. `servers` has the signs
//! that it is of two servers. Captured connections may be of several servers, so only the clock is checked.
//!
//! Nothing is corrected: rates and charts of such inputs are wrong, and a note says why.
//!
//! Invariants:
//!
//! - OR1. Each piece of a file is checked by itself, and the results are joined in the files' order, so that the
//!   number of threads makes no difference. Changes from one piece to the next show in their first and
//!   latest times.
//! - OR2. Memory: a table of a fixed size per thread, and some words per piece.

mod servers;

use super::outcome::FileInfo;
use frond_event::{Event, Micros, Place, Unmeasured};
use servers::Servers;

/// An event that ends so much before an earlier written one was not stamped by the same clock. Servers write an event
/// when it has ended; stamps of whole seconds and threads that wait for the log explain a few seconds.
const BACK: Micros = 60 * 1_000_000;

/// Overlap that no rounding explains: stamps are whole seconds.
const OVERLAP: Micros = 3 * 1_000_000;

const CONNECTIONS: usize = 1024;

/// The facts about a piece of a file.
#[derive(Clone, Debug)]
struct Piece {
    begin: Place,
    first: Micros,
    lowest: Micros,
    latest: Micros,
    /// The first step back: its place, and its size.
    back: Option<(Place, Micros)>,
    steps: u64,
    mixed: Option<Place>,
}

/// The last statement of a connection.
#[derive(Clone, Copy, Default)]
struct Last {
    thread: u64,
    user: u64,
    start: Micros,
    end: Micros,
}

/// See the module's text.
#[derive(Default)]
pub struct Order {
    now: Option<Piece>,
    begin: Place,
    done: Vec<Piece>,
    connections: Vec<Last>,
    /// All files are one log that was followed, so none of them is of another server.
    pub one_log: bool,
    /// For general logs, which one worker reads in order.
    pub servers: Servers,
}

impl Order {
    /// Starts a piece of an input.
    pub fn begin(&mut self, place: Place) {
        self.done.extend(self.now.take());
        self.begin = place;
        self.connections.clear();
        self.connections.resize(CONNECTIONS, Last::default());
    }

    #[inline]
    pub fn see(&mut self, event: &Event<'_>) {
        if self.connections.is_empty() {
            return;
        }
        let Some(start) = event.start else { return };
        let logged_at_once = event.unmeasured == Some(Unmeasured::NotLogged);
        if logged_at_once && event.connection == 0 {
            self.servers.see(event.place, start);
        }
        let Some(end) = event.end.or(logged_at_once.then_some(start)) else { return };
        let mixed = event.connection == 0 && self.runs_as_another(event, start, end);
        let piece = self.now.get_or_insert(Piece {
            begin: self.begin,
            first: end,
            lowest: end,
            latest: end,
            back: None,
            steps: 0,
            mixed: None,
        });
        if mixed && piece.mixed.is_none() {
            piece.mixed = Some(event.place);
        }
        if end < piece.latest.saturating_sub(BACK) {
            piece.back.get_or_insert((event.place, piece.latest.saturating_sub(end)));
            piece.steps += 1;
        }
        piece.lowest = piece.lowest.min(end);
        piece.latest = piece.latest.max(end);
    }

    /// True if the connection still runs a statement of another user.
    #[inline]
    fn runs_as_another(&mut self, event: &Event<'_>, start: Micros, end: Micros) -> bool {
        let Some(thread) = event.thread_id.filter(|t| *t > 0) else { return false };
        if event.user.is_empty() {
            return false;
        }
        let last = &mut self.connections[thread as usize % CONNECTIONS];
        let user = xxhash_rust::xxh3::xxh3_64(event.user);
        let shared = last.end.min(end).saturating_sub(last.start.max(start));
        let another = last.thread == thread && last.user != user && shared > OVERLAP;
        if last.thread != thread || end >= last.end {
            *last = Last { thread, user, start, end };
        }
        another
    }

    pub fn merge(&mut self, other: Order) {
        self.done.extend(other.done);
        self.done.extend(other.now);
        self.servers.merge(other.servers);
    }

    /// Notes for the reader.
    pub fn notes(mut self, files: &[FileInfo]) -> Vec<String> {
        self.done.extend(self.now.take());
        self.done.sort_by_key(|p| p.begin);
        let name = |place: Place| files.get(place.file as usize).map_or("", |f| f.name.as_str());
        let mut notes = Vec::new();
        let mut ranges: Vec<(Place, Micros, Micros)> = Vec::new();
        let (mut back, mut steps) = (None, 0);
        for piece in &self.done {
            match ranges.last_mut().filter(|(place, _, _)| place.file == piece.begin.file) {
                None => ranges.push((piece.begin, piece.lowest, piece.latest)),
                Some((_, lowest, latest)) => {
                    if piece.first < latest.saturating_sub(BACK) {
                        back = back.or(Some((piece.begin, latest.saturating_sub(piece.first))));
                        steps += 1;
                    }
                    *lowest = piece.lowest.min(*lowest);
                    *latest = piece.latest.max(*latest);
                }
            }
            back = back.or(piece.back);
            steps += piece.steps;
        }
        if let Some((place, far)) = back {
            let more = if steps > 1 { format!("; {steps} events in all") } else { String::new() };
            notes.push(format!(
                "The clock goes back by {} s in {} near byte {}{more}: a server's clock was set back, or logs were put \
                 one behind the other. Rates and charts are of the whole range of times; --since and --until choose a \
                 part of it.",
                far / 1_000_000,
                name(place),
                place.offset
            ));
        }
        let users = "a connection runs statements of two users at the same time";
        let by_user = self.done.iter().find_map(|p| p.mixed).map(|place| (place, users));
        let by_entry = self.servers.found().map(|(place, what)| (*place, what.as_str()));
        if let Some((place, what)) = by_user.or(by_entry) {
            notes.push(format!(
                "Logs of two servers are mixed: {what}, first in {} at byte {}. Read each server's \
                 own log, or tell them apart with --filter (db, user or host), or look with --group-by.",
                name(place),
                place.offset
            ));
        }
        if !self.one_log {
            notes.extend(overlaps(&ranges, &name));
        }
        notes
    }
}

/// Files that overlap in time. The logs before and after a rotation overlap for a moment only, because
/// long statements are logged late. This holds however short one of the logs is.
fn overlaps<'n>(
    ranges: &[(Place, Micros, Micros)],
    name: &dyn Fn(Place) -> &'n str,
) -> Option<String> {
    let mut sorted = ranges.to_vec();
    sorted.sort_by_key(|r| r.1);
    // Of the files that began earlier, the one that lasts longest.
    let mut longest = *sorted.first()?;
    let pair = sorted.into_iter().skip(1).find_map(|range| {
        let shared = longest.2.min(range.2).saturating_sub(range.1);
        if shared > BACK {
            return Some((longest.0, range.0));
        }
        if range.2 > longest.2 {
            longest = range;
        }
        None
    })?;
    Some(format!(
        "{} and {} cover the same time: they are of two servers (or one log given twice), and the numbers are of both \
         together. For each by itself read one at a time; --diff shows what differs.",
        name(pair.0),
        name(pair.1)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Micros = 1_000_000;

    fn files() -> Vec<FileInfo> {
        ["a.log", "b.log"].map(|n| FileInfo { name: n.into(), format: None, bytes: 0 }).to_vec()
    }

    /// File, user, connection, start and end in seconds.
    type Statement<'a> = (u32, &'a str, u64, i64, i64);

    fn notes(pieces: &[&[Statement<'_>]]) -> Vec<String> {
        let mut all = Order::default();
        // Each piece on its own thread, the last piece first.
        for (number, piece) in pieces.iter().enumerate().rev() {
            all.merge(ordered(piece, number as u64));
        }
        all.notes(&files())
    }

    fn ordered(piece: &[Statement<'_>], number: u64) -> Order {
        let mut order = Order::default();
        let at = |i: usize| number * 1000 + i as u64 * 10;
        order.begin(Place { file: piece[0].0, offset: at(0) });
        for (i, (file, user, thread, start, end)) in piece.iter().enumerate() {
            order.see(&Event {
                user: user.as_bytes(),
                thread_id: Some(*thread),
                start: Some(start * SECOND),
                end: Some(end * SECOND),
                place: Place { file: *file, offset: at(i) },
                ..Event::default()
            });
        }
        order
    }

    #[test]
    fn one_server_s_log_is_in_order() {
        // Long statements, reused connections, differences of a few seconds.
        let a: &[_] = &[(0, "u", 1, 100, 200), (0, "v", 2, 150, 198), (0, "u", 1, 201, 300)];
        let b: &[_] = &[(0, "w", 1, 300, 301), (0, "u", 2, 100, 299), (0, "u", 3, 10, 302)];
        assert_eq!(notes(&[a, b]), Vec::<String>::new());
        assert_eq!(notes(&[a, &[(1, "u", 1, 300, 400)]]), Vec::<String>::new(), "rotated");
    }

    #[test]
    fn a_clock_that_goes_back_is_told() {
        let said = notes(&[&[(0, "u", 1, 0, 1000), (0, "u", 1, 0, 100), (0, "u", 1, 0, 101)]]);
        assert!(said[0].contains("back by 900 s in a.log near byte 10; 2 events"), "{said:?}");
        let said = notes(&[&[(0, "u", 1, 0, 1000)], &[(0, "u", 1, 0, 100)]]);
        assert!(said[0].contains("back by 900 s in a.log near byte 1000:"), "{said:?}");
    }

    #[test]
    fn mixed_logs_are_told() {
        let said = notes(&[&[(0, "web", 7, 0, 50), (0, "etl", 7, 10, 55)]]);
        assert!(said.len() == 1 && said[0].contains("two servers are mixed"), "{said:?}");
        assert!(said[0].contains("a.log at byte 10"), "{said:?}");
        // One connection, one user: a statement inside a procedure.
        assert!(notes(&[&[(0, "web", 7, 10, 49), (0, "web", 7, 0, 50)]]).is_empty());
    }

    #[test]
    fn files_of_the_same_time_are_told() {
        let said = notes(&[
            &[(0, "u", 1, 0, 1), (0, "u", 1, 1, 1000)],
            &[(1, "u", 1, 0, 500), (1, "u", 1, 1, 1500)],
        ]);
        assert!(said.len() == 1 && said[0].contains("a.log and b.log cover the same time"));
    }

    #[test]
    fn a_short_log_at_the_begin_of_the_next_is_a_rotated_one() {
        // A statement of 2 s that was logged before the shorter one which ended first.
        let next: &[_] = &[(1, "u", 2, 100, 101), (1, "u", 2, 500, 5000)];
        assert_eq!(notes(&[&[(0, "u", 1, 100, 102)], next]), Vec::<String>::new());
        let longer: &[_] = &[(0, "u", 1, 100, 102), (0, "u", 1, 900, 1000)];
        assert_eq!(notes(&[longer, next]).len(), 1);
    }

    #[test]
    fn a_short_log_between_two_of_the_same_time_hides_nothing() {
        let long = |file| [(file, "u", 1, 0, 1 + i64::from(file)), (file, "u", 1, 1, 1000)];
        let mut order = Order::default();
        for piece in [&long(0)[..], &[(1, "u", 1, 0, 2)], &long(2)] {
            order.merge(ordered(piece, u64::from(piece[0].0)));
        }
        let mut files = files();
        files.push(FileInfo { name: "c.log".into(), format: None, bytes: 0 });
        let said = order.notes(&files);
        assert!(said.len() == 1 && said[0].contains("a.log and c.log cover"), "{said:?}");
    }

    #[test]
    fn a_log_that_is_followed_is_one_whatever_its_files_are() {
        let both: [&[_]; 2] = [&[(0, "u", 1, 0, 1), (0, "u", 1, 1, 900)], &[(1, "u", 1, 0, 500)]];
        let mut order = Order::default();
        for piece in both {
            order.merge(ordered(piece, u64::from(piece[0].0)));
        }
        order.one_log = true;
        let said = order.notes(&files());
        assert!(!said.iter().any(|s| s.contains("cover the same time")), "{said:?}");
    }
}
