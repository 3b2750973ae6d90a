//! The tokens of an expression.

use super::error::FilterError;
use std::ops::Range;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    /// A name or a word of the language.
    Name(String),
    /// Quoted, with its escapes resolved.
    Text(String),
    Number(Number),
    Op(&'static str),
    End,
}

/// A number as written: `digits * 10^-scale`, and the unit that touches it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Number {
    pub(super) digits: i128,
    pub(super) scale: u32,
    pub(super) unit: String,
}

/// Two-letter operators first.
const OPS: [&str; 18] = [
    "&&", "||", "==", "!=", "<>", "<=", ">=", "=~", "!~", "<", ">", "=", "!", "(", ")", ",", ".",
    "-",
];

/// Exponents and digits that a number may have; what is larger is no attribute's value.
const MAX_DIGITS: usize = 24;

/// The tokens with their places, an `End` last.
pub(super) fn tokens(text: &str) -> Result<Vec<(Token, Range<usize>)>, FilterError> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        let rest = &text[at..];
        if c.is_whitespace() {
            at += c.len_utf8();
            continue;
        }
        let (token, len) = if c.is_ascii_alphabetic() || c == '_' {
            let len =
                rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
            (Token::Name(rest[..len].to_string()), len)
        } else if c.is_ascii_digit()
            || c == '.' && rest[1..].starts_with(|c: char| c.is_ascii_digit())
        {
            number(text, at)?
        } else if c == '"' || c == '\'' {
            quoted(text, at, c)?
        } else if let Some(op) = OPS.iter().find(|op| rest.starts_with(**op)) {
            (Token::Op(op), op.len())
        } else {
            let what = match c {
                '&' => "'&' is no operator; use '&&' or 'and'".to_string(),
                '|' => "'|' is no operator; use '||' or 'or'".to_string(),
                '`' => "names take no quotes; strings take '\"' or \"'\"".to_string(),
                c => format!("'{}' cannot stand here", c.escape_default()),
            };
            return Err(FilterError::new(text, at..at + c.len_utf8(), what));
        };
        found.push((token, at..at + len));
        at += len;
    }
    found.push((Token::End, text.len()..text.len()));
    Ok(found)
}

fn number(text: &str, start: usize) -> Result<(Token, usize), FilterError> {
    let bytes = text.as_bytes();
    let mut digits: i128 = 0;
    let mut scale = 0i64;
    let mut count = 0;
    let mut at = start;
    let mut fraction = false;
    while let Some(b) = bytes.get(at) {
        match b {
            b'0'..=b'9' => {
                digits = digits.saturating_mul(10).saturating_add(i128::from(b - b'0'));
                count += 1;
                scale += i64::from(fraction);
            }
            b'_' if count > 0 => {}
            b'.' if !fraction && bytes.get(at + 1).is_some_and(u8::is_ascii_digit) => {
                fraction = true
            }
            _ => break,
        }
        at += 1;
    }
    // 1e6, 1.5E-3; not the beginning of a unit
    if matches!(bytes.get(at), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
        let exponent = text[at + 1 + sign..].bytes().take_while(u8::is_ascii_digit).count();
        if exponent > 0 {
            let end = at + 1 + sign + exponent;
            let value: i64 = text[at + 1 + sign..end].parse().unwrap_or(i64::MAX);
            let value = value.min(1000);
            scale += if bytes[at + 1] == b'-' { value } else { -value };
            at = end;
        }
    }
    if count > MAX_DIGITS || scale.unsigned_abs() as usize > MAX_DIGITS {
        return Err(FilterError::new(text, start..at, "no attribute has values of this size"));
    }
    if scale < 0 {
        digits = digits.saturating_mul(10i128.pow(scale.unsigned_abs() as u32));
        scale = 0;
    }
    let unit_len = text[at..].find(|c: char| !c.is_alphabetic()).unwrap_or(text.len() - at);
    let unit = text[at..at + unit_len].to_string();
    let token = Token::Number(Number { digits, scale: scale as u32, unit });
    Ok((token, at + unit_len - start))
}

fn quoted(text: &str, start: usize, quote: char) -> Result<(Token, usize), FilterError> {
    let mut value = String::new();
    let mut chars = text[start + 1..].char_indices();
    while let Some((at, c)) = chars.next() {
        if c == quote {
            return Ok((Token::Text(value), at + 2));
        }
        if c != '\\' {
            value.push(c);
            continue;
        }
        match chars.next() {
            // A pattern's own escapes stay as they are.
            Some((_, c)) if c == quote => value.push(c),
            Some((_, c)) => {
                value.push('\\');
                value.push(c);
            }
            None => break,
        }
    }
    let what = format!("the string that begins here has no closing {quote}");
    Err(FilterError::new(text, start..start + 1, what))
}
