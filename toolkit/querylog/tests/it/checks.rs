//! Checks that hold for any bytes as a log, one function for each kind. The tests here and the targets in `fuzz/` at
//! the root of the repository call them.

use frond_event::{Event, ForEach, Metric, Place, Sink};
use frond_querylog::{genlog, rawlog, slowlog};

/// The output of a parser: each event's place and statement, and the places of skips.
type Seen = (Vec<(u64, Vec<u8>)>, Vec<(u64, u64)>);

/// Runs `parse` and asserts what holds for every parser of a text: events come in the order of the
/// text, at places in it, with no more bytes than it has.
fn seen(bytes: &[u8], parse: impl FnOnce(&mut dyn Sink)) -> Seen {
    let mut events = Vec::new();
    let mut sink = ForEach::new(|event: &Event<'_>| {
        assert_eq!(event.metrics.get(Metric::QuerySize), Some(event.sql.len() as u64));
        events.push((event.place.offset, event.sql.to_vec()));
    });
    parse(&mut sink);
    let skips: Vec<_> = sink.skips.iter().map(|skip| (skip.place.offset, skip.bytes)).collect();
    drop(sink);
    assert!(events.windows(2).all(|pair| pair[0].0 < pair[1].0), "events out of order");
    assert!(events.iter().all(|event| event.0 < bytes.len() as u64), "an event from nowhere");
    // Commands that are not statements are yielded with these words in front.
    let words = b"administrator command: ";
    let length = |sql: &Vec<u8>| sql.strip_prefix(words).unwrap_or(sql).len();
    let length: usize = events.iter().map(|event| length(&event.1)).sum();
    assert!(length <= 2 * bytes.len(), "{length} bytes of statements from {}", bytes.len());
    for (place, skipped) in &skips {
        assert!(place + skipped <= bytes.len() as u64, "{skipped} bytes skipped at {place}");
    }
    (events, skips)
}

/// A slow log.
pub fn slow_log(bytes: &[u8]) {
    let parser = slowlog::Parser::new(slowlog::Options::default());
    let carry = slowlog::Carry::default();
    seen(bytes, |sink| {
        let piece = slowlog::Piece { bytes, place: Place::default(), carry: &carry, last: true };
        parser.parse(piece, sink);
    });
    let mut marks = Vec::new();
    if let Some(boundary) = slowlog::split::cut(bytes, &mut marks) {
        assert!(0 < boundary && boundary < bytes.len(), "{boundary} of {}", bytes.len());
        // The next piece inherits the same values, whether they are found cheaply or by parsing.
        let piece = &bytes[..boundary];
        let cheap = parser.carry_over(piece, &marks, &carry);
        let piece =
            slowlog::Piece { bytes: piece, place: Place::default(), carry: &carry, last: false };
        let whole = parser.parse_marked(piece, &marks, &mut ForEach::new(|_: &Event<'_>| {}));
        assert_eq!((cheap.stamp, cheap.db), (whole.stamp, whole.db));
        if bytes.len() < 64 << 10 {
            slow_log_in_pieces(bytes, boundary, &marks);
        }
    }
}

/// All that can be seen of an event.
fn shown(event: &Event<'_>) -> String {
    let metrics: Vec<_> = event.metrics.iter().collect();
    // The values of metrics that are absent mean nothing.
    let rest = Event { metrics: frond_event::Metrics::default(), ..event.clone() };
    format!("{metrics:?} {rest:?}")
}

/// The events before `boundary` are the same whether one thread reads them, which finds the boundary on the way, or
/// others read them by their marks, together or each as a piece of its own; and all leave the same values to the next
/// piece. The zone is given, because the piece determines which event shows it.
fn slow_log_in_pieces(bytes: &[u8], boundary: usize, marks: &[slowlog::split::Mark]) {
    let options = slowlog::Options { zone: Some(3600), ..slowlog::Options::default() };
    let parser = slowlog::Parser::new(options);
    let first = slowlog::Carry { zone: options.zone, ..slowlog::Carry::default() };

    let (mut events, mut skips) = (Vec::new(), Vec::new());
    let mut sink = ForEach::new(|event: &Event<'_>| events.push(shown(event)));
    let piece = slowlog::Piece { bytes, place: Place::default(), carry: &first, last: false };
    let (used, left) = parser.parse_certain(piece, &mut sink);
    assert_eq!(used, boundary, "parsing and looking for the cut");
    skips.append(&mut sink.skips);
    drop(sink);
    let alone = (events, skips, left);

    let begins: Vec<usize> = marks.iter().map(|m| m.at as usize).filter(|at| *at > 0).collect();
    for cuts in [&[][..], &begins] {
        let cuts = [&[0], cuts, &[boundary]].concat();
        let (mut events, mut skips, mut carry) = (Vec::new(), Vec::new(), first.clone());
        for range in cuts.windows(2) {
            let (from, to) = (range[0], range[1]);
            let here = |mark: &slowlog::split::Mark| {
                let moved = |at: u32| at - from as u32;
                let (at, body, end) = (moved(mark.at), moved(mark.body), moved(mark.end));
                slowlog::split::Mark { at, body, end, how: mark.how, holds: mark.holds }
            };
            let inside = |mark: &&slowlog::split::Mark| (from..to).contains(&(mark.at as usize));
            let marks: Vec<_> = marks.iter().filter(inside).map(here).collect();
            let place = Place { file: 0, offset: from as u64 };
            let mut sink = ForEach::new(|event: &Event<'_>| events.push(shown(event)));
            let bytes = &bytes[from..to];
            let piece = slowlog::Piece { bytes, place, carry: &carry, last: false };
            let left = parser.parse_marked(piece, &marks, &mut sink);
            skips.append(&mut sink.skips);
            drop(sink);
            assert_eq!(parser.carry_over(bytes, &marks, &carry), left, "{from}..{to}");
            carry = left;
        }
        assert_eq!((events, skips, carry), alone, "pieces {cuts:?}");
    }
}

/// A general log.
pub fn general_log(bytes: &[u8]) {
    seen(bytes, |sink| genlog::Parser::new(0).parse(bytes, Place::default(), sink));
    if let Some(boundary) = genlog::last_boundary(bytes) {
        assert!(0 < boundary && boundary < bytes.len(), "{boundary} of {}", bytes.len());
    }
}

/// Statements, one on a line.
pub fn raw_log(bytes: &[u8]) {
    let (events, skips) = seen(bytes, |sink| rawlog::parse(bytes, Place::default(), sink));
    assert!(skips.is_empty());
    assert!(events.iter().all(|(_, sql)| !sql.is_empty() && !sql.contains(&b'\n')));
    if let Some(boundary) = rawlog::last_boundary(bytes) {
        // Two pieces give the same events as one.
        let (first, second) = bytes.split_at(boundary);
        let both = seen(bytes, |sink| {
            rawlog::parse(first, Place::default(), sink);
            rawlog::parse(second, Place { file: 0, offset: boundary as u64 }, sink);
        });
        assert_eq!(both.0, events);
    }
}
