//! A gzip member, the zlib stream's other wrapper.

use std::cell::RefCell;

use forebay_source::Result;
use libdeflater::{DecompressionError, Decompressor};

use super::{corrupt, too_long};

thread_local! {
    // Setting one up costs as much as inflating a small chunk, so each thread keeps its own.
    static DECOMPRESSOR: RefCell<Decompressor> = RefCell::new(Decompressor::new());
}

pub(super) fn decode(_params: &[u32], input: &[u8], out: &mut [u8]) -> Result<usize> {
    DECOMPRESSOR.with_borrow_mut(|decompressor| decompressor.gzip_decompress(input, out)).map_err(|error| {
        match error {
            DecompressionError::InsufficientSpace => too_long(),
            DecompressionError::BadData => corrupt("stream is not gzip or is damaged"),
        }
    })
}
