//! The output of reassembly, and its receiver.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Client = 0,
    Server = 1,
}

impl Side {
    pub(crate) fn other(self) -> Side {
        match self {
            Side::Client => Side::Server,
            Side::Server => Side::Client,
        }
    }
}

/// Where and when bytes were captured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    /// When their segment was captured: nanoseconds since the epoch, UTC.
    pub time: i64,
    /// Position of the first of them in their direction.
    pub at: u64,
    /// The position up to which their sender had received the other direction.
    pub acknowledged: u64,
    /// Offset in the file.
    pub offset: u64,
}

/// Receives the output of a connection's streams.
pub(crate) trait Receiver {
    fn data(&mut self, side: Side, bytes: &[u8], piece: Piece);

    /// `length` bytes of the direction are missing at position `at`; 0: the number is unknown.
    fn gap(&mut self, side: Side, at: u64, length: u64);

    /// A captured packet was cut: `length` bytes from `piece.at` on belong to it but are not there.
    fn cut(&mut self, side: Side, piece: Piece, length: u64);

    /// The next bytes probably belong to another connection between the same ports. Its beginning
    /// and the end of this one were lost.
    fn another(&mut self);
}
