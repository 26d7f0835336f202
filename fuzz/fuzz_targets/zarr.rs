//! Any bytes at all as the files of a Zarr store.
#![no_main]

use forebay_format::Zarr;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| forebay_fuzz::try_at(&Zarr, forebay_fuzz::unpack::zarr(bytes), "s"));
