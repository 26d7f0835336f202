//! Any bytes at all as a classic NetCDF file.
#![no_main]

use forebay_format::Netcdf3;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| forebay_fuzz::try_file(&Netcdf3, bytes));
