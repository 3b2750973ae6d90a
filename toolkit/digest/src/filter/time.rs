//! Points in time as operators type them.

use frond_event::Micros;
use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan, Zoned};
use std::fmt;

/// Why a text is no time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeError {
    text: String,
    why: String,
}

impl fmt::Display for TimeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' is no time{}; ", self.text, self.why)?;
        f.write_str(
            "use 2h or 30m (ago), now, today, yesterday 10:00, 2024-01-31, 2024-01-31 10:00:00, \
             2024-01-31T10:00:00+02:00, 240131 10:00:00, 10:00 (today), or seconds since 1970",
        )
    }
}

impl std::error::Error for TimeError {}

/// The time that `text` names: before `now` for a plain duration, in `zone` unless the text names
/// one. A time that the zone skips (the clock goes forward) means the time an hour later. A time
/// that the zone has twice means the first.
pub fn parse_time(text: &str, now: Micros, zone: &TimeZone) -> Result<Micros, TimeError> {
    let trimmed = text.trim();
    let error = |why: &str| TimeError { text: text.to_string(), why: why.to_string() };
    if trimmed.is_empty() || trimmed.len() > 100 || !trimmed.is_ascii() {
        return Err(error(""));
    }
    let now_stamp = Timestamp::from_microsecond(now).map_err(|_| error(""))?;
    let today = now_stamp.to_zoned(zone.clone());
    let lower = trimmed.to_ascii_lowercase();
    if lower == "now" {
        return Ok(now);
    }
    for (word, days) in [("today", 0), ("yesterday", 1)] {
        let Some(rest) = lower.strip_prefix(word) else { continue };
        let day = today.date().checked_sub(days.days()).map_err(|_| error(""))?;
        let time = match rest.trim() {
            "" => Time::midnight(),
            rest if rest.len() < lower.len() - word.len() => {
                clock(rest).ok_or_else(|| error(" (the clock time is wrong)"))?
            }
            _ => return Err(error("")),
        };
        return in_zone(day.to_datetime(time), zone).ok_or_else(|| error(""));
    }
    if let Some(seconds) = lower.strip_prefix('@') {
        return unix(seconds).ok_or_else(|| error(""));
    }
    if let Some(micros) = duration(&lower) {
        return Ok(now.saturating_sub(micros));
    }
    let digits = lower.bytes().take_while(u8::is_ascii_digit).count();
    // A plain number: yymmdd, yyyymmdd, or seconds since the epoch.
    if digits >= 9 {
        return unix(&lower).ok_or_else(|| error(""));
    }
    if let Some(time) = clock(&lower) {
        return in_zone(today.date().to_datetime(time), zone).ok_or_else(|| error(""));
    }
    civil(trimmed, digits, zone).map_err(|why| error(&why))
}

/// A date with or without a time and a zone.
fn civil(text: &str, digits: usize, zone: &TimeZone) -> Result<Micros, String> {
    let bad_day = || " (there is no such day)".to_string();
    let number = |s: &str| s.parse::<i16>().map_err(|_| String::new());
    let (date, rest) = match digits {
        // yymmdd as slow logs have it, yyyymmdd
        6 | 8 => {
            let (date, rest) = text.split_at(digits);
            let (year, rest_of_date) = date.split_at(digits - 4);
            let year = number(year)? + if digits == 6 { 2000 } else { 0 };
            let month = number(&rest_of_date[..2])? as i8;
            let day = number(&rest_of_date[2..])? as i8;
            (Date::new(year, month, day).map_err(|_| bad_day())?, rest)
        }
        4 => {
            let end = text.find([' ', 'T', 't']).unwrap_or(text.len());
            let (date, rest) = text.split_at(end);
            let parts: Vec<&str> = date.split(['-', '/']).collect();
            let [year, month, day] = parts[..] else { return Err(String::new()) };
            let month = i8::try_from(number(month)?).map_err(|_| bad_day())?;
            let day = i8::try_from(number(day)?).map_err(|_| bad_day())?;
            (Date::new(number(year)?, month, day).map_err(|_| bad_day())?, rest)
        }
        _ => return Err(String::new()),
    };
    let rest = rest.trim_start_matches([' ', 'T', 't']);
    if rest.is_empty() {
        return in_zone(date.to_datetime(Time::midnight()), zone).ok_or_else(bad_day);
    }
    // The zone begins at the first of these characters, which no clock time has.
    let end = rest.find(['Z', 'z', '+', '-', '[', ' ']).unwrap_or(rest.len());
    let (time, named) = rest.split_at(end);
    let time = clock(time).ok_or_else(|| " (the clock time is wrong)".to_string())?;
    let at = date.to_datetime(time);
    let named = named.trim();
    let zone = match named {
        "" => zone.clone(),
        "Z" | "z" | "UTC" | "utc" => TimeZone::UTC,
        offset if offset.starts_with(['+', '-']) => {
            TimeZone::fixed(offset_of(offset).ok_or(" (the offset of the time zone is wrong)")?)
        }
        name => TimeZone::get(name.trim_start_matches('[').trim_end_matches(']'))
            .map_err(|_| " (the time zone is unknown)".to_string())?,
    };
    in_zone(at, &zone).ok_or_else(bad_day)
}

/// `+02`, `+0200`, `+02:00`
fn offset_of(text: &str) -> Option<jiff::tz::Offset> {
    let sign = if text.starts_with('-') { -1 } else { 1 };
    let digits: String = text[1..].chars().filter(|c| *c != ':').collect();
    if !matches!(digits.len(), 1 | 2 | 4) || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let (hours, minutes) = if digits.len() == 4 { digits.split_at(2) } else { (&digits[..], "0") };
    let (hours, minutes): (i32, i32) = (hours.parse().ok()?, minutes.parse().ok()?);
    if minutes > 59 {
        return None;
    }
    jiff::tz::Offset::from_seconds(sign * (hours * 3600 + minutes * 60)).ok()
}

/// `h:mm`, `hh:mm:ss`, `hh:mm:ss.ffffff`
fn clock(text: &str) -> Option<Time> {
    let (whole, fraction) = match text.split_once('.') {
        Some((whole, fraction)) => (whole, fraction),
        None => (text, ""),
    };
    let mut parts = whole.split(':');
    let mut part = |needed: bool| -> Option<i8> {
        match parts.next() {
            Some(p) if matches!(p.len(), 1 | 2) && p.bytes().all(|b| b.is_ascii_digit()) => {
                p.parse().ok()
            }
            None if !needed => Some(0),
            _ => None,
        }
    };
    let (hour, minute, second) = (part(true)?, part(true)?, part(false)?);
    if parts.next().is_some() || fraction.len() > 9 || !fraction.bytes().all(|b| b.is_ascii_digit())
    {
        return None;
    }
    let nanos: i32 = format!("{fraction:0<9}").parse().ok()?;
    Time::new(hour, minute, second, nanos).ok()
}

/// `90s`, `30m`, `2h30m`, `1.5h`, `1d`, `1w`, in microseconds.
fn duration(text: &str) -> Option<Micros> {
    let mut total = 0f64;
    let mut rest = text.strip_suffix(" ago").unwrap_or(text);
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.'))?;
        let value: f64 = rest[..end].parse().ok()?;
        rest = rest[end..].trim_start();
        let unit_end = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
        let seconds = match &rest[..unit_end] {
            "s" | "sec" | "second" | "seconds" => 1.0,
            "m" | "min" | "minute" | "minutes" => 60.0,
            "h" | "hour" | "hours" => 3600.0,
            "d" | "day" | "days" => 86_400.0,
            "w" | "week" | "weeks" => 604_800.0,
            _ => return None,
        };
        total += value * seconds;
        rest = rest[unit_end..].trim_start();
    }
    // A thousand years are enough.
    (total <= 3.2e10).then_some((total * 1e6).round() as Micros)
}

/// Seconds since the epoch, with a fraction or not.
fn unix(text: &str) -> Option<Micros> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if whole.is_empty() || whole.len() > 11 || fraction.len() > 9 {
        return None;
    }
    if !whole.bytes().chain(fraction.bytes()).all(|b| b.is_ascii_digit()) {
        return None;
    }
    let micros: i64 = format!("{fraction:0<6}")[..6].parse().ok()?;
    whole.parse::<i64>().ok()?.checked_mul(1_000_000)?.checked_add(micros)
}

fn in_zone(at: DateTime, zone: &TimeZone) -> Option<Micros> {
    let zoned: Zoned = at.to_zoned(zone.clone()).ok()?;
    Some(zoned.timestamp().as_microsecond())
}
