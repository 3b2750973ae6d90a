//! Checksums: XXH3, 64 bits. They detect accidents (bit rot, torn and misdirected writes), not forgery.

use xxhash_rust::xxh3::{xxh3_128, xxh3_64, xxh3_64_with_seed};

/// Checksum of `bytes`.
pub fn checksum64(bytes: &[u8]) -> u64 {
    xxh3_64(bytes)
}

/// Checksum of `bytes` bound to a place: the seed carries the identity (file, block, page, salt), so
/// that intact bytes found in the wrong place do not verify.
pub fn checksum64_seeded(bytes: &[u8], seed: u64) -> u64 {
    xxh3_64_with_seed(bytes, seed)
}

/// A 128-bit hash, for sums that stand for whole sets.
pub fn checksum128(bytes: &[u8]) -> u128 {
    xxh3_128(bytes)
}
