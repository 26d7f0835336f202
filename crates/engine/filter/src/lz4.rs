//! One LZ4 block behind its decoded length, as numcodecs writes it.

use crate::error::too_long;
use forebay_process::Result;

use super::byte_cursor::ByteCursor;
use super::lz4_blocks::decode_block;

pub(crate) fn decode(input: &[u8], out: &mut [u8]) -> Result<usize> {
    let mut cursor = ByteCursor::new(input, crate::ByteOrder::Little);
    let len = cursor.u32()? as usize;
    let out = out.get_mut(..len).ok_or_else(too_long)?;
    decode_block(cursor.rest(), out)?;
    Ok(len)
}
