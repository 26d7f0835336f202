//! Filter 32015: Zstandard frames.

#[cfg(feature = "zstd")]
use std::cell::RefCell;

use forebay_process::Result;
#[cfg(feature = "zstd")]
use {crate::error::too_long, forebay_process::Error, zstd::bulk::Decompressor};

#[cfg(feature = "zstd")]
thread_local! {
    // A context is 150 KiB to set up, so each thread keeps its own.
    static DECOMPRESSOR: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
}

#[cfg(feature = "zstd")]
pub(crate) fn decode(input: &[u8], out: &mut [u8]) -> Result<usize> {
    DECOMPRESSOR
        .with_borrow_mut(|slot| {
            let decompressor = match slot {
                Some(decompressor) => decompressor,
                None => slot.insert(Decompressor::new()?),
            };
            decompressor.decompress_to_buffer(input, out)
        })
        .map_err(|error| match error.to_string().as_str() {
            // The library's own words for the one code that more room would mend.
            "Destination buffer is too small" => too_long(),
            _ => Error::corrupt("frame is damaged").because(error),
        })
}

#[cfg(not(feature = "zstd"))]
pub(crate) fn decode(_input: &[u8], _out: &mut [u8]) -> Result<usize> {
    Err(crate::error::unsupported("this build has no decoder for zstd"))
}
