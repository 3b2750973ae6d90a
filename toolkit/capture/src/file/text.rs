//! The output of `tcpdump -x`, `-X`, `-xx` or `-XX` with `-tttt` or `-tt`.
//!
//! A packet is a line that begins with its time (`2009-04-12 11:00:13.107039 IP ...`, or seconds
//! since the epoch), perhaps further lines of description (`-v`), and lines of bytes:
//!
//! ```text
//!     0x0000:  4500 003c 283b 4000 4006 147f 7f00 0001  E..<(;@.@.......
//! ```
//!
//! The description is not read: names, services and `-q` change it, and the bytes have all of it.
//! So a file whose descriptions were edited keeps the addresses that were captured.
//!
//! Times of `-tttt` are in the zone of the machine that printed them; the reader subtracts the zone
//! that its caller gave it.

use super::{Link, Packet, Step};

pub(super) struct Text {
    zone: i32,
    /// The bytes of the packet whose lines are being read.
    data: Vec<u8>,
    /// Set while a packet is open.
    time: Option<i64>,
    offset: u64,
    damaged: bool,
}

/// Longer packets do not exist; further lines are not kept.
const LONGEST_PACKET: usize = 1 << 20;

/// Longer lines do not exist either; without a line end within this, reading the file is given up.
const LONGEST_LINE: usize = 1 << 16;

impl Text {
    pub(super) fn new(zone: i32) -> Self {
        Text { zone, data: Vec::new(), time: None, offset: 0, damaged: false }
    }

    /// True if there is a line with a time, and a line with bytes before the next such line.
    pub(super) fn recognise(head: &[u8]) -> bool {
        let mut lines = head.split(|b| *b == b'\n').skip_while(|l| l.trim_ascii().is_empty());
        let Some(first) = lines.next() else { return false };
        time(first).is_some()
            && lines
                .take_while(|line| time(line).is_none())
                .take(8)
                .any(|line| hex_line(line).is_some_and(|(at, _)| at == 0))
    }

    /// What tcpdump's text lacks, and what to do; `None`: it is other text.
    pub(super) fn lacking(head: &[u8]) -> Option<&'static str> {
        let mut lines = head.split(|b| *b == b'\n');
        let line = lines.by_ref().map(<[u8]>::trim_ascii).find(|line| !line.is_empty())?;
        let at = line.iter().position(|b| *b == b' ')?;
        let described = [&b" IP "[..], b" IP6 "].iter().any(|ip| find(&line[at..], ip));
        if !described || !find(line, b" > ") {
            return None;
        }
        let shape = |of: &[u8]| of.iter().all(|b| b.is_ascii_digit() || b":.".contains(b));
        if time(line).is_some() {
            let bytes = |line: &[u8]| hex_line(line).is_some_and(|(at, _)| at == 0);
            return (!lines.any(bytes)).then_some(
                "this is text of tcpdump without the packets' bytes: print it with -x (tcpdump -x -tttt -r FILE)",
            );
        }
        (line.get(2) == Some(&b':') && shape(&line[..at])).then_some(
            "this is text of tcpdump without dates: print it with -tttt or -tt (tcpdump -x -tttt -r FILE)",
        )
    }

    /// Like the other formats' `step`; `ended`: the last line needs no line end.
    pub(super) fn step<'a>(&'a mut self, bytes: &'a [u8], offset: u64, ended: bool) -> Step<'a> {
        let mut used = 0;
        loop {
            let left = &bytes[used..];
            let (line, whole) = match memchr::memchr(b'\n', left) {
                Some(at) => (&left[..at], at + 1),
                None if left.len() > LONGEST_LINE => return Step::Broken("a line has no end"),
                None if !ended => {
                    return if used > 0 { Step::Pass(used) } else { Step::More(left.len() + 1) };
                }
                None => (left, left.len()),
            };
            if left.is_empty() {
                // The end of the file ends the last packet.
                return match self.time.take() {
                    Some(_) if self.damaged => self.bad(used),
                    Some(time) if !self.data.is_empty() => self.packet(time, used),
                    _ if used > 0 => Step::Pass(used),
                    _ => Step::More(1),
                };
            }
            if let Some((at, hex)) = hex_line(line) {
                if self.time.is_some() {
                    self.append(at, hex);
                }
                used += whole;
                continue;
            }
            let Some(time) = time(line) else {
                used += whole;
                continue;
            };
            // This line completes the packet before it. If that packet is yielded now, the line is
            // read again.
            let before = self.time.take();
            if let Some(before) = before {
                if self.damaged {
                    return self.bad(used);
                }
                if !self.data.is_empty() {
                    return self.packet(before, used);
                }
            }
            self.time = Some(time.saturating_sub(self.zone_of(line)));
            self.offset = offset + used as u64;
            self.data.clear();
            used += whole;
        }
    }

    /// Yields the collected bytes; they stay until the next packet's line is read.
    fn packet(&mut self, time: i64, used: usize) -> Step<'_> {
        let packet = Packet {
            time,
            link: Link::Unknown,
            data: &self.data,
            wire_length: self.data.len() as u32,
            offset: self.offset,
        };
        Step::Packet(packet, used)
    }

    fn bad(&mut self, used: usize) -> Step<'_> {
        self.damaged = false;
        self.data.clear();
        Step::Bad(used)
    }

    /// The zone to subtract: seconds since the epoch (`-tt`) have none.
    fn zone_of(&self, line: &[u8]) -> i64 {
        if line.get(4) == Some(&b'-') {
            i64::from(self.zone) * 1_000_000_000
        } else {
            0
        }
    }

    fn append(&mut self, at: usize, hex: &[u8]) {
        if at != self.data.len() || self.data.len() > LONGEST_PACKET {
            self.damaged = true;
            return;
        }
        let mut hex = hex;
        // Groups of two bytes, one space between them; two spaces end the bytes.
        loop {
            for _ in 0..2 {
                let [high, low, rest @ ..] = hex else { return };
                let (high, low) = (NIBBLE[usize::from(*high)], NIBBLE[usize::from(*low)]);
                if (high | low) & 0xf0 != 0 {
                    return;
                }
                self.data.push(high << 4 | low);
                hex = rest;
            }
            match hex {
                [b' ', rest @ ..] => hex = rest,
                _ => return,
            }
        }
    }
}

fn find(line: &[u8], word: &[u8]) -> bool {
    memchr::memmem::find(line, word).is_some()
}

/// Values of hexadecimal digits; 0xff for other bytes.
const NIBBLE: [u8; 256] = {
    let mut table = [0xff; 256];
    let mut digit = 0;
    while digit < 10 {
        table[b'0' as usize + digit] = digit as u8;
        digit += 1;
    }
    let mut digit = 0;
    while digit < 6 {
        table[b'a' as usize + digit] = 10 + digit as u8;
        table[b'A' as usize + digit] = 10 + digit as u8;
        digit += 1;
    }
    table
};

/// Offset and digits of `\t0x0010:  4500 ...`.
#[inline]
fn hex_line(line: &[u8]) -> Option<(usize, &[u8])> {
    let start = line.iter().position(|b| !matches!(b, b' ' | b'\t'))?;
    let rest = line[start..].strip_prefix(b"0x")?;
    let colon = rest.iter().take(9).position(|b| *b == b':')?;
    let mut at = 0;
    for digit in &rest[..colon] {
        let digit = NIBBLE[usize::from(*digit)];
        if digit > 15 {
            return None;
        }
        at = at << 4 | usize::from(digit);
    }
    let hex = &rest[colon + 1..];
    let blank = hex.iter().position(|b| *b != b' ').unwrap_or(hex.len());
    (colon > 0).then(|| (at, &hex[blank..]))
}

/// The time at the beginning of a line, in nanoseconds: `YYYY-MM-DD HH:MM:SS.f` or `SECONDS.f`.
fn time(line: &[u8]) -> Option<i64> {
    if !line.first()?.is_ascii_digit() {
        return None;
    }
    if line.get(4) == Some(&b'-') {
        let number = |from: usize, to: usize| digits(line.get(from..to)?);
        let separators = [(7, b'-'), (10, b' '), (13, b':'), (16, b':')];
        if separators.iter().any(|(at, b)| line.get(*at) != Some(b)) {
            return None;
        }
        let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
        let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
        if !(1..=12).contains(&month) || !(1..=31).contains(&day) || hour > 23 || minute > 59 {
            return None;
        }
        let seconds = days(year, month, day) * 86400 + hour * 3600 + minute * 60 + second;
        return nanos(seconds, fraction(&line[19..])?);
    }
    let dot = line.iter().take(12).position(|b| *b == b'.')?;
    // At least nine digits: a time of day or a version number is not one.
    let seconds = digits(&line[..dot]).filter(|_| dot >= 9)?;
    nanos(seconds, fraction(&line[dot..])?)
}

/// Nanoseconds; `None` for times at which nobody captured anything, so that differences of times
/// cannot overflow.
fn nanos(seconds: i64, fraction: i64) -> Option<i64> {
    const LONG: i64 = 140 * 366 * 86400;
    (-LONG..LONG).contains(&seconds).then(|| seconds * 1_000_000_000 + fraction)
}

fn digits(text: &[u8]) -> Option<i64> {
    let mut value = 0i64;
    for b in text {
        value = value * 10 + i64::from(b.is_ascii_digit().then(|| b - b'0')?);
    }
    Some(value)
}

/// Nanoseconds of `.107039 `: between one and nine digits, then a space.
fn fraction(text: &[u8]) -> Option<i64> {
    let text = text.strip_prefix(b".")?;
    let length = text.iter().take(10).position(|b| *b == b' ')?;
    let scale = 9u32.checked_sub(u32::try_from(length).ok()?)?;
    Some(digits(&text[..length]).filter(|_| length > 0)? * 10i64.pow(scale))
}

/// Days since 1970-01-01 of a date of the Gregorian calendar.
fn days(year: i64, month: i64, day: i64) -> i64 {
    // Here years begin in March, so that a leap day is the last day of its year.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let century_days = year * 365 + year / 4 - year / 100 + year / 400;
    century_days + (month * 153 + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use super::super::tests::read_all;
    use super::*;

    const DATED: &[u8] = b"2009-04-12 11:00:13.107039 IP 127.0.0.1.57890 > 10.1.1.1.mysql: tcp 0\n\
        \t0x0000:  4500 003c 283b 4000 4006 147f 7f00 0001\n\
        \t0x0010:  7f00 0001 e2\n\
        2009-04-12 11:00:13.107041 IP (tos 0x0, ttl 64)\n\
        \x20   10.1.1.1.3306 > 127.0.0.1.57890: Flags [S.]\n\
        \x20  0x0000:  6162 6364 6566 6768 696a 6b6c 6d6e 6f70  abcd efgh 1234..\r\n\
        \x20  0x0010:  7172 73                                  qrs";

    #[test]
    fn bytes_are_read_whatever_the_description() {
        for piece in [1, 3, 50, 10_000] {
            let (packets, outcome, skips, _) = read_all(DATED, piece);
            assert!(outcome.is_ok() && skips.is_empty(), "{outcome:?} {skips:?}");
            assert_eq!(packets.len(), 2);
            assert_eq!(packets[0].time, 1_239_534_013_107_039_000);
            assert_eq!(packets[0].data.len(), 21);
            assert_eq!(packets[0].data[..4], [0x45, 0, 0, 0x3c]);
            assert_eq!(packets[1].data, b"abcdefghijklmnopqrs");
        }
    }

    #[test]
    fn seconds_since_the_epoch_are_times_too() {
        let file = b"1239534013.107039000 IP x\n\t0x0000:  4500\n";
        let (packets, ..) = read_all(file, 9);
        assert_eq!(packets[0].time, 1_239_534_013_107_039_000);
        assert_eq!(time(b"12:00:00.000000 IP"), None);
        assert_eq!(time(b"2009-04-12 11:00:13.1070390000 IP"), None);
        assert_eq!(time(b"1969-12-31 23:59:59.5 IP"), Some(-500_000_000));
        for extreme in ["0000-01-01 00:00:00.0 IP", "9999-12-31 23:59:59.9 IP", "9223372036.0 IP"] {
            assert_eq!(time(extreme.as_bytes()), None, "{extreme}");
        }
    }

    #[test]
    fn a_missing_line_of_bytes_makes_the_packet_a_bad_one() {
        let file = b"2009-04-12 11:00:12.1 IP x\n\t0x0000:  4400\n\
            2009-04-12 11:00:13.107039 IP x\n\t0x0010:  4500\n\
            2009-04-12 11:00:14.0 IP x\n\t0x0000:  4600\n\
            2009-04-12 11:00:15.0 IP x\n\t0x0000:  47\n\t0x0010:  47\n";
        for piece in [1, 10_000] {
            let (packets, outcome, skips, _) = read_all(file, piece);
            assert!(outcome.is_ok());
            let data: Vec<&[u8]> = packets.iter().map(|p| &p.data[..]).collect();
            assert_eq!(data, [[0x44, 0], [0x46, 0]]);
            assert_eq!(skips.len(), 2);
        }
    }

    #[test]
    fn a_zone_moves_dated_times_only() {
        let mut text = Text::new(7200);
        let mut reader = |file: &[u8]| match text.step(file, 0, true) {
            Step::Packet(p, _) => p.time,
            other => panic!("{other:?}"),
        };
        assert_eq!(
            reader(b"2009-04-12 11:00:13.5 IP x\n\t0x0000:  45\n"),
            1_239_526_813_500_000_000
        );
        assert_eq!(reader(b"1239534013.5 IP x\n\t0x0000:  45\n"), 1_239_534_013_500_000_000);
    }

    #[test]
    fn a_file_without_line_ends_is_given_up() {
        let mut file = DATED.to_vec();
        file.extend(vec![b'x'; 1 << 18]);
        let (packets, outcome, ..) = read_all(&file, 1000);
        assert!(packets.len() <= 1);
        assert!(outcome.is_err());
    }

    #[test]
    fn hexadecimal_text_needs_a_time_before_it() {
        assert!(Text::recognise(DATED));
        assert!(!Text::recognise(b"\t0x0000:  4500 003c\n"));
        assert!(!Text::recognise(b"2009-04-12 11:00:13.107039 IP x\n# Query_time: 5\n"));
    }
}
