//! Bit packing: `n` numbers of `width` bits each, least significant bit first, padded to a byte.
//!
//! Readers load eight bytes at a time, so [`SLACK`] readable bytes must follow the packed numbers;
//! a page ends in that many zero bytes.

/// Bytes that must follow packed numbers.
pub(crate) const SLACK: usize = 8;

/// Bytes of `n` packed numbers.
#[inline]
pub(crate) fn packed_bytes(n: usize, width: u32) -> usize {
    (n * width as usize).div_ceil(8)
}

/// The low `width` bits set; `width` at most 64.
#[inline]
pub(crate) fn mask(width: u32) -> u64 {
    match width {
        0 => 0,
        w => u64::MAX >> (64 - w),
    }
}

/// Bits needed for numbers up to `max`.
#[inline]
pub(crate) fn bits_for(max: u64) -> u32 {
    64 - max.leading_zeros()
}

/// Appends `values`, each below `2^width`; at most 128 of them.
pub(crate) fn pack(values: &[u64], width: u32, out: &mut Vec<u8>) {
    debug_assert!(width <= 64 && values.len() <= 128);
    if width == 0 {
        return;
    }
    let mut words = [0u64; 129];
    let mut at = 0;
    let mut acc = 0u64;
    let mut used = 0u32;
    for &v in values {
        debug_assert!(v <= mask(width));
        acc |= v << used;
        used += width;
        if used >= 64 {
            words[at] = acc;
            at += 1;
            used -= 64;
            // The bits of `v` that did not fit; none when it ended on the boundary.
            acc = if used == 0 { 0 } else { v >> (width - used) };
        }
    }
    words[at] = acc;
    let start = out.len();
    let end = start + packed_bytes(values.len(), width);
    out.resize(start + 8 * (at + 1), 0);
    for (to, word) in out[start..].chunks_exact_mut(8).zip(&words) {
        if let Some(to) = to.first_chunk_mut::<8>() {
            *to = word.to_le_bytes();
        }
    }
    out.truncate(end);
}

/// The eight bytes at `at`, which must be there.
#[inline]
pub(crate) fn load(src: &[u8], at: usize) -> u64 {
    match src[at..].first_chunk::<8>() {
        Some(bytes) => u64::from_le_bytes(*bytes),
        None => panic!("packed numbers are followed by slack"),
    }
}

/// Number `i` of those packed at the start of `src`.
#[inline]
pub(crate) fn get(src: &[u8], i: usize, width: u32) -> u64 {
    if width == 0 {
        return 0;
    }
    let bit = i * width as usize;
    let (at, shift) = (bit / 8, (bit % 8) as u32);
    let low = load(src, at) >> shift;
    let wide = if shift + width > 64 { u64::from(src[at + 8]) << (64 - shift) } else { 0 };
    (low | wide) & mask(width)
}

/// Calls `f(i, number)` for the first `n` numbers packed at the start of `src`.
#[inline]
pub(crate) fn each(src: &[u8], n: usize, width: u32, mut f: impl FnMut(usize, u64)) {
    match width {
        0 => (0..n).for_each(|i| f(i, 0)),
        1..=57 => {
            let m = mask(width);
            let src = &src[..packed_bytes(n, width) + SLACK];
            let mut bit = 0;
            for i in 0..n {
                f(i, (load(src, bit / 8) >> (bit % 8)) & m);
                bit += width as usize;
            }
        }
        _ => (0..n).for_each(|i| f(i, get(src, i, width))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TestRng;

    #[test]
    fn numbers_of_every_width_round_trip() {
        let mut rng = TestRng::new(7);
        for width in 0..=64 {
            for n in [1, 2, 63, 127, 128] {
                let values: Vec<u64> = (0..n).map(|_| rng.next_u64() & mask(width)).collect();
                let mut out = Vec::new();
                pack(&values, width, &mut out);
                assert_eq!(out.len(), packed_bytes(n, width));
                out.extend_from_slice(&[0xff; SLACK]);
                let mut all = vec![0; n];
                each(&out, n, width, |i, v| all[i] = v);
                assert_eq!(all, values, "width {width}");
                for (i, v) in values.iter().enumerate() {
                    assert_eq!(get(&out, i, width), *v, "width {width}");
                }
            }
        }
    }
}
