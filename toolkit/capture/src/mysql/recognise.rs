//! Recognises the protocol's packets where the bytes before them are unknown: in the middle
//! of a connection, behind a gap, on an unknown port.
//!
//! Each test looks at a whole segment, because a sender's packets start with a segment unless they
//! are pipelined. A false positive would invent a statement, so the tests are strict.

use super::handshake;
use super::unpack::Method;
use super::words::Command;
use crate::bytes::{le24, le32};

/// A server's first packet.
pub(crate) fn is_greeting(segment: &[u8]) -> bool {
    let length = le24(segment, 0).map_or(0, |l| l as usize);
    segment.get(3) == Some(&0)
        && segment.len() == length + 4
        && handshake::greeting(&segment[4..]).is_some()
}

/// A client's segment that begins with a statement as text. This is the strictest test, for
/// connections whose protocol is unknown.
pub(crate) fn is_statement(segment: &[u8]) -> bool {
    matches!(segment.get(4), Some(0x03 | 0x16)) && is_command(segment)
}

/// A client's segment that begins with a command.
pub(super) fn is_command(segment: &[u8]) -> bool {
    let mut rest = segment;
    // Several pipelined commands; so many of them are proof.
    for _ in 0..4 {
        let Some(whole) = command_length(rest) else { return false };
        match rest.get(whole..) {
            None | Some([]) => return true,
            Some(next) => rest = next,
        }
    }
    true
}

/// The length, header included, of the command that `bytes` plausibly begin with.
fn command_length(bytes: &[u8]) -> Option<usize> {
    let length = le24(bytes, 0)? as usize;
    let command = Command::from_byte(*bytes.get(4)?)?;
    if bytes[3] != 0 || length == 0 {
        return None;
    }
    let whole = length + 4;
    let seen = whole <= bytes.len();
    let payload = &bytes[5..whole.min(bytes.len())];
    let plausible = match command {
        Command::Query | Command::Prepare => is_sql(payload),
        Command::Execute => {
            length >= 10 && payload.get(4..9).is_some_and(|p| p[0] < 16 && p[1..] == [1, 0, 0, 0])
        }
        Command::BulkExecute => length >= 8 && le32(payload, 0).is_some_and(|id| id < 1 << 24),
        Command::LongData => length >= 7 && le32(payload, 0).is_some_and(|id| id < 1 << 24),
        Command::Close | Command::Reset => seen && length == 5,
        Command::Fetch => seen && length == 9,
        Command::Quit | Command::Statistics | Command::ResetConnection => seen && length == 1,
        Command::InitDb | Command::FieldList => {
            seen && (2..600).contains(&length) && payload.iter().all(|b| *b >= 0x20 || *b == 0)
        }
        Command::ChangeUser => seen && length >= 6 && payload[0] >= 0x20,
        Command::BinlogDump => seen && length >= 11,
        Command::Other(_) => seen && length <= 5,
    };
    plausible.then_some(whole)
}

/// The beginning of a statement: perhaps query attributes, then text.
fn is_sql(text: &[u8]) -> bool {
    let text = text.strip_prefix(&[0, 1]).unwrap_or(text);
    let head = &text[..text.len().min(24)];
    let printable = |b: &u8| (0x20..0x7f).contains(b) || *b >= 0x80 || b.is_ascii_whitespace();
    let first = head.iter().find(|b| !b.is_ascii_whitespace() && **b != b';' && **b != b'(');
    head.iter().all(printable)
        && first.is_some_and(|b| b.is_ascii_alphabetic() || matches!(b, b'/' | b'-' | b'#' | b'{'))
}

/// Recognises a client's segment that begins with a compressed packet that begins a command.
pub(super) fn compressed_command(segment: &[u8]) -> Option<Method> {
    let length = le24(segment, 0)? as usize;
    let uncompressed = le24(segment, 4)? as usize;
    let inner = segment.get(7..)?;
    if segment[3] != 0 || length == 0 {
        return None;
    }
    if uncompressed == 0 {
        // Short commands are sent uncompressed; then the method is unknown.
        return (inner.len() == length && is_command(inner)).then_some(Method::Zlib);
    }
    if uncompressed < length || uncompressed < 8 {
        return None;
    }
    let zlib = matches!(inner, [0x78, 0x01 | 0x5e | 0x9c | 0xda, ..]);
    if zlib {
        return Some(Method::Zlib);
    }
    inner.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]).then_some(Method::Zstd)
}

/// A record of TLS 1.0 to 1.3.
pub(super) fn is_tls(segment: &[u8]) -> bool {
    matches!(segment, [0x14..=0x17, 3, 0..=4, ..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(byte: u8, payload: &[u8]) -> Vec<u8> {
        let length = (payload.len() as u32 + 1).to_le_bytes();
        [&length[..3], &[0, byte], payload].concat()
    }

    #[test]
    fn commands_are_known_by_their_form() {
        for (byte, payload) in [
            (3u8, &b"select 1"[..]),
            (3, b" /* hint */ (select 1)"),
            (3, b"\0\x01select 1"),
            (0x16, b"insert into t values (?)"),
            (0x17, &[1, 0, 0, 0, 0, 1, 0, 0, 0]),
            (0x19, &[1, 0, 0, 0]),
            (1, b""),
            (14, b""),
            (2, b"shop"),
        ] {
            assert!(is_command(&command(byte, payload)), "{byte} {payload:?}");
        }
        let two = [command(3, b"select 1"), command(1, b"")].concat();
        assert!(is_command(&two));
        // A long statement continues in the next segment.
        assert!(is_command(&command(3, &[b'x'; 5000])[..1400]));
    }

    #[test]
    fn other_bytes_are_not_commands() {
        for bytes in [
            &b""[..],
            b"GET / HTTP/1.1\r\n\r\n",
            b"where id in (1, 2, 3)",
            &[0; 100],
            &[1, 0, 0, 0, 0],
            &command(3, b"\x01\x02\x03"),
            &command(3, b"1 + 1"),
            &[9, 0, 0, 1, 3, b's', b'e'],
            &[command(3, b"select 1"), vec![7; 9]].concat(),
            &[0x16, 3, 1, 0, 0xa5, 1, 0, 0, 0xa1, 3, 3],
        ] {
            assert!(!is_command(bytes), "{bytes:?}");
        }
        assert!(is_tls(&[0x16, 3, 1, 0, 0xa5]));
    }

    #[test]
    fn compressed_commands_are_known_by_both_headers() {
        let inner = command(3, b"select 1");
        let plain = [&[inner.len() as u8, 0, 0, 0, 0, 0, 0], &inner[..]].concat();
        assert_eq!(compressed_command(&plain), Some(Method::Zlib));
        assert_eq!(compressed_command(&inner), None);
        let packed = [60, 0, 0, 0, 200, 0, 0, 0x78, 0x9c, 1, 2, 3];
        assert_eq!(compressed_command(&packed), Some(Method::Zlib));
        let packed = [60, 0, 0, 0, 200, 0, 0, 0x28, 0xb5, 0x2f, 0xfd];
        assert_eq!(compressed_command(&packed), Some(Method::Zstd));
    }
}
