//! Any bytes at all as an NPY file.
#![no_main]

use forebay_format::Npy;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| forebay_fuzz::try_file(&Npy, bytes));
