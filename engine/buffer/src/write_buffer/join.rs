//! Joining two parts, the later one being the more recent.

use std::cmp::Ordering;

use frond_base::{EntryRef, Seq, Unserved};

use crate::fence::order;
use crate::write_buffer::part::Part;
use crate::write_buffer::record::{record_bytes, Source};

impl Part {
    /// Joins this part with `later`, which is more recent and of the same source.
    pub fn merge<S: Source>(&self, later: &Part, source: &S) -> Part {
        let mut joined = Joined::new(source, 0, &[]);
        joined.run(self, later);
        joined.part.finish()
    }

    /// Joins this part with `later`, which is more recent; both are of `source`. `shift` is added to
    /// the places of `later`. Versions that nobody needs are left out if their key has a new version
    /// (`keep`: see [`frond_base::Readers`]).
    pub fn absorb<S: Source>(
        &self,
        later: &Part,
        source: &S,
        shift: u32,
        keep: &[Seq],
    ) -> Absorbed {
        let mut joined = Joined::new(source, shift, keep);
        joined.run(self, later);
        Absorbed { part: joined.part.finish(), dropped: joined.dropped, tied: joined.tied }
    }
}

/// What [`Part::absorb`] made.
pub(crate) struct Absorbed {
    pub part: Part,
    /// Bytes of records that belong to no entry any more.
    pub dropped: usize,
    /// Number of entries of the later part whose heads other entries have too.
    pub tied: usize,
}

struct Joined<'a, S: Source> {
    part: Part,
    source: &'a S,
    shift: u32,
    keep: &'a [Seq],
    dropped: usize,
    tied: usize,
}

impl<'a, S: Source> Joined<'a, S> {
    fn new(source: &'a S, shift: u32, keep: &'a [Seq]) -> Joined<'a, S> {
        Joined { part: Part::default(), source, shift, keep, dropped: 0, tied: 0 }
    }

    fn run(&mut self, old: &Part, new: &Part) {
        self.part = Part::with_capacity(old.len() + new.len());
        let (mut i, mut j) = (0, 0);
        if old.heads.last().is_some_and(|last| new.heads.first().is_some_and(|h| last < h)) {
            // Keys that arrive in order.
            self.part.heads.extend_from_slice(&old.heads);
            self.part.places.extend_from_slice(&old.places);
            i = old.len();
        }
        while j < new.len() {
            let head = new.heads[j];
            let part = &mut self.part;
            let before = old.heads[i..].iter().take_while(|h| **h < head).count();
            for (h, p) in old.heads[i..i + before].iter().zip(&old.places[i..i + before]) {
                part.heads.push(*h);
                part.places.push(*p);
            }
            i += before;
            let alone = old.heads.get(i).is_none_or(|h| *h != head)
                && new.heads.get(j + 1).is_none_or(|h| *h != head);
            if alone {
                part.heads.push(head);
                part.places.push(new.places[j] + self.shift);
                j += 1;
                continue;
            }
            let m = old.heads[i..].iter().take_while(|h| **h == head).count();
            let n = new.heads[j..].iter().take_while(|h| **h == head).count();
            self.join_tied(head, &old.places[i..i + m], &new.places[j..j + n]);
            self.tied += n;
            i += m;
            j += n;
        }
        self.part.heads.extend_from_slice(&old.heads[i..]);
        self.part.places.extend_from_slice(&old.places[i..]);
    }

    /// Joins entries of one head.
    fn join_tied(&mut self, head: u64, old: &[u32], new: &[u32]) {
        let source = self.source;
        let mut last: Option<EntryRef<'a>> = None;
        let mut unserved = Unserved::none();
        let (mut i, mut j) = (0, 0);
        while i < old.len() || j < new.len() {
            let a = old.get(i).map(|p| source.entry(*p));
            let b = new.get(j).map(|p| source.entry(*p + self.shift));
            let ordering = match (&a, &b) {
                (Some(a), Some(b)) => order(a.key, a.seq, b.key, b.seq),
                (Some(_), None) => Ordering::Less,
                _ => Ordering::Greater,
            };
            if ordering == Ordering::Equal {
                self.dropped += a.map_or(0, |a| record_bytes(&a));
                i += 1;
            }
            let take_old = ordering == Ordering::Less;
            let Some(e) = (if take_old { a } else { b }) else { break };
            let place = if take_old { old[i] } else { new[j] + self.shift };
            if take_old {
                i += 1;
            } else {
                j += 1;
            }
            if last.as_ref().is_none_or(|newer| newer.key != e.key) {
                unserved = Unserved::all(self.keep);
            }
            last = Some(e);
            if unserved.serve(e.seq, self.keep).is_none() {
                self.dropped += record_bytes(&e);
                continue;
            }
            self.part.heads.push(head);
            self.part.places.push(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::write_buffer::part::tests::{list, part_of};
    use crate::write_buffer::record::Arena;

    #[test]
    fn joining_replaces_equal_versions_and_drops_what_nobody_needs() {
        let mut source = Arena::default();
        let old = part_of(&mut source, &[(1, 5), (1, 3), (2, 5), (3, 4), (3, 2)], b"old", false);
        let new = part_of(&mut source, &[(0, 9), (1, 9), (2, 5), (4, 9), (4, 8)], b"new", false);
        let at = |key: u16, seq, value: &str| {
            (key.to_be_bytes().to_vec(), seq, value.as_bytes().to_vec())
        };
        let all = old.absorb(&new, &source, 0, &[]);
        let want = [
            at(0, 9, "new"),
            at(1, 9, "new"),
            at(1, 5, "old"),
            at(1, 3, "old"),
            at(2, 5, "new"),
            at(3, 4, "old"),
            at(3, 2, "old"),
            at(4, 9, "new"),
            at(4, 8, "new"),
        ];
        assert_eq!(list(&all.part, &source), want);
        // A snapshot at 4 and later ones from 9 on: version 5 of key 1 and version 8 of key 4 go.
        let kept = old.absorb(&new, &source, 0, &[4, 9]);
        let gone = [at(1, 5, "old"), at(4, 8, "new")];
        let want: Vec<_> = want.into_iter().filter(|e| !gone.contains(e)).collect();
        assert_eq!(list(&kept.part, &source), want);
        let record = 4 + 2 + 2 + 3;
        assert_eq!((all.dropped, kept.dropped), (record, 3 * record));
    }
}
