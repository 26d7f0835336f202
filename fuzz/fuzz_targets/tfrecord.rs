//! Any bytes at all as a TFRecord file.
#![no_main]

use forebay_format::TfRecord;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| forebay_fuzz::try_file(&TfRecord::default(), bytes));
