//! Any bytes at all as the files of an ADIOS folder, packed into one.
//!
//! `make_adios_seeds.py` says how they are packed. The same bytes are also tried as one file of the format before.
#![no_main]

use forebay_format::{Bp3, Bp4, Bp5};
use forebay_source::MemoryOrigin;
use libfuzzer_sys::fuzz_target;

fn unpack(mut bytes: &[u8]) -> MemoryOrigin {
    let mut origin = MemoryOrigin::default();
    for name in ["md.idx", "md.0", "mmd.0", "data.0"] {
        let Some((len, rest)) = bytes.split_first_chunk::<4>() else { break };
        let len = usize::try_from(u32::from_le_bytes(*len)).unwrap_or(usize::MAX).min(rest.len());
        let (file, rest) = rest.split_at(len);
        origin = origin.with(&format!("f.bp/{name}"), file.to_vec());
        bytes = rest;
    }
    origin
}

fuzz_target!(|bytes: &[u8]| {
    forebay_fuzz::try_at(&Bp5, unpack(bytes), "f.bp");
    forebay_fuzz::try_at(&Bp4, unpack(bytes), "f.bp");
    forebay_fuzz::try_file(&Bp3, bytes);
});
