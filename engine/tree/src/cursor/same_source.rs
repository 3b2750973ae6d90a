//! Steps within a page or a buffer's batch, where only one source has the next entries: most steps of a scan.
//!
//! While no other source has an entry in between, the cursor's next entry is the next one of that
//! page or batch: sources are not compared and no key is copied. How far that goes is found out
//! once for many steps.
//!
//! Invariant GD1: `limit` is a position in the page or batch of the current source. All entries between the current one
//! and it belong to the current window and the bounds, are seen by the snapshot, and are below the keys of all other
//! sources; those of a page are rows, too. So it holds until a source moves in another way, which ends in
//! [`TreeCursor::choose`].

use super::TreeCursor;
use crate::source::{Source, SourceBody};

impl TreeCursor {
    /// Goes to the next entry if that needs neither another page nor a comparison with other
    /// sources; otherwise does nothing and returns false.
    #[inline]
    pub fn glide(&mut self) -> bool {
        let Some(current) = self.current else { return false };
        let limit = self.find_limit(current);
        let Source { body, key, seq, examined, .. } = &mut self.sources[current];
        match body {
            SourceBody::Run(run) => {
                let glides = run.glide(limit, &mut self.walk, key);
                *examined += u64::from(glides);
                glides
            }
            // The entries of a batch were examined when it was filled.
            SourceBody::Buffer(buffer) => buffer.glide(limit, key, seq),
        }
    }

    /// How far the current source can go alone, found out once after each [`TreeCursor::choose`].
    #[inline]
    fn find_limit(&mut self, current: usize) -> usize {
        match self.limit {
            Some(limit) => limit,
            None => {
                let limit = self.look_for_limit(current);
                self.limit = Some(limit);
                limit
            }
        }
    }

    #[cold]
    fn look_for_limit(&mut self, current: usize) -> usize {
        if !self.walk.forward || !self.tied.is_empty() || current < self.privates {
            return 0;
        }
        let (before, rest) = self.sources.split_at_mut(current);
        let Some((source, after)) = rest.split_first_mut() else { return 0 };
        // Sources kept across windows may stand beyond this window, which ends before them.
        let rivals = before.iter().chain(&*after).filter(|rival| rival.valid);
        let rival = rivals.min_by(|a, b| a.compare(b)).map(|rival| &rival.key[..]);
        let mut rival = rival.into_iter().chain(self.walk.hi.as_deref()).min();
        // Buffers and lists of runs above the trunk go on in the next window, which has other sources.
        if current < self.buffers {
            let edge = self.window.as_ref().and_then(|window| window.range.hi.as_deref());
            rival = rival.into_iter().chain(edge).min();
        }
        match &mut source.body {
            SourceBody::Run(run) => run.alone_up_to(rival),
            SourceBody::Buffer(buffer) => buffer.alone_up_to(rival),
        }
    }
}
