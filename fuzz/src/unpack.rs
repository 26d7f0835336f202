//! How the bytes of a seed become the files of a store.

use forebay_source::MemoryOrigin;

/// The names that files of a Zarr store may have.
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

/// A Zarr store at `s`, its files one after the other: the number of a key, the length as two bytes, the file.
pub fn zarr(bytes: &[u8]) -> MemoryOrigin {
    let mut origin = MemoryOrigin::default();
    let mut rest = bytes;
    while let [key, low, high, after @ ..] = rest {
        let len = usize::from(u16::from_le_bytes([*low, *high])).min(after.len());
        let (file, next) = after.split_at(len);
        origin = origin.with(&format!("s/{}", KEYS[usize::from(*key) % KEYS.len()]), file.to_vec());
        rest = next;
    }
    origin
}

/// A BP folder at `f.bp`, its files one after the other, each behind its length as four bytes.
pub fn adios(mut bytes: &[u8]) -> MemoryOrigin {
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
