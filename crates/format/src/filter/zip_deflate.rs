//! A deflate stream without a frame, as members of zip files are; its CRC32 in the parameter.

use std::cell::RefCell;

use forebay_source::Result;
use libdeflater::{DecompressionError, Decompressor, crc32};

use super::{corrupt, too_long};

thread_local! {
    // Setting one up costs as much as inflating a small chunk, so each thread keeps its own.
    static DECOMPRESSOR: RefCell<Decompressor> = RefCell::new(Decompressor::new());
}

pub(super) fn decode(params: &[u32], input: &[u8], out: &mut [u8]) -> Result<usize> {
    let &[sum] = params else { return Err(corrupt("its checksum is missing")) };
    let inflated = DECOMPRESSOR.with_borrow_mut(|decompressor| decompressor.deflate_decompress(input, out));
    let len = inflated.map_err(|error| match error {
        DecompressionError::InsufficientSpace => too_long(),
        DecompressionError::BadData => corrupt("stream is not deflate or is damaged"),
    })?;
    if !cfg!(fuzzing) && out.get(..len).map(crc32) != Some(sum) {
        return Err(corrupt("bad checksum"));
    }
    Ok(len)
}
