//! Filter 32015: Zstandard frames.

use std::cell::RefCell;

use forebay_source::Result;
use zstd::bulk::Decompressor;

use super::corrupt;

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
        .map_err(|error| corrupt("frame is damaged or longer than the chunk").because(error))
}
