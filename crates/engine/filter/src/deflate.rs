//! Deflate streams in their three wrappings: zlib (HDF5's filter 1), gzip, and bare as in zip files.

use std::cell::RefCell;

use forebay_process::{Error, Result};
use libdeflater::{DecompressionError, Decompressor, crc32};

use crate::error::too_long;

thread_local! {
    // Setting one up costs as much as inflating a small chunk, so each thread keeps its own.
    static DECOMPRESSOR: RefCell<Decompressor> = RefCell::new(Decompressor::new());
}

/// Decodes a zlib stream.
pub(crate) fn zlib(input: &[u8], out: &mut [u8]) -> Result<usize> {
    inflate("zlib", |decompressor| decompressor.zlib_decompress(input, out))
}

/// Decodes a gzip member.
pub(crate) fn gzip(input: &[u8], out: &mut [u8]) -> Result<usize> {
    inflate("gzip", |decompressor| decompressor.gzip_decompress(input, out))
}

/// Decodes a bare stream, whose CRC-32 is kept elsewhere.
pub(crate) fn raw(sum: u32, input: &[u8], out: &mut [u8]) -> Result<usize> {
    let len = inflate("deflate", |decompressor| decompressor.deflate_decompress(input, out))?;
    // A fuzzer cannot guess checksums.
    if !cfg!(fuzzing) && out.get(..len).map(crc32) != Some(sum) {
        return Err(Error::corrupt("bad checksum"));
    }
    Ok(len)
}

fn inflate(
    wrapping: &str,
    work: impl FnOnce(&mut Decompressor) -> Result<usize, DecompressionError>,
) -> Result<usize> {
    DECOMPRESSOR.with_borrow_mut(work).map_err(|error| match error {
        DecompressionError::InsufficientSpace => too_long(),
        DecompressionError::BadData => Error::corrupt(format!("stream is not {wrapping} or is damaged")),
    })
}
