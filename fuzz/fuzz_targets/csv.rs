//! Any bytes at all as a table.
#![no_main]

use forebay_format::Csv;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| forebay_fuzz::try_file(&Csv, bytes));
