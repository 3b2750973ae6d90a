//! The parts of `sql_mode` on which the reading of a statement depends.

/// The parts of the server's `sql_mode` that change the meaning of a statement's text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SqlMode {
    /// `"` quotes identifiers, not strings.
    pub ansi_quotes: bool,
    /// `\` is an ordinary character inside strings.
    pub no_backslash_escapes: bool,
}
