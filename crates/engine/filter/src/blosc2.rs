//! Filter 32026: a Blosc 2 frame with one chunk, whose blocks may tile an n-dimensional box.

use forebay_process::Result;

use crate::error::too_long;

mod frame;
mod msgpack;
mod tiles;

use self::frame::{Blosc2Frame, Content};
use self::tiles::Tiles;
use super::blosc::{Chunk, decode_chunk};

pub(crate) fn decode(input: &[u8], out: &mut [u8]) -> Result<usize> {
    let frame = Blosc2Frame::parse(input)?;
    let chunk = match frame.content()? {
        Content::Chunk(bytes) => Chunk::parse(bytes)?,
        Content::Fill(element) => return fill(&frame, element, out),
    };
    match frame.tiles()? {
        Some(tiles) => tiles.decode(&chunk, out),
        None => decode_chunk(&chunk, out),
    }
}

/// Fills `out` with an element that stands for the whole chunk.
fn fill(frame: &Blosc2Frame<'_>, element: &[u8], out: &mut [u8]) -> Result<usize> {
    let len = match frame.tiles()? {
        Some(tiles) => tiles.len(),
        None => frame.len,
    };
    let out = out.get_mut(..len).ok_or_else(too_long)?;
    for (place, byte) in out.iter_mut().zip(element.iter().cycle()) {
        *place = *byte;
    }
    Ok(len)
}
