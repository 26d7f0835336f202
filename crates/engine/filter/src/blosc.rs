//! Filter 32001: Blosc chunks, of the first format and, for [`super::blosc2`], of the second.
//!
//! ```text
//!   header │ block starts u32 LE … │ block: { stored length i32 LE │ stream } … │ block …
//! ```
//! A block is shuffled as a whole; its streams are the byte lanes of its elements, or the one stream it is.

use forebay_process::Result;

use crate::error::too_long;

mod block;
mod codec;
mod header;
mod lz;

pub(crate) use block::BloscBlocks;
pub(crate) use header::Chunk;

pub(crate) fn decode(input: &[u8], out: &mut [u8]) -> Result<usize> {
    decode_chunk(&Chunk::parse(input)?, out)
}

/// Decodes all blocks of `chunk` into the front of `out`.
pub(crate) fn decode_chunk(chunk: &Chunk<'_>, out: &mut [u8]) -> Result<usize> {
    let out = out.get_mut(..chunk.len).ok_or_else(too_long)?;
    let mut blocks = BloscBlocks::new(chunk);
    for (index, block) in out.chunks_mut(chunk.block_len).enumerate() {
        blocks.decode(index, block)?;
    }
    Ok(chunk.len)
}
