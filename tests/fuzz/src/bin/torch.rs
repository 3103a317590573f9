//! Fuzzes [`fuzz::torch`].

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::bounded(bytes, fuzz::torch));
