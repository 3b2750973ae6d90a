//! Numbers and stamps as logs write them, read from bytes without an allocation.
//!
//! Invariant: nothing here panics or wraps on any input; too large numbers saturate or give `None`.

use crate::event::Micros;

/// Seconds in a day.
const DAY: i64 = 86_400;

/// Reads `123` or `123.456` at the beginning of `bytes` as an integer of `1/scale` units, where `scale` is a
/// power of ten: `1.5` at scale 1000 is 1500. Decimals that `scale` cannot represent are cut off. Returns the
/// value and the bytes used; `None` without a digit. A number that is too large saturates.
#[inline]
pub fn decimal(bytes: &[u8], scale: u64) -> Option<(u64, usize)> {
    let mut used = 0;
    let mut whole: u64 = 0;
    while let Some(digit) = bytes.get(used).map(|b| b.wrapping_sub(b'0')).filter(|d| *d < 10) {
        whole = if used < 18 {
            whole * 10 + u64::from(digit)
        } else {
            whole.saturating_mul(10).saturating_add(u64::from(digit))
        };
        used += 1;
    }
    if used == 0 {
        return None;
    }
    let mut value = whole.saturating_mul(scale);
    if bytes.get(used) == Some(&b'.') {
        let mut weight = scale / 10;
        let mut at = used + 1;
        while let Some(digit) = bytes.get(at).map(|b| b.wrapping_sub(b'0')).filter(|d| *d < 10) {
            value = value.saturating_add(weight * u64::from(digit));
            weight /= 10;
            at += 1;
        }
        if at > used + 1 {
            used = at;
        }
    }
    Some((value, used))
}

/// A faster form for `bytes` that are long enough to be read in words and a number of usual
/// length; `None` for others.
#[inline]
pub fn short_decimal(bytes: &[u8], scale: u64) -> Option<(u64, usize)> {
    let (whole, digits) = up_to_8_digits(bytes.first_chunk()?);
    if bytes.get(digits) != Some(&b'.') {
        return (1..8).contains(&digits).then(|| (whole * scale, digits));
    }
    let (fraction, places) = up_to_8_digits(bytes.get(digits + 1..)?.first_chunk()?);
    if digits == 0 || places == 0 || places == 8 {
        return None;
    }
    const POWERS: [u64; 8] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000];
    let power = POWERS[places];
    let fraction =
        if scale >= power { fraction * (scale / power) } else { fraction / (power / scale) };
    Some((whole * scale + fraction, digits + 1 + places))
}

/// The number in the leading digits of 8 bytes, and how many digits it has.
#[inline(always)]
fn up_to_8_digits(bytes: &[u8; 8]) -> (u64, usize) {
    // A digit's byte becomes its value; every other byte is 10 or more.
    let values = u64::from_le_bytes(*bytes) ^ 0x3030_3030_3030_3030;
    let low = values & 0x7f7f_7f7f_7f7f_7f7f;
    let others = ((low + 0x7676_7676_7676_7676) | values) & 0x8080_8080_8080_8080;
    let digits = (others.trailing_zeros() / 8) as usize;
    if digits == 0 {
        return (0, 0);
    }
    // The last digit in the highest byte, zeros before the first one.
    let right = values << (64 - 8 * digits);
    let pairs = right.wrapping_mul(10).wrapping_add(right >> 8);
    let first = (pairs & 0x0000_00ff_0000_00ff).wrapping_mul(0x000f_4240_0000_0064);
    let second = (pairs >> 16 & 0x0000_00ff_0000_00ff).wrapping_mul(0x0000_2710_0000_0001);
    (first.wrapping_add(second) >> 32, digits)
}

/// Days since 1970-01-01 of a date of the proleptic Gregorian calendar.
pub fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    // Here years begin in March, so that a leap day is the last day of its year.
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// The date of a day number: (year, month, day).
pub fn civil_from_days(days: i64) -> (i64, u32, u32) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month as u32, day as u32)
}

/// A stamp as a log writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// As written, read as if its zone were UTC.
    pub local: Micros,
    /// The seconds to subtract to get UTC, if the stamp has a zone (`Z`, `+02:00`).
    pub zone: Option<i32>,
}

impl Stamp {
    /// The stamp in UTC, by its own zone or else by `otherwise` (seconds east).
    pub fn utc(&self, otherwise: i32) -> Micros {
        self.local - i64::from(self.zone.unwrap_or(otherwise)) * 1_000_000
    }
}

/// Reads `yymmdd hh:mm:ss[.ffffff]` (the hour may have one digit and a blank) or
/// `yyyy-mm-dd[T ]hh:mm:ss[.ffffff][Z|+hh:mm]` at the begin of `bytes`; gives the stamp and the bytes used.
pub fn stamp(bytes: &[u8]) -> Option<(Stamp, usize)> {
    let digits = bytes.iter().take_while(|b| b.is_ascii_digit()).count();
    let (year, month, day, mut at) = match digits {
        6 => {
            let yy = number(bytes, 0, 2)?;
            (
                if yy >= 70 { 1900 + yy } else { 2000 + yy },
                number(bytes, 2, 4)?,
                number(bytes, 4, 6)?,
                6,
            )
        }
        4 if bytes.get(4) == Some(&b'-') && bytes.get(7) == Some(&b'-') => {
            (number(bytes, 0, 4)?, number(bytes, 5, 7)?, number(bytes, 8, 10)?, 10)
        }
        _ => return None,
    };
    match bytes.get(at) {
        Some(b'T' | b' ' | b'\t') => at += 1,
        _ => return None,
    }
    while bytes.get(at) == Some(&b' ') {
        at += 1;
    }
    let hour_end = at + bytes[at..].iter().take(2).take_while(|b| b.is_ascii_digit()).count();
    let hour = number(bytes, at, hour_end)?;
    if bytes.get(hour_end) != Some(&b':') || bytes.get(hour_end + 3) != Some(&b':') {
        return None;
    }
    let minute = number(bytes, hour_end + 1, hour_end + 3)?;
    let second = number(bytes, hour_end + 4, hour_end + 6)?;
    at = hour_end + 6;
    if !(1..=12).contains(&month)
        || !(1..=31).contains(&day)
        || hour > 24
        || minute > 59
        || second > 60
    {
        return None;
    }
    let mut micros = 0;
    if bytes.get(at) == Some(&b'.') {
        let mut weight = 100_000;
        at += 1;
        while let Some(digit) = bytes.get(at).filter(|b| b.is_ascii_digit()) {
            micros += weight * i64::from(digit - b'0');
            weight /= 10;
            at += 1;
        }
    }
    let seconds = days_from_civil(year, month, day) * DAY + hour * 3600 + minute * 60 + second;
    let zone = match bytes.get(at) {
        Some(b'Z') => {
            at += 1;
            Some(0)
        }
        Some(sign @ (b'+' | b'-')) if bytes.get(at + 3) == Some(&b':') => {
            let east = number(bytes, at + 1, at + 3)? * 3600 + number(bytes, at + 4, at + 6)? * 60;
            at += 6;
            Some(if *sign == b'-' { -east as i32 } else { east as i32 })
        }
        _ => None,
    };
    Some((Stamp { local: seconds * 1_000_000 + micros, zone }, at))
}

/// The number in `bytes[from..to]`; `None` if a byte is not a digit, or there is none.
fn number(bytes: &[u8], from: usize, to: usize) -> Option<i64> {
    let digits = bytes.get(from..to)?;
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(digits.iter().fold(0, |n, d| n * 10 + i64::from(d - b'0')))
}

/// `bytes` without white space (blank, CR, LF, tab) at both ends.
pub fn trim(bytes: &[u8]) -> &[u8] {
    bytes.trim_ascii()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_exact_and_saturate() {
        assert_eq!(decimal(b"0.000286  Lock", 1_000_000_000), Some((286_000, 8)));
        assert_eq!(decimal(b"480.1", 1_000_000), Some((480_100_000, 5)));
        assert_eq!(decimal(b"2", 1_000_000_000), Some((2_000_000_000, 1)));
        assert_eq!(decimal(b"7.", 1), Some((7, 1)));
        assert_eq!(decimal(b"99999999999999999999999", 1), Some((u64::MAX, 23)));
        assert_eq!(decimal(b"18446744073708.796870.000036", 1_000_000_000), Some((u64::MAX, 21)));
        assert_eq!(decimal(b"x", 1), None);
        assert_eq!(decimal(b"", 1), None);
    }

    #[test]
    fn short_decimals_are_what_decimals_are() {
        let mut digits = String::new();
        for whole in 0..10 {
            for places in 0..10 {
                for tail in ["", " ", "\n", "x", ".", "\u{ff}"] {
                    let fraction = &"987604321"[..usize::min(places, 9)];
                    let text = format!("{digits}.{fraction}{tail}        ");
                    for text in [text.clone(), text.replacen('.', "", 1)] {
                        for scale in [1, 1_000, 1_000_000, 1_000_000_000] {
                            if let Some(short) = short_decimal(text.as_bytes(), scale) {
                                assert_eq!(Some(short), decimal(text.as_bytes(), scale), "{text}");
                            }
                        }
                    }
                }
            }
            digits.push(char::from(b'0' + (whole * 7 + 3) % 10));
        }
        assert_eq!(short_decimal(b"0.000286  Lock", 1_000_000_000), Some((286_000, 8)));
        assert_eq!(short_decimal(b"1234567 Lock_time", 1), Some((1_234_567, 7)));
        assert_eq!(short_decimal(b"12345678 Lock_time", 1), None);
    }

    #[test]
    fn dates_survive_the_round_trip() {
        for days in [-719_468, -1, 0, 59, 60, 11_016, 19_782, 20_000, 2_932_896] {
            let (y, m, d) = civil_from_days(days);
            assert_eq!(days_from_civil(y, i64::from(m), i64::from(d)), days);
        }
        assert_eq!(days_from_civil(2007, 12, 18) * 86_400, 1_197_936_000);
    }

    #[test]
    fn every_servers_stamp_is_read() {
        let utc = |text: &str| stamp(text.as_bytes()).map(|(s, used)| (s.utc(0), used));
        assert_eq!(utc("071218 11:48:27"), Some((1_197_978_507_000_000, 15)));
        assert_eq!(utc("071218  1:48:27 # User"), Some((1_197_942_507_000_000, 15)));
        assert_eq!(utc("2007-12-18T11:48:27.5Z"), Some((1_197_978_507_500_000, 22)));
        assert_eq!(utc("2007-12-18T13:48:27.000001+02:00"), Some((1_197_978_507_000_001, 32)));
        assert_eq!(utc("121123 19:56:06.0000001967"), Some((1_353_700_566_000_000, 26)));
        for bad in [
            "",
            "071218",
            "071318 11:48:27",
            "0712181 11:48:27",
            "071218 1a:48:27",
            "2007-12-18T11:4",
        ] {
            assert_eq!(utc(bad), None, "{bad}");
        }
    }
}
