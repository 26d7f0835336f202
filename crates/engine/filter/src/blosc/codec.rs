//! The codecs inside Blosc.

use forebay_process::{Error, Result};

use super::lz;
use crate::{deflate, error::unsupported, lz4_blocks, zstd};

/// Decodes one stream, which must fill `out`.
pub(crate) fn decode(codec: u8, input: &[u8], out: &mut [u8]) -> Result<()> {
    let written = match codec {
        0 => lz::decode(input, out)?,
        1 => return lz4_blocks::decode_block(input, out),
        3 => deflate::zlib(input, out)?,
        4 => zstd::decode(input, out)?,
        2 => snappy(input, out)?,
        other => return Err(unsupported(format!("codec {other} is not supported"))),
    };
    if written != out.len() {
        return Err(Error::corrupt(format!("stream holds {written} bytes where {} belong", out.len())));
    }
    Ok(())
}

/// Snappy's own decoder refuses an output that is too short.
fn snappy(input: &[u8], out: &mut [u8]) -> Result<usize> {
    snap::raw::Decoder::new()
        .decompress(input, out)
        .map_err(|error| Error::corrupt(format!("bad snappy stream: {error}")))
}
