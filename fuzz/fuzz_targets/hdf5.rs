//! Any bytes at all as an HDF5 file.
#![no_main]

use forebay_format::Hdf5;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| forebay_fuzz::try_file(&Hdf5, bytes));
