//! Plain statements, one on each line, as from `grep`, an application's log or a test suite.

use frond_event::{Event, Metric, Place, Sink, Unmeasured};

/// Passes each line that is not blank to `sink`, without the `;` at its end.
pub fn parse<S: Sink + ?Sized>(bytes: &[u8], place: Place, sink: &mut S) {
    lines(bytes, place, false, sink);
}

/// As `parse`, but keeps the `;`, which pt-query-digest takes as part of the statement and its
/// class.
pub fn parse_as_ptqd<S: Sink + ?Sized>(bytes: &[u8], place: Place, sink: &mut S) {
    lines(bytes, place, true, sink);
}

fn lines<S: Sink + ?Sized>(bytes: &[u8], place: Place, with_end: bool, sink: &mut S) {
    let mut event = Event::default();
    let mut at = 0;
    while at < bytes.len() {
        let end = memchr::memchr(b'\n', &bytes[at..]).map_or(bytes.len(), |p| at + p);
        let line = bytes[at..end].trim_ascii();
        let line = line.strip_suffix(b";").filter(|_| !with_end).unwrap_or(line);
        if !line.is_empty() {
            event.clear();
            event.sql = line;
            event.place = Place { file: place.file, offset: place.offset + at as u64 };
            event.unmeasured = Some(Unmeasured::NotLogged);
            event.metrics.set(Metric::QuerySize, line.len() as u64);
            sink.event(&event);
        }
        at = end + 1;
    }
}

/// The last offset of `bytes` (not 0) where a line begins.
pub fn last_boundary(bytes: &[u8]) -> Option<usize> {
    memchr::memrchr(b'\n', bytes).map(|p| p + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use frond_event::ForEach;

    #[test]
    fn each_line_is_a_statement() {
        let mut seen = Vec::new();
        let mut sink = ForEach::new(|e: &Event<'_>| seen.push((e.sql.to_vec(), e.place.offset)));
        parse(b"select 1;\r\n\n  select 2\nselect 3", Place::default(), &mut sink);
        assert_eq!(
            seen,
            [(b"select 1".to_vec(), 0), (b"select 2".to_vec(), 12), (b"select 3".to_vec(), 23)]
        );
    }
}
