//! Arms of CASE. Programs that change many rows at once write `case id when 1 then 'a' when 2 then 'b' ... end`, one
//! arm for each row. Arms that are equal once their literals are replaced are written once, like rows of VALUES.
//!
//! An arm is compared with the one before it in the output, so there is no lookahead. Each written
//! byte is compared once for each tracked CASE around it, at most `CASES` times. Statements without
//! a CASE do not run this code.
//!
//! Rejected: a mark for "and more of these", such as `(?+)`. One arm and many must be the same class,
//! and the arm itself shows what is repeated.

use super::writer::{Case, Writer, CASES};

fn offset(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(0)
}

impl Writer<'_> {
    /// CASE is about to be written.
    pub(super) fn case(&mut self) {
        self.open_case();
        if let Some(case) = self.cases.get_mut(self.open_cases) {
            *case = Case { depth: self.depth, ..Case::default() };
        }
        self.open_cases = self.open_cases.saturating_add(1);
    }

    /// WHEN is about to be written: an arm ends, the next begins.
    pub(super) fn when(&mut self) {
        let Some(at) = self.end_case_arm() else { return };
        self.cases[at].arm = offset(self.out.len() + usize::from(self.wants_blank()));
    }

    /// ELSE or END is about to be written; END closes the CASE.
    pub(super) fn end_case(&mut self, closes: bool) {
        if let Some(at) = self.end_case_arm() {
            // Only adjoining arms are compared.
            self.cases[at].before = (0, 0);
        }
        if closes {
            self.open_cases = self.open_cases.saturating_sub(1);
        }
    }

    /// The innermost CASE, if it is tracked and the output is now directly in it, not in parentheses inside it.
    fn open_case(&mut self) -> Option<usize> {
        while let Some(case) = self.cases[..self.open_cases.min(CASES)].last() {
            if self.open_cases > CASES || case.depth <= self.depth {
                break;
            }
            // It was in parentheses that are now closed, and had no END.
            self.open_cases -= 1;
        }
        let at = self.open_cases.checked_sub(1)?;
        self.cases.get(at).is_some_and(|case| case.depth == self.depth).then_some(at)
    }

    /// The output since WHEN is an arm; if it repeats the one before it, it is removed.
    fn end_case_arm(&mut self) -> Option<usize> {
        let at = self.open_case()?;
        let case = &mut self.cases[at];
        let arm = std::mem::take(&mut case.arm);
        if arm == 0 {
            return Some(at);
        }
        let (start, end, (from, to)) = (arm as usize, self.out.len(), case.before);
        let (from, to) = (from as usize, to as usize);
        // A UNION may have removed more than the arm (`arms`).
        let Some(current) = self.out.written().get(start..end) else { return Some(at) };
        if to > 0 && to <= start && *current == self.out.written()[from..to] {
            self.out.truncate(to);
        } else {
            case.before = (arm, offset(end));
        }
        Some(at)
    }
}
