#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| frond_fuzz::expressions::expression(text));
