//! Writes values of the binary protocol in SQL's notation.

use crate::mysql::cursor::Cursor;
use std::io::Write;

/// Appends one value in SQL's notation.
pub(super) fn value(kind: u16, cursor: &mut Cursor<'_>, out: &mut Vec<u8>) -> Option<()> {
    let unsigned = kind & 0x8000 != 0;
    // Writing into a vector does not fail.
    let mut number = |v: i128| drop(write!(out, "{v}"));
    match kind & 0xff {
        0x01 => {
            let v = cursor.u8()?;
            number(if unsigned { v.into() } else { (v as i8).into() });
        }
        0x02 | 0x0d => {
            let v = cursor.u16()?;
            number(if unsigned { v.into() } else { (v as i16).into() });
        }
        0x03 | 0x09 => {
            let v = cursor.u32()?;
            number(if unsigned { v.into() } else { (v as i32).into() });
        }
        0x08 => {
            let v = cursor.u64()?;
            number(if unsigned { v.into() } else { (v as i64).into() });
        }
        0x04 => drop(write!(out, "{}", f32::from_bits(cursor.u32()?))),
        0x05 => drop(write!(out, "{}", f64::from_bits(cursor.u64()?))),
        0x06 => out.extend_from_slice(b"NULL"),
        0x07 | 0x0a | 0x0c | 0x0e | 0x11 | 0x12 => date(cursor, out)?,
        0x0b | 0x13 => time(cursor, out)?,
        0x00 | 0x0f | 0x10 | 0xf5..=0xff => quote(cursor.string()?, out),
        _ => return None,
    }
    Some(())
}

fn date(cursor: &mut Cursor<'_>, out: &mut Vec<u8>) -> Option<()> {
    let length = usize::from(cursor.u8()?);
    let mut parts = Cursor::new(cursor.bytes(length)?);
    let year = parts.u16().unwrap_or(0);
    let mut part = || parts.u8().unwrap_or(0);
    let (month, day, hour, minute, second) = (part(), part(), part(), part(), part());
    let _ = write!(out, "'{year:04}-{month:02}-{day:02}");
    if length > 4 {
        let _ = write!(out, " {hour:02}:{minute:02}:{second:02}");
    }
    if let Some(micros) = parts.u32() {
        let _ = write!(out, ".{micros:06}");
    }
    out.push(b'\'');
    Some(())
}

fn time(cursor: &mut Cursor<'_>, out: &mut Vec<u8>) -> Option<()> {
    let length = usize::from(cursor.u8()?);
    let mut parts = Cursor::new(cursor.bytes(length)?);
    let sign = if parts.u8().unwrap_or(0) != 0 { "-" } else { "" };
    let days = u64::from(parts.u32().unwrap_or(0));
    let mut part = || parts.u8().unwrap_or(0);
    let (hours, minutes, seconds) = (part(), part(), part());
    let hours = days * 24 + u64::from(hours);
    let _ = write!(out, "'{sign}{hours:02}:{minutes:02}:{seconds:02}");
    if let Some(micros) = parts.u32() {
        let _ = write!(out, ".{micros:06}");
    }
    out.push(b'\'');
    Some(())
}

/// Appends a string literal that the server would read back as `text`.
pub(super) fn quote(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'\'');
    for byte in text {
        match byte {
            b'\'' | b'\\' => out.extend_from_slice(&[b'\\', *byte]),
            0 => out.extend_from_slice(b"\\0"),
            _ => out.push(*byte),
        }
    }
    out.push(b'\'');
}
