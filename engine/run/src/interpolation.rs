//! Interpolation search over ascending integers (Peterson, "Addressing for Random-Access Storage", 1957).
//!
//! A binary search over the heads of 10 000 fences reads eight lines of memory that other work has
//! evicted from the processor's caches. Heads of numbers and of random values are spread evenly, so the position
//! follows from the value: one guess is off by some entries in ascending numbers, by the square root
//! of the length in random ones. Where values are not spread evenly, a few guesses are lost and a binary search does the rest.

/// Guesses before the binary search.
const GUESSES: usize = 3;
/// Entries beside a guess that are looked at next: one line of memory.
const NEAR: usize = 8;

/// Number of elements of `sorted` that are below `value`.
#[inline]
pub(crate) fn count_below(sorted: &[u64], value: u64) -> usize {
    let (Some(first), Some(last)) = (sorted.first(), sorted.last()) else { return 0 };
    if value <= *first {
        return 0;
    }
    if value > *last {
        return sorted.len();
    }
    // Always `sorted[low] < value <= sorted[high]`.
    let (mut low, mut high) = (0, sorted.len() - 1);
    for _ in 0..GUESSES {
        if high - low <= NEAR {
            break;
        }
        let (below, above) = (sorted[low], sorted[high]);
        let part = (value - below) as f64 / (above - below) as f64;
        let guess = (low + (part * (high - low) as f64) as usize).clamp(low + 1, high - 1);
        let near = if sorted[guess] < value {
            low = guess;
            (guess + NEAR).min(high)
        } else {
            high = guess;
            guess.saturating_sub(NEAR).max(low)
        };
        if sorted[near] < value {
            low = near;
        } else {
            high = near;
        }
    }
    low + 1 + sorted[low + 1..high].partition_point(|n| *n < value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agrees(sorted: &[u64]) {
        let ends = [0, 1, u64::MAX - 1, u64::MAX];
        let near = sorted.iter().flat_map(|n| [n.saturating_sub(1), *n, n.saturating_add(1)]);
        for value in near.chain(ends) {
            let expected = sorted.partition_point(|n| *n < value);
            assert_eq!(count_below(sorted, value), expected, "{value} in {} values", sorted.len());
        }
    }

    #[test]
    fn counts_are_those_of_a_binary_search() {
        let mut state = 7_u64;
        let mut random = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            state ^ (state >> 29)
        };
        for n in (0..40).chain([1000, 5000]) {
            agrees(&(0..n).map(|i| (i * 61) << 20).collect::<Vec<_>>());
            agrees(&vec![42; n as usize]);
            // Half at one end, half at the other.
            agrees(
                &(0..n).map(|i| if i < n / 2 { i } else { u64::MAX - n + i }).collect::<Vec<_>>(),
            );
            // Each a part larger than the one before.
            agrees(
                &(0..n).map(|i| 2_f64.powf(i as f64 * 64.0 / n as f64) as u64).collect::<Vec<_>>(),
            );
            let mut spread: Vec<u64> = (0..n).map(|_| random()).collect();
            spread.sort_unstable();
            agrees(&spread);
            let mut equal: Vec<u64> = (0..n).map(|_| random() % 7).collect();
            equal.sort_unstable();
            agrees(&equal);
        }
    }
}
