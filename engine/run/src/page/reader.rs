//! Single entries of a page. A reader keeps the decoded header of the group that it read last, so
//! entries that lie near each other cost no header each.

use std::cmp::Ordering;
use std::ops::{Deref, Range};

use frond_base::{EntryKind, Seq};

use super::fields::{field_places, Target};
use super::Page;
use crate::columns::{Group, GROUP};
use crate::index::WHOLE_FENCE;
use crate::layout::{Values, BLOCK};
use crate::meta::RunMeta;

/// Reads entries of one page, by position.
pub struct Reader<P> {
    page: P,
    /// The group whose header is decoded.
    entered: Option<usize>,
    group: Group,
}

impl<P: Deref<Target = Page>> Reader<P> {
    pub fn new(page: P) -> Reader<P> {
        Reader { page, entered: None, group: Group::default() }
    }

    pub fn page(&self) -> &P {
        &self.page
    }

    /// The header of the group that was entered last.
    #[inline]
    pub(super) fn group(&self) -> &Group {
        &self.group
    }

    /// Decodes the header of the group of entry `i`; returns its position in the group.
    #[inline]
    pub(super) fn enter(&mut self, i: usize) -> usize {
        let n = self.page.layout.n;
        assert!(i < n, "entry {i} of {n}");
        let g = i / GROUP;
        if self.entered != Some(g) {
            self.page.layout.group_into(self.page.payload(), g, &mut self.group);
            self.entered = Some(g);
        }
        i % GROUP
    }

    #[inline]
    fn number(&mut self, column: u8, i: usize) -> u64 {
        let at = self.enter(i);
        self.group.column(usize::from(column)).get(self.page.column_data(), at)
    }

    /// Where entry `i` begins and ends, by `column`, which holds ends.
    #[inline]
    fn span(&mut self, column: u8, i: usize) -> Range<usize> {
        let start = match i {
            0 => 0,
            // The entry before is in another group, which need not be entered.
            _ if i.is_multiple_of(GROUP) => self.page.number(column, i - 1),
            _ => self.number(column, i - 1),
        };
        start as usize..self.number(column, i) as usize
    }

    /// Replaces `out` by the key at `i`.
    pub fn key_into(&mut self, i: usize, out: &mut Vec<u8>) {
        out.clear();
        if self.page.layout.variable {
            let (prefix, suffix) = self.key_parts(i);
            let keys = self.page.keys();
            out.extend_from_slice(&keys[prefix]);
            out.extend_from_slice(&keys[suffix]);
            return;
        }
        let at = self.enter(i);
        let data = self.page.column_data();
        for (c, width) in self.page.key_widths().iter().enumerate() {
            let (value, width) = (self.group.column(c).get(data, at), usize::from(*width));
            // Always eight bytes, which is one store; the next field overwrites those too many.
            let from = out.len();
            out.extend_from_slice(&(value << (64 - 8 * width)).to_be_bytes());
            out.truncate(from + width);
        }
    }

    /// Orders the key at `i` relative to `key`.
    pub fn compare_key(&mut self, i: usize, key: &[u8]) -> Ordering {
        if !self.page.layout.variable {
            let at = self.enter(i);
            let target = Target::new(key, self.page.key_widths());
            let data = self.page.column_data();
            return target.compare(|c| self.group.column(c).get(data, at));
        }
        let (prefix, suffix) = self.key_parts(i);
        let (prefix, suffix) = (&self.page.keys()[prefix], &self.page.keys()[suffix]);
        let common = prefix.len().min(key.len());
        match prefix[..common].cmp(&key[..common]) {
            Ordering::Equal if common < prefix.len() => Ordering::Greater,
            Ordering::Equal => suffix.cmp(&key[common..]),
            decided => decided,
        }
    }

    /// The sequence as stored, 0 in a page without sequences. The effective one:
    /// [`RunMeta::seq`](crate::RunMeta::seq).
    #[inline]
    pub fn stored_seq(&mut self, i: usize) -> Seq {
        match self.page.layout.seq {
            None => 0,
            Some(c) => self.number(c, i),
        }
    }

    #[inline]
    pub fn kind(&mut self, i: usize) -> EntryKind {
        let Some(column) = self.page.layout.kind else { return EntryKind::Put };
        match self.number(column, i) {
            1 => EntryKind::Delete,
            _ => EntryKind::Put,
        }
    }

    /// Where the value of entry `i` is: an argument of [`Page::value_at`].
    #[inline]
    pub fn value(&mut self, i: usize) -> Range<usize> {
        let layout = &self.page.layout;
        let base = layout.values;
        let span = match (layout.values_kind, layout.value_end) {
            (Values::Width(w), _) => i * w as usize..(i + 1) * w as usize,
            (Values::Any, Some(c)) => self.span(c, i),
            _ => 0..0,
        };
        base + span.start..base + span.end
    }

    /// The same, cheaper, where the value of the entry before ends at `start`.
    #[inline]
    pub fn value_from(&mut self, i: usize, start: usize) -> Range<usize> {
        let layout = &self.page.layout;
        match (layout.values_kind, layout.value_end) {
            (Values::Width(w), _) => start..start + w as usize,
            (Values::Any, Some(c)) => {
                let base = layout.values;
                start..base + self.number(c, i) as usize
            }
            _ => start..start,
        }
    }

    /// Within [`Page::keys`], the two pieces of key `i` (of variable keys): what it shares with its
    /// block's first key, and its own bytes.
    pub(super) fn key_parts(&mut self, i: usize) -> (Range<usize>, Range<usize>) {
        if i.is_multiple_of(BLOCK) {
            return (0..0, self.span(0, i));
        }
        let prefix = self.page.layout.prefix(self.page.payload(), i / BLOCK);
        let first = self.span(0, i - i % BLOCK).start;
        (first..first + prefix, self.span(0, i))
    }
}

impl Page {
    /// Orders the key at `i` relative to `key`.
    pub fn compare_key(&self, i: usize, key: &[u8]) -> Ordering {
        Reader::new(self).compare_key(i, key)
    }

    /// Whether `fence` is the first key, or the beginning of it if it is long.
    pub fn begins_with(&self, fence: &[u8]) -> bool {
        match self.layout.variable {
            true => {
                let first = &self.keys()[Reader::new(self).key_parts(0).1];
                let cut = first.len() > WHOLE_FENCE && first.len() > fence.len();
                (cut && first.starts_with(fence)) || first == fence
            }
            false => self.compare_key(0, fence).is_eq(),
        }
    }

    /// Replaces `out` by the key at `i`.
    pub fn key_into(&self, i: usize, out: &mut Vec<u8>) {
        Reader::new(self).key_into(i, out);
    }

    /// The first eight bytes of the key at `i`, as [`frond_base::key_head`] gives them.
    pub fn key_head(&self, i: usize) -> u64 {
        if self.layout.variable {
            let (prefix, suffix) = Reader::new(self).key_parts(i);
            let mut head = [0u8; 8];
            let bytes = self.keys()[prefix].iter().chain(&self.keys()[suffix]);
            for (to, from) in head.iter_mut().zip(bytes) {
                *to = *from;
            }
            return u64::from_be_bytes(head);
        }
        let (group, at) = self.group_of(i);
        self.words(&field_places(self.layout.columns.list()), &group, at)[0]
    }
}

impl RunMeta {
    /// The sequence of entry `i` of the page that `reader` reads, which is a page of this run. A page
    /// alone does not know whether its run has one sequence.
    #[inline]
    pub fn seq<P: Deref<Target = Page>>(&self, reader: &mut Reader<P>, i: usize) -> Seq {
        if self.one_seq {
            self.max_seq
        } else {
            reader.stored_seq(i)
        }
    }
}
