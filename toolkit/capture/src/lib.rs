//! Captured traffic: from the bytes of a capture file to events.
//!
//! ```text
//!     file (pcap, pcapng, tcpdump's text) -> packet (Ethernet ... TCP header)
//!         -> flows (connections) -> stream (reassembly, gaps) -> mysql (protocol) -> Event
//! ```
//!
//! [`Traffic`] is all of it. Several files of one capture are read one after another, in the order
//! of their [`first_time`]s, with [`Traffic::next_file`] between them: connections go on across files.
//! A missing file of a rotation is a gap like any other.
//!
//! Every report must show [`Summary`] (losses, queries without a time). For a sample it must also show
//! [`Summary::estimate`] for everything that was read, and an [`Estimator`] for filtered statements and
//! for each class; [`Sampling::tcpdump_filter`] captures such a sample.
//!
//! The meaning of times. `QueryTime` is the time from the last byte of a request to the first byte of
//! its answer, as seen where the capture was made. pt-query-digest calls this `Query_time`; it is the
//! time that the server worked before it could answer. (For a connect it is the time from the first
//! packet to the server's OK.) With `Options::to_last_byte` it ends with the answer's last
//! byte instead, which includes the time to transfer the rows and to wait for a client that reads
//! slowly; then `FirstByteTime` is there as well. `Event::start` and `Event::end` are always those
//! of the request's first byte and the answer's last one. Progress reports of a long statement and
//! a request for a local file do not count as an answer.
//!
//! Depends on `frond-event` alone.
//!
//! Invariants
//!
//! - CA1. No time includes another query's: an event that a gap touches is unmeasured (`stream`, `mysql`).
//! - CA2. Memory does not depend on the length of the capture.
//! - CA3. The same packets give the same events, whatever the format of the capture.
#![forbid(unsafe_code)]
// The disallowed methods are for the engine, which must be deterministic.
#![allow(clippy::disallowed_methods)]

mod bytes;
mod estimate;
mod file;
mod flows;
mod mysql;
mod options;
mod output;
mod packet;
mod sample;
mod silence;
mod stream;
mod summary;

pub use estimate::{Estimator, Totals};
pub use file::{first_time, lacking, recognise, Format};
pub use options::Options;
pub use sample::{Estimate, Sampling};
pub use silence::Silence;
pub use summary::Summary;

use file::{Packet, Reader};
use flows::Flows;
use frond_event::{Losses, Sink, Stream};
use output::Output;
use packet::Other;

/// Reads captures. See the module's head.
pub struct Traffic {
    options: Options,
    reader: Reader,
    rest: Rest,
}

/// Everything but the reader, whose packets are borrowed from it.
struct Rest {
    flows: Flows,
    summary: Summary,
    buffers: Vec<Vec<u8>>,
    file: u32,
    /// Time of the last packet.
    now: i64,
}

impl Traffic {
    pub fn new(options: Options) -> Self {
        let reader = Reader::new(options.text_zone);
        let rest = Rest {
            flows: Flows::new(),
            summary: Summary::default(),
            buffers: Vec::new(),
            file: 0,
            now: 0,
        };
        Traffic { options, reader, rest }
    }

    /// The following bytes are those of file number `file`; connections continue.
    pub fn next_file(&mut self, file: u32, sink: &mut dyn Sink) -> Result<(), String> {
        let ended = self.end_file(sink);
        self.reader.begin(file);
        self.rest.file = file;
        ended
    }

    pub fn summary(&self) -> Summary {
        let mut summary = self.rest.summary.clone();
        summary.unusable += self.reader.told.unusable;
        summary.dropped += self.reader.told.dropped;
        summary
    }

    /// The file ends. `Err` says what is wrong with its end; a second call does nothing.
    pub fn end_file(&mut self, sink: &mut dyn Sink) -> Result<(), String> {
        let Traffic { options, reader, rest } = self;
        reader.end(sink, &mut |packet, sink| rest.packet(packet, options, sink))
    }
}

impl Rest {
    #[inline]
    fn packet(&mut self, packet: &Packet<'_>, options: &Options, sink: &mut dyn Sink) {
        let summary = &mut self.summary;
        summary.packets += 1;
        let segment = match packet::segment(packet) {
            Ok(segment) => segment,
            Err(Other::NotTcp) => {
                summary.other_protocols += 1;
                return;
            }
            Err(Other::Fragment) => {
                summary.fragments += 1;
                return;
            }
            Err(Other::Unreadable) => {
                summary.unreadable += 1;
                return;
            }
        };
        if self.now != 0 {
            summary.silence.packets(self.now, packet.time);
        }
        self.now = packet.time;
        summary.segments += u64::from(segment.wire_length > 0);
        summary.segment_bytes += u64::from(segment.wire_length);
        summary.segment_most = summary.segment_most.max(segment.wire_length.into());
        let mut output = Output {
            sink,
            options,
            counts: summary,
            file: self.file,
            now: self.now,
            buffers: &mut self.buffers,
        };
        self.flows.segment(&segment, &mut output);
    }
}

impl Stream for Traffic {
    fn feed(&mut self, bytes: &[u8], sink: &mut dyn Sink) -> Result<(), String> {
        let Traffic { options, reader, rest } = self;
        reader.feed(bytes, sink, &mut |packet, sink| rest.packet(packet, options, sink))
    }

    fn finish(&mut self, sink: &mut dyn Sink) {
        // A damaged end was reported as a skip.
        let _ = self.end_file(sink);
        let rest = &mut self.rest;
        let mut output = Output {
            sink,
            options: &self.options,
            counts: &mut rest.summary,
            file: rest.file,
            now: rest.now,
            buffers: &mut rest.buffers,
        };
        rest.flows.finish(&mut output);
    }

    fn losses(&self) -> Losses {
        let summary = self.summary();
        Losses {
            packets: summary.packets,
            gaps: summary.gaps,
            bytes_missing: summary.bytes_missing,
            connections: summary.connections,
            connections_with_gaps: summary.connections_with_gaps,
            encrypted: summary.encrypted,
            unmeasured: summary.unmeasured,
            not_sampled: summary.not_sampled,
        }
    }
}
