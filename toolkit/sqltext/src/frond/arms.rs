//! Arms of UNIONs: an arm that repeats the one before it is removed from the output and replaced by a remark.

use super::writer::{Arm, ArmBefore, Writer, ARMS};
use crate::lexer::Kind;
use crate::output::Output;
use crate::Folded;

impl Writer<'_> {
    /// A SELECT is about to be written: an arm of a UNION may begin.
    pub(super) fn select(&mut self) {
        let start = self.out.len() + usize::from(self.wants_blank());
        let depth = self.depth;
        match self.arms[..self.open_arms].last_mut() {
            // Behind UNION: the next arm of the same SELECT.
            Some(arm) if arm.depth == depth && arm.next => {
                arm.start = start;
                arm.next = false;
            }
            Some(arm) if arm.depth == depth => *arm = Arm { start, depth, ..Arm::default() },
            _ if self.open_arms < ARMS => {
                self.arms[self.open_arms] = Arm { start, depth, ..Arm::default() };
                self.open_arms += 1;
            }
            _ => {}
        }
    }

    /// A UNION is about to be written: the arm before it is complete.
    pub(super) fn union(&mut self) {
        self.end_arms(self.depth.saturating_add(1));
        let Some(arm) = self.arms[..self.open_arms].last_mut() else { return };
        if arm.depth != self.depth {
            return;
        }
        let mut ahead = self.lexer.clone();
        let mut word = || {
            let token = ahead.next()?;
            (token.kind == Kind::Word).then(|| Folded::of(&self.sql[token.start..token.end]))
        };
        let mut next = word();
        let all = next.as_ref().is_some_and(|word| word.as_bytes() == b"all");
        if all || next.as_ref().is_some_and(|word| word.as_bytes() == b"distinct") {
            next = word();
        }
        arm.end(&mut self.out);
        if next.is_none_or(|word| word.as_bytes() != b"select") {
            // The arm was in parentheses, or it was cut off.
            self.open_arms -= 1;
            return;
        }
        let (start, end) = (arm.start, self.out.len());
        let before = arm.before.get_or_insert(ArmBefore { start, end, cut: end, all });
        before.all = all;
        arm.next = true;
    }

    /// Completes the arms at `depth` and deeper.
    #[inline]
    pub(super) fn end_arms(&mut self, depth: u32) {
        while let Some(arm) = self.arms[..self.open_arms].last_mut() {
            if arm.depth < depth {
                break;
            }
            arm.end(&mut self.out);
            self.open_arms -= 1;
        }
    }
}

impl Arm {
    /// Completes an arm; if it repeats the one before it, a remark takes its place.
    fn end(&mut self, out: &mut Output) {
        let Some(before) = &mut self.before else { return };
        let written = &out.bytes[..out.len];
        if self.next || self.start < before.cut || self.start > out.len {
            self.before = None;
            return;
        }
        if written[self.start..] != written[before.start..before.end] {
            self.before = None;
            return;
        }
        if before.cut == before.end {
            out.truncate(before.end);
            let remark: &[u8] =
                if before.all { b" /*repeat union all*/" } else { b" /*repeat union*/" };
            out.extend_from_slice(remark);
            before.cut = out.len();
        } else {
            out.truncate(before.cut);
        }
    }
}
