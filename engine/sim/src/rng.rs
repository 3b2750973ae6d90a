//! Seeded randomness: SplitMix64. One generator per purpose, forked from the run's seed, so that a
//! change in how one part draws does not shift what the others see.

/// A generator; the same seed gives the same numbers everywhere.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Rng {
        let mut rng = Rng(seed ^ 0x5bd1_e995_9d1b_54a5);
        rng.next();
        rng
    }

    /// Another generator that draws independently of this one.
    pub fn fork(&mut self, purpose: u64) -> Rng {
        Rng::new(self.next() ^ purpose.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    #[allow(clippy::should_implement_trait)] // Not an iterator: it never ends.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`, which is not 0.
    pub fn below(&mut self, n: u64) -> u64 {
        assert!(n > 0, "a range holds something");
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }

    /// A number in `lo..=hi`.
    pub fn range(&mut self, lo: u64, hi: u64) -> u64 {
        lo + self.below(hi - lo + 1)
    }

    pub fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// True `n` times in a million.
    pub fn ppm(&mut self, n: u32) -> bool {
        n > 0 && self.below(1_000_000) < u64::from(n)
    }

    /// True `n` times in a hundred.
    pub fn percent(&mut self, n: u64) -> bool {
        self.below(100) < n
    }

    /// An index into `weights`, drawn in proportion to them.
    pub fn weighted(&mut self, weights: &[u32]) -> usize {
        let total: u64 = weights.iter().map(|&w| u64::from(w)).sum();
        let mut at = self.below(total);
        for (i, &w) in weights.iter().enumerate() {
            match at.checked_sub(u64::from(w)) {
                Some(rest) => at = rest,
                None => return i,
            }
        }
        unreachable!("the draw is below the sum of the weights")
    }
}

/// Mixes `word` into the running hash `h`.
pub fn mix(h: u64, word: u64) -> u64 {
    let mut z = (h ^ word).wrapping_mul(0x9fb2_1c65_1e98_df25);
    z ^= z >> 32;
    z.wrapping_mul(0xd6e8_feb8_6659_fd93) ^ (z >> 29)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_stay_in_range_and_repeat_with_the_seed() {
        let (mut a, mut b) = (Rng::new(7), Rng::new(7));
        for _ in 0..1000 {
            let n = a.range(3, 9);
            assert!((3..=9).contains(&n));
            assert_eq!(n, b.range(3, 9));
            assert!(a.weighted(&[0, 5, 0, 1]) % 2 == 1);
            b.weighted(&[0, 5, 0, 1]);
        }
    }
}
