//! Where random inputs of tests begin, and how many there are.
//!
//! `FROND_FUZZ_SEED` repeats a run. Without it the day decides, so that runs add up. `FROND_FUZZ_ROUNDS` is the number of
//! inputs of each test, which otherwise has its own.

use std::time::SystemTime;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect(name))
}

/// The first seed. Those after it belong to the same run: the next day begins far away. It is printed, and so shown with a
/// failure.
pub fn first_seed() -> u64 {
    let days = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs() / 86400;
    let seed = number("FROND_FUZZ_SEED").unwrap_or(days);
    println!("FROND_FUZZ_SEED={seed}");
    seed.wrapping_mul(0xd134_2543_de82_ef95)
}

pub fn rounds(usual: u64) -> u64 {
    number("FROND_FUZZ_ROUNDS").unwrap_or(usual)
}
