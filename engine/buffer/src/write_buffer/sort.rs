//! Sorting entries.

use crate::fence::order;
use crate::write_buffer::part::Part;
use crate::write_buffer::record::Source;

impl Part {
    /// Takes entries in the order in which they arrived; of equal (key, sequence) the last stays.
    pub fn sort<S: Source>(heads: &[u64], places: &[u32], source: &S) -> Part {
        let n = heads.len();
        let mut part = Part::with_capacity(n);
        if heads.windows(2).all(|w| w[0] < w[1]) {
            part.heads.extend_from_slice(heads);
            part.places.extend_from_slice(places);
            return part.finish();
        }
        let (low, high) = heads.iter().fold((u64::MAX, 0), |(l, h), x| (l.min(*x), h.max(*x)));
        // The bits in which heads differ, cut to leave space for the entry's number: one word to sort.
        let shared = (high - low).leading_zeros().min(63);
        let mask = (n as u64).next_power_of_two() - 1;
        let word = |(head, i): (&u64, u64)| (((head - low) << shared) & !mask) | i;
        let words = sorted(heads.iter().zip(0u64..).map(word), n);
        let mut i = 0;
        while i < n {
            let word = words[i] | mask;
            let mut tied = 1;
            while words.get(i + tied).is_some_and(|w| *w <= word) {
                tied += 1;
            }
            if tied == 1 {
                let number = (words[i] & mask) as usize;
                part.heads.push(heads[number]);
                part.places.push(places[number]);
            } else {
                let numbers = words[i..i + tied].iter().map(|w| (w & mask) as usize);
                part.push_tied(numbers.map(|j| (heads[j], places[j])).collect(), source);
            }
            i += tied;
        }
        part.finish()
    }

    /// Appends entries whose heads may be equal; they are in the order in which they were written.
    fn push_tied<S: Source>(&mut self, mut tied: Vec<(u64, u32)>, source: &S) {
        tied.sort_by(|a, b| {
            a.0.cmp(&b.0).then_with(|| {
                let (x, y) = (source.entry(a.1), source.entry(b.1));
                order(x.key, x.seq, y.key, y.seq)
            })
        });
        for (i, (head, place)) in tied.iter().enumerate() {
            let replaced = tied.get(i + 1).is_some_and(|(h, p)| {
                *h == *head && {
                    let (x, y) = (source.entry(*p), source.entry(*place));
                    x.seq == y.seq && x.key == y.key
                }
            });
            if !replaced {
                self.heads.push(*head);
                self.places.push(*place);
            }
        }
    }
}

/// Fewer words than this are sorted without buckets.
const FEW: usize = 256;
/// Words of a bucket when they are spread evenly.
const BUCKET: usize = 8;

/// Sorts `n` words. Heads of random keys are spread evenly, so they are first put into buckets by
/// their first bits, and little is left to sort; of other heads this pass is useless.
fn sorted(words: impl Iterator<Item = u64> + Clone, n: usize) -> Vec<u64> {
    if n < FEW {
        let mut words: Vec<u64> = words.collect();
        words.sort_unstable();
        return words;
    }
    let bits = (n / BUCKET).ilog2();
    let shift = u64::BITS - bits;
    let mut ends = vec![0u32; 1 << bits];
    for w in words.clone() {
        ends[(w >> shift) as usize] += 1;
    }
    let mut sum = 0;
    for end in &mut ends {
        sum += std::mem::replace(end, sum);
    }
    // `ends` now has where each bucket begins. As a bucket gets its words, this becomes its end.
    let mut dealt = vec![0; n];
    for w in words {
        let end = &mut ends[(w >> shift) as usize];
        dealt[*end as usize] = w;
        *end += 1;
    }
    let mut from = 0;
    for end in ends {
        let bucket = &mut dealt[from..end as usize];
        if bucket.len() > 1 {
            bucket.sort_unstable();
        }
        from = end as usize;
    }
    dealt
}

#[cfg(test)]
mod tests {
    use crate::write_buffer::head_prefix::HeadPrefix;
    use crate::write_buffer::part::tests::{list, push};
    use crate::write_buffer::part::Part;
    use crate::write_buffer::record::Arena;

    #[test]
    fn sorting_orders_by_key_then_newest_first_and_the_last_of_equals_stays() {
        for blunt in [false, true] {
            let mut source = Arena::default();
            let mut heads = Vec::new();
            let mut places = Vec::new();
            for (key, seq, value) in [
                (&b"b"[..], 1, &b"old"[..]),
                (b"a", 5, b""),
                (b"b", 9, b""),
                (b"b", 1, b"new"),
                (b"a\0", 5, b""),
            ] {
                places.push(push(&mut source, key, seq, value));
                heads.push(if blunt { 7 } else { HeadPrefix::default().head(key) });
            }
            let part = Part::sort(&heads, &places, &source);
            let want =
                [(&b"a"[..], 5, &b""[..]), (b"a\0", 5, b""), (b"b", 9, b""), (b"b", 1, b"new")];
            let want: Vec<_> = want.iter().map(|(k, s, v)| (k.to_vec(), *s, v.to_vec())).collect();
            assert_eq!(list(&part, &source), want);
        }
    }
}
