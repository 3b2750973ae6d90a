//! Counters of what was read and what was lost.

use crate::sample::{Estimate, Sampling, Sums};
use crate::silence::Silence;
use std::fmt;

/// The most ports of servers that are kept.
const MOST_PORTS: usize = 16;

/// Payload of a full packet on Ethernet.
const FULL: u64 = 1448;

/// Counters of what was read and what was lost.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Packets in the files.
    pub packets: u64,
    /// Packets that are not TCP.
    pub other_protocols: u64,
    /// Packets that are fragments of IP datagrams, which are not put together.
    pub fragments: u64,
    /// Packets whose headers cannot be read: cut or damaged.
    pub unreadable: u64,
    /// Packets of an unsupported link type or without a time (pcapng).
    pub unusable: u64,
    /// Packets that the capturing side says it dropped (pcapng).
    pub dropped: u64,
    pub retransmitted: u64,
    /// Connections in which anything was sent.
    pub connections: u64,
    pub connections_with_gaps: u64,
    pub encrypted: u64,
    /// Connections that the server closed before the client was logged in.
    pub hung_up: u64,
    /// Connections whose client sent bytes, but in which no command and no login was recognised.
    pub not_understood: u64,
    pub not_sampled: u64,
    /// Connections closed early to free memory.
    pub evicted: u64,
    /// Prepared statements whose texts were forgotten to free memory.
    pub forgotten: u64,
    pub gaps: u64,
    pub bytes_missing: u64,
    /// Packets of which the capture has only the beginning. Their missing bytes are not counted as gaps.
    pub cut: u64,
    /// Answers without a request.
    pub orphans: u64,
    /// Events that have a time.
    pub measured: u64,
    /// Requests that were seen, at least in part, but have no time.
    pub unmeasured: u64,
    /// Requests of which too little was seen to tell their class; they have no event.
    pub partial: u64,
    pub events: u64,
    /// The longest time without a packet of any connection.
    pub silence: Silence,
    /// Ports of servers that were read; the first [`MOST_PORTS`].
    pub ports: Vec<u16>,
    /// Payload of the segments that have any, and the longest.
    pub(crate) segments: u64,
    pub(crate) segment_bytes: u64,
    pub(crate) segment_most: u64,
    /// Number of packets that would fill the gaps if all had the greatest length.
    pub(crate) packets_missing: u64,
    /// Connections given a number.
    pub(crate) numbered: u64,
    pub(crate) totals: Sums,
}

impl Summary {
    /// Estimated number of packets with payload that were not captured. If the gaps have about the
    /// lengths that losses independent of packet length would give, this is the missing bytes divided by
    /// the mean length of captured packets. Otherwise mostly long packets were lost, or many in
    /// a row; then it is the number of packets of the greatest length that fill the gaps.
    pub fn packets_lost(&self) -> u64 {
        let (segments, gaps) = (self.segments.max(1) as f64, self.gaps as f64);
        let mean = self.segment_bytes as f64 / segments;
        let missing = self.bytes_missing as f64;
        // A packet follows a gap with the probability that a packet is lost. A gap then has 1 / (1
        // - probability) packets on average.
        let chance = (gaps / segments).min(0.9);
        let at_random = missing <= 3.0 * gaps * mean / (1.0 - chance);
        let by_mean = if at_random && mean > 0.0 { missing / mean } else { 0.0 };
        self.packets_missing.max(by_mean as u64)
    }

    pub(crate) fn gap(&mut self, length: u64) {
        self.gaps += 1;
        self.bytes_missing += length;
        self.packets_missing += length.div_ceil(self.segment_most.max(FULL)).max(1);
    }

    /// Number of measured queries and the sum of their times in seconds, over all connections, estimated
    /// from the sampled ones.
    pub fn estimate(&self, sampling: Sampling) -> (Estimate, Estimate) {
        self.totals.estimate(sampling.one_in())
    }

    /// Notes that a connection to this port of a server is read, or would be if it were in the sample.
    #[cold]
    pub(crate) fn see_port(&mut self, port: u16) {
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
                 but not measured",
                self.packets_lost(),
                self.bytes_missing,
                self.gaps,
                self.connections_with_gaps,
                self.unmeasured
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
