//! Times as servers write them. Zones are ignored, because one log has one clock.

use frond_event::text::stamp;

/// The time at the beginning of `text`, in any server's form, and the text behind it.
pub fn clock(text: &[u8]) -> Option<(i64, &[u8])> {
    let (stamp, used) = stamp(text)?;
    Some((stamp.local.div_euclid(1_000_000), &text[used..]))
}

/// The time and the message if `line` is one of the error log's own: a time, a thread, and a word in brackets. The
/// message is without a prefix such as `InnoDB:`.
pub fn log_line(line: &[u8]) -> Option<(i64, &[u8])> {
    if !line.first()?.is_ascii_digit() {
        return None;
    }
    let (at, rest) = clock(line)?;
    let open = memchr::memchr(b'[', &rest[..rest.len().min(60)])?;
    // Between the time and the bracket is a number.
    if !rest[..open].iter().all(|b| b.is_ascii_digit() || b" x".contains(b)) {
        return None;
    }
    let mut rest = &rest[open..];
    while rest.first() == Some(&b'[') {
        let close = memchr::memchr(b']', rest)?;
        rest = rest[close + 1..].trim_ascii_start();
    }
    Some((at, rest.strip_prefix(b"InnoDB:").unwrap_or(rest).trim_ascii_start()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_servers_times_are_read() {
        for text in ["2026-11-23 19:37:16 x", "2026-11-23T19:37:16 x", "261123 19:37:16 x"] {
            let (at, rest) = clock(text.as_bytes()).unwrap();
            assert_eq!(crate::model::Clock(at).to_string(), "2026-11-23 19:37:16");
            assert_eq!(rest, b" x");
        }
        assert!(clock(b"070913  7:13:09").is_some());
        for bad in ["", "2026-13-01 00:00:00", "12:00:00", "2026-11-23 25:00:00", "261399 1:1:1"] {
            assert!(clock(bad.as_bytes()).is_none(), "{bad}");
        }
    }

    #[test]
    fn lines_of_the_log_are_told_from_statements() {
        let said = |line: &'static str| log_line(line.as_bytes()).map(|(_, rest)| rest);
        assert_eq!(said("2026-11-23 19:37:12 5 [Note] InnoDB: *** x"), Some(b"*** x".as_slice()));
        assert_eq!(
            said("2020-01-01T00:00:00.000000Z 8 [Note] [MY-012469] [InnoDB] *** x"),
            Some(b"*** x".as_slice())
        );
        assert_eq!(said("120906  6:03:32 [Warning] Aborted"), Some(b"Aborted".as_slice()));
        assert_eq!(said("2026-11-23 19:37:12' and a[1] = 2"), None);
        assert_eq!(said("select 1"), None);
    }
}
