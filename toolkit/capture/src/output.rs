//! The place where connections write events, and the counters that they increment.

use crate::options::Options;
use crate::summary::Summary;
use frond_event::{Event, Sink, Unmeasured};

/// The output of connections.
pub(crate) struct Output<'o> {
    pub(crate) sink: &'o mut dyn Sink,
    pub(crate) options: &'o Options,
    pub(crate) counts: &'o mut Summary,
    pub(crate) file: u32,
    /// Time of the packet that is being read; at the end, of the last one.
    pub(crate) now: i64,
    /// Memory of yielded statements, for reuse.
    pub(crate) buffers: &'o mut Vec<Vec<u8>>,
}

impl Output<'_> {
    pub(crate) fn event(&mut self, event: &mut Event<'_>) {
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
        // Reports in pt-query-digest's form show the time that tcpdump printed.
        event.stamp = event.stamp.map(|s| s + i64::from(self.options.text_zone) * 1_000_000);
        self.sink.event(event);
    }

    /// Too little of a statement was seen to tell its class.
    pub(crate) fn partial(&mut self) {
        self.counts.unmeasured += 1;
        self.counts.partial += 1;
    }

    pub(crate) fn reuse(&mut self, mut buffer: Vec<u8>) {
        if self.buffers.len() < 64 && buffer.capacity() <= 64 << 10 {
            buffer.clear();
            self.buffers.push(buffer);
        }
    }
}
