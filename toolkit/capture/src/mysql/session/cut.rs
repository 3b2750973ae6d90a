//! Turns either side's bytes into packets: decompresses them where needed; `framing` cuts them.

use super::state::{Phase, Session};
use crate::mysql::answer::HEAD;
use crate::mysql::framing::{Framing, Header, Part};
use crate::output::Output;
use crate::stream::{Piece, Side};

impl Session {
    #[inline]
    pub(super) fn framing(&mut self, side: Side) -> &mut Framing {
        match side {
            Side::Client => &mut self.requests,
            Side::Server => &mut self.answers,
        }
    }

    /// Handles bytes of a side, as they were sent, whose position is known.
    #[inline]
    pub(super) fn unpack(
        &mut self,
        side: Side,
        mut bytes: &[u8],
        mut piece: Piece,
        output: &mut Output<'_>,
    ) {
        let Some(mut unpacker) = self.framing(side).unpacker.take() else {
            return self.cut(side, bytes, piece, None, output);
        };
        while !bytes.is_empty() && self.framing(side).synced {
            let begun = piece;
            let end = piece.at + bytes.len() as u64;
            let step = unpacker.step(bytes, &mut |inner| {
                self.cut(side, inner, begun, Some(end), output);
            });
            let Ok(used) = step else {
                match side {
                    Side::Client => self.lose_requests(output),
                    Side::Server => self.lose_answers(output),
                }
                break;
            };
            bytes = &bytes[used..];
            piece.at += used as u64;
        }
        let framing = self.framing(side);
        framing.unpacker = Some(unpacker);
        if !framing.synced {
            framing.restart();
        }
    }

    /// Handles bytes of the protocol. `end`: the position behind them where it does not follow from
    /// their number, because they were compressed.
    #[inline]
    fn cut(
        &mut self,
        side: Side,
        mut bytes: &[u8],
        mut piece: Piece,
        end: Option<u64>,
        output: &mut Output<'_>,
    ) {
        let limit = match side {
            // One more byte, because the command's byte comes before the statement.
            Side::Client => output.options.longest_statement + 1,
            Side::Server => HEAD,
        };
        while !bytes.is_empty() && self.framing(side).synced && self.phase != Phase::Silent {
            let (part, used) = self.framing(side).next(bytes, piece, limit);
            bytes = &bytes[used..];
            if end.is_none() {
                piece.at += used as u64;
            }
            let at = Piece { at: end.unwrap_or(piece.at), ..piece };
            match part {
                Part::More => {}
                Part::Header(header) => self.header(side, header, output),
                Part::Whole(header, payload) => self.packet(side, header, payload, at, output),
                Part::Empty(header) => {
                    self.header(side, header, output);
                    if self.framing(side).synced {
                        self.packet(side, header, b"", at, output);
                    }
                }
                Part::Gathered(header) => {
                    let gathered = std::mem::take(&mut self.framing(side).gathered);
                    self.packet(side, header, &gathered, at, output);
                    self.framing(side).keep(gathered);
                }
            }
        }
        if !self.framing(side).synced {
            self.framing(side).restart();
        }
    }

    /// The first bytes of a packet have arrived.
    #[inline]
    fn header(&mut self, side: Side, header: Header, output: &mut Output<'_>) {
        match side {
            Side::Server => self.server_header(header, output),
            Side::Client => {}
        }
    }

    /// A packet is complete; `end` describes the position behind it.
    #[inline]
    fn packet(
        &mut self,
        side: Side,
        header: Header,
        payload: &[u8],
        end: Piece,
        output: &mut Output<'_>,
    ) {
        match side {
            Side::Client => self.client_packet(header, payload, end, output),
            Side::Server => self.server_packet(header, payload, end, output),
        }
    }
}
