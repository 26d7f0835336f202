//! Any bytes at all as the files of a Zarr store.
//!
//! The bytes are files one after the other: the number of a key, the length as two bytes, the file.
#![no_main]

use forebay_format::Zarr;
use forebay_source::MemoryOrigin;
use libfuzzer_sys::fuzz_target;

/// The names that files may have.
const KEYS: [&str; 12] = [
    "zarr.json",
    ".zarray",
    ".zgroup",
    ".zattrs",
    ".zmetadata",
    "c/0",
    "c/0/0",
    "0",
    "0.0",
    "a/zarr.json",
    "a/.zarray",
    "a/0",
];

fuzz_target!(|bytes: &[u8]| {
    let mut origin = MemoryOrigin::default();
    let mut rest = bytes;
    while let [key, low, high, after @ ..] = rest {
        let len = usize::from(u16::from_le_bytes([*low, *high])).min(after.len());
        let (file, next) = after.split_at(len);
        origin = origin.with(&format!("s/{}", KEYS[usize::from(*key) % KEYS.len()]), file.to_vec());
        rest = next;
    }
    forebay_fuzz::try_at(&Zarr, origin, "s");
});
