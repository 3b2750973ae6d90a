//! Numbers as people write and read them.
//!
//! What it is for: one spelling of counts, bytes and times in the terminal, the report and the chart,
//! and the parsing of `ROWS=5M`, `CACHE=256M`.
//!
//! Invariants
//!
//! - UN1. Suffixes of counts are decimal (k = 1 000), suffixes of bytes are binary (K = 1 024).
//! - UN2. Parsing never wraps: a number that does not fit in 64 bits is an error.
//!
//! Tested below.

/// Parses a count of rows: `200000`, `200_000`, `200k`, `5M`, `1.5M`, `1G`.
pub fn parse_count(text: &str) -> Result<u64, String> {
    parse_scaled(text, 1_000)
}

/// Parses a size in bytes: `268435456`, `256M`, `1.5G`.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    parse_scaled(text, 1_024)
}

fn parse_scaled(text: &str, base: u64) -> Result<u64, String> {
    let clean: String = text.trim().chars().filter(|c| *c != '_').collect();
    let bad = || format!("'{text}' is not a number such as 200000, 200k or 5M");
    let split = clean.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(clean.len());
    let (digits, suffix) = clean.split_at(split);
    let power = match suffix {
        "" => 0,
        "k" | "K" => 1,
        "m" | "M" => 2,
        "g" | "G" => 3,
        _ => return Err(bad()),
    };
    let unit = base.pow(power);
    if let Ok(whole) = digits.parse::<u64>() {
        return whole.checked_mul(unit).ok_or_else(|| format!("'{text}' is too large"));
    }
    let plain = digits.chars().all(|c| c.is_ascii_digit() || c == '.');
    let value: f64 = digits.parse().map_err(|_| bad())?;
    let scaled = value * unit as f64;
    // 2^63: far above any size here, and safely below what a cast could distort.
    if !plain || !scaled.is_finite() || scaled >= 9.2e18 {
        return Err(bad());
    }
    Ok(scaled.round() as u64)
}

/// 1234567 -> "1,234,567".
pub fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

/// 5000000 -> "5M", 150000 -> "150k", 712345 -> "712k", 1500000 -> "1.5M".
pub fn short_count(n: f64) -> String {
    let (value, suffix) = match n {
        n if n >= 1e9 => (n / 1e9, "G"),
        n if n >= 1e6 => (n / 1e6, "M"),
        n if n >= 1e3 => (n / 1e3, "k"),
        n => (n, ""),
    };
    let text = if value >= 99.95 { format!("{value:.0}") } else { format!("{value:.1}") };
    let text = if text.contains('.') { text.trim_end_matches(".0") } else { &text };
    format!("{text}{suffix}")
}

/// Bytes in the largest binary unit: "312 MiB", "1.4 GiB".
pub fn bytes(n: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if n < 1024 {
        return format!("{n} B");
    }
    let mut value = n as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1023.5 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{} {}", significant(value), UNITS[unit])
}

/// Microseconds with a unit that keeps three digits: "85 us", "4.21 ms", "1.35 s".
pub fn micros(us: f64) -> String {
    match us {
        us if us >= 999_500.0 => format!("{} s", significant(us / 1e6)),
        us if us >= 999.5 => format!("{} ms", significant(us / 1e3)),
        us => format!("{} us", significant(us)),
    }
}

/// About three significant digits, without an exponent: 0.042, 4.21, 42.1, 421, 4210.
pub fn significant(value: f64) -> String {
    let text = match value.abs() {
        v if v >= 99.95 => return format!("{value:.0}"),
        v if v >= 9.995 => format!("{value:.1}"),
        v if v >= 0.0995 => format!("{value:.2}"),
        0.0 => return "0".into(),
        _ => format!("{value:.3}"),
    };
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_decimal_and_bytes_binary() {
        assert_eq!(parse_count("5M"), Ok(5_000_000));
        assert_eq!(parse_count("1.5M"), Ok(1_500_000));
        assert_eq!(parse_count("200_000"), Ok(200_000));
        assert_eq!(parse_bytes("256M"), Ok(268_435_456));
        assert_eq!(parse_bytes("1.5G"), Ok(1_610_612_736));
    }

    #[test]
    fn nonsense_is_refused() {
        for bad in ["", "M", "5X", "-5", "5 M M", "1e3", "inf", "nan", "99999999999G", "1.2.3"] {
            assert!(parse_count(bad).is_err(), "{bad:?} was accepted");
        }
    }

    #[test]
    fn numbers_read_well() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(short_count(5_000_000.0), "5M");
        assert_eq!(short_count(712_345.0), "712k");
        assert_eq!(short_count(1_500_000.0), "1.5M");
        assert_eq!(short_count(0.0), "0");
        assert_eq!(bytes(512), "512 B");
        assert_eq!(bytes(256 << 20), "256 MiB");
        assert_eq!(bytes(1_500 << 20), "1.46 GiB");
        assert_eq!(micros(85.0), "85.0 us");
        assert_eq!(micros(4_210.0), "4.21 ms");
        assert_eq!(micros(999_900.0), "1.00 s");
        assert_eq!(significant(0.0416), "0.042");
    }
}
