//! Values of an older form become new as jobs pass them, and nothing old is left below the limit.

use std::sync::Arc;

use frond_base::SEQ_MAX;
use frond_run::testing::TestRng;
use frond_tree::Renew;

use crate::support::*;

const KEYS: u64 = 3_000;

fn key(n: u64) -> Vec<u8> {
    format!("key {n:06}").into_bytes()
}

/// The first byte of a value is its form; those of form 1 become longer.
fn newest(value: &[u8]) -> Option<Vec<u8>> {
    (value.first() == Some(&1)).then(|| [&[2u8; 3], &value[1..]].concat())
}

struct ToForm2;

impl Renew for ToForm2 {
    fn renew(&self, value: &[u8], out: &mut Vec<u8>) -> bool {
        newest(value).is_some_and(|new| {
            *out = new;
            true
        })
    }
}

fn write(bench: &mut Bench, rng: &mut TestRng, form: u8, count: u64) {
    let one = |rng: &mut TestRng| {
        let mut value = vec![form; 1 + below(rng, 40) as usize];
        value.push(bench.seq as u8);
        (key(below(rng, KEYS)), (below(rng, 8) > 0).then_some(value))
    };
    let batch = (0..count).map(|_| one(rng)).collect();
    bench.write(batch);
    if below(rng, 3) == 0 {
        bench.freeze();
    }
    for _ in 0..below(rng, 30) {
        bench.work(rng);
    }
}

#[test]
fn jobs_leave_no_old_value_in_runs_that_they_write() {
    let mut kept = 0;
    for seed in 0..8 {
        let mut rng = TestRng::new(seed);
        let mut bench = Bench::new(tiny());
        for _ in 0..60 {
            write(&mut bench, &mut rng, 1, 80);
        }
        let untouched = bench.seq;
        // In the middle of jobs: they may have taken old values that they are about to write.
        bench.tree.renew_values(Arc::new(ToForm2), None);
        let mut rounds = 0;
        loop {
            write(&mut bench, &mut rng, 2, 20);
            bench.freeze();
            bench.settle();
            let limit = bench.tree.old_values_below().unwrap();
            if bench.tree.oldest_block().is_none_or(|oldest| oldest >= limit) {
                break;
            }
            rounds += 1;
            assert!(rounds < 2_000, "old runs stay for ever");
        }
        assert!(bench.tree.is_flushed_to(bench.lsn));
        for (at, value) in bench.model.keys.values_mut().flatten() {
            if let Some(new) = value.as_deref().and_then(newest) {
                *value = Some(new);
                kept += usize::from(*at <= untouched);
            }
        }
        bench.verify_all(SEQ_MAX);
        let image = bench.tree.image();
        bench.reopen(Some(image));
        bench.verify_all(SEQ_MAX);
    }
    assert!(kept > 1_000, "only {kept} values were renewed");
}
