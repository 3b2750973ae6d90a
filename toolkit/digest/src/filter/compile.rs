//! Compiles a tree of conditions to a list of tests, each with two successors.

use super::test::{Expression, Test};

/// A test, and where to continue.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) test: Test,
    pub(super) on_true: u16,
    pub(super) on_false: u16,
}

/// Results of the evaluation, in place of a test's number.
pub(super) const WANTED: u16 = u16::MAX;

pub(super) const UNWANTED: u16 = u16::MAX - 1;

/// Compiles: returns the tests and the number of the first. An error if there are more tests than anybody
/// writes.
pub(super) fn compile(expression: Expression) -> Result<(Vec<Step>, u16), String> {
    let mut tests = Vec::new();
    let start = emit(&mut tests, expression, WANTED, UNWANTED);
    if tests.len() >= usize::from(UNWANTED) {
        return Err("the expression has too many comparisons".into());
    }
    Ok((tests, start))
}

/// Appends the tests of `expression`, after which evaluation continues at `on_true` or `on_false`;
/// returns the first test. Later parts are appended first, so that their numbers are known.
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
