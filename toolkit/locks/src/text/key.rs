//! The values of a record, from the bytes that the monitor prints. Without the table's definition they are guesses, but
//! right for integers and for text.

use std::fmt::Write;

/// Number of fields of a record that are kept.
const MOST: usize = 8;

/// Collects the fields of one record.
#[derive(Default)]
pub struct Fields {
    found: Vec<Option<Vec<u8>>>,
    supremum: bool,
}

impl Fields {
    /// Adds a line of a record: ` 0: len 4; hex 80000001; asc     ;;`; old servers print all fields in one line.
    pub fn line(&mut self, line: &[u8]) {
        let mut rest = line;
        while self.found.len() < MOST {
            let head = format!("{}: ", self.found.len());
            let Some(body) = rest.trim_ascii_start().strip_prefix(head.as_bytes()) else { return };
            if body.starts_with(b"SQL NULL") {
                self.found.push(None);
            } else if let Some(at) = memchr::memmem::find(body, b"; hex ") {
                let hex = &body[at + 6..];
                let end = hex.iter().take_while(|b| b.is_ascii_hexdigit()).count();
                self.found.push(Some(bytes(&hex[..end])));
            } else {
                return;
            }
            self.supremum |= self.found[0].as_deref().is_some_and(|first| first == b"supremum");
            let next = format!(";; {}: ", self.found.len());
            match memchr::memmem::find(body, next.as_bytes()) {
                Some(at) => rest = &body[at + 3..],
                None => return,
            }
        }
    }

    /// The key: in a clustered index the fields before the transaction's number (6 bytes) and the roll pointer (7
    /// bytes).
    pub fn key(&self) -> Option<String> {
        if self.supremum {
            return Some("behind the last record of the page".into());
        }
        let length = |at: usize| self.found.get(at).and_then(Option::as_ref).map(Vec::len);
        let end = (1..self.found.len())
            .find(|&at| length(at) == Some(6) && length(at + 1) == Some(7))
            .unwrap_or(self.found.len());
        if end == 0 {
            return None;
        }
        let values: Vec<String> = self.found[..end]
            .iter()
            .map(|field| field.as_deref().map_or("NULL".into(), value))
            .collect();
        Some(values.join(", "))
    }
}

fn bytes(hex: &[u8]) -> Vec<u8> {
    let digit = |b: u8| (b as char).to_digit(16).unwrap_or(0) as u8;
    hex.chunks_exact(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}

/// Integers are stored with their sign bit inverted, so that they sort as bytes.
fn value(bytes: &[u8]) -> String {
    let text = |b: &u8| (b' '..=b'~').contains(b);
    let trimmed = bytes.trim_ascii_end();
    match bytes.len() {
        1..=4 | 8 if !bytes.iter().all(text) => {
            let number = bytes.iter().fold(0_u64, |n, b| n << 8 | u64::from(*b));
            let bits = bytes.len() as u32 * 8;
            let middle = 1_u64 << (bits - 1);
            if number >= middle {
                (number - middle).to_string()
            } else if number >= middle - (middle >> 8) {
                // A small negative number; for other values it is more likely that the column is unsigned.
                format!("-{}", middle - number)
            } else {
                number.to_string()
            }
        }
        _ if !trimmed.is_empty() && trimmed.iter().all(text) => {
            format!("'{}'", String::from_utf8_lossy(trimmed))
        }
        0 => "''".into(),
        _ => match std::str::from_utf8(trimmed) {
            Ok(text) if !text.chars().any(char::is_control) => format!("'{text}'"),
            _ => bytes.iter().fold("0x".into(), |mut out, b| {
                let _ = write!(out, "{b:02x}");
                out
            }),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(lines: &[&str]) -> Option<String> {
        let mut fields = Fields::default();
        lines.iter().for_each(|line| fields.line(line.as_bytes()));
        fields.key()
    }

    #[test]
    fn keys_are_read_from_clustered_and_secondary_records() {
        let clustered = [
            " 0: len 4; hex 80000001; asc     ;;",
            " 1: len 6; hex 00000000001c; asc       ;;",
            " 2: len 7; hex 09000001390110; asc     9  ;;",
            " 3: len 3; hex 6f6e65; asc one;;",
        ];
        assert_eq!(key(&clustered).as_deref(), Some("1"));
        let secondary = [" 0: len 3; hex 6f6e65; asc one;;", " 1: len 4; hex 7ffffffe; asc     ;;"];
        assert_eq!(key(&secondary).as_deref(), Some("'one', -2"));
        let old =
            " 0: len 6; hex 000000000501; asc       ;; 1: len 6; hex 00000039e24f; asc    9 O;; \
                   2: len 7; hex 8000000e490110; asc     I  ;; 3: len 4; hex 80000000; asc     ;;";
        assert_eq!(key(&[old]).as_deref(), Some("0x000000000501"));
        assert_eq!(
            key(&[" 0: SQL NULL;", " 1: len 4; hex 80000007; asc     ;;"]).as_deref(),
            Some("NULL, 7")
        );
        let supremum = " 0: len 8; hex 73757072656d756d; asc supremum;;";
        assert_eq!(key(&[supremum]).as_deref(), Some("behind the last record of the page"));
        assert_eq!(key(&[" 0: len", "", "x"]), None);
    }
}
