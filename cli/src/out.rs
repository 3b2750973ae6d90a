//! How results are written: numbers as people read them, aligned tables, and the tool's one error
//! type.

use std::fmt;
use std::io::{self, IsTerminal};

use frond_base::Error;

/// Why a command could not be done (exit status 2).
pub enum Failure {
    /// The engine's error; its message says what to do.
    Engine(Error),
    /// Standard output failed. A closed pipe (`| head`) is not worth a message.
    Output(io::Error),
    /// What was asked makes no sense here; the text says what would.
    Request(String),
    /// A server did not answer in time; it may do so later.
    NoAnswer(String),
}

impl Failure {
    pub fn is_closed_pipe(&self) -> bool {
        matches!(self, Failure::Output(e) if e.kind() == io::ErrorKind::BrokenPipe)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Engine(e) => f.write_str(e.message()),
            Failure::Output(e) => write!(f, "cannot write the result: {e}"),
            Failure::Request(what) | Failure::NoAnswer(what) => f.write_str(what),
        }
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<Error> for Failure {
    fn from(e: Error) -> Failure {
        Failure::Engine(e)
    }
}

impl From<io::Error> for Failure {
    fn from(e: io::Error) -> Failure {
        Failure::Output(e)
    }
}

/// Whether standard output shows colours: a terminal whose user has not asked for none.
pub fn colour() -> bool {
    io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none()
}

/// In pages: which program made them.
pub const GENERATOR: &str = concat!("frond ", env!("CARGO_PKG_VERSION"));

pub type Outcome<T> = Result<T, Failure>;

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

/// Bytes in the largest binary unit that keeps the number above one: "312 MiB", "1.4 GiB".
pub fn bytes(n: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if n < 1024 {
        return format!("{n} B");
    }
    let mut value = n as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1023.5 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let digits = if value < 9.95 { 1 } else { 0 };
    format!("{value:.digits$} {}", UNITS[unit])
}

/// A count or a size: `200000`, `200_000`, and with a suffix in steps of `base`: `200k`, `1.5M`,
/// `4G`.
fn scaled(text: &str, base: u64) -> Result<u64, String> {
    let bad = || format!("'{text}' is not a number such as 200000, 200k, 1.5M or 4G");
    let clean: String = text.trim().chars().filter(|c| *c != '_').collect();
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
    let value = digits.parse::<f64>().map_err(|_| bad())? * unit as f64;
    // 2^63, about: far above any size here, and safely below what a cast could distort.
    if plain && value.is_finite() && value < 9.2e18 {
        Ok(value.round() as u64)
    } else {
        Err(bad())
    }
}

/// Rows: suffixes are decimal.
pub fn parse_count(text: &str) -> Result<u64, String> {
    scaled(text, 1000)
}

/// Bytes: suffixes are binary.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    scaled(text, 1024)
}

/// Hex digits of at most `max` bytes, with a note of how many there are when some are left out.
pub fn hex(bytes: &[u8], max: usize) -> String {
    let mut out = String::with_capacity(2 + 2 * max.min(bytes.len()));
    out.push_str("0x");
    for b in bytes.iter().take(max) {
        out.push_str(&format!("{b:02x}"));
    }
    if bytes.len() > max {
        out.push_str(&format!("... ({} bytes)", bytes.len()));
    }
    out
}

/// Rows of cells; columns are as wide as their widest cell. The first `left` columns are text.
pub struct Grid {
    rows: Vec<Vec<String>>,
    left: usize,
}

impl Grid {
    pub fn new(left: usize, header: &[&str]) -> Grid {
        Grid { rows: vec![header.iter().map(|h| (*h).to_string()).collect()], left }
    }

    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }
}

impl fmt::Display for Grid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |c: usize| {
            self.rows.iter().filter_map(|r| r.get(c)).map(|s| s.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for row in &self.rows {
            let mut line = String::new();
            for (c, cell) in row.iter().enumerate() {
                let w = widths[c];
                if c > 0 {
                    line.push_str("  ");
                }
                if c < self.left {
                    line.push_str(&format!("{cell:<w$}"));
                } else {
                    line.push_str(&format!("{cell:>w$}"));
                }
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_as_people_write_them() {
        assert_eq!(parse_bytes("256M"), Ok(256 << 20));
        assert_eq!(parse_bytes("1.5k"), Ok(1536));
        assert_eq!(parse_count("1.5M"), Ok(1_500_000));
        assert_eq!(parse_count("200_000"), Ok(200_000));
        for bad in ["", "x", "5T", "-1", "1e9", "99999999999999999999", "18446744073709551615G"] {
            assert!(parse_count(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn numbers_keep_their_meaning_when_printed() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(1 << 20), "1.0 MiB");
        assert_eq!(bytes(300 << 20), "300 MiB");
        assert_eq!(hex(&[1, 0xab, 3], 2), "0x01ab... (3 bytes)");
    }

    #[test]
    fn a_grid_aligns_text_left_and_numbers_right() {
        let mut grid = Grid::new(1, &["name", "n"]);
        grid.row(vec!["x".into(), "1000".into()]);
        assert_eq!(grid.to_string(), "name     n\nx     1000\n");
    }
}
