//! Captured traffic: from the bytes of a capture file to events.
//!
//! ```text
//!     file (pcap, pcapng, tcpdump's text) -> packet (Ethernet ... TCP header)
//!         -> flows (connections) -> stream (reassembly, gaps) -> mysql (protocol) -> Event
//! ```
//!
//! [`Traffic`] is all of it. Several files of one capture are read one after another, in the order
//! of their [`first_time`]s, with [`Traffic::next_file`] between them: connections go on across files.
//! A file of a rotation that is missing is a gap as any other.
//!
//! What a reader must be told: [`Summary`] (what was lost, how many queries have no time), and of a
//! sample [`Summary::estimate`] for everything read and an [`Estimator`] for what filters chose and
//! for each class; [`Sampling::tcpdump_filter`] captures just such a sample.
//!
//! What times mean. `QueryTime` is the time from the last byte of a request to the first byte of
//! its answer, as seen where the capture was made: what pt-query-digest calls `Query_time`, and
//! what the server worked before it could say anything. (For a connection it is the time from its
//! first packet to the server's OK.) With `Options::to_last_byte` it ends with the answer's last
//! byte instead, which includes the time to transfer the rows and to wait for a client that reads
//! slowly, and `FirstByteTime` is there as well. `Event::start` and `Event::end` are always those
//! of the request's first byte and the answer's last one. Progress reports of a long statement and
//! a request for a local file are not yet an answer.
//!
//! Depends on `frond-event` alone.
//!
//! Invariants
//!
//! - CA1. No time includes another query's: what a gap touches is unmeasured (`stream`, `mysql`).
//! - CA2. Memory does not depend on the length of the capture.
//! - CA3. The same packets give the same events, whatever the format of the capture.
#![forbid(unsafe_code)]
// Clippy's list is for the engine, which must be deterministic.
#![allow(clippy::disallowed_methods)]

mod bytes;
mod estimate;
mod file;
mod flows;
mod mysql;
mod packet;
mod sample;
mod silence;
mod stream;

pub use estimate::{Estimator, Totals};
pub use file::{first_time, lacking, recognise, Format};
pub use sample::{Estimate, Sampling};
pub use silence::Silence;

use file::{Packet, Reader};
use flows::Flows;
use frond_event::{Event, Losses, Sink, Stream, Unmeasured};
use packet::Other;
use sample::Sums;
use std::fmt;

/// Ports of servers that are told apart.
const MOST_PORTS: usize = 16;

/// Payload of a full packet on Ethernet.
const FULL: u64 = 1448;

/// Where MariaDB and MySQL listen unless they are told otherwise.
const DEFAULT_PORT: u16 = 3306;

#[derive(Clone, Debug)]
pub struct Options {
    /// The servers' ports. Empty: 3306, and any other port on which a server's greeting or a
    /// client's statement is seen.
    pub ports: Vec<u16>,
    /// Seconds east of UTC of the machine that printed tcpdump's text. (Binary captures are UTC.)
    pub text_zone: i32,
    /// Read only some connections.
    pub sampling: Option<Sampling>,
    /// `QueryTime` ends with the last byte of the answer, not with the first.
    pub to_last_byte: bool,
    /// Names of commands as pt-query-digest makes them ("Init_db") instead of the server's
    /// ("Init DB").
    pub compat_names: bool,
    /// So many bytes of a statement are kept; the rest only counts.
    pub longest_statement: usize,
    pub most_connections: usize,
    /// Bytes that the connections may hold back and gather in all.
    pub most_memory: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            ports: Vec::new(),
            text_zone: 0,
            sampling: None,
            to_last_byte: false,
            compat_names: false,
            longest_statement: 1 << 20,
            most_connections: 16 << 10,
            most_memory: 24 << 20,
        }
    }
}

/// What was read, and what was not there to be read.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Packets in the files.
    pub packets: u64,
    /// ... that are not TCP.
    pub other_protocols: u64,
    /// ... that are fragments of IP datagrams, which are not put together.
    pub fragments: u64,
    /// ... whose headers cannot be read: cut or damaged.
    pub unreadable: u64,
    /// ... of an unsupported link type or without a time (pcapng).
    pub unusable: u64,
    /// Packets that the capturing side says it dropped (pcapng).
    pub dropped: u64,
    pub retransmitted: u64,
    /// Connections that sent anything.
    pub connections: u64,
    pub connections_with_gaps: u64,
    pub encrypted: u64,
    /// Connections that the server closed before the client was let in.
    pub hung_up: u64,
    /// Connections whose client said something, of which no command and no login was ever read.
    pub not_understood: u64,
    pub not_sampled: u64,
    /// Connections closed early for want of memory.
    pub evicted: u64,
    /// Prepared statements whose texts were forgotten for want of memory.
    pub forgotten: u64,
    pub gaps: u64,
    pub bytes_missing: u64,
    /// Packets of connections of which the capture has only the begin. They are no gaps.
    pub cut: u64,
    /// Requests whose begin was seen, and the bytes they say they have.
    pub requests: u64,
    pub request_bytes: u64,
    /// Answers without a request.
    pub orphans: u64,
    /// Events that have a time.
    pub measured: u64,
    /// Requests that were seen, at least in part, but have no time.
    pub unmeasured: u64,
    /// ... of which too little was seen to tell their class: there is no event of them.
    pub partial: u64,
    pub events: u64,
    /// The longest time without a packet of any connection.
    pub silence: Silence,
    /// Ports of servers that were read; the first [`MOST_PORTS`].
    pub ports: Vec<u16>,
    /// Requests of which nothing was seen.
    requests_missing: u64,
    /// Payload of the segments that have any, and the longest.
    segments: u64,
    segment_bytes: u64,
    segment_most: u64,
    /// Packets that fill the gaps if all are as long as that.
    packets_missing: u64,
    /// Connections given a number.
    numbered: u64,
    totals: Sums,
}

impl Summary {
    /// Requests of which nothing was seen, about.
    pub fn requests_lost(&self) -> u64 {
        if self.requests > 0 {
            self.requests_missing
        } else {
            self.orphans
        }
    }

    /// Packets with payload that were not captured: estimated from the missing bytes and the mean
    /// length of those that were, if the gaps are about as long as they are when packets are lost
    /// whatever their length. Otherwise long ones were lost rather than short ones, or many at a
    /// time: then as many as fill the gaps if all are as long as the longest.
    pub fn packets_lost(&self) -> u64 {
        let (segments, gaps) = (self.segments.max(1) as f64, self.gaps as f64);
        let mean = self.segment_bytes as f64 / segments;
        let missing = self.bytes_missing as f64;
        // A packet is behind a gap with the chance that any is lost, and that makes gaps of
        // 1 / (1 - chance) packets.
        let chance = (gaps / segments).min(0.9);
        let at_random = missing <= 3.0 * gaps * mean / (1.0 - chance);
        let by_mean = if at_random && mean > 0.0 { missing / mean } else { 0.0 };
        self.packets_missing.max(by_mean as u64)
    }

    fn gap(&mut self, length: u64) {
        self.gaps += 1;
        self.bytes_missing += length;
        self.packets_missing += length.div_ceil(self.segment_most.max(FULL)).max(1);
    }

    /// Measured queries and the sum of their times in seconds over all connections, from the sampled ones.
    pub fn estimate(&self, sampling: Sampling) -> (Estimate, Estimate) {
        self.totals.estimate(sampling.one_in())
    }
}

impl Summary {
    /// A connection to this port of a server is read, or would be if it were in the sample.
    #[cold]
    fn see_port(&mut self, port: u16) {
        if self.ports.len() < MOST_PORTS && !self.ports.contains(&port) {
            self.ports.push(port);
        }
    }
}

impl fmt::Display for Summary {
    /// The lines for the head of a report.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} packets, {} connections, {} queries measured",
            self.packets, self.connections, self.measured
        )?;
        if self.gaps > 0 {
            write!(
                f,
                "\nlost: about {} packets ({} bytes in {} gaps of {} connections); {} queries seen \
                 but not measured, about {} not seen",
                self.packets_lost(),
                self.bytes_missing,
                self.gaps,
                self.connections_with_gaps,
                self.unmeasured,
                self.requests_lost()
            )?;
        }
        let notes = [
            (self.encrypted, "connections are encrypted and cannot be read"),
            (self.hung_up, "connections were closed by the server during the login"),
            (
                self.not_understood,
                "connections were not understood: another protocol, or too little was seen",
            ),
            (self.dropped, "packets were dropped by the capturing side"),
            (self.fragments, "packets are fragments and were not read"),
            (self.unreadable, "packets are too short to be read: capture with `tcpdump -s 0`"),
            (self.cut, "packets were cut by the capture: capture with `tcpdump -s 0`"),
            (self.partial, "queries were seen only in part, too little to tell their class"),
            (self.unusable, "packets are of an unsupported link type or have no time"),
            (self.evicted, "connections were given up for want of memory"),
            (self.forgotten, "prepared statements were forgotten for want of memory"),
        ];
        for (count, what) in notes {
            if count > 0 {
                write!(f, "\n{count} {what}")?;
            }
        }
        Ok(())
    }
}

/// What connections write to.
struct Output<'o> {
    sink: &'o mut dyn Sink,
    options: &'o Options,
    counts: &'o mut Summary,
    file: u32,
    /// Time of the packet that is being read; at the end, of the last one.
    now: i64,
    /// Memory of statements given out, to be used again.
    buffers: &'o mut Vec<Vec<u8>>,
}

impl Output<'_> {
    fn event(&mut self, event: &mut Event<'_>) {
        self.counts.events += 1;
        match event.query_time() {
            Some(_) => self.counts.measured += 1,
            None => self.counts.unmeasured += 1,
        }
        if event.unmeasured == Some(Unmeasured::CutAtEnd) {
            let since =
                event.start.map(|start| self.now.saturating_sub(start.saturating_mul(1000)));
            event.waited = since.and_then(|since| u64::try_from(since).ok());
        }
        self.counts.silence.event(event);
        if let Some(sampling) = self.options.sampling {
            event.rate = u32::from(sampling.one_in());
        }
        // Compatibility reports show the time that tcpdump printed.
        event.stamp = event.stamp.map(|s| s + i64::from(self.options.text_zone) * 1_000_000);
        self.sink.event(event);
    }

    /// Of a statement too little was seen to tell its class.
    fn partial(&mut self) {
        self.counts.unmeasured += 1;
        self.counts.partial += 1;
    }

    fn reuse(&mut self, mut buffer: Vec<u8>) {
        if self.buffers.len() < 64 && buffer.capacity() <= 64 << 10 {
            buffer.clear();
            self.buffers.push(buffer);
        }
    }
}

/// Reads captures. See the module's head.
pub struct Traffic {
    options: Options,
    reader: Reader,
    rest: Rest,
}

/// All but the reader, which lends packets to it.
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

    /// What is fed from here on is file number `file`; connections go on.
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

    /// The file ends here. `Err` says what is wrong with its end; nothing is if it is called again.
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
        // A damaged end was told as a skip.
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
            unmeasured: summary.unmeasured + summary.requests_lost(),
            not_sampled: summary.not_sampled,
        }
    }
}
