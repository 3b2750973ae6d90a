//! From a tree of conditions to a list of tests with two ways on from each.

use super::{Filter, Step, Test, UNWANTED, WANTED};
use frond_sqltext::Dialect;

/// What the parser gives.
#[derive(Clone, Debug)]
pub(super) enum Expression {
    Test(Test),
    Not(Box<Expression>),
    And(Box<Expression>, Box<Expression>),
    Or(Box<Expression>, Box<Expression>),
}

/// Compiles; an error if there are more tests than anybody writes.
pub(super) fn compile(expression: Expression, dialect: Dialect) -> Result<Filter, String> {
    let mut tests = Vec::new();
    let start = emit(&mut tests, expression, WANTED, UNWANTED);
    if tests.len() >= usize::from(UNWANTED) {
        return Err("the expression has too many comparisons".into());
    }
    let class = tests.iter().any(|step| matches!(step.test, Test::Classes(_)));
    Ok(Filter { tests, start, dialect, class })
}

/// Appends the tests of `expression` so that evaluation goes on at `on_true` or `on_false`, and
/// says where it begins. Later parts are appended first: their places are then known.
fn emit(tests: &mut Vec<Step>, expression: Expression, on_true: u16, on_false: u16) -> u16 {
    match expression {
        Expression::Test(test) => {
            tests.push(Step { test, on_true, on_false });
            (tests.len() - 1).min(usize::from(UNWANTED)) as u16
        }
        Expression::Not(inner) => emit(tests, *inner, on_false, on_true),
        Expression::And(left, right) => {
            let right = emit(tests, *right, on_true, on_false);
            emit(tests, *left, right, on_false)
        }
        Expression::Or(left, right) => {
            let right = emit(tests, *right, on_true, on_false);
            emit(tests, *left, on_true, right)
        }
    }
}
