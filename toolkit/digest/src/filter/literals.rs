//! Literals: what the right side of a comparison means for the field on its left, checked against the
//! field's type.

use std::ops::Range;

use regex::bytes::{Regex, RegexBuilder};

use super::error::{FilterError, Result};
use super::fields::{Field, Measure, Number};
use super::test::{Relation, TableName, Test};
use super::{lexer, time};
use crate::nearest::nearest;
use frond_event::{Kind, Micros};
use frond_sqltext::{ClassIdText, Dialect, StatementKind};
use jiff::tz::TimeZone;

/// Limits of a pattern's compiled size and of its cache, in bytes.
const PATTERN_BYTES: usize = 1 << 20;
/// A pattern longer than this is refused at once: a megabyte of parentheses takes the library 1.5 s.
const LONGEST_PATTERN: usize = 32 << 10;

/// Settings on which the meaning of literals depends.
#[derive(Clone, Debug)]
pub struct Context {
    /// For times such as `2h` (ago) and `today`.
    pub now: Micros,
    /// For times without a zone.
    pub zone: TimeZone,
    /// The dialect in which the field `class` is computed.
    pub dialect: Dialect,
}

/// One side of a comparison.
pub(super) enum Side {
    Field(Field),
    Text(String),
    Number(lexer::Number),
    Bool(bool),
}

/// Reads literals of the expression `text`.
pub(super) struct Literals<'t> {
    pub(super) text: &'t str,
    pub(super) context: &'t Context,
}

impl Literals<'_> {
    pub(super) fn error(&self, place: Range<usize>, what: impl Into<String>) -> FilterError {
        FilterError::new(self.text, place, what)
    }

    /// The test that `field`, which is not a number, equals one of the values.
    pub(super) fn any_of(&self, field: &Field, values: &[(Side, Range<usize>)]) -> Result<Test> {
        let texts = |what: &str| {
            values
                .iter()
                .map(|(value, place)| match value {
                    Side::Text(text) => Ok((text.as_str(), place.clone())),
                    _ => Err(self.error(place.clone(), format!("{what} is expected here"))),
                })
                .collect::<Result<Vec<_>>>()
        };
        let one_of = |text: &str, place: Range<usize>, what: &str, names: Vec<&'static str>| {
            let hint = match nearest(text, names.iter().copied()) {
                Some(near) => format!("did you mean \"{near}\"?"),
                None => format!("known are {}", names.join(", ")),
            };
            self.error(place, format!("unknown {what} \"{text}\"; {hint}"))
        };
        match field {
            Field::Text(text) => {
                let any = texts("a text in quotes")?.into_iter().map(|(t, _)| t.as_bytes().into());
                Ok(Test::Texts { text: text.clone(), any: any.collect() })
            }
            Field::Tables => {
                let names = texts("a table's name in quotes")?.into_iter().map(|(name, _)| {
                    let name = name.replace('`', "");
                    match name.split_once('.') {
                        Some((db, table)) => TableName {
                            db: Some(db.as_bytes().into()),
                            table: table.as_bytes().into(),
                        },
                        None => TableName { db: None, table: name.as_bytes().into() },
                    }
                });
                Ok(Test::Tables(names.collect()))
            }
            Field::Class => {
                let ids = texts("a class id in quotes")?.into_iter().map(|(text, place)| {
                    text.parse::<ClassIdText>().map_err(|e| self.error(place, e.to_string()))
                });
                Ok(Test::Classes(ids.collect::<Result<_>>()?))
            }
            Field::Kind => {
                let kinds = texts("a kind of statement in quotes, such as \"select\",")?;
                let kinds = kinds.into_iter().map(|(text, place)| {
                    let known =
                        StatementKind::ALL.iter().find(|k| k.name().eq_ignore_ascii_case(text));
                    known.copied().ok_or_else(|| {
                        let names = StatementKind::ALL.iter().map(|k| k.name()).collect();
                        one_of(text, place, "kind of statement", names)
                    })
                });
                Ok(Test::Kinds(kinds.collect::<Result<_>>()?))
            }
            Field::Command => {
                let commands = texts("a command in quotes, such as \"execute\",")?;
                let commands = commands.into_iter().map(|(text, place)| {
                    let known = COMMANDS.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
                    known.map(|(_, kind)| *kind).ok_or_else(|| {
                        let names = COMMANDS.iter().map(|(name, _)| *name).collect();
                        one_of(text, place, "command", names)
                    })
                });
                Ok(Test::Commands(commands.collect::<Result<_>>()?))
            }
            Field::YesNo(_) | Field::Number(_) => {
                let place = values.first().map_or(0..0, |(_, place)| place.clone());
                Err(self.error(place, "true or false is expected here"))
            }
        }
    }

    pub(super) fn pattern(&self, pattern: &str, place: Range<usize>) -> Result<Regex> {
        if pattern.len() > LONGEST_PATTERN {
            let what = format!("the pattern is longer than {LONGEST_PATTERN} bytes");
            return Err(self.error(place, what));
        }
        RegexBuilder::new(pattern)
            .size_limit(PATTERN_BYTES)
            .dfa_size_limit(PATTERN_BYTES)
            .build()
            .map_err(|error| {
                let what = match error {
                    regex::Error::CompiledTooBig(_) => {
                        "the pattern is too large when compiled".into()
                    }
                    regex::Error::Syntax(text) => {
                        // The library's message is a drawing; its last line names the cause.
                        let last = text.lines().last().unwrap_or_default();
                        format!("the pattern is wrong: {}", last.trim_start_matches("error: "))
                    }
                    other => other.to_string(),
                };
                self.error(place, what)
            })
    }

    /// A literal in the unit of `number`, as a fraction.
    pub(super) fn exact(
        &self,
        number: Number,
        side: &Side,
        place: Range<usize>,
    ) -> Result<Fraction> {
        let measure = number.measure();
        let wrong =
            || self.error(place.clone(), format!("{} is expected here", measure.describe()));
        match (measure, side) {
            (Measure::Moment, Side::Text(text)) => {
                let at = time::parse_time(text, self.context.now, &self.context.zone)
                    .map_err(|e| self.error(place.clone(), e.to_string()))?;
                Ok(Fraction { value: i128::from(at), by: 1 })
            }
            (Measure::Moment, Side::Number(n)) if n.unit.is_empty() => {
                // Seconds since the epoch.
                Ok(Fraction::new(n, 1_000_000))
            }
            (Measure::Duration, Side::Number(n)) => {
                let factor = match n.unit.as_str() {
                    "" | "s" | "sec" => 1_000_000_000,
                    "ns" => 1,
                    "us" | "µs" | "μs" => 1_000,
                    "ms" => 1_000_000,
                    "m" | "min" => 60_000_000_000,
                    "h" => 3_600_000_000_000,
                    "d" => 86_400_000_000_000,
                    unit => {
                        let what =
                            format!("'{unit}' is no unit of time; use ns, us, ms, s, m, h or d");
                        return Err(self.error(place, what));
                    }
                };
                Ok(Fraction::new(n, factor))
            }
            (Measure::Size | Measure::Count, Side::Number(n)) => {
                let bytes = matches!(measure, Measure::Size);
                let factor = match n.unit.to_ascii_lowercase().as_str() {
                    "" => 1,
                    "b" if bytes => 1,
                    "k" | "kb" if bytes || n.unit.len() == 1 => 1_000,
                    "m" | "mb" if bytes || n.unit.len() == 1 => 1_000_000,
                    "g" | "gb" if bytes || n.unit.len() == 1 => 1_000_000_000,
                    "t" | "tb" if bytes || n.unit.len() == 1 => 1_000_000_000_000,
                    "kib" if bytes => 1 << 10,
                    "mib" if bytes => 1 << 20,
                    "gib" if bytes => 1 << 30,
                    "tib" if bytes => 1 << 40,
                    _ if bytes => {
                        let what = format!(
                            "'{}' is no unit of size; use kB, MB, GB, KiB, MiB or GiB",
                            n.unit
                        );
                        return Err(self.error(place, what));
                    }
                    _ => {
                        let what =
                            format!("'{}' is no unit of a count; use k, M or G, or none", n.unit);
                        return Err(self.error(place, what));
                    }
                };
                Ok(Fraction::new(n, factor))
            }
            _ => Err(wrong()),
        }
    }
}

const COMMANDS: [(&str, Kind); 7] = [
    ("query", Kind::Query),
    ("execute", Kind::Execute),
    ("prepare", Kind::Prepare),
    ("connect", Kind::Connect),
    ("quit", Kind::Quit),
    ("init_db", Kind::InitDb),
    ("admin", Kind::Admin),
];

/// `value / by`, `by` positive.
#[derive(Clone, Copy)]
pub(super) struct Fraction {
    value: i128,
    by: i128,
}

impl Fraction {
    fn new(number: &lexer::Number, factor: i128) -> Self {
        Fraction { value: number.digits.saturating_mul(factor), by: 10i128.pow(number.scale) }
    }
}

/// The test that `number` is in `relation` to `value`, as a range of integers.
pub(super) fn range(number: Number, relation: Relation, value: Fraction) -> Test {
    let floor = value.value.div_euclid(value.by);
    let whole = value.value.rem_euclid(value.by) == 0;
    let ceil = if whole { floor } else { floor + 1 };
    let (from, to, inside) = match relation {
        Relation::Less => (i128::MIN, ceil - 1, true),
        Relation::AtMost => (i128::MIN, floor, true),
        Relation::Greater => (floor + 1, i128::MAX, true),
        Relation::AtLeast => (ceil, i128::MAX, true),
        // For a value between two integers the range is empty.
        Relation::Equal => (ceil, floor, true),
        Relation::NotEqual => (ceil, floor, false),
    };
    Test::Range { number, from, to, inside }
}
