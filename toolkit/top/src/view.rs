//! Two samples of one server, and what happened between them.
//!
//! Invariant TPV1: a counter that fell (the server started again) has no rate, not a negative one.

use std::collections::HashMap;

use crate::sample::{Sample, Statement, Tree, Wait};

/// See the module's text. Rates are per second.
pub struct View<'a> {
    pub now: &'a Sample,
    before: Option<&'a Sample>,
    /// Seconds between the two.
    pub seconds: f64,
}

/// Memory of Frond, by its use; bytes.
pub struct Memory {
    pub limit: f64,
    pub parts: [(&'static str, f64); 4],
}

impl<'a> View<'a> {
    pub fn new(now: &'a Sample, before: Option<&'a Sample>) -> View<'a> {
        let before = before.filter(|b| b.at < now.at && b.server == now.server);
        let seconds = before.map_or(0.0, |b| now.at - b.at);
        View { now, before, seconds }
    }

    pub fn value(&self, name: &str) -> Option<f64> {
        self.now.status(name)
    }

    /// The rate of a counter.
    pub fn rate(&self, name: &str) -> Option<f64> {
        let (old, new) = (self.before?.status(name)?, self.now.status(name)?);
        (new >= old && self.seconds > 0.0).then(|| (new - old) / self.seconds)
    }

    /// The sum of rates that are known; `None` if none is.
    pub fn rates(&self, names: &[&str]) -> Option<f64> {
        names.iter().filter_map(|name| self.rate(name)).reduce(|a, b| a + b)
    }

    /// Seconds of one sync of Frond's log.
    pub fn sync_seconds(&self) -> Option<f64> {
        let (micros, syncs) = (self.rate("frond_log_sync_micros")?, self.rate("frond_log_syncs")?);
        (syncs > 0.0).then(|| micros / syncs / 1e6)
    }

    /// The share of Frond's pages that were in the cache.
    pub fn hits(&self) -> Option<f64> {
        let (hits, misses) =
            (self.rate("frond_page_cache_hits")?, self.rate("frond_page_cache_misses")?);
        (hits + misses > 0.0).then(|| hits / (hits + misses))
    }

    pub fn memory(&self) -> Option<Memory> {
        let of = |name| self.value(name).unwrap_or(0.0);
        Some(Memory {
            limit: self.value("frond_cache_bytes_limit")?,
            parts: [
                ("pages", of("frond_page_cache_bytes") + of("frond_row_cache_bytes")),
                ("write buffers", of("frond_write_memory_bytes")),
                ("metadata", of("frond_run_index_bytes") + of("frond_metadata_bytes")),
                ("locks", of("frond_lock_bytes")),
            ],
        })
    }

    /// A part of memory or debt and the limit at which writers stop, in bytes.
    pub fn of_limit(&self, name: &str, limit: &str) -> Option<(f64, f64)> {
        Some((self.value(name)?, self.value(limit)?)).filter(|(_, limit)| *limit > 0.0)
    }

    /// The waits, the longest first.
    pub fn waits(&self) -> Vec<&'a Wait> {
        let mut waits: Vec<&Wait> = self.now.waits.iter().collect();
        waits.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        waits
    }

    /// Trees with entries per second since the other sample, the busiest first, then the largest.
    pub fn trees(&self) -> Vec<(&'a Tree, Option<f64>)> {
        let old: HashMap<(&str, u32), u64> = self
            .before
            .into_iter()
            .flat_map(|b| &b.trees)
            .map(|t| ((t.table.as_str(), t.index), t.entries))
            .collect();
        let mut trees: Vec<(&Tree, Option<f64>)> = self
            .now
            .trees
            .iter()
            .map(|tree| {
                let before = old.get(&(tree.table.as_str(), tree.index));
                let change = before.map(|b| (tree.entries as f64 - *b as f64) / self.seconds);
                (tree, change.filter(|c| c.is_finite()))
            })
            .collect();
        let key = |(tree, change): &(&Tree, Option<f64>)| {
            (change.unwrap_or(0.0).abs(), tree.buffered_bytes, tree.stored_bytes)
        };
        trees.sort_by(|x, y| {
            let (x, y) = (key(x), key(y));
            y.0.total_cmp(&x.0).then(y.1.cmp(&x.1)).then(y.2.cmp(&x.2))
        });
        trees
    }

    /// Classes by their time since the other sample: calls per second, seconds per second, rows examined per
    /// call.
    pub fn statements(&self) -> Vec<(&'a str, f64, f64, f64)> {
        if self.now.running_only {
            let mut all: Vec<_> = self
                .now
                .statements
                .iter()
                .map(|s| (s.class.as_str(), s.count as f64, s.seconds, 0.0))
                .collect();
            all.sort_by(|a, b| b.2.total_cmp(&a.2));
            return all;
        }
        let Some(before) = self.before else { return Vec::new() };
        let old: HashMap<&str, &Statement> =
            before.statements.iter().map(|s| (s.class.as_str(), s)).collect();
        let mut all = Vec::new();
        for new in &self.now.statements {
            // If a class was not among the kept ones, it is unknown since when its totals count.
            let Some(old) = old.get(new.class.as_str()) else { continue };
            let (Some(count), Some(rows)) = (
                new.count.checked_sub(old.count),
                new.rows_examined.checked_sub(old.rows_examined),
            ) else {
                continue;
            };
            let time = (new.seconds - old.seconds).max(0.0);
            if count > 0 && self.seconds > 0.0 {
                let rows = rows as f64 / count as f64;
                all.push((
                    new.class.as_str(),
                    count as f64 / self.seconds,
                    time / self.seconds,
                    rows,
                ));
            }
        }
        all.sort_by(|a, b| b.2.total_cmp(&a.2));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at: f64, commits: &str) -> Sample {
        let mut sample = Sample { at, server: "s".into(), ..Sample::default() };
        sample.put("Frond_commits", commits);
        sample
    }

    #[test]
    fn a_rate_needs_two_samples_of_one_server_that_did_not_restart() {
        let (a, b, less) = (sample(10.0, "100"), sample(12.0, "150"), sample(14.0, "3"));
        assert_eq!(View::new(&b, Some(&a)).rate("frond_commits"), Some(25.0));
        assert_eq!(View::new(&b, None).rate("frond_commits"), None);
        assert_eq!(View::new(&less, Some(&b)).rate("frond_commits"), None);
        assert_eq!(View::new(&a, Some(&b)).rate("frond_commits"), None);
        let other = Sample { server: "t".into(), ..a };
        assert_eq!(View::new(&b, Some(&other)).rate("frond_commits"), None);
    }
}
