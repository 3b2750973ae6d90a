//! One stored value as text: numbers, dates and strings decoded from their images.
//!
//! Any bytes give some text; values outside a type's range print what their digits say.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::field::read_le;
use crate::schema::{Column, ColumnType};

/// How values are printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TextStyle {
    /// Values between tabs; NULL is `\N`; tab, newline, carriage return, NUL and backslash in text
    /// are escaped with a backslash; bytes that are no UTF-8 are `0x` and hex digits. Columns an
    /// index does not hold are left out.
    Tabs,
    /// One JSON object. Decimals, dates and hex are strings.
    Json,
}

#[derive(Debug, PartialEq)]
pub(crate) enum Value {
    Null,
    /// Digits that need no quotes.
    Number(String),
    /// Text that is safe to print after escaping.
    Text(String),
}

impl Value {
    /// The value whose contents (image, or text without length and padding) are `bytes`.
    pub fn of(c: &Column, bytes: &[u8]) -> Value {
        use ColumnType::*;
        match c.ty {
            Int { unsigned } => Value::Number(integer(bytes, unsigned)),
            Enum | Set => Value::Number(read_le(bytes).to_string()),
            Bit { .. } => Value::Number(big_endian(bytes).to_string()),
            Year => Value::Number(match read_le(bytes) {
                0 => "0".into(),
                n => (n + 1900).to_string(),
            }),
            Float => float(f64::from(f32::from_bits(read_le(bytes) as u32)), || {
                f32::from_bits(read_le(bytes) as u32).to_string()
            }),
            Double => {
                let n = f64::from_bits(read_le(bytes));
                float(n, || n.to_string())
            }
            Decimal { precision, scale } => Value::Text(decimal(bytes, precision, scale)),
            Date => {
                let n = read_le(bytes);
                Value::Text(date(n >> 9, n >> 5 & 15, n & 31))
            }
            Time { fsp } => Value::Text(time(bytes, fsp)),
            DateTime { fsp } => Value::Text(date_time(bytes, fsp)),
            Timestamp { fsp } => {
                let seconds = big_endian(&bytes[..4]);
                Value::Text(timestamp(seconds) + &fraction(big_endian(&bytes[4..]), fsp))
            }
            OldTimestamp => Value::Text(timestamp(read_le(bytes))),
            OldDate => {
                let n = read_le(bytes);
                Value::Text(date(n / 10000, n / 100 % 100, n % 100))
            }
            OldTime => {
                let n = signed(bytes);
                let sign = if n < 0 { "-" } else { "" };
                let n = n.unsigned_abs();
                let (h, m, s) = (n / 10000, n / 100 % 100, n % 100);
                Value::Text(format!("{sign}{h:02}:{m:02}:{s:02}"))
            }
            OldDateTime => {
                let n = read_le(bytes);
                let (d, t) = (n / 1_000_000, n % 1_000_000);
                let day = date(d / 10000, d / 100 % 100, d % 100);
                let (h, m, s) = (t / 10000, t / 100 % 100, t % 100);
                Value::Text(format!("{day} {h:02}:{m:02}:{s:02}"))
            }
            Uuid { swapped } => Value::Text(uuid(bytes, swapped)),
            Inet4 => Value::Text(match <[u8; 4]>::try_from(bytes) {
                Ok(b) => Ipv4Addr::from(b).to_string(),
                Err(_) => hex(bytes),
            }),
            Inet6 => Value::Text(match <[u8; 16]>::try_from(bytes) {
                Ok(b) => Ipv6Addr::from(b).to_string(),
                Err(_) => hex(bytes),
            }),
            Char | VarChar { .. } | Blob { .. } | Binary => {
                Value::Text(match std::str::from_utf8(bytes) {
                    Ok(s) if c.charset != 63 || s.chars().all(|ch| !ch.is_control()) => s.into(),
                    _ => hex(bytes),
                })
            }
            OldTemporal | Opaque { .. } => Value::Text(hex(bytes)),
        }
    }
}

pub(crate) fn put_value(value: &Value, style: TextStyle, out: &mut String) {
    match (value, style) {
        (Value::Null, TextStyle::Tabs) => out.push_str("\\N"),
        (Value::Null, TextStyle::Json) => out.push_str("null"),
        (Value::Number(n), _) => out.push_str(n),
        (Value::Text(s), TextStyle::Tabs) => {
            for ch in s.chars() {
                match ch {
                    '\t' => out.push_str("\\t"),
                    '\n' => out.push_str("\\n"),
                    '\r' => out.push_str("\\r"),
                    '\0' => out.push_str("\\0"),
                    '\\' => out.push_str("\\\\"),
                    ch => out.push(ch),
                }
            }
        }
        (Value::Text(s), TextStyle::Json) => {
            out.push('"');
            for ch in s.chars() {
                match ch {
                    '"' | '\\' => out.extend(['\\', ch]),
                    ch if ch < ' ' => {
                        let _ = write!(out, "\\u{:04x}", ch as u32);
                    }
                    ch => out.push(ch),
                }
            }
            out.push('"');
        }
    }
}

fn big_endian(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |n, b| n << 8 | u64::from(*b))
}

fn signed(bytes: &[u8]) -> i64 {
    let unused = 64 - 8 * bytes.len() as u32;
    ((read_le(bytes) << unused) as i64) >> unused
}

fn integer(bytes: &[u8], unsigned: bool) -> String {
    if unsigned {
        read_le(bytes).to_string()
    } else {
        signed(bytes).to_string()
    }
}

fn float(n: f64, text: impl Fn() -> String) -> Value {
    // JSON has no other numbers.
    if n.is_finite() {
        Value::Number(text())
    } else {
        Value::Text(text())
    }
}

fn hex(bytes: &[u8]) -> String {
    let mut s = String::with_capacity(2 + 2 * bytes.len());
    s.push_str("0x");
    for b in bytes {
        let _ = write!(s, "{b:02X}");
    }
    s
}

fn date(year: u64, month: u64, day: u64) -> String {
    format!("{year:04}-{month:02}-{day:02}")
}

/// The fractional digits, given as stored: 1, 2 or 3 bytes for up to 2, 4 or 6 digits.
fn fraction(stored: u64, fsp: u8) -> String {
    if fsp == 0 {
        return String::new();
    }
    let digits = usize::from(fsp);
    let kept = digits + digits % 2;
    let all = format!("{stored:0kept$}");
    format!(".{}", &all[..digits.min(all.len())])
}

fn time(bytes: &[u8], fsp: u8) -> String {
    // The whole image is one offset-binary number, fraction included.
    let n = big_endian(bytes) as i64 - (1i64 << (8 * bytes.len() - 1));
    let sign = if n < 0 { "-" } else { "" };
    let fraction_bits = 8 * (bytes.len() as u32 - 3);
    let n = n.unsigned_abs();
    let (whole, part) = (n >> fraction_bits, n & ((1 << fraction_bits) - 1));
    let (h, m, s) = (whole >> 12 & 0x3ff, whole >> 6 & 63, whole & 63);
    format!("{sign}{h:02}:{m:02}:{s:02}{}", fraction(part, fsp))
}

fn date_time(bytes: &[u8], fsp: u8) -> String {
    let n = (big_endian(&bytes[..5]) ^ 1 << 39) & ((1 << 39) - 1);
    let (ymd, hms) = (n >> 17, n & ((1 << 17) - 1));
    let (year_month, day) = (ymd >> 5, ymd & 31);
    let day = date(year_month / 13, year_month % 13, day);
    let (h, m, s) = (hms >> 12, hms >> 6 & 63, hms & 63);
    format!("{day} {h:02}:{m:02}:{s:02}{}", fraction(big_endian(&bytes[5..]), fsp))
}

/// Seconds since 1970 as a date and time in UTC; 0 is the zero date.
fn timestamp(seconds: u64) -> String {
    if seconds == 0 {
        return "0000-00-00 00:00:00".into();
    }
    let (days, rest) = (seconds / 86400, seconds % 86400);
    // Years counted from March, so that leap days come last: 719468 days from 0000-03-01 to 1970.
    let days = days + 719_468;
    let (era, in_era) = (days / 146_097, days % 146_097);
    let year = (in_era - in_era / 1460 + in_era / 36_524 - in_era / 146_096) / 365;
    let in_year = in_era - (365 * year + year / 4 - year / 100);
    let march_month = (5 * in_year + 2) / 153;
    let day = in_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    let (h, m, s) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{} {h:02}:{m:02}:{s:02}", date(year, month, day))
}

/// Packed decimal: groups of nine digits in four bytes, shorter groups in fewer; the sign is the
/// first bit, inverted; negative numbers have all bits inverted.
fn decimal(bytes: &[u8], precision: u8, scale: u8) -> String {
    const BYTES: [usize; 10] = [0, 1, 1, 2, 2, 3, 3, 4, 4, 4];
    let Some(first) = bytes.first() else { return "0".into() };
    let negative = first & 0x80 == 0;
    let mask = if negative { 0xff } else { 0 };
    let mut plain: Vec<u8> = bytes.iter().map(|b| b ^ mask).collect();
    plain[0] ^= 0x80;
    let whole = usize::from(precision - scale);
    let part = usize::from(scale);
    let groups = std::iter::once(whole % 9)
        .chain(std::iter::repeat_n(9, whole / 9 + part / 9))
        .chain(std::iter::once(part % 9));
    let mut digits = String::new();
    let mut rest = &plain[..];
    for count in groups.filter(|n| *n > 0) {
        let Some((group, tail)) = rest.split_at_checked(BYTES[count]) else { break };
        let _ = write!(digits, "{:0count$}", big_endian(group));
        rest = tail;
    }
    let (int, frac) = digits.split_at(whole.min(digits.len()));
    let int = int.trim_start_matches('0');
    let int = if int.is_empty() { "0" } else { int };
    let sign = if negative { "-" } else { "" };
    let point = if frac.is_empty() { "" } else { "." };
    format!("{sign}{int}{point}{frac}")
}

fn uuid(bytes: &[u8], swapped: bool) -> String {
    let Ok(b) = <[u8; 16]>::try_from(bytes) else { return hex(bytes) };
    // Time-ordered storage reverses the groups; a mark in two version and variant bits tells.
    let reversed = swapped || (b[6] & 0x80 != 0 && b[8] & 0x80 == 0 && b[8] != 0);
    let b = if reversed {
        let mut u = [0u8; 16];
        u[..4].copy_from_slice(&b[12..]);
        u[4..6].copy_from_slice(&b[10..12]);
        u[6..8].copy_from_slice(&b[8..10]);
        u[8..10].copy_from_slice(&b[6..8]);
        u[10..].copy_from_slice(&b[..6]);
        u
    } else {
        b
    };
    let mut s = String::with_capacity(36);
    for (n, byte) in b.iter().enumerate() {
        if matches!(n, 4 | 6 | 8 | 10) {
            s.push('-');
        }
        let _ = write!(s, "{byte:02x}");
    }
    s
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(ty: ColumnType, bytes: &[u8]) -> Value {
        Value::of(&Column::new("c", ty, bytes.len() as u32), bytes)
    }

    fn is(ty: ColumnType, bytes: &[u8], expected: &str) {
        assert_eq!(text(ty, bytes), Value::Text(expected.into()));
    }

    #[test]
    fn numbers_are_printed_with_their_sign() {
        let int = ColumnType::Int { unsigned: false };
        assert_eq!(text(int, &[0xff, 0xff, 0xff]), Value::Number("-1".into()));
        let unsigned = ColumnType::Int { unsigned: true };
        assert_eq!(text(unsigned, &[0xff; 8]), Value::Number(u64::MAX.to_string()));
        assert_eq!(text(ColumnType::Float, &1.5f32.to_le_bytes()), Value::Number("1.5".into()));
        assert_eq!(text(ColumnType::Year, &[124]), Value::Number("2024".into()));
        assert_eq!(text(ColumnType::Bit { bits: 10 }, &[2, 1]), Value::Number("513".into()));
    }

    #[test]
    fn decimals_are_printed_as_written() {
        let ty = ColumnType::Decimal { precision: 14, scale: 4 };
        is(ty, &[0x81, 0x0d, 0xfb, 0x38, 0xd2, 0x04, 0xd2], "1234567890.1234");
        is(ty, &[0x7e, 0xf2, 0x04, 0xc7, 0x2d, 0xfb, 0x2d], "-1234567890.1234");
        is(ColumnType::Decimal { precision: 3, scale: 0 }, &[0x80, 0x07], "7");
    }

    #[test]
    fn dates_and_times_are_printed() {
        is(ColumnType::Date, &(2024u32 << 9 | 2 << 5 | 29).to_le_bytes()[..3], "2024-02-29");
        let ymd = (2024u64 * 13 + 12) << 5 | 31;
        let n = 1 << 39 | ymd << 17 | 23 << 12 | 59 << 6 | 58;
        let mut image = n.to_be_bytes()[3..].to_vec();
        is(ColumnType::DateTime { fsp: 0 }, &image, "2024-12-31 23:59:58");
        image.extend_from_slice(&[0x30, 0x34]);
        is(ColumnType::DateTime { fsp: 3 }, &image, "2024-12-31 23:59:58.123");
        is(ColumnType::Timestamp { fsp: 0 }, &951_782_400u32.to_be_bytes(), "2000-02-29 00:00:00");
        is(ColumnType::Timestamp { fsp: 0 }, &[0; 4], "0000-00-00 00:00:00");
        let minus = 0x8000_0000_i64 - (((1 << 12) | (2 << 6) | 3) << 8 | 40);
        is(ColumnType::Time { fsp: 1 }, &minus.to_be_bytes()[4..], "-01:02:03.4");
        is(ColumnType::OldTime, &(-10203i32).to_le_bytes()[..3], "-01:02:03");
    }

    #[test]
    fn addresses_and_uuids_are_printed() {
        is(ColumnType::Inet4, &[127, 0, 0, 1], "127.0.0.1");
        let plain: Vec<u8> = (0..16).collect();
        let printed = "00010203-0405-0607-0809-0a0b0c0d0e0f";
        is(ColumnType::Uuid { swapped: false }, &plain, printed);
        let mut swapped = plain[10..].to_vec();
        for at in [8, 6, 4] {
            swapped.extend_from_slice(&plain[at..at + 2]);
        }
        swapped.extend_from_slice(&plain[..4]);
        is(ColumnType::Uuid { swapped: true }, &swapped, printed);
    }
}
