//! Filter 32015: Zstandard frames.

use std::cell::RefCell;

use forebay_source::Result;
use zstd::bulk::Decompressor;

use super::{corrupt, too_long};

thread_local! {
    // A context is 150 KiB to set up, so each thread keeps its own.
    static DECOMPRESSOR: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
}

pub(super) fn decode(_params: &[u32], input: &[u8], out: &mut [u8]) -> Result<usize> {
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
            _ => corrupt("frame is damaged").because(error),
        })
}
