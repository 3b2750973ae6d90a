//! Statistics: histograms, distributions of attributes, time series, breakdowns by user, and the table of classes.
//!
//! Everything here is mergeable: threads gather events separately and add them to one table in any order, with the
//! same result as one thread.

pub(crate) mod batch;
pub(crate) mod breakdowns;
pub(crate) mod bucket;
pub(crate) mod class;
pub(crate) mod distinct;
pub mod distribution;
pub(crate) mod names;
pub(crate) mod patterns;
mod record;
pub(crate) mod series;
pub(crate) mod shared;
pub(crate) mod spill;
pub(crate) mod table;
pub(crate) mod top;
pub mod waiting;

pub use batch::Batch;
pub use class::{Class, Sample};
pub use distribution::Summary;
pub use shared::Shared;
pub use table::Table;

/// A hash of a logged plan's shape: of everything but its numbers, which differ from run to run.
pub fn plan_hash(plan: &[u8]) -> u64 {
    let mut hash = xxhash_rust::xxh3::Xxh3Default::new();
    for line in plan.split(|b| *b == b'\n') {
        for field in line.split(|b| *b == b'\t') {
            let is_number =
                !field.is_empty() && field.iter().all(|b| b.is_ascii_digit() || *b == b'.');
            hash.update(if is_number { b"0" } else { field });
            hash.update(b"\t");
        }
    }
    hash.digest()
}

#[cfg(test)]
mod tests {
    use super::plan_hash;

    #[test]
    fn plans_differ_by_shape_not_by_rows() {
        let a = plan_hash(b"# explain: 1\tSIMPLE\tt\tref\tk\t10\t10.00\n");
        assert_eq!(a, plan_hash(b"# explain: 1\tSIMPLE\tt\tref\tk\t3000\t7.50\n"));
        assert_ne!(a, plan_hash(b"# explain: 1\tSIMPLE\tt\tALL\tNULL\t10\t10.00\n"));
    }
}
