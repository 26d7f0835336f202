//! Any bytes at all as a Silo file.
#![no_main]

use forebay_format::Silo;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| forebay_fuzz::try_file(&Silo, bytes));
