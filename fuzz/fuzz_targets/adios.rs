//! Any bytes at all as the files of an ADIOS folder, packed into one.
//!
//! `make_adios_seeds.py` says how they are packed. The same bytes are also tried as one file of the format before.
#![no_main]

use forebay_format::{Bp3, Bp4, Bp5};
use forebay_fuzz::unpack;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    forebay_fuzz::try_at(&Bp5, unpack::adios(bytes), "f.bp");
    forebay_fuzz::try_at(&Bp4, unpack::adios(bytes), "f.bp");
    forebay_fuzz::try_file(&Bp3, bytes);
});
