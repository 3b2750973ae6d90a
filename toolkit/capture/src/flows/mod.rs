//! The table of connections: which side is the client, and which session gets a segment.
//!
//! The server's side of a connection is the side with a known port or the side that a SYN is sent
//! to. On other ports it is the side that sends a server's greeting or that receives statements.
//!
//! Nothing expires by time: a connection of a pool, or one with a long statement, may be silent for
//! hours. When space is needed, the connection that has been silent longest is removed.
//!
//! Invariants
//!
//! - FL1. The table holds at most `Options::most_connections`, and the connections' buffers at most
//!   `Options::most_memory` bytes in all. Above that, the connections that were idle longest forget
//!   the texts of their prepared statements. If that is not enough, they are closed until their
//!   next packet.
//! - FL2. A closed connection stays in the table until its space is needed, so that its late
//!   packets do not begin another.
//! - FL3. Connections without a byte of payload, and closed ones, are removed before working ones,
//!   unless they take less than a quarter of the table: neither a flood of SYNs nor clients that
//!   connect for each statement displace a pool's connections.

mod flow;
mod hash;
mod order;

use super::packet::{Segment, SYN};
use super::{Options, Output};
use flow::{Flow, Key};
use hash::Seed;
use order::{List, Order, NONE};
use std::collections::HashMap;

pub(super) struct Flows {
    index: HashMap<Key, u32, Seed>,
    flows: Vec<Flow>,
    order: Order,
    memory: usize,
}

impl Flows {
    pub(super) fn new() -> Self {
        Flows {
            index: HashMap::with_hasher(Seed::random()),
            flows: Vec::new(),
            order: Order::new(),
            memory: 0,
        }
    }

    pub(super) fn segment(&mut self, segment: &Segment<'_>, output: &mut Output<'_>) {
        let key = if segment.from <= segment.to {
            (segment.from, segment.to)
        } else {
            (segment.to, segment.from)
        };
        let index = match self.find(&key) {
            Some(index) => index,
            None => match self.begin(key, segment, output) {
                Some(index) => index,
                None => return,
            },
        };
        let flow = &mut self.flows[index as usize];
        flow.segment(segment, output);
        let memory = flow.count_memory();
        self.memory = self.memory - flow.memory + memory;
        flow.memory = memory;
        self.order.touch(index, flow.list());
        if self.memory > output.options.most_memory {
            self.shrink(output);
        }
    }

    /// The capture ends, and with it all connections.
    pub(super) fn finish(&mut self, output: &mut Output<'_>) {
        // The oldest first, so that the order does not depend on the hash table.
        for list in [List::Cheap, List::Working] {
            let mut index = self.order.oldest(list);
            while index != NONE {
                self.flows[index as usize].close(output);
                index = self.order.newer(index);
            }
        }
        *self = Flows::new();
    }

    #[inline]
    fn find(&self, key: &Key) -> Option<u32> {
        // Bursts of packets belong to one connection.
        let newest = self.order.newest(List::Working);
        match self.flows.get(newest as usize) {
            Some(flow) if flow.key == *key => Some(newest),
            _ => self.index.get(key).copied(),
        }
    }

    /// An entry for a new connection. `None`: the connection is not to be read.
    #[cold]
    fn begin(&mut self, key: Key, segment: &Segment<'_>, output: &mut Output<'_>) -> Option<u32> {
        let known = |port| output.options.is_server(port);
        let syn = segment.flags & SYN != 0;
        let (from, to) = (known(segment.from.port), known(segment.to.port));
        let concerns = from || to;
        if !concerns && (!output.options.ports.is_empty() || !syn && segment.payload.is_empty()) {
            return None;
        }
        let mut flow = Flow::new(key);
        if concerns && !syn {
            flow.join(segment, to, output);
        }
        let most = output.options.most_connections.max(1);
        let index = if self.flows.len() < most {
            self.flows.push(flow);
            self.order.push(List::Cheap)
        } else {
            let cheap = self.order.count(List::Cheap);
            let index = if cheap > most / 4 || cheap == most {
                self.order.oldest(List::Cheap)
            } else {
                self.order.oldest(List::Working)
            };
            let old = &mut self.flows[index as usize];
            output.counts.evicted += u64::from(old.list() == List::Working);
            old.close(output);
            self.memory -= old.memory;
            self.index.remove(&old.key);
            self.flows[index as usize] = flow;
            index
        };
        self.index.insert(key, index);
        Some(index)
    }

    /// Closes connections until their buffers fit again, starting with the longest idle.
    #[cold]
    fn shrink(&mut self, output: &mut Output<'_>) {
        // Frees somewhat more than necessary, so that not every packet does this.
        let goal = output.options.most_memory / 8 * 7;
        let steps: [fn(&mut Flow, &mut Output<'_>); 2] = [Flow::forget, Flow::evict];
        for (step, list) in steps.iter().flat_map(|s| [(s, List::Cheap), (s, List::Working)]) {
            let mut index = self.order.oldest(list);
            while index != NONE && self.memory > goal {
                let flow = &mut self.flows[index as usize];
                if flow.memory > 0 {
                    step(flow, output);
                    self.memory -= flow.memory;
                    flow.memory = flow.count_memory();
                    self.memory += flow.memory;
                }
                // The entry stays in its list until its next packet, or until its space is needed.
                index = self.order.newer(index);
            }
        }
    }
}

impl Options {
    #[inline]
    fn is_server(&self, port: u16) -> bool {
        if self.ports.is_empty() {
            port == crate::packet::DEFAULT_PORT
        } else {
            self.ports.contains(&port)
        }
    }
}
