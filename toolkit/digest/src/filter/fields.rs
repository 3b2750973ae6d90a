//! The names that an expression can use, their types, and their values in an event.

use frond_event::Event;
use frond_event::{Flag, Metric, Unit};

/// A field of an event by its type.
#[derive(Clone, Debug)]
pub(super) enum Field {
    Text(Text),
    Number(Number),
    YesNo(YesNo),
    Kind,
    Command,
    Class,
    Tables,
}

#[derive(Clone, Debug)]
pub(super) enum Text {
    Sql,
    Db,
    User,
    Host,
    Ip,
    ErrorMessage,
    Plan,
    Warnings,
    Routine,
    /// An attribute that is not well known.
    Attribute(Box<[u8]>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Number {
    Metric(Metric),
    ThreadId,
    Error,
    Rate,
    Start,
    End,
}

/// A field that is yes or no.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum YesNo {
    Flag(Flag),
    /// The event has a duration.
    Measured,
}

/// The unit of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Measure {
    Duration,
    Size,
    Count,
    Moment,
}

impl Measure {
    pub(super) fn describe(self) -> &'static str {
        match self {
            Measure::Duration => "a duration such as 0.5, 500ms or 2s",
            Measure::Size => "a size such as 4096, 10MB or 4KiB",
            Measure::Count => "a number such as 1000 or 1e6",
            Measure::Moment => "a time such as \"2h\" (ago) or \"2024-01-31 10:00\"",
        }
    }
}

const TEXTS: [(&str, Text); 9] = [
    ("sql", Text::Sql),
    ("db", Text::Db),
    ("user", Text::User),
    ("host", Text::Host),
    ("ip", Text::Ip),
    ("error_text", Text::ErrorMessage),
    ("plan", Text::Plan),
    ("warnings", Text::Warnings),
    ("routine", Text::Routine),
];

const NUMBERS: [(&str, Number); 5] = [
    ("thread_id", Number::ThreadId),
    ("error", Number::Error),
    ("rate", Number::Rate),
    ("start", Number::Start),
    ("end", Number::End),
];

/// Other names of fields: of the logs, and of pt-query-digest.
const ALIASES: [(&str, &str); 8] = [
    ("schema", "db"),
    ("database", "db"),
    ("arg", "sql"),
    ("query", "sql"),
    ("table", "tables"),
    ("stored_routine", "routine"),
    ("last_errno", "error"),
    ("ts", "start"),
];

const SPECIAL: [&str; 5] = ["measured", "kind", "command", "class", "tables"];

/// Every name, for messages and help texts.
pub fn names() -> impl Iterator<Item = &'static str> {
    let metrics = Metric::ALL.iter().map(|m| m.name());
    let flags = Flag::ALL.iter().map(|f| f.name());
    let texts = TEXTS.iter().map(|(name, _)| *name);
    let numbers = NUMBERS.iter().map(|(name, _)| *name);
    texts.chain(numbers).chain(SPECIAL).chain(metrics).chain(flags)
}

/// The field of this name, whatever its case.
pub(super) fn field(name: &str) -> Option<Field> {
    let name = name.to_ascii_lowercase();
    let name = ALIASES.iter().find(|(alias, _)| *alias == name).map_or(name.as_str(), |(_, n)| n);
    if let Some((_, text)) = TEXTS.iter().find(|(text, _)| *text == name) {
        return Some(Field::Text(text.clone()));
    }
    if let Some((_, number)) = NUMBERS.iter().find(|(number, _)| *number == name) {
        return Some(Field::Number(*number));
    }
    Some(match name {
        "measured" => Field::YesNo(YesNo::Measured),
        "kind" => Field::Kind,
        "command" => Field::Command,
        "class" => Field::Class,
        "tables" => Field::Tables,
        _ => match (Metric::from_name(name.as_bytes()), Flag::from_name(name.as_bytes())) {
            (Some(metric), _) => Field::Number(Number::Metric(metric)),
            (None, Some(flag)) => Field::YesNo(YesNo::Flag(flag)),
            (None, None) => return None,
        },
    })
}

impl Text {
    #[inline]
    pub(super) fn of<'a>(&self, event: &Event<'a>) -> &'a [u8] {
        match self {
            Text::Sql => event.sql,
            Text::Db => event.db,
            Text::User => event.user,
            Text::Host => event.host,
            Text::Ip => event.ip,
            Text::ErrorMessage => event.error_text,
            Text::Plan => event.plan,
            Text::Warnings => event.warnings,
            Text::Routine => event.routine,
            Text::Attribute(name) => event.attribute(name).unwrap_or_default(),
        }
    }
}

impl Number {
    /// In the unit of the event: nanoseconds for durations, microseconds for moments.
    #[inline]
    pub(super) fn of(self, event: &Event<'_>) -> Option<i64> {
        let clamped = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        match self {
            Number::Metric(metric) => event.metrics.get(metric).map(clamped),
            Number::ThreadId => event.thread_id.map(clamped),
            Number::Error => event.error.map(i64::from),
            Number::Rate => Some(i64::from(event.rate)),
            Number::Start => event.start,
            Number::End => event.end,
        }
    }

    pub(super) fn measure(self) -> Measure {
        match self {
            Number::Metric(metric) => match metric.unit() {
                Unit::Time => Measure::Duration,
                Unit::Bytes => Measure::Size,
                Unit::Count => Measure::Count,
            },
            Number::ThreadId | Number::Error | Number::Rate => Measure::Count,
            Number::Start | Number::End => Measure::Moment,
        }
    }
}

impl YesNo {
    #[inline]
    pub(super) fn of(self, event: &Event<'_>) -> Option<bool> {
        match self {
            YesNo::Flag(flag) => event.flags.get(flag),
            YesNo::Measured => Some(event.query_time().is_some()),
        }
    }
}
