//! The state of a statement that is being written: what its parts (`mod`, `arms`, `cases`, `lists`, `names`) know of each other.

use crate::lexer::Lexer;
use crate::output::Output;

/// The kind of the last output, for the next token.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Last {
    /// Nothing yet.
    Start,
    /// Something an operator can follow: a name, a closing parenthesis, most keywords.
    Value,
    /// A string that became a question mark: another one continues it.
    Text,
    /// A keyword after which an expression begins.
    Expression,
    Op,
    /// A sign that belongs to what follows.
    Sign,
    Open,
    Comma,
    Dot,
    Semicolon,
}

pub(super) struct Writer<'a> {
    pub(super) sql: &'a [u8],
    pub(super) lexer: Lexer<'a>,
    pub(super) out: Output,
    pub(super) last: Last,
    /// The last word needs a blank before a parenthesis.
    pub(super) clause: bool,
    /// Position of a written sign that a following literal would include.
    pub(super) sign: usize,
    pub(super) depth: u32,
    /// The depth at which a tuple of VALUES is open.
    pub(super) tuple: Option<u32>,
    pub(super) arms: [Arm; ARMS],
    /// Number of `arms` in use, the innermost last.
    pub(super) open_arms: usize,
    pub(super) cases: [Case; CASES],
    /// Number of open CASEs; the first are in `cases`, the innermost last.
    pub(super) open_cases: usize,
    pub(super) semicolon: bool,
}

/// The SELECT that is being written at some depth, and the arm of a UNION before it.
#[derive(Clone, Copy, Default)]
pub(super) struct Arm {
    pub(super) start: usize,
    pub(super) depth: u32,
    pub(super) before: Option<ArmBefore>,
    /// UNION was written, the SELECT after it is next.
    pub(super) next: bool,
}

#[derive(Clone, Copy)]
pub(super) struct ArmBefore {
    pub(super) start: usize,
    pub(super) end: usize,
    /// Where the output ends when the current arm turns out to be a repetition.
    pub(super) cut: usize,
    pub(super) all: bool,
}

/// Depth of nested SELECTs that is tracked; repetitions deeper down stay.
pub(super) const ARMS: usize = 4;

/// A CASE that is being written. Small, because every statement's writer has some: offsets are those of what was
/// written, 0 (where no arm can be) and what is past 4 GiB is none.
#[derive(Clone, Copy, Default)]
pub(super) struct Case {
    pub(super) depth: u32,
    /// Where its current arm began.
    pub(super) arm: u32,
    /// Begin and end of the arm before it.
    pub(super) before: (u32, u32),
}

/// Depth of nested CASEs that is tracked; arms deeper down stay.
pub(super) const CASES: usize = 4;
