//! Small inputs for the tests of `frond digest`: a slow log as MariaDB writes it, a capture.

use std::fmt::Write;
use std::process::Output;

use crate::programs::bounded;

/// Runs `frond digest`.
pub fn digest(args: &[&str]) -> Output {
    bounded(env!("CARGO_BIN_EXE_frond")).arg("digest").args(args).output().unwrap()
}

pub fn out(o: &Output) -> String {
    String::from_utf8(o.stdout.clone()).unwrap()
}

pub fn err(o: &Output) -> String {
    String::from_utf8(o.stderr.clone()).unwrap()
}

/// A statement that began at `at` (seconds since the epoch).
pub struct Event<'a> {
    pub at: i64,
    pub user: &'a str,
    pub db: &'a str,
    pub thread: u64,
    pub seconds: f64,
    pub sql: &'a str,
}

impl Default for Event<'_> {
    fn default() -> Self {
        Event {
            at: 1_767_290_971,
            user: "web",
            db: "shop",
            thread: 7,
            seconds: 0.5,
            sql: "select 1",
        }
    }
}

/// The event with everything `log_slow_verbosity=query_plan,explain,engine` adds.
pub fn event(log: &mut String, e: &Event<'_>) {
    let Event { at, user, db, thread, seconds, sql } = e;
    let lock = seconds / 10.0;
    let engine = seconds * 900.0;
    write!(log, "# User@Host: {user}[{user}] @ app1 [10.0.0.1]\n# Thread_id: {thread}  Schema: {db}  QC_hit: No\n# Query_time: {seconds:.6}  Lock_time: {lock:.6}  Rows_sent: 2  Rows_examined: 100\n# Rows_affected: 0  Bytes_sent: 80\n# Pages_accessed: 9  Pages_read: 3  Pages_prefetched: 0  Pages_updated: 0  Old_rows_read: 0\n# Pages_read_time: 0.1  Engine_time: {engine:.4}\n# Full_scan: Yes  Full_join: No  Tmp_table: No  Tmp_table_on_disk: No\n# Filesort: No  Filesort_on_disk: No  Merge_passes: 0  Priority_queue: No\n#\n# explain: id\tselect_type\ttable\ttype\tExtra\n# explain: 1\tSIMPLE\tt\tALL\tUsing where\n#\nSET timestamp={at};\n{sql};\n").unwrap();
}

pub const SERVER: &str = "/usr/sbin/mariadbd, Version: 10.11.6-MariaDB-log. started with:\nTcp port: 3306  Unix socket: /run/mysqld/mysqld.sock\nTime\t\t    Id Command\tArgument\n";

/// Packets between a client's port and a server's.
pub struct Pcap {
    bytes: Vec<u8>,
    server: u16,
    micros: u64,
}

impl Pcap {
    pub fn new(server: u16) -> Pcap {
        let mut bytes = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0];
        bytes.extend([0; 8]);
        bytes.extend(65_535_u32.to_le_bytes());
        bytes.extend(1_u32.to_le_bytes());
        Pcap { bytes, server, micros: 1_767_290_971_000_000 }
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub fn wait(&mut self, micros: u64) {
        self.micros += micros;
    }

    /// A segment; `sequence` and `acknowledged` as in TCP.
    pub fn segment(
        &mut self,
        to_server: bool,
        client: u16,
        sequence: u32,
        acknowledged: u32,
        payload: &[u8],
    ) {
        let (from, to) = if to_server { (client, self.server) } else { (self.server, client) };
        let (source, target) = if to_server { (1, 2) } else { (2, 1) };
        let mut packet = vec![0; 12];
        packet.extend([0x08, 0x00, 0x45, 0]);
        packet.extend((40 + payload.len() as u16).to_be_bytes());
        packet.extend([0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, source, 10, 0, 0, target]);
        packet.extend(from.to_be_bytes());
        packet.extend(to.to_be_bytes());
        packet.extend(sequence.to_be_bytes());
        packet.extend(acknowledged.to_be_bytes());
        packet.extend([0x50, 0x18, 0xff, 0xff, 0, 0, 0, 0]);
        packet.extend(payload);
        self.bytes.extend(((self.micros / 1_000_000) as u32).to_le_bytes());
        self.bytes.extend(((self.micros % 1_000_000) as u32).to_le_bytes());
        self.bytes.extend((packet.len() as u32).to_le_bytes());
        self.bytes.extend((packet.len() as u32).to_le_bytes());
        self.bytes.extend(packet);
        self.micros += 10;
    }

    /// A statement and its answer on a connection that began before; returns the next sequence numbers.
    pub fn query(&mut self, client: u16, at: (u32, u32), sql: &str, micros: u64) -> (u32, u32) {
        let mut request = vec![(sql.len() + 1) as u8, 0, 0, 0, 3];
        request.extend(sql.as_bytes());
        self.segment(true, client, at.0, at.1, &request);
        let next = at.0 + request.len() as u32;
        self.wait(micros);
        let ok = [7, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0];
        self.segment(false, client, at.1, next, &ok);
        (next, at.1 + ok.len() as u32)
    }
}
