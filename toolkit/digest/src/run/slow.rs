//! Reads a slow log piece by piece, on one thread or for a team.
//!
//! On one thread a buffer is parsed at once as far as its events are certain, which also finds the
//! cut. For a team the reading thread only searches for the cut and for the values that the
//! next piece inherits. Both ways give the same pieces.

use super::crew::{Buffers, Crew, Job};
use super::worker::Worker;
use frond_event::Place;
use frond_querylog::input::Format;
use frond_querylog::slowlog::split::{self, Mark};
use frond_querylog::slowlog::{Carry, Parser, Piece};

/// See the module's text.
pub(super) struct SlowLog {
    parser: Parser,
    pub carry: Carry,
    marks: Vec<Mark>,
    /// `cut` has already parsed the part before the cut.
    parsed: bool,
    begun: bool,
    file: u32,
}

impl SlowLog {
    pub fn new(parser: Parser, zone: Option<i32>, file: u32) -> SlowLog {
        let carry = Carry { zone, ..Carry::default() };
        SlowLog { parser, carry, marks: Vec::new(), parsed: false, begun: false, file }
    }

    /// Learns the zone: a log has it in its first piece or not at all.
    fn begin(&mut self, bytes: &[u8]) {
        if !std::mem::replace(&mut self.begun, true) && self.carry.zone.is_none() {
            self.carry.zone = self.zone_of(bytes);
        }
    }

    fn zone_of(&self, bytes: &[u8]) -> Option<i32> {
        struct Nothing;
        impl frond_event::Sink for Nothing {
            fn event(&mut self, _: &frond_event::Event<'_>) {}
            fn skip(&mut self, _: frond_event::Skip) {}
        }
        let carry = Carry::default();
        let piece = Piece { bytes, place: Place::default(), carry: &carry, last: true };
        self.parser.parse(piece, &mut Nothing).zone
    }

    /// Where to cut a buffer that more bytes follow.
    pub fn cut(&mut self, bytes: &[u8], offset: u64, crew: &mut dyn Crew) -> Option<usize> {
        self.begin(bytes);
        if !crew.alone() {
            return split::cut(bytes, &mut self.marks);
        }
        let place = Place { file: self.file, offset };
        let piece = Piece { bytes, place, carry: &self.carry, last: false };
        let (used, carry) = crew.own().certain_slow_log(piece);
        self.parsed = used > 0;
        self.inherit(carry);
        self.parsed.then_some(used)
    }

    fn inherit(&mut self, carry: Carry) {
        // If the zone were learned later, events would depend on how the log is cut.
        self.carry = Carry { zone: self.carry.zone, ..carry };
    }

    /// Has a piece parsed.
    pub fn take(
        &mut self,
        buffer: &mut Vec<u8>,
        length: usize,
        offset: u64,
        last: bool,
        crew: &mut dyn Crew,
    ) {
        if std::mem::take(&mut self.parsed) {
            return;
        }
        let bytes = &buffer[..length];
        self.begin(bytes);
        let place = Place { file: self.file, offset };
        if crew.alone() {
            let worker: &mut Worker = crew.own();
            let carry = worker.slow_log(Piece { bytes, place, carry: &self.carry, last }, &[]);
            self.inherit(carry);
            return;
        }
        if last {
            // The marks of `cut` are of another piece, and this one has no certain end.
            self.marks.clear();
        }
        let next = match last {
            true => self.carry.clone(),
            false => self.parser.carry_over(bytes, &self.marks, &self.carry),
        };
        let carry = std::mem::replace(&mut self.carry, next);
        let buffers =
            Buffers { bytes: std::mem::take(buffer), marks: std::mem::take(&mut self.marks) };
        let format = Format::SlowLog;
        let spare = crew.take(Job { buffers, length, place, carry, last, format });
        (*buffer, self.marks) = (spare.bytes, spare.marks);
    }
}
