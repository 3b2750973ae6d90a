//! The number of distinct values of an index's first parts, estimated from a sample of the whole index.
//!
//! In an index equal values are neighbours, so the number of distinct values is the number of places where
//! an entry differs from the one before it, plus one. This counts such places as one does in a survey of
//! clusters (W. G. Cochran, Sampling Techniques, ratio estimates over systematic samples): [`STRETCHES`]
//! short stretches of neighbouring entries, one in each of as many equal parts of the index. InnoDB's
//! persistent statistics count the same places, on sampled pages.
//!
//! Changes between two stretches are estimated from these two, not from the whole sample:
//!
//! - equal values at both ends: there is no change in between, exactly. So one value (usually NULL)
//!   that fills a third of the index does not make the rest look less distinct;
//! - different values: as many changes per entry as in the two stretches, at least one. Where all
//!   stretches together have few changes, their number is a matter of chance: among a hundred
//!   million entries with a thousand values most samples see none. Then each stretch counts one
//!   change per length of the value that it begins with. The length comes from the tree's estimate
//!   of ranges (metadata in memory, about right for values of several pages). The result stays
//!   within a standard deviation of the changes seen.
//!
//! NULLs are equal to each other here. How many entries have one, and how many of the distinct values, is estimated as
//! well, so that whoever uses the numbers may count NULLs otherwise (the server's `*_stats_method`).
//!
//! The same runs give the same numbers; the sample of a write buffer depends on how far readers
//! have sorted it, so the numbers may differ a little. Rejected: estimators for random rows (Haas
//! and Stokes, as in PostgreSQL): they need a page read for each row and do not use the order.
//!
//! Tested here, and with the optimizer by `mariadb/mysql-test/frond`.

use frond_base::{Error, ErrorKind, Result, SEQ_MAX};
use frond_tree::{Bounds, Seek, Tree, TreeCursor};

use crate::catalog::key_statistics::PartStatistics;

/// Stretches of an index that are read; each costs one search.
const STRETCHES: usize = 40;
/// Entries of a stretch, about as many as are in a page of a secondary index.
const ENTRIES: u64 = 200;
/// A stretch of large rows is shorter.
const STRETCH_BYTES: usize = 256 << 10;
/// Most entries looked at, in thousands, including deleted ones: a long stretch of deleted entries
/// must not make opening a table slow.
const EXAMINED_MAX: u64 = 200;

/// With fewer changes in all stretches the lengths of values are used.
const FEW_CHANGES: u64 = 30;

/// Returns where the first n+1 parts of a key end, and whether one of them is NULL.
pub type Prefix<'a> = &'a dyn Fn(&[u8], usize) -> Result<(usize, bool)>;

/// One stretch of neighbours.
struct Stretch {
    first: Vec<u8>,
    last: Vec<u8>,
    entries: u64,
    /// Number of entries that differ from the one before, by number of parts.
    changes: Vec<u64>,
    /// Of `changes`, those to a value with a NULL.
    null_changes: Vec<u64>,
    /// Number of entries with a NULL, by number of parts.
    nulls: Vec<u64>,
}

/// Estimated number of distinct values of the first 1, 2, ... `parts` parts of the keys of `tree`, which
/// has about `total` entries.
pub fn distinct(
    tree: &Tree,
    total: u64,
    parts: usize,
    prefix: Prefix<'_>,
) -> Result<Vec<PartStatistics>> {
    let mut cursor = tree.cursor(SEQ_MAX, Bounds::all());
    let mut polls = 0;
    cursor.set_interrupt(Box::new(move || {
        polls += 1;
        polls > EXAMINED_MAX
    }));
    let mut found =
        Sample { parts, prefix, total, stretches: Vec::new(), whole: false, first_nulls: 0 };
    match found.take(&mut cursor, tree) {
        // The sample so far must suffice; an empty one gives no answer.
        Err(e) if e.kind() == ErrorKind::Interrupted && !found.stretches.is_empty() => {}
        done => done?,
    }
    found.estimate(tree)
}

struct Sample<'a> {
    parts: usize,
    prefix: Prefix<'a>,
    total: u64,
    stretches: Vec<Stretch>,
    /// The stretches cover the whole index.
    whole: bool,
    /// Entries whose first part is NULL, if the stretches do not tell.
    first_nulls: u64,
}

impl Sample<'_> {
    fn take(&mut self, cursor: &mut TreeCursor, tree: &Tree) -> Result<()> {
        if self.total <= STRETCHES as u64 * ENTRIES {
            // The count may be out of date; read a little more before relying on it.
            let most = 2 * self.total + ENTRIES;
            self.whole = !cursor.first()? || !self.stretch(cursor, most, usize::MAX)?;
            if self.whole {
                return Ok(());
            }
            self.stretches.clear();
        }
        for start in tree.spread(STRETCHES) {
            let behind = self.stretches.last().is_none_or(|s| s.last < start);
            // The stretch before has already read beyond this start.
            if behind
                && (!cursor.seek(&start, Seek::Ge)?
                    || !self.stretch(cursor, ENTRIES, STRETCH_BYTES)?)
            {
                break;
            }
        }
        // NULL sorts first in most indexes, and there may be fewer of it than between two stretches.
        let first = if cursor.first()? { Some(cursor.key().to_vec()) } else { None };
        let seen = self.stretches.iter().flat_map(|s| [&s.first, &s.last]);
        for key in first.iter().chain(seen) {
            let (len, null) = (self.prefix)(key, 0)?;
            if null {
                let value = &key[..len];
                self.first_nulls = tree.estimate(Some(value), behind(value).as_deref());
                break;
            }
        }
        Ok(())
    }

    /// Reads neighbours from the cursor's position on. False at the end.
    fn stretch(&mut self, cursor: &mut TreeCursor, most: u64, bytes: usize) -> Result<bool> {
        let first = cursor.key().to_vec();
        let mut left = bytes;
        self.stretches.push(Stretch {
            last: first.clone(),
            first,
            entries: 1,
            changes: vec![0; self.parts],
            null_changes: vec![0; self.parts],
            nulls: vec![0; self.parts],
        });
        let Some(this) = self.stretches.last_mut() else { return Ok(false) };
        for (n, nulls) in this.nulls.iter_mut().enumerate() {
            *nulls = u64::from((self.prefix)(&this.first, n)?.1);
        }
        while this.entries < most {
            left = left.saturating_sub(cursor.key().len() + cursor.value().len());
            if left == 0 {
                break;
            }
            if !cursor.next()? {
                return Ok(false);
            }
            let key = cursor.key();
            for n in 0..self.parts {
                let ((was, _), (is, null)) =
                    ((self.prefix)(&this.last, n)?, (self.prefix)(key, n)?);
                let change = u64::from(this.last[..was] != key[..is]);
                this.changes[n] += change;
                this.null_changes[n] += change * u64::from(null);
                this.nulls[n] += u64::from(null);
            }
            this.last.clear();
            this.last.extend_from_slice(key);
            this.entries += 1;
        }
        Ok(true)
    }

    fn estimate(&self, tree: &Tree) -> Result<Vec<PartStatistics>> {
        if self.stretches.is_empty() {
            return Ok(vec![PartStatistics::default(); self.parts]);
        }
        let read: u64 = self.stretches.iter().map(|s| s.entries).sum();
        let total = self.total.max(read);
        // Before the first stretch and behind the last one the gap is half as large as between two.
        let gap = (total - read) as f64 / self.stretches.len() as f64;
        let mut all = Vec::with_capacity(self.parts);
        for n in 0..self.parts {
            let seen: u64 = self.stretches.iter().map(|s| s.changes[n]).sum();
            let mut changes = seen as f64;
            let density: Vec<f64> = match seen < FEW_CHANGES && !self.whole {
                true => self.by_length(tree, n, seen as f64, read as f64)?,
                false => self.stretches.iter().map(|s| s.density(n)).collect(),
            };
            for (pair, density) in self.stretches.windows(2).zip(density.windows(2)) {
                if differ(&pair[0].last, &pair[1].first, n, self.prefix)? {
                    changes += (gap * (density[0] + density[1]) / 2.0).max(1.0);
                }
            }
            if !self.whole {
                let ends = [density.first(), density.last()];
                changes += ends.into_iter().flatten().map(|d| gap / 2.0 * d).sum::<f64>();
            }
            let distinct = ((changes + 1.0).round() as u64).clamp(1, total);
            let nulls = self.nulls(n, gap, total)?;
            all.push(PartStatistics {
                distinct,
                distinct_nulls: self.distinct_nulls(n, distinct, nulls, total),
                nulls,
            });
        }
        Ok(all)
    }

    /// Entries with a NULL in the first n+1 parts. NULLs of the first part are one value, so its length counts; other
    /// entries by the share of each stretch, and between two stretches with the same value all or none.
    fn nulls(&self, n: usize, gap: f64, total: u64) -> Result<u64> {
        let seen: u64 = self.stretches.iter().map(|s| s.nulls[n]).sum();
        if self.whole {
            return Ok(seen);
        }
        let later = |s: &Stretch| s.nulls[n] - s.nulls[0];
        let share = |s: &Stretch| later(s) as f64 / s.entries as f64;
        let is_later =
            |key: &[u8]| Ok::<bool, Error>((self.prefix)(key, n)?.1 && !(self.prefix)(key, 0)?.1);
        let mut nulls = self.first_nulls as f64;
        nulls += self.stretches.iter().map(later).sum::<u64>() as f64;
        for pair in self.stretches.windows(2) {
            nulls += gap
                * match differ(&pair[0].last, &pair[1].first, n, self.prefix)? {
                    true => (share(&pair[0]) + share(&pair[1])) / 2.0,
                    false => f64::from(u8::from(is_later(&pair[0].last)?)),
                };
        }
        let ends = [self.stretches.first(), self.stretches.last()];
        nulls += ends.into_iter().flatten().map(|s| gap / 2.0 * share(s)).sum::<f64>();
        Ok((nulls.round() as u64).clamp(seen, total))
    }

    /// Of `distinct` values, those with a NULL: one of a single part, otherwise by their share of the changes.
    fn distinct_nulls(&self, n: usize, distinct: u64, nulls: u64, total: u64) -> u64 {
        if n == 0 || nulls == 0 {
            return nulls.min(1);
        }
        let sum = |of: fn(&Stretch) -> &[u64]| self.stretches.iter().map(|s| of(s)[n]).sum::<u64>();
        let (all, null) = (sum(|s| &s.changes), sum(|s| &s.null_changes));
        let first = self.stretches.first().is_some_and(|s| s.nulls[n] > 0);
        let share = match null + u64::from(first) {
            // No stretch met one: they are as many different values as others.
            0 => nulls as f64 / total as f64,
            null => null as f64 / (all + 1) as f64,
        };
        ((distinct as f64 * share).round() as u64).clamp(1, distinct.min(nulls))
    }
}

impl Sample<'_> {
    /// Changes per entry around each stretch, by the length of the value that it begins with: a place drawn
    /// by chance is in a value with a probability proportional to its length. `seen` changes in `read`
    /// entries bound that.
    fn by_length(&self, tree: &Tree, n: usize, seen: f64, read: f64) -> Result<Vec<f64>> {
        let (least, most) = ((seen - seen.sqrt()) / read, (seen + seen.sqrt() + 1.0) / read);
        let mut densities: Vec<f64> = Vec::with_capacity(self.stretches.len());
        for (i, stretch) in self.stretches.iter().enumerate() {
            // The length of a long value is computed once.
            let before = i.checked_sub(1).map(|i| (&self.stretches[i].first, densities[i]));
            let same = match before {
                Some((key, d)) if !differ(key, &stretch.first, n, self.prefix)? => Some(d),
                _ => None,
            };
            densities.push(match same {
                Some(density) => density,
                None => {
                    let value = &stretch.first[..(self.prefix)(&stretch.first, n)?.0];
                    let length = tree.estimate(Some(value), behind(value).as_deref());
                    (1.0 / length.max(1) as f64).clamp(least, most)
                }
            });
        }
        Ok(densities)
    }
}

impl Stretch {
    fn density(&self, n: usize) -> f64 {
        self.changes[n] as f64 / (self.entries.max(2) - 1) as f64
    }
}

/// The least key behind all that begin with `prefix`; `None`: there is none.
fn behind(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|b| *b < u8::MAX)?;
    let mut key = prefix[..=last].to_vec();
    key[last] += 1;
    Some(key)
}

/// Whether the first `n` + 1 parts of two keys differ.
fn differ(a: &[u8], b: &[u8], n: usize, prefix: Prefix<'_>) -> Result<bool> {
    Ok(a[..prefix(a, n)?.0] != b[..prefix(b, n)?.0])
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use frond_vfs::MemVfs;

    use super::*;
    use crate::{Engine, IndexDef, Options, TableSpec, TxnOptions};

    /// A table whose keys are `values` in order, each of 8 bytes, followed by the number of the entry.
    fn filled(values: &[u64], flushed: bool) -> (Engine, Arc<crate::Table>) {
        let options =
            Options { background_threads: 0, leaf_bytes: 256 << 10, ..Options::default() };
        let engine = Engine::open(Arc::new(MemVfs::stepped()), options).unwrap();
        let spec = TableSpec {
            name: "t".into(),
            indexes: vec![IndexDef { page_bytes: 4096, ..IndexDef::plain() }],
            schema: Vec::new(),
            meta: Vec::new(),
            auto_increment: 1,
        };
        let table = engine.create_table(spec).unwrap();
        // In several transactions and out of order, so that there are runs at several levels.
        for part in 0..4 {
            let mut txn = engine.begin(TxnOptions::default());
            for (i, value) in values.iter().enumerate().filter(|(i, _)| i % 4 == part) {
                let key = [value.to_be_bytes(), (i as u64).to_be_bytes()].concat();
                txn.put(&table, &key, b"", false).unwrap();
            }
            txn.commit().unwrap();
            if flushed {
                engine.flush_all().unwrap();
            }
        }
        (engine, table)
    }

    fn of(values: &[u64], flushed: bool) -> Vec<u64> {
        let (_engine, table) = filled(values, flushed);
        // The value 0 is NULL.
        let prefix = |key: &[u8], n: usize| Ok(([8, 16][n], key[..8] == [0; 8]));
        let sample = || distinct(table.tree(0), table.rows(), 2, &prefix).unwrap();
        let (parts, again) = (sample(), sample());
        let values_of = |parts: &[PartStatistics]| parts.iter().map(|p| p.distinct).collect();
        let (first, again): (Vec<u64>, Vec<u64>) = (values_of(&parts), values_of(&again));
        let nulls = values.iter().filter(|v| **v == 0).count() as u64;
        if nulls > 100 {
            within(parts[0].nulls, nulls, 1.5);
            assert_eq!(parts[0].distinct_nulls, 1);
            within(parts[1].nulls, nulls, 1.5);
            within(parts[1].distinct_nulls, nulls, 1.5);
        }
        if flushed {
            assert_eq!(again, first);
        } else {
            again.iter().zip(&first).for_each(|(a, f)| within(*a, *f, 1.1));
        }
        let all = values.len() as u64;
        assert!(first[1] >= all * 9 / 10 && first[1] <= all, "{first:?} of {all}");
        first
    }

    fn within(estimate: u64, truth: u64, factor: f64) {
        let (e, t) = (estimate as f64, truth as f64);
        assert!(e <= t * factor && e >= t / factor, "{estimate}, in truth {truth}");
    }

    const N: u64 = 60_000;

    #[test]
    fn uniform_values_are_counted_within_a_factor_of_two() {
        for flushed in [true, false] {
            for each in [1u64, 2, 10, 100, 1_000, 6_000, N] {
                let values: Vec<u64> = (0..N).map(|i| i / each).collect();
                within(of(&values, flushed)[0], N / each, 2.0);
            }
        }
    }

    #[test]
    fn values_much_longer_than_a_stretch_are_counted_within_a_factor_of_two() {
        for flushed in [true, false] {
            for each in [1_000, 2_000, 5_000, 12_000, 30_000] {
                let values: Vec<u64> = (0..4 * N).map(|i| i / each).collect();
                within(of(&values, flushed)[0], 4 * N / each, 2.0);
            }
        }
    }

    #[test]
    fn one_value_before_many_distinct_ones_does_not_hide_them() {
        // A fifth of the index is one value, then all differ: as a column with many NULLs.
        for flushed in [true, false] {
            let values: Vec<u64> = (0..N).map(|i| i.saturating_sub(N / 5)).collect();
            within(of(&values, flushed)[0], N * 4 / 5, 1.2);
        }
    }

    #[test]
    fn one_value_behind_or_amid_many_distinct_ones_does_not_hide_them() {
        let behind: Vec<u64> = (0..N).map(|i| i.min(N * 3 / 5)).collect();
        within(of(&behind, true)[0], N * 3 / 5, 1.2);
        let amid: Vec<u64> = (0..N).map(|i| if i / (N / 4) == 1 { N / 4 } else { i }).collect();
        within(of(&amid, true)[0], N * 3 / 4, 1.2);
    }

    #[test]
    fn values_of_very_different_frequency_are_counted_within_a_factor_of_five() {
        // The n-th most frequent value has 1/n of the entries of the first.
        let mut values = Vec::new();
        let mut value = 0;
        while values.len() < N as usize {
            value += 1;
            values.extend(std::iter::repeat_n(value, 1 + 6_000 / value as usize));
        }
        values.truncate(N as usize);
        let truth = *values.last().unwrap();
        within(of(&values, true)[0], truth, 5.0);
        // Frequent values spread among them.
        let mixed: Vec<u64> = (0..N).map(|i| (i / 500) * 500 + (i % 500).min(250)).collect();
        within(of(&mixed, true)[0], N / 500 * 251, 1.5);
    }

    #[test]
    fn few_entries_are_counted_exactly() {
        assert_eq!(of(&[], true), [0, 0]);
        assert_eq!(of(&[7], true), [1, 1]);
        let values: Vec<u64> = (0..3_000).map(|i| i / 7).collect();
        for flushed in [true, false] {
            assert_eq!(of(&values, flushed), [429, 3_000]);
        }
    }

    /// The estimate looks into pages: a page here has hundreds of entries.
    #[test]
    fn ranges_within_a_page_are_estimated_by_the_distance_of_their_keys() {
        let values: Vec<u64> = (0..40_000).map(|n| 50 + 3 * n).collect();
        let (_engine, table) = filled(&values, true);
        let key = |n: u64| (50 + 3 * n).to_be_bytes();
        for n in [0, 700, 12_345, 25_000, 39_800] {
            let found = table.tree(0).estimate(Some(&key(n)), Some(&key(n + 100)));
            within(found, 100, 1.3);
        }
    }

    #[test]
    fn little_is_read_of_a_large_index() {
        let values: Vec<u64> = (0..4 * N).collect();
        let (_engine, table) = filled(&values, true);
        let prefix = |_: &[u8], n: usize| Ok(([8, 16][n], false));
        let mut cursor = table.tree(0).cursor(SEQ_MAX, Bounds::all());
        let mut sample = Sample {
            parts: 1,
            prefix: &prefix,
            total: table.rows(),
            stretches: Vec::new(),
            whole: false,
            first_nulls: 0,
        };
        sample.take(&mut cursor, table.tree(0)).unwrap();
        assert!(sample.stretches.len() >= STRETCHES / 2, "{}", sample.stretches.len());
        let read = cursor.examined();
        assert!(read <= 3 * STRETCHES as u64 * ENTRIES, "{read}");
    }
}
