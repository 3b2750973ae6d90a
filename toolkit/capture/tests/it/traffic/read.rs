//! The library's results from a capture, as owned values.

use frond_capture::{Options, Summary, Traffic};
use frond_event::{Event, ForEach, Kind, Metric, Skip, Stream, Unmeasured};

/// An event, owned.
#[derive(Clone, Debug, PartialEq)]
pub struct Got {
    pub kind: Kind,
    pub sql: String,
    pub time: Option<u64>,
    pub start: Option<i64>,
    pub end: Option<i64>,
    pub user: String,
    pub db: String,
    pub host: String,
    pub thread_id: Option<u64>,
    pub error: Option<u32>,
    pub error_text: String,
    pub rows: Option<u64>,
    pub affected: Option<u64>,
    pub warnings: Option<u64>,
    pub bytes_sent: Option<u64>,
    pub bytes_received: Option<u64>,
    pub query_size: Option<u64>,
    pub unmeasured: Option<Unmeasured>,
    pub attributes: Vec<(String, String)>,
}

pub struct Read {
    pub events: Vec<Got>,
    pub summary: Summary,
    pub skips: Vec<Skip>,
    pub error: Option<String>,
}

impl Read {
    /// Statements with their times.
    pub fn times(&self) -> Vec<(&str, Option<u64>)> {
        self.events.iter().map(|e| (&e.sql[..], e.time)).collect()
    }

    pub fn find(&self, sql: &str) -> &Got {
        self.events
            .iter()
            .find(|e| e.sql == sql)
            .unwrap_or_else(|| panic!("no `{sql}` among {:?}", self.times()))
    }
}

pub fn read(file: &[u8]) -> Read {
    read_with(file, Options::default(), 64 << 10)
}

pub fn read_with(file: &[u8], options: Options, piece: usize) -> Read {
    let mut traffic = Traffic::new(options);
    let mut events = Vec::new();
    let mut sink = ForEach::new(|e: &Event<'_>| {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        events.push(Got {
            kind: e.kind,
            sql: text(e.sql),
            time: e.query_time(),
            start: e.start,
            end: e.end,
            user: text(e.user),
            db: text(e.db),
            host: text(e.host),
            thread_id: e.thread_id,
            error: e.error,
            error_text: text(e.error_text),
            rows: e.metrics.get(Metric::RowsSent),
            affected: e.metrics.get(Metric::RowsAffected),
            warnings: e.metrics.get(Metric::WarningCount),
            bytes_sent: e.metrics.get(Metric::BytesSent),
            bytes_received: e.metrics.get(Metric::BytesReceived),
            query_size: e.metrics.get(Metric::QuerySize),
            unmeasured: e.unmeasured,
            attributes: e.extra.iter().map(|(n, v)| (text(n), text(v))).collect(),
        });
    });
    let mut error = None;
    for part in file.chunks(piece) {
        if let Err(what) = traffic.feed(part, &mut sink) {
            error = Some(what);
            break;
        }
    }
    error = error.or(traffic.end_file(&mut sink).err());
    traffic.finish(&mut sink);
    let (summary, skips) = (traffic.summary(), std::mem::take(&mut sink.skips));
    Read { events, summary, skips, error }
}
