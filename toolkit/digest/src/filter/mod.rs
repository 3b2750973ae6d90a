//! Chooses events: a small typed expression language, and the times of `--since/--until`.
//!
//! ```text
//! db == "shop" && query_time > 500ms && !(user in ("batch", "backup"))
//! tables == "shop.orders" && sql =~ "(?i)force index" || rows_examined > 1e6
//! ```
//!
//! Operators, weakest first: `||` `or`; `&&` `and`; `!` `not`; comparisons `== != < <= > >= =~ !~ in`
//! (`=` is taken as `==`). Fields are the attributes of an `Event` by their names in a slow log,
//! and a few more; `fields` lists them. Literals are strings, numbers, durations (`500ms`, `2h`),
//! sizes (`10MB`, `4KiB`), `true` and `false`; times are strings as `--since` takes them.
//!
//! Invariants
//!
//! - FI1. Everything is checked when the text is parsed: names, types, literals, patterns. Each error
//!   points at its column. Evaluation cannot fail.
//! - FI2. A comparison with a number or time the event does not have is false, `!=` included; use
//!   `known(field)` to ask. An unknown text is the empty text.
//! - FI3. Evaluation neither allocates (its buffers are in `Scratch`) nor recurses: an expression is
//!   compiled to tests, each of which names the next test for either outcome.
//! - FI4. Patterns run in linear time and their compiled size is bounded.
//!
//! Tested in `tests/it/filter/`.

mod compile;
mod error;
mod fields;
mod lexer;
mod literals;
mod parser;
mod test;
mod time;

pub use error::FilterError;
pub use fields::names as field_names;
pub use literals::Context;
pub use time::{parse_time, TimeError};

use compile::{Step, WANTED};
use frond_event::Event;
use frond_sqltext::{ClassId, Dialect, StatementKind, TableRef};
use test::Test;

/// An expression, checked and compiled.
#[derive(Clone, Debug)]
pub struct Filter {
    tests: Vec<Step>,
    start: u16,
    dialect: Dialect,
    class: bool,
}

/// Buffers for evaluation; one per thread, reused for every event.
#[derive(Debug, Default)]
pub struct Scratch {
    fingerprint: Vec<u8>,
    tables: Vec<TableRef<'static>>,
}
impl Filter {
    /// Checks and compiles `text`.
    pub fn parse(text: &str, context: &Context) -> Result<Filter, FilterError> {
        let expression = parser::parse(text, context)?;
        let (tests, start) = compile::compile(expression)
            .map_err(|what| FilterError::new(text, 0..text.len(), what))?;
        let class = tests.iter().any(|step| matches!(step.test, Test::Classes(_)));
        Ok(Filter { tests, start, dialect: context.dialect, class })
    }

    /// Whether the expression uses the class. Then a caller that has the fingerprint should
    /// pass it.
    pub fn needs_class(&self) -> bool {
        self.class
    }

    /// Whether the event is wanted. `fingerprint` is that of the event's statement in the dialect
    /// of the context, if the caller has it.
    pub fn matches(
        &self,
        event: &Event<'_>,
        fingerprint: Option<&[u8]>,
        scratch: &mut Scratch,
    ) -> bool {
        let mut at = self.start;
        while let Some(step) = self.tests.get(usize::from(at)) {
            let holds = self.holds(&step.test, event, fingerprint, scratch);
            at = if holds { step.on_true } else { step.on_false };
        }
        at == WANTED
    }

    fn holds(
        &self,
        test: &Test,
        event: &Event<'_>,
        fingerprint: Option<&[u8]>,
        scratch: &mut Scratch,
    ) -> bool {
        match test {
            Test::Always => true,
            Test::Range { number, from, to, inside } => number
                .of(event)
                .is_some_and(|value| (*from..=*to).contains(&i128::from(value)) == *inside),
            Test::Numbers { left, op, right } => match (left.of(event), right.of(event)) {
                (Some(left), Some(right)) => op.holds(left, right),
                _ => false,
            },
            Test::KnownNumber(number) => number.of(event).is_some(),
            Test::KnownYesNo(what) => what.of(event).is_some(),
            Test::YesNo { what, yes } => what.of(event) == Some(*yes),
            Test::Texts { text, any } => {
                let value = text.of(event);
                any.iter().any(|wanted| **wanted == *value)
            }
            Test::SameText { left, right } => left.of(event) == right.of(event),
            Test::Matches { text, pattern } => pattern.is_match(text.of(event)),
            Test::KnownText(text) => !text.of(event).is_empty(),
            Test::Kinds(kinds) => kinds.contains(&StatementKind::of(event.sql)),
            Test::Commands(commands) => commands.contains(&event.kind),
            Test::Classes(classes) => {
                let fingerprint = match fingerprint {
                    Some(fingerprint) => fingerprint,
                    None => {
                        let out = &mut scratch.fingerprint;
                        frond_sqltext::fingerprint(event.sql, self.dialect, out);
                        out
                    }
                };
                let id = ClassId::of(fingerprint);
                classes.iter().any(|class| match class {
                    frond_sqltext::ClassIdText::Full(full) => *full == id,
                    frond_sqltext::ClassIdText::Short(short) => *short == id.short(),
                })
            }
            Test::Tables(names) => any_table(event, scratch, |db, table| {
                names.iter().any(|name| {
                    *name.table == *table && name.db.as_ref().is_none_or(|wanted| **wanted == *db)
                })
            }),
            Test::TableMatches(pattern) => {
                any_table(event, scratch, |_, table| pattern.is_match(table))
            }
            Test::AnyTable => any_table(event, scratch, |_, _| true),
        }
    }
}

/// Whether the expression wants one of the statement's tables, given database (the event's own where
/// the statement does not name one) and name.
fn any_table(
    event: &Event<'_>,
    scratch: &mut Scratch,
    wanted: impl Fn(&[u8], &[u8]) -> bool,
) -> bool {
    let mut tables = emptied(std::mem::take(&mut scratch.tables));
    frond_sqltext::tables(event.sql, frond_sqltext::SqlMode::default(), &mut tables);
    let found = tables.iter().any(|t| {
        let db = if t.db.is_empty() { event.db } else { t.db };
        wanted(db, t.table)
    });
    scratch.tables = emptied(tables);
    found
}

/// Reuses the memory for names of another statement. The standard library collects a vector's own
/// iterator in place, so nothing is allocated.
fn emptied<'b>(mut tables: Vec<TableRef<'_>>) -> Vec<TableRef<'b>> {
    tables.clear();
    tables.into_iter().map(|_| TableRef { db: b"", table: b"" }).collect()
}
