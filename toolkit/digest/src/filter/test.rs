//! The tests that make up an expression, and the tree of them that the parser returns.

use super::fields::{Number, Text, YesNo};
use frond_sqltext::StatementKind;
use regex::bytes::Regex;

#[derive(Clone, Debug)]
pub(super) enum Test {
    Always,
    /// The number is known and in the range, or outside of it.
    Range {
        number: Number,
        from: i128,
        to: i128,
        inside: bool,
    },
    /// Both numbers are known and in this relation.
    Numbers {
        left: Number,
        op: Relation,
        right: Number,
    },
    KnownNumber(Number),
    KnownYesNo(YesNo),
    YesNo {
        what: YesNo,
        yes: bool,
    },
    Texts {
        text: Text,
        any: Vec<Box<[u8]>>,
    },
    SameText {
        left: Text,
        right: Text,
    },
    Matches {
        text: Text,
        pattern: Regex,
    },
    KnownText(Text),
    Kinds(Vec<StatementKind>),
    Commands(Vec<frond_event::Kind>),
    Classes(Vec<frond_sqltext::ClassIdText>),
    Tables(Vec<TableName>),
    TableMatches(Regex),
    AnyTable,
}

/// A table in a literal; without a database it matches any.
#[derive(Clone, Debug)]
pub(super) struct TableName {
    pub(super) db: Option<Box<[u8]>>,
    pub(super) table: Box<[u8]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Relation {
    Equal,
    NotEqual,
    Less,
    AtMost,
    Greater,
    AtLeast,
}

impl Relation {
    pub(super) fn holds<T: Ord>(self, left: T, right: T) -> bool {
        match self {
            Relation::Equal => left == right,
            Relation::NotEqual => left != right,
            Relation::Less => left < right,
            Relation::AtMost => left <= right,
            Relation::Greater => left > right,
            Relation::AtLeast => left >= right,
        }
    }

    /// The relation of the right side to the left one.
    pub(super) fn flipped(self) -> Relation {
        match self {
            Relation::Less => Relation::Greater,
            Relation::AtMost => Relation::AtLeast,
            Relation::Greater => Relation::Less,
            Relation::AtLeast => Relation::AtMost,
            same => same,
        }
    }
}

/// The parser's result.
#[derive(Clone, Debug)]
pub(super) enum Expression {
    Test(Test),
    Not(Box<Expression>),
    And(Box<Expression>, Box<Expression>),
    Or(Box<Expression>, Box<Expression>),
}

impl From<Test> for Expression {
    fn from(test: Test) -> Self {
        Expression::Test(test)
    }
}

pub(super) fn negated(expression: impl Into<Expression>, not: bool) -> Expression {
    let expression = expression.into();
    if not {
        Expression::Not(Box::new(expression))
    } else {
        expression
    }
}
