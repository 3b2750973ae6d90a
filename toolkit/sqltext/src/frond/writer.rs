//! The state of a statement that is being written, which the parts (`mod`, `arms`, `cases`, `lists`, `names`) share.

use crate::lexer::Lexer;
use crate::output::Output;

/// The kind of the last output, for the next token.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Last {
    /// Nothing yet.
    Start,
    /// Something that an operator can follow: a name, a closing parenthesis, most keywords.
    Value,
    /// A string that became a question mark; an adjoining string continues it.
    Text,
    /// A keyword after which an expression begins.
    Expression,
    Op,
    /// A sign that belongs to the next token.
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
    /// UNION was written; the SELECT after it comes next.
    pub(super) next: bool,
}

#[derive(Clone, Copy)]
pub(super) struct ArmBefore {
    pub(super) start: usize,
    pub(super) end: usize,
    /// The end of the output if the current arm turns out to be a repetition.
    pub(super) cut: usize,
    pub(super) all: bool,
}

/// Nested SELECTs are tracked to this depth; repetitions deeper down stay.
pub(super) const ARMS: usize = 4;

/// A CASE that is being written. It is small, because every statement's writer has some. Offsets are those of the
/// output; 0 (where no arm can be) means none, and so do offsets past 4 GiB.
#[derive(Clone, Copy, Default)]
pub(super) struct Case {
    pub(super) depth: u32,
    /// Where its current arm began.
    pub(super) arm: u32,
    /// Begin and end of the arm before it.
    pub(super) before: (u32, u32),
}

/// Nested CASEs are tracked to this depth; arms deeper down stay.
pub(super) const CASES: usize = 4;
