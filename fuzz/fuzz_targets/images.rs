//! Any bytes at all as a picture.
#![no_main]

use forebay_format::Images;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| forebay_fuzz::try_file(&Images, bytes));
