//! Decoding a page, a group of entries at a time, into a batch.

use std::sync::Arc;

use frond_base::EntryKind;

use super::{field_places, FieldPlace, Page};
use crate::batch::{head_of, Batch};
use crate::columns::{Group, GROUP};
use crate::layout::{Values, BLOCK};

impl Page {
    /// Replaces `batch` by the entries of group `g`.
    pub(crate) fn decode_group<const W: usize>(self: &Arc<Self>, g: usize, batch: &mut Batch<W>) {
        batch.clear();
        let n = self.layout.group_len(g);
        let group = self.layout.group(self.payload(), g);
        let data = self.column_data();
        if self.layout.variable {
            self.decode_variable_keys(g, n, &group, batch);
        } else if self.fixed_len() <= 8 * W {
            self.decode_fixed_keys(n, &group, batch);
        } else {
            let mut key = Vec::new();
            for i in g * GROUP..g * GROUP + n {
                self.key_into(i, &mut key);
                batch.heads.push(head_of(&key));
                batch.keys.extend_from_slice(&key);
                batch.ends.push(batch.keys.len() as u32);
            }
        }
        if let Some(c) = self.layout.seq {
            batch.seqs.resize(n, 0);
            group.column(usize::from(c)).each(data, n, |i, v| batch.seqs[i] = v);
        }
        if let Some(c) = self.layout.kind {
            batch.kinds.resize(n, EntryKind::Put);
            group.column(usize::from(c)).each(data, n, |i, v| {
                if v == 1 {
                    batch.kinds[i] = EntryKind::Delete;
                }
            });
        }
        let base = self.layout.values as u32;
        match (self.layout.values_kind, self.layout.value_end) {
            (Values::Width(w), _) => {
                let first = base + (g * GROUP) as u32 * w;
                let range = |i| (first + i * w, first + (i + 1) * w);
                batch.values.extend((0..n as u32).map(range));
            }
            (Values::Any, Some(c)) => {
                let mut from = if g == 0 { 0 } else { self.number(c, g * GROUP - 1) as u32 };
                group.column(usize::from(c)).each(data, n, |_, end| {
                    batch.values.push((base + from, base + end as u32));
                    from = end as u32;
                });
            }
            _ => return,
        }
        batch.page = Some(self.clone());
    }

    fn decode_fixed_keys<const W: usize>(&self, n: usize, group: &Group, batch: &mut Batch<W>) {
        let data = self.column_data();
        let columns = self.key_columns();
        let places = field_places(&self.layout.columns.list()[..columns]);
        let mut constant = [0u64; W];
        for (c, place) in places.iter().enumerate().take(columns) {
            if group.column(c).width == 0 {
                place.put(&mut constant, group.column(c).base & place.mask);
            }
        }
        batch.uniform = self.fixed_len();
        batch.heads.resize(n, constant);
        for (c, place) in places.iter().enumerate().take(columns) {
            let column = group.column(c);
            if column.width == 0 {
                continue;
            }
            let heads = &mut batch.heads[..n];
            let FieldPlace { word, shift, spill, mask } = *place;
            if spill == 0 {
                column.each(data, n, |i, v| heads[i][word] |= (v & mask) << shift);
            } else {
                column.each(data, n, |i, v| {
                    heads[i][word] |= (v & mask) >> spill;
                    heads[i][word + 1] |= v << (64 - spill);
                });
            }
        }
    }

    fn decode_variable_keys<const W: usize>(
        &self,
        g: usize,
        n: usize,
        group: &Group,
        batch: &mut Batch<W>,
    ) {
        let payload = self.payload();
        let all = &payload[self.layout.keys..self.layout.values];
        let mut start = if g == 0 { 0 } else { self.number(0, g * GROUP - 1) as usize };
        let (mut first, mut prefix) = (0, 0);
        group.column(0).each(self.column_data(), n, |i, end| {
            let end = end as usize;
            let from = batch.keys.len();
            // Groups are whole blocks, so a block's first key is met before the others need it.
            if i % BLOCK == 0 {
                first = start;
                prefix = self.layout.prefix(payload, (g * GROUP + i) / BLOCK);
            } else {
                batch.keys.extend_from_slice(&all[first..first + prefix]);
            }
            batch.keys.extend_from_slice(&all[start..end]);
            batch.heads.push(head_of(&batch.keys[from..]));
            batch.ends.push(batch.keys.len() as u32);
            start = end;
        });
    }
}
