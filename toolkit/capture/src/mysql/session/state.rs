//! The state of a connection.

use super::synchrony::Steps;
use crate::mysql::answer::Dialect;
use crate::mysql::framing::{Framing, Header};
use crate::mysql::prepared::Statements;
use crate::mysql::request::{End, Request};
use crate::sample::Totals;
use crate::stream::Piece;
use std::collections::VecDeque;

pub(super) const MOST_PENDING: usize = 256;

pub(super) const MOST_PENDING_BYTES: usize = 8 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// From the connection's begin to the server's first packet.
    Greeting,
    /// The client has to log in.
    Login,
    /// Login packets go to and fro; the login is the pending request.
    Authentication,
    Commands,
    /// Nothing more can be read: encrypted, a replication stream, not this protocol.
    Silent,
}

pub(crate) struct Session {
    pub(super) client: Client,
    pub(super) phase: Phase,
    /// The capabilities that the greeting offers; then those that the login agreed on.
    pub(super) offered: Option<u32>,
    pub(super) capabilities: Option<u32>,
    pub(super) dialect: Dialect,
    pub(super) statements: Statements,
    /// If so, the inner packets' sequence numbers are not consecutive (each flush sets them to the
    /// compressed packet's number), and they are not checked.
    pub(super) compressed: bool,
    /// The framing of the client's side and of the server's.
    pub(super) requests: Framing,
    pub(super) answers: Framing,
    pub(super) pending: VecDeque<Request>,
    /// Answered, and held back until it is known whether the client waits for answers (CS3).
    pub(super) held: VecDeque<(Request, End)>,
    /// Bytes of both queues.
    pub(super) pending_bytes: usize,
    /// The client's last segment, if its position is unknown and it may be the header of a packet.
    pub(super) header_alone: Option<HeaderAlone>,
    /// The command being gathered: its first header, the bytes so far, and their total size.
    pub(super) command: Option<(Header, Vec<u8>, u64)>,
    /// Time of the connection's first packet.
    pub(super) opened: Option<i64>,
    /// When the last answer's last byte came, and its position.
    pub(super) answered: Option<(i64, u64)>,
    /// An EOF with this sequence number may follow the last answer.
    pub(super) eof_may_follow: Option<u8>,
    /// CS3: whether requests and answers are in step, and whether the client waits.
    pub(super) steps: Steps,
    /// Position behind the last of the server's bytes; and behind the last one that was captured.
    pub(super) server_end: u64,
    pub(super) server_seen: u64,
    /// The client's lost bytes.
    pub(super) lost: Lost,
    pub(super) tls_records: u8,
    /// Whether the client sent anything; and whether it was understood: a login or a command was read,
    /// or the connection was seen to be encrypted.
    pub(super) spoke: bool,
    pub(super) understood: bool,
    pub(super) had_gap: bool,
    pub(super) totals: Totals,
}

/// The user, as far as known.
#[derive(Default)]
pub(super) struct Client {
    /// The client's address as text.
    pub(super) ip: String,
    /// The server's number of the connection.
    pub(super) thread_id: Option<u64>,
    pub(super) user: Vec<u8>,
    pub(super) db: Vec<u8>,
    pub(super) attributes: Vec<(Vec<u8>, Vec<u8>)>,
    /// Identifies a connection within one capture.
    pub(super) number: u64,
}

/// The last loss of a client's bytes.
#[derive(Default)]
pub(super) struct Lost {
    /// Set when bytes were lost. If the client waits for answers, its next request acknowledges more
    /// than this.
    pub(super) after: Option<u64>,
    /// Position that the server had reached then, as far as it was seen.
    pub(super) at: u64,
}

/// The header of a packet that came in a segment of its own, as some clients send it. The next
/// bytes must tell whether it is one.
pub(super) struct HeaderAlone {
    pub(super) bytes: [u8; 7],
    pub(super) length: usize,
    pub(super) piece: Piece,
}

impl HeaderAlone {
    /// An ordinary header has 4 bytes, that of a compressed packet 7. In both, the fourth byte is
    /// the sequence number, which is 0 in a first packet.
    pub(super) fn of(segment: &[u8], piece: Piece) -> Option<HeaderAlone> {
        let length = segment.len();
        if !matches!(length, 4 | 7) || segment[3] != 0 {
            return None;
        }
        let mut bytes = [0; 7];
        bytes[..length].copy_from_slice(segment);
        Some(HeaderAlone { bytes, length, piece })
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// Position behind it.
    pub(super) fn end(&self) -> u64 {
        self.piece.at + self.length as u64
    }
}

/// Cuts a name to the bytes that are kept as long as the connection; servers allow fewer than this.
pub(super) fn kept(bytes: &[u8]) -> Vec<u8> {
    bytes[..bytes.len().min(512)].to_vec()
}
