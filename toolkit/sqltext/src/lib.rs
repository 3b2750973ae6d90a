//! Classifies statements: fingerprints, class ids, statement kinds, tables, redaction.
//!
//! Two statements belong to one class if their fingerprints are equal. A fingerprint is the
//! statement without the parts that change from call to call. Tools differ in which parts they mean,
//! so there are dialects: our own (`Dialect::Frond`) and those of other tools, so that class
//! ids in old tickets, dashboards and review tables can still be found.
//!
//! Invariants
//!
//! - SQL1. Statements are bytes. Nothing here assumes UTF-8, and no input makes anything here panic.
//! - SQL2. Time is linear in the input, whatever the input is. After the first tuple of a multi-row
//!   INSERT the cost is bounded by a constant.
//! - SQL3. No call allocates once the caller's buffer has grown to its usual size: a result
//!   replaces the buffer's content, and the buffer keeps its capacity.
//! - SQL4. A result is never longer than three times the statement plus 64 bytes.
//!
//! It does not parse SQL. A lexer and a few bits of context are enough for classes, keep
//! working on truncated or foreign statements, and are two orders of magnitude faster.
//!
//! It depends on no other crate of the project.
//!
//! Tested in `tests/it/`: examples, properties on random bytes, and, where the other tools are
//! installed, equality with pt-fingerprint and with a MariaDB server's statement digests.
#![forbid(unsafe_code)]

mod class;
mod distill;
mod folded;
mod frond;
mod keywords;
mod kind;
mod lexer;
mod mariadb;
mod mask;
mod mode;
mod output;
mod ptqd;
mod redact;
mod scan;
mod tables;

pub use class::{class_hash, ClassId, ClassIdText, ParseClassIdError, ShortClassId};
use distill::Digits;
pub use kind::StatementKind;
pub use lexer::{Kind as TokenKind, Token};
pub use mode::SqlMode;
pub use tables::TableRef;

use folded::Folded;

/// The rules by which statements count as the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// Our own: a SQL lexer that knows quotes, comments, literals and identifiers.
    #[default]
    Frond,
    /// Byte for byte as in pt-query-digest 3.2.1 and pt-fingerprint 3.2.1, including their errors.
    Ptqd32,
    /// The same for pt-query-digest 3.5.
    Ptqd35,
    /// `DIGEST_TEXT` of MariaDB 10.11's `performance_schema`.
    MariadbDigest,
}

impl Dialect {
    /// Every dialect, in the order in which help texts list them.
    pub const ALL: [Dialect; 4] =
        [Dialect::Frond, Dialect::Ptqd32, Dialect::Ptqd35, Dialect::MariadbDigest];

    /// The name that an operator types.
    pub fn name(self) -> &'static str {
        match self {
            Dialect::Frond => "frond",
            Dialect::Ptqd32 => "ptqd-3.2",
            Dialect::Ptqd35 => "ptqd-3.5",
            Dialect::MariadbDigest => "mariadb-digest",
        }
    }
}

impl std::fmt::Display for Dialect {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl std::str::FromStr for Dialect {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        Dialect::ALL.into_iter().find(|d| d.name() == s).ok_or_else(|| {
            let known: Vec<_> = Dialect::ALL.iter().map(|d| d.name()).collect();
            format!("unknown dialect '{s}'; known are {}", known.join(", "))
        })
    }
}

/// Replaces `out` by the fingerprint of `sql`, read with the default `SqlMode`.
pub fn fingerprint(sql: &[u8], dialect: Dialect, out: &mut Vec<u8>) {
    fingerprint_with(sql, dialect, SqlMode::default(), out);
}

/// Replaces `out` by the fingerprint of `sql`. The dialects of other tools ignore `mode`, as those
/// tools do, except `MariadbDigest`.
pub fn fingerprint_with(sql: &[u8], dialect: Dialect, mode: SqlMode, out: &mut Vec<u8>) {
    out.clear();
    match dialect {
        Dialect::Frond => frond::fingerprint(sql, mode, out),
        Dialect::MariadbDigest => mariadb::fingerprint(sql, mode, out),
        Dialect::Ptqd32 => ptqd::fingerprint(sql, ptqd::Release::V3_2, out),
        Dialect::Ptqd35 => ptqd::fingerprint(sql, ptqd::Release::V3_5, out),
    }
}

/// The tokens of `sql`, in order, without white space and comments; the content of executable comments is read as SQL.
pub fn tokens(sql: &[u8], mode: SqlMode) -> impl Iterator<Item = Token> + '_ {
    let mut lexer = lexer::Lexer::new(sql, mode);
    std::iter::from_fn(move || lexer.next())
}

/// Replaces `out` by the tables `sql` reads or writes, each once, in the order of first mention.
/// Names that the statement itself defines (`WITH name AS`) and derived tables are not tables.
pub fn tables<'a>(sql: &'a [u8], mode: SqlMode, out: &mut Vec<TableRef<'a>>) {
    out.clear();
    tables::tables(sql, mode, out);
}

/// Replaces `out` by the distilled form, verbs and tables, which pt-query-digest's profile prints in
/// its column "Item" (`SELECT UNION t?`).
pub fn distill(sql: &[u8], out: &mut Vec<u8>) {
    out.clear();
    distill::distill(sql, Digits::Marked, out);
}

/// Replaces `out` by the short name of the class of `sql` in a dialect: its distilled form, but with the digits of names
/// if classes of the dialect differ in them.
pub fn item(sql: &[u8], dialect: Dialect, out: &mut Vec<u8>) {
    let digits = if dialect == Dialect::Frond { Digits::Kept } else { Digits::Marked };
    out.clear();
    distill::distill(sql, digits, out);
}

/// Replaces `out` by the statement with each literal replaced by `?`, whatever the session's `sql_mode` was: a statement
/// that can be read in two ways is masked to its end.
pub fn mask(sql: &[u8], out: &mut Vec<u8>) {
    out.clear();
    mask::mask(sql, out);
}

/// The `sql_mode` in which the statement is valid SQL; `None` if that is unknown.
pub fn sql_mode(sql: &[u8]) -> Option<SqlMode> {
    match mask::reading(sql) {
        mask::Reading::As(mode) => Some(mode),
        mask::Reading::DoubtfulFrom(_) => None,
    }
}

/// Replaces `out` by `sql` with every literal replaced by `?` and comments removed; everything else,
/// line breaks included, stays, so that the statement remains recognisable.
pub fn redact(sql: &[u8], mode: SqlMode, out: &mut Vec<u8>) {
    out.clear();
    redact::redact(sql, mode, out);
}

/// Replaces `out` by a sample fit for a report: long IN and VALUES lists are cut with a remark that
/// says how much is missing, then the whole is cut to `limit` bytes (0: no limit) in the same way.
pub fn shorten(sql: &[u8], limit: usize, out: &mut Vec<u8>) {
    out.clear();
    redact::shorten(sql, limit, out);
}
