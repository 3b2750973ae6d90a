//! From tokens to a tree of conditions, all types checked.

use super::error::{FilterError, Result};
use super::fields::{self, Field, Text};
use super::lexer::{self, Token};
use super::literals::{range, Context, Literals, Side};
use super::test::{negated, Expression, Relation, Test};
use crate::nearest::nearest;
use std::ops::Range;

/// Limits of nesting (parentheses and negations) and of the number of comparisons, so that
/// recursion is bounded.
const DEPTH: usize = 100;
const COMPARISONS: usize = 2000;

pub(super) struct Parser<'t> {
    literals: Literals<'t>,
    tokens: Vec<(Token, Range<usize>)>,
    at: usize,
    depth: usize,
    comparisons: usize,
}

/// How two sides are compared.
#[derive(Clone, Copy, PartialEq)]
enum Op {
    Relation(Relation),
    Matches { not: bool },
    In { not: bool },
}

pub(super) fn parse(text: &str, context: &Context) -> Result<Expression> {
    let tokens = lexer::tokens(text)?;
    let mut parser =
        Parser { literals: Literals { text, context }, tokens, at: 0, depth: 0, comparisons: 0 };
    if parser.peek() == &Token::End {
        return Err(parser.error_here("an expression is expected, such as query_time > 0.5"));
    }
    let expression = parser.or()?;
    match parser.peek() {
        Token::End => Ok(expression),
        Token::Op(")") => Err(parser.error_here("this ')' has no '('")),
        _ => Err(parser.error_here("'&&' or '||' is expected before this")),
    }
}

impl Parser<'_> {
    fn peek(&self) -> &Token {
        &self.tokens[self.at].0
    }

    fn place(&self) -> Range<usize> {
        self.tokens[self.at].1.clone()
    }

    fn error_here(&self, what: impl Into<String>) -> FilterError {
        self.error(self.place(), what)
    }

    fn error(&self, place: Range<usize>, what: impl Into<String>) -> FilterError {
        self.literals.error(place, what)
    }

    /// Consumes and returns the next token. The last one (`End`) is never consumed.
    fn take(&mut self) -> Token {
        let token = self.tokens[self.at].0.clone();
        self.at = (self.at + 1).min(self.tokens.len() - 1);
        token
    }

    fn take_op(&mut self, op: &str) -> bool {
        let is = matches!(self.peek(), Token::Op(o) if *o == op);
        if is {
            self.take();
        }
        is
    }

    fn take_word(&mut self, word: &str) -> bool {
        let is = matches!(self.peek(), Token::Name(name) if name.eq_ignore_ascii_case(word));
        if is {
            self.take();
        }
        is
    }

    fn or(&mut self) -> Result<Expression> {
        let mut left = self.and()?;
        while self.take_op("||") || self.take_word("or") {
            left = Expression::Or(Box::new(left), Box::new(self.and()?));
        }
        Ok(left)
    }

    fn and(&mut self) -> Result<Expression> {
        let mut left = self.not()?;
        while self.take_op("&&") || self.take_word("and") {
            left = Expression::And(Box::new(left), Box::new(self.not()?));
        }
        Ok(left)
    }

    fn not(&mut self) -> Result<Expression> {
        self.depth += 1;
        if self.depth > DEPTH {
            return Err(self.error_here("too many parentheses or negations inside each other"));
        }
        let expression = if self.take_op("!") || self.take_word("not") {
            Expression::Not(Box::new(self.not()?))
        } else if matches!(self.peek(), Token::Op("(")) {
            let open = self.place();
            self.take();
            let inner = self.or()?;
            if !self.take_op(")") {
                if self.peek() == &Token::End {
                    return Err(self.error(open, "this '(' has no ')'"));
                }
                return Err(self.error_here("'&&', '||' or ')' is expected before this"));
            }
            inner
        } else {
            self.comparison()?
        };
        self.depth -= 1;
        Ok(expression)
    }

    fn comparison(&mut self) -> Result<Expression> {
        self.comparisons += 1;
        if self.comparisons > COMPARISONS {
            return Err(self.error_here("the expression has too many comparisons"));
        }
        if let Some(known) = self.known()? {
            return Ok(Expression::Test(known));
        }
        let left_place = self.place();
        let left = self.side()?;
        let op_place = self.place();
        let Some(op) = self.op()? else {
            return match left {
                Side::Field(Field::YesNo(what)) => {
                    Ok(Expression::Test(Test::YesNo { what, yes: true }))
                }
                Side::Bool(true) => Ok(Expression::Test(Test::Always)),
                Side::Bool(false) => Ok(Expression::Not(Box::new(Expression::Test(Test::Always)))),
                _ => Err(self.error(
                    left_place,
                    "this is no condition; compare it with ==, !=, <, <=, >, >=, =~ or in",
                )),
            };
        };
        if let Op::In { not } = op {
            let Side::Field(field) = left else {
                return Err(self.error(left_place, "a field is expected before 'in'"));
            };
            let test = self.list(&field)?;
            return Ok(negated(test, not));
        }
        let right_place = self.place();
        let right = self.side()?;
        match (left, right) {
            (Side::Field(field), right) => self.compare(&field, op, op_place, right, right_place),
            (left, Side::Field(field)) => {
                let Op::Relation(relation) = op else {
                    return Err(
                        self.error(left_place, "a field is expected before the pattern operator")
                    );
                };
                let op = Op::Relation(relation.flipped());
                self.compare(&field, op, op_place, left, left_place)
            }
            _ => Err(self.error(
                left_place.start..right_place.end,
                "neither side is a field, so this is the same for every event",
            )),
        }
    }

    /// `known(field)`
    fn known(&mut self) -> Result<Option<Test>> {
        let next = &self.tokens[(self.at + 1).min(self.tokens.len() - 1)].0;
        if !(matches!(self.peek(), Token::Name(name) if name.eq_ignore_ascii_case("known"))
            && *next == Token::Op("("))
        {
            return Ok(None);
        }
        self.take();
        self.take();
        let place = self.place();
        let Side::Field(field) = self.side()? else {
            return Err(self.error(place, "known() takes a field"));
        };
        if !self.take_op(")") {
            return Err(self.error_here("')' is expected after the field"));
        }
        Ok(Some(match field {
            Field::Text(text) => Test::KnownText(text),
            Field::Number(number) => Test::KnownNumber(number),
            Field::Tables => Test::AnyTable,
            Field::YesNo(what) => Test::KnownYesNo(what),
            Field::Kind | Field::Command | Field::Class => Test::Always,
        }))
    }

    /// A comparison's operator, if one follows.
    fn op(&mut self) -> Result<Option<Op>> {
        let op = match self.peek() {
            Token::Op("==" | "=") => Op::Relation(Relation::Equal),
            Token::Op("!=" | "<>") => Op::Relation(Relation::NotEqual),
            Token::Op("<") => Op::Relation(Relation::Less),
            Token::Op("<=") => Op::Relation(Relation::AtMost),
            Token::Op(">") => Op::Relation(Relation::Greater),
            Token::Op(">=") => Op::Relation(Relation::AtLeast),
            Token::Op("=~") => Op::Matches { not: false },
            Token::Op("!~") => Op::Matches { not: true },
            Token::Name(name) if name.eq_ignore_ascii_case("in") => Op::In { not: false },
            Token::Name(name) if name.eq_ignore_ascii_case("not") => {
                self.take();
                if !self.take_word("in") {
                    return Err(self.error_here("'in' is expected after 'not'"));
                }
                return Ok(Some(Op::In { not: true }));
            }
            Token::Name(name) if name.eq_ignore_ascii_case("like") => {
                return Err(self.error_here("there is no LIKE; use =~ with a regular expression"));
            }
            _ => return Ok(None),
        };
        self.take();
        Ok(Some(op))
    }

    /// A field or a literal.
    fn side(&mut self) -> Result<Side> {
        let place = self.place();
        match self.take() {
            Token::Text(text) => Ok(Side::Text(text)),
            Token::Number(number) => Ok(Side::Number(number)),
            Token::Op("-") => match self.take() {
                Token::Number(mut number) => {
                    number.digits = -number.digits;
                    Ok(Side::Number(number))
                }
                _ => Err(self.error(place, "a number is expected after '-'")),
            },
            Token::Name(name) => match name.to_ascii_lowercase().as_str() {
                "true" | "yes" => Ok(Side::Bool(true)),
                "false" | "no" => Ok(Side::Bool(false)),
                "attribute" if self.take_op("(") => {
                    let argument = self.place();
                    let Token::Text(name) = self.take() else {
                        return Err(self.error(argument, "attribute() takes a name in quotes"));
                    };
                    if !self.take_op(")") {
                        return Err(self.error_here("')' is expected after the name"));
                    }
                    Ok(Side::Field(Field::Text(Text::Attribute(name.into_bytes().into()))))
                }
                _ => match fields::field(&name) {
                    Some(field) => Ok(Side::Field(field)),
                    None => Err(self.error(place, self.unknown(&name))),
                },
            },
            Token::Op(op) => {
                Err(self.error(place, format!("a field or a value is expected before '{op}'")))
            }
            Token::End => Err(self.error(place, "a field or a value is expected here")),
        }
    }

    fn unknown(&self, name: &str) -> String {
        // A word after an operator was perhaps meant as a string.
        let value = self.at >= 2
            && matches!(&self.tokens[self.at - 2].0, Token::Op(op) if !matches!(*op, "(" | "!" | "&&" | "||"));
        match nearest(name, fields::names()) {
            Some(near) => format!("unknown field '{name}'; did you mean '{near}'?"),
            None if value => format!("unknown field '{name}'; a string takes quotes: \"{name}\""),
            None => format!("unknown field '{name}'; for other attributes of the log write attribute(\"{name}\")"),
        }
    }

    fn compare(
        &self,
        field: &Field,
        op: Op,
        op_place: Range<usize>,
        right: Side,
        place: Range<usize>,
    ) -> Result<Expression> {
        if let Op::Matches { not } = op {
            let Side::Text(pattern) = right else {
                return Err(self.error(place, "a pattern in quotes is expected after '=~'"));
            };
            let pattern = self.literals.pattern(&pattern, place)?;
            let test = match field {
                Field::Text(text) => Test::Matches { text: text.clone(), pattern },
                Field::Tables => Test::TableMatches(pattern),
                _ => {
                    return Err(
                        self.error(op_place, "only texts and tables can be matched with a pattern")
                    )
                }
            };
            return Ok(negated(test, not));
        }
        let Op::Relation(relation) = op else {
            return Err(self.error(op_place, "this operator cannot stand here"));
        };
        if let Field::Number(number) = field {
            if let Side::Field(Field::Number(other)) = right {
                if number.measure() != other.measure() {
                    return Err(self.error(place, "the two fields are of different kinds"));
                }
                return Ok(Expression::Test(Test::Numbers {
                    left: *number,
                    op: relation,
                    right: other,
                }));
            }
            let value = self.literals.exact(*number, &right, place)?;
            return Ok(Expression::Test(range(*number, relation, value)));
        }
        let not = match relation {
            Relation::Equal => false,
            Relation::NotEqual => true,
            _ => {
                return Err(self.error(
                    op_place,
                    "only numbers and times can be less or greater; use ==, != or =~",
                ));
            }
        };
        let test = match (field, &right) {
            (Field::Text(left), Side::Field(Field::Text(other))) => {
                Test::SameText { left: left.clone(), right: other.clone() }
            }
            (Field::YesNo(what), Side::Bool(yes)) => {
                return Ok(Expression::Test(Test::YesNo { what: *what, yes: *yes != not }));
            }
            _ => self.literals.any_of(field, &[(right, place)])?,
        };
        Ok(negated(test, not))
    }

    /// `(literal, ...)` after IN.
    fn list(&mut self, field: &Field) -> Result<Expression> {
        if !self.take_op("(") {
            return Err(self.error_here("a list in parentheses is expected after 'in'"));
        }
        let mut values = Vec::new();
        loop {
            let place = self.place();
            let value = self.side()?;
            values.push((value, place));
            if self.take_op(")") {
                break;
            }
            if !self.take_op(",") {
                return Err(self.error_here("',' or ')' is expected in the list"));
            }
        }
        if let Field::Number(number) = field {
            self.comparisons += values.len();
            if self.comparisons > COMPARISONS {
                return Err(self.error_here("the expression has too many comparisons"));
            }
            let mut any: Option<Expression> = None;
            for (value, place) in values {
                let value = self.literals.exact(*number, &value, place)?;
                let test = Expression::Test(range(*number, Relation::Equal, value));
                any = Some(match any {
                    None => test,
                    Some(any) => Expression::Or(Box::new(any), Box::new(test)),
                });
            }
            return Ok(any.unwrap_or(Expression::Test(Test::Always)));
        }
        Ok(Expression::Test(self.literals.any_of(field, &values)?))
    }
}
