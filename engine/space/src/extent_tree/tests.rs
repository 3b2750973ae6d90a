//! Tests of `extent_tree.rs`.

use super::*;
use crate::testing::Rng;

impl ExtentTree {
    /// Checks ET1-ET5; returns the stretches.
    fn verify(&self) -> Vec<(u64, u64)> {
        let mut all = Vec::new();
        self.verify_node(self.root, NIL, &mut all);
        assert_eq!(all.len(), self.nodes.len() - self.vacant.len());
        let mut at = all[0].2;
        assert_eq!(all[0].0, 0, "ET2");
        for (i, &(start, end, id)) in all.iter().enumerate() {
            let n = &self.nodes[id as usize];
            assert_eq!(id, at, "ET5");
            at = n.next;
            if i > 0 {
                assert_eq!(n.prev, all[i - 1].2, "ET5");
                assert!(start > all[i - 1].1, "ET1");
                assert_eq!(n.hole, start - all[i - 1].1, "ET1");
            }
            assert!(end > start);
        }
        assert_eq!(at, NIL);
        assert_eq!(self.last, all[all.len() - 1].2);
        let all: Vec<_> = all.into_iter().map(|(s, e, _)| (s, e)).collect();
        assert_eq!(self.used, all.iter().map(|(s, e)| e - s).sum::<u64>());
        all
    }

    fn verify_node(&self, at: u32, parent: u32, all: &mut Vec<(u64, u64, u32)>) -> (u8, u64) {
        if at == NIL {
            return (0, 0);
        }
        let n = self.nodes[at as usize];
        assert_eq!(n.parent, parent);
        let (lh, ll) = self.verify_node(n.left, at, all);
        all.push((n.start, n.end, at));
        let (rh, rl) = self.verify_node(n.right, at, all);
        assert!(lh.abs_diff(rh) <= 1, "ET4");
        assert_eq!(n.height, 1 + lh.max(rh), "ET4");
        assert_eq!(n.largest, n.hole.max(ll).max(rl), "ET3");
        (n.height, n.largest)
    }
}

/// One bool per unit; slow and obvious.
struct Bitmap(Vec<bool>);

impl Bitmap {
    fn is_free(&self, e: Extent) -> bool {
        (e.offset..e.end()).all(|u| !self.0[u as usize])
    }
    fn set(&mut self, e: Extent, used: bool) {
        (e.offset..e.end()).for_each(|u| self.0[u as usize] = used);
    }
    fn first_fit(&self, len: u64) -> u64 {
        let mut run = 0;
        for (u, used) in self.0.iter().enumerate() {
            run = if *used { 0 } else { run + 1 };
            if run == len {
                return u as u64 + 1 - len;
            }
        }
        panic!("bitmap too small")
    }
    fn tail(&self) -> u64 {
        self.0.iter().rposition(|u| *u).map_or(0, |p| p as u64 + 1)
    }
}

#[test]
fn agrees_with_a_bitmap_under_random_operations() {
    for seed in 1..=12u64 {
        let mut rng = Rng(seed);
        let mut tree = ExtentTree::new(2);
        let mut model = Bitmap(vec![false; 20_000]);
        model.set(Extent { offset: 0, len: 2 }, true);
        let mut live: Vec<Extent> = Vec::new();
        for step in 0..4_000 {
            let grow = live.len() < 40 || (live.len() < 400 && rng.below(100) < 52);
            if grow && rng.below(4) > 0 {
                let len = 1 + rng.below(24);
                let e = tree.alloc(len);
                assert_eq!(e, Extent { offset: model.first_fit(len), len });
                model.set(e, true);
                live.push(e);
            } else if grow {
                let at = rng.below(model.tail() + 40);
                let e = Extent { offset: at, len: 1 + rng.below(6) };
                let free = model.is_free(e);
                assert_eq!(tree.alloc_at(e), free);
                if free {
                    model.set(e, true);
                    live.push(e);
                }
            } else {
                let e = live.swap_remove(rng.below(live.len() as u64) as usize);
                // Parts are freed on their own as well.
                let cut = rng.below(e.len);
                for part in [
                    Extent { offset: e.offset, len: cut },
                    Extent { offset: e.offset + cut, len: e.len - cut },
                ] {
                    if part.len > 0 {
                        tree.free(part);
                        model.set(part, false);
                    }
                }
            }
            assert_eq!(tree.tail(), model.tail());
            if step % 16 == 0 {
                let stretches = tree.verify();
                assert_eq!(tree.holes(), stretches.len() - 1);
                for (s, e) in &stretches {
                    assert!((*s..*e).all(|u| model.0[u as usize]));
                }
                let (from, to) = (rng.below(600), 300 + rng.below(900));
                for hole in tree.holes_within(from, to) {
                    assert!(model.is_free(hole));
                }
                let free: u64 = tree.holes_within(from, to).iter().map(|h| h.len).sum();
                let want = (from..to.max(from)).filter(|u| !model.0[*u as usize]).count();
                assert_eq!(free, want as u64);
            }
        }
        for e in live {
            tree.free(e);
        }
        assert_eq!(tree.verify(), vec![(0, 2)]);
    }
}

#[test]
fn a_hole_is_found_in_logarithmic_steps() {
    let mut tree = ExtentTree::new(1);
    let all: Vec<Extent> = (0..40_000).map(|_| tree.alloc(2)).collect();
    for e in all.iter().step_by(2) {
        tree.free(Extent { offset: e.offset, len: 1 });
    }
    tree.take_steps();
    for _ in 0..1_000 {
        tree.alloc(2); // no hole fits
    }
    assert!(tree.take_steps() <= 1_000);
    for _ in 0..1_000 {
        tree.alloc(1);
    }
    let steps = tree.take_steps();
    assert!(steps <= 1_000 * 22, "{steps} steps for 1000 searches in 20 000 holes");
}

#[test]
fn hostile_extents_are_refused() {
    let mut tree = ExtentTree::new(2);
    for (offset, len) in [(0, 1), (1, 4), (5, 0), (u64::MAX, 2), (3, u64::MAX)] {
        assert!(!tree.alloc_at(Extent { offset, len }), "[{offset}, +{len})");
    }
    assert!(tree.alloc_at(Extent { offset: u64::MAX - 9, len: 9 }));
    tree.verify();
}

#[test]
#[should_panic(expected = "S1")]
fn freeing_twice_is_caught() {
    let mut tree = ExtentTree::new(2);
    let a = tree.alloc(4);
    tree.alloc(4);
    tree.free(a);
    tree.free(a);
}
