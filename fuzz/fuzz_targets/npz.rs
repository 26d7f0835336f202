//! Any bytes at all as an NPZ file.
#![no_main]

use forebay_format::Npz;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| forebay_fuzz::try_file(&Npz, bytes));
