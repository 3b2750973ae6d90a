//! Yields held bytes when possible, and declares bytes missing that do not arrive: STR2 to
//! STR4 of `stream`.

use super::way::{Noticed, Way, OVERHEAD, PATIENCE, PATIENCE_PACKETS, RETRANSMISSION};
use super::{give_out, Receiver, Side, Streams, MOST_HELD};

impl Streams {
    /// Yields all bytes that can be yielded, and declares holes missing that are old enough (STR3),
    /// or all holes if `last`.
    #[cold]
    pub(super) fn settle(&mut self, now: Noticed, last: bool, receiver: &mut impl Receiver) {
        let aged = |since: Option<Noticed>| {
            since.is_some_and(|(count, time)| {
                now.0.saturating_sub(count) >= PATIENCE_PACKETS
                    || now.1.saturating_sub(time) >= PATIENCE
            })
        };
        loop {
            self.drain(now, receiver);
            let force = last || self.held_bytes > MOST_HELD;
            let mut progress = false;
            for side in [Side::Client, Side::Server] {
                let (own, other) = self.pair(side);
                let lost = own.acknowledged > own.next && (force || aged(own.missing));
                let goal = match own.held.front() {
                    Some(front) if front.piece.at <= own.next => {
                        // This side waits for the other direction. If that one waits for this one,
                        // the acknowledgements cannot be true.
                        let circle = other.held.front().is_some_and(|o| o.piece.at <= other.next);
                        if circle && (force || aged(own.waiting)) {
                            self.give_out_first(side, receiver);
                            progress = true;
                            break;
                        }
                        continue;
                    }
                    Some(front) => {
                        let given_up = own.waiting.is_some_and(|(_, since)| {
                            now.1.saturating_sub(since) >= RETRANSMISSION
                        });
                        if force || given_up {
                            front.piece.at
                        } else if lost {
                            front.piece.at.min(own.acknowledged)
                        } else {
                            continue;
                        }
                    }
                    None if lost => own.acknowledged,
                    None => continue,
                };
                self.declare_missing(side, goal, receiver);
                progress = true;
                break;
            }
            if !progress {
                return;
            }
        }
    }

    /// Declares bytes of a direction missing, at most up to `goal`, and only as far as the order
    /// relative to the other direction stays right. A missing answer must come after its request.
    /// If the request itself waits behind a hole, that hole is declared missing instead.
    fn declare_missing(&mut self, side: Side, goal: u64, receiver: &mut impl Receiver) {
        let (own, other) = self.pair(side);
        let own_front = own.held.front().map(|f| f.piece.acknowledged);
        let other_front = other.held.front().map(|o| (o.piece.at, o.piece.acknowledged));
        let (side, goal) = match other_front {
            Some((_, acknowledged)) if acknowledged > own.next => (side, goal.min(acknowledged)),
            Some((at, _)) if at > other.next && own_front.is_none_or(|a| a > other.next) => {
                (side.other(), at.min(own_front.unwrap_or(at)))
            }
            _ => (side, goal),
        };
        let way = &mut self.ways[side as usize];
        let (at, length) = (way.next, goal - way.next);
        way.advance(goal);
        // A lost FIN is a hole of one byte, which nobody misses.
        if way.end.is_none_or(|end| at < end) {
            receiver.gap(side, at, length);
        }
    }

    /// Yields bytes that are in order and whose segment acknowledges only yielded bytes.
    fn drain(&mut self, now: Noticed, receiver: &mut impl Receiver) {
        loop {
            let ready = |own: &Way, other: &Way| {
                let front = own.held.front()?;
                let in_order = front.piece.at <= own.next;
                (in_order && front.piece.acknowledged <= other.next).then_some(front.arrived)
            };
            let [client, server] = &self.ways;
            let side = match (ready(client, server), ready(server, client)) {
                (Some(c), Some(s)) if s < c => Side::Server,
                (Some(_), _) => Side::Client,
                (None, Some(_)) => Side::Server,
                (None, None) => break,
            };
            self.give_out_first(side, receiver);
        }
        for way in &mut self.ways {
            match (way.held.is_empty(), way.waiting) {
                (true, _) => way.waiting = None,
                (false, None) => way.waiting = Some(now),
                (false, Some(_)) => {}
            }
        }
    }

    fn give_out_first(&mut self, side: Side, receiver: &mut impl Receiver) {
        let own = &mut self.ways[side as usize];
        let Some(held) = own.held.pop_front() else { return };
        own.waiting = None;
        self.held_bytes -= held.payload.as_ref().map_or(0, |p| p.len()) + OVERHEAD;
        if held.piece.at + u64::from(held.wire_length) > own.next {
            give_out(own, side, held.piece, held.wire_length, held.payload.as_deref(), receiver);
        }
    }
}
