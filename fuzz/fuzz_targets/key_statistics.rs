#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| frond_fuzz::engine("key_statistics", bytes));
