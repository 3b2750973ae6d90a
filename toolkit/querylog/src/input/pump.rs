//! Cuts a text log into pieces that hold whole events.
//!
//! Invariants:
//!
//! - PM1. The cuts in a log depend only on its bytes, not on threads or on the sizes of reads.
//! - PM2. The pieces together are the log, in order, without a gap.
//! - PM3. No buffer is longer than `MAX_EVENT` plus one piece: a longer event is cut there (and counted as cut).

use std::io::{self, Read};

use super::open::read_up_to;

/// The usual length of a piece: small enough for the processor's cache, large enough that passing it on costs
/// nothing.
pub const PIECE: usize = 1 << 20;

/// The longest event that is read as a whole.
pub const MAX_EVENT: usize = 64 << 20;

/// Finds the place to cut a buffer that is not the last one of the log: the begin of an event, but not
/// 0. The second argument is the buffer's offset in the unpacked log.
pub type Boundary<'a> = &'a mut dyn FnMut(&[u8], u64) -> Option<usize>;

/// Receives a piece: (buffer, length, offset in the unpacked log, whether it is the last). It may take the buffer and
/// leave another one in its place.
pub type Take<'a> = &'a mut dyn FnMut(&mut Vec<u8>, usize, u64, bool);

/// Reads `reader` to its end and passes each piece to `each`. An error of the reader is returned
/// after the bytes before it were passed on.
pub fn pump(reader: &mut dyn Read, boundary: Boundary<'_>, each: Take<'_>) -> io::Result<()> {
    let mut buffer = Vec::new();
    let mut tail = Vec::new();
    let mut offset = 0;
    let mut want = PIECE;
    loop {
        let missing = want.saturating_sub(buffer.len());
        let result = read_up_to(reader, missing, &mut buffer);
        let ended = !matches!(result, Ok(n) if n == missing);
        if ended {
            if !buffer.is_empty() {
                let length = buffer.len();
                each(&mut buffer, length, offset, true);
            }
            return result.map(|_| ());
        }
        let Some(cut) =
            boundary(&buffer, offset).or((buffer.len() >= MAX_EVENT).then_some(buffer.len()))
        else {
            want = (want * 2).min(MAX_EVENT);
            continue;
        };
        want = PIECE;
        tail.clear();
        tail.extend_from_slice(&buffer[cut..]);
        each(&mut buffer, cut, offset, false);
        offset += cut as u64;
        buffer.clear();
        buffer.extend_from_slice(&tail);
        // The rest behind the cut may be as long as a piece.
        want = want.max(buffer.len() + PIECE / 2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reader that yields a few bytes at a time.
    struct Slow<'a>(&'a [u8], usize);

    impl Read for Slow<'_> {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            self.1 = self.1 * 7 % 100_003 + 1;
            let n = self.1.min(self.0.len()).min(buf.len());
            buf[..n].copy_from_slice(&self.0[..n]);
            self.0 = &self.0[n..];
            Ok(n)
        }
    }

    fn pieces(log: &[u8], reader: &mut dyn Read) -> Vec<(Vec<u8>, u64, bool)> {
        let mut pieces = Vec::new();
        let boundary = &mut |bytes: &[u8], _| crate::rawlog::last_boundary(bytes);
        pump(reader, boundary, &mut |buffer, length, offset, last| {
            pieces.push((buffer[..length].to_vec(), offset, last));
        })
        .unwrap();
        assert_eq!(pieces.iter().flat_map(|p| p.0.clone()).collect::<Vec<u8>>(), log);
        pieces
    }

    #[test]
    fn pieces_do_not_depend_on_reads() {
        let log: Vec<u8> =
            (0..200_000).flat_map(|i| format!("select {i} from t\n").into_bytes()).collect();
        let a = pieces(&log, &mut &log[..]);
        assert_eq!(a, pieces(&log, &mut Slow(&log, 1)));
        assert!(a.len() > 3);
        assert!(a.iter().all(|p| p.0.ends_with(b"\n")));
        assert!(a.last().is_some_and(|p| p.2) && a.iter().filter(|p| p.2).count() == 1);
    }

    #[test]
    fn a_long_event_is_one_piece() {
        let mut log = vec![b'x'; 5 * PIECE];
        log.extend_from_slice(b"\nselect 1\n");
        let pieces = pieces(&log, &mut &log[..]);
        assert_eq!(pieces[0].0.len(), log.len());
    }
}
