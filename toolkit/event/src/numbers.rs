//! Numbers and times for people.

use crate::text::civil_from_days;

/// Text for an unknown number, which is a NaN in the document.
const UNKNOWN: &str = "-";

/// `2026-01-01 18:09:31`
pub fn time(micros: i64) -> String {
    let seconds = micros.div_euclid(1_000_000);
    let (year, month, day) = civil_from_days(seconds.div_euclid(86_400));
    let of_day = seconds.rem_euclid(86_400);
    format!(
        "{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}",
        of_day / 3600,
        of_day / 60 % 60,
        of_day % 60
    )
}

/// Three digits: `12.3`, `0.123`, `1.23k`.
pub fn significant(value: f64) -> String {
    if value.is_nan() {
        return UNKNOWN.into();
    }
    if value.abs() >= 1000.0 {
        return count(value);
    }
    let digits =
        if value == 0.0 { 0 } else { (2 - value.abs().log10().floor() as i32).clamp(0, 4) };
    format!("{value:.*}", digits as usize)
}

/// `12us`, `3.45ms`, `762ms`, `1.25s`, `1349s`, `3.2h`
pub fn duration(seconds: f64) -> String {
    if seconds.is_nan() {
        return UNKNOWN.into();
    }
    let (value, unit) = match seconds.abs() {
        s if s < 1e-9 => return "0".into(),
        s if s < 9.995e-7 => (seconds * 1e9, "ns"),
        s if s < 9.995e-4 => (seconds * 1e6, "us"),
        s if s < 0.9995 => (seconds * 1e3, "ms"),
        s if s < 99_999.5 => (seconds, "s"),
        _ => (seconds / 3600.0, "h"),
    };
    let digits = match value.abs() {
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{}{unit}", trimmed(value, digits))
}

/// `7`, `0.5`, `62.8`, `9999`, `61.5k`, `1.2M`
pub fn count(value: f64) -> String {
    const UNITS: [&str; 7] = ["", "k", "M", "G", "T", "P", "E"];
    if value.is_nan() {
        return UNKNOWN.into();
    }
    let mut value = value;
    let mut unit = 0;
    if value.abs() >= 9999.5 {
        while value.abs() >= 999.5 && unit + 1 < UNITS.len() {
            value /= 1000.0;
            unit += 1;
        }
    }
    let digits = match value.abs() {
        v if unit == 0 && v.fract() == 0.0 => 0,
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{}{}", trimmed(value, digits), UNITS[unit])
}

/// With at most this many decimals, without trailing zeros.
fn trimmed(value: f64, digits: usize) -> String {
    let number = format!("{value:.digits$}");
    match number.contains('.') {
        true => number.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => number,
    }
}

/// `1 statement`, `12.3k statements`, `2 classes`
pub fn plural(n: u64, one: &str) -> String {
    let many = match one {
        _ if n == 1 => "",
        _ if one.ends_with("ss") => "es",
        _ => "s",
    };
    format!("{} {one}{many}", count(n as f64))
}

/// `12%`, `0.4%`, `100%`
pub fn percentage(share: f64) -> String {
    let percent = share * 100.0;
    if percent > 0.0 && percent < 9.95 {
        format!("{percent:.1}%")
    } else {
        format!("{percent:.0}%")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_carry_their_units() {
        for (seconds, text) in [
            (0.0, "0"),
            (2e-6, "2us"),
            (512e-6, "512us"),
            (3.45e-3, "3.45ms"),
            (0.726, "726ms"),
            (1.25, "1.25s"),
            (1349.0, "1349s"),
            (400_000.0, "111h"),
            (0.4801, "480ms"),
        ] {
            assert_eq!(duration(seconds), text);
        }
        for (value, text) in [
            (0.0, "0"),
            (0.5, "0.5"),
            (62.83, "62.8"),
            (9999.0, "9999"),
            (61_480.0, "61.5k"),
            (1.2e6, "1.2M"),
        ] {
            assert_eq!(count(value), text);
        }
        assert_eq!(
            (percentage(0.125).as_str(), percentage(0.004).as_str(), percentage(1.0).as_str()),
            ("12%", "0.4%", "100%")
        );
        assert_eq!(significant(0.0634), "0.0634");
        for (n, one, text) in [
            (0, "statement", "0 statements"),
            (1, "statement", "1 statement"),
            (1, "class", "1 class"),
            (12_345, "rare class", "12.3k rare classes"),
        ] {
            assert_eq!(plural(n, one), text);
        }
    }

    #[test]
    fn times_are_utc() {
        assert_eq!(time(1_767_290_971_000_000), "2026-01-01 18:09:31");
        assert_eq!(time(-1), "1969-12-31 23:59:59");
    }
}
