//! Filter 32004: LZ4 blocks in HDF5's framing.
//!
//! ```text
//!   total length u64 BE │ block length u32 BE │ { stored length u32 BE │ bytes } …
//! ```

use crate::error::too_long;
use forebay_process::{Error, Result};
use lz4_flex::block;

use super::byte_cursor::ByteCursor;

pub(crate) fn decode(input: &[u8], out: &mut [u8]) -> Result<usize> {
    let mut cursor = ByteCursor::new(input, crate::ByteOrder::Big);
    let total_len = usize::try_from(cursor.u64()?).map_err(|_| too_long())?;
    let block_len = cursor.u32()? as usize;
    let out = out.get_mut(..total_len).ok_or_else(too_long)?;
    if block_len == 0 && total_len > 0 {
        return Err(Error::corrupt("block length is zero"));
    }
    for block in out.chunks_mut(block_len.max(1)) {
        let stored_len = cursor.u32()? as usize;
        let stored = cursor.take(stored_len)?;
        if stored_len == block.len() {
            block.copy_from_slice(stored);
        } else {
            decode_block(stored, block)?;
        }
    }
    Ok(total_len)
}

/// Decodes one bare LZ4 block, which must fill `out`.
pub(crate) fn decode_block(input: &[u8], out: &mut [u8]) -> Result<()> {
    let written = block::decompress_into(input, out)
        .map_err(|error| Error::corrupt("LZ4 block is damaged").because(error))?;
    if written != out.len() {
        return Err(Error::corrupt(format!("LZ4 block holds {written} bytes where {} belong", out.len())));
    }
    Ok(())
}
