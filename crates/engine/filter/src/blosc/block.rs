//! The blocks of a Blosc chunk.

use crate::error::ended_early;
use forebay_process::{Error, Result};

use super::codec;
use super::header::{Chunk, Move, Special};
use crate::bitshuffle::untranspose;
use crate::byte_cursor::ByteCursor;
use crate::shuffle::unshuffle;

/// Decodes the blocks of one chunk, reusing its memory from block to block.
pub(crate) struct BloscBlocks<'a> {
    chunk: &'a Chunk<'a>,
    /// A block between two steps.
    front: Vec<u8>,
    back: Vec<u8>,
    lanes: Vec<u8>,
    /// The first block, where the others were written as differences from it.
    reference: Vec<u8>,
}

impl<'a> BloscBlocks<'a> {
    pub(crate) fn new(chunk: &'a Chunk<'a>) -> Self {
        Self { chunk, front: Vec::new(), back: Vec::new(), lanes: Vec::new(), reference: Vec::new() }
    }

    /// Decodes block `index` into `out`, which has the block's length; the first block comes first.
    pub(crate) fn decode(&mut self, index: usize, out: &mut [u8]) -> Result<()> {
        let chunk = self.chunk;
        if let Some(special) = chunk.special {
            return fill(chunk, special, out);
        }
        if chunk.is_stored {
            let start = chunk.header_len.saturating_add(index.saturating_mul(chunk.block_len));
            let stored = chunk.bytes.get(start..).and_then(|rest| rest.get(..out.len()));
            out.copy_from_slice(stored.ok_or_else(ended_early)?);
            return Ok(());
        }
        let Some((last, earlier)) = chunk.moves.split_last() else {
            read_streams(chunk, index, out)?;
            return self.undo_delta(index, out);
        };
        let len = out.len();
        self.front.resize(len, 0);
        read_streams(chunk, index, &mut self.front)?;
        for step in earlier {
            self.back.resize(len, 0);
            undo_move(chunk, *step, &self.front, &mut self.back, &mut self.lanes);
            std::mem::swap(&mut self.front, &mut self.back);
        }
        undo_move(chunk, *last, &self.front, out, &mut self.lanes);
        self.undo_delta(index, out)
    }

    fn undo_delta(&mut self, index: usize, out: &mut [u8]) -> Result<()> {
        if !self.chunk.has_delta {
            return Ok(());
        }
        if index > 0 {
            let reference =
                self.reference.get(..out.len()).ok_or_else(|| Error::corrupt("first block is missing"))?;
            out.iter_mut().zip(reference).for_each(|(byte, reference)| *byte ^= reference);
            return Ok(());
        }
        // The first block holds differences from element to element, of the widest word the elements allow.
        let word_len = match self.chunk.element_len {
            len @ (1 | 2 | 4 | 8) => len,
            len if len.is_multiple_of(8) => 8,
            _ => 1,
        };
        for place in word_len..out.len() / word_len * word_len {
            out[place] ^= out[place - word_len];
        }
        self.reference = out.to_vec();
        Ok(())
    }
}

fn fill(chunk: &Chunk<'_>, special: Special, out: &mut [u8]) -> Result<()> {
    let nan = match chunk.element_len {
        4 => &f32::NAN.to_le_bytes()[..],
        8 => &f64::NAN.to_le_bytes(),
        _ => &[],
    };
    let behind = chunk.bytes.get(chunk.header_len..).and_then(|rest| rest.get(..chunk.element_len));
    let element = match special {
        Special::Zero => &[0],
        Special::NotANumber if nan.is_empty() => {
            return Err(Error::corrupt("only floats can be not a number"));
        }
        Special::NotANumber => nan,
        Special::Value => behind.ok_or_else(ended_early)?,
    };
    for (place, byte) in out.iter_mut().zip(element.iter().cycle()) {
        *place = *byte;
    }
    Ok(())
}

/// Decodes the streams of block `index`, which fill `out`.
fn read_streams(chunk: &Chunk<'_>, index: usize, out: &mut [u8]) -> Result<()> {
    let at = chunk.header_len.saturating_add(index.saturating_mul(4));
    let start = ByteCursor::new(chunk.bytes.get(at..).ok_or_else(ended_early)?, crate::ByteOrder::Little)
        .u32()? as usize;
    let mut cursor =
        ByteCursor::new(chunk.bytes.get(start..).ok_or_else(ended_early)?, crate::ByteOrder::Little);
    // Only whole blocks are split.
    let is_split = chunk.is_split && out.len() == chunk.block_len;
    let stream_count = if is_split { chunk.element_len } else { 1 };
    if !out.len().is_multiple_of(stream_count) {
        return Err(Error::corrupt("block is not a whole number of elements"));
    }
    let stream_len = out.len() / stream_count;
    for stream in out.chunks_exact_mut(stream_len.max(1)) {
        read_stream(chunk, &mut cursor, stream)?;
    }
    Ok(())
}

fn read_stream(chunk: &Chunk<'_>, cursor: &mut ByteCursor<'_>, out: &mut [u8]) -> Result<()> {
    let stored_len = cursor.u32()?.cast_signed();
    if chunk.is_extended() && stored_len <= 0 {
        return read_run(stored_len, cursor, out);
    }
    let stored_len =
        usize::try_from(stored_len).map_err(|_| Error::corrupt("stream has a negative length"))?;
    let stored = cursor.take(stored_len)?;
    if stored_len == out.len() {
        out.copy_from_slice(stored);
        return Ok(());
    }
    codec::decode(chunk.codec, stored, out)
}

/// A length of zero stands for zeros, and one below, with a token behind it, for another byte over and over.
fn read_run(stored_len: i32, cursor: &mut ByteCursor<'_>, out: &mut [u8]) -> Result<()> {
    let byte =
        u8::try_from(stored_len.unsigned_abs()).map_err(|_| Error::corrupt("run of more than a byte"))?;
    if byte != 0 && cursor.u8()? & 1 == 0 {
        return Err(Error::corrupt("stream token is not known"));
    }
    out.fill(byte);
    Ok(())
}

fn undo_move(chunk: &Chunk<'_>, step: Move, input: &[u8], out: &mut [u8], lanes: &mut Vec<u8>) {
    let element_len = match step {
        Move::Shuffle { element_len } => return unshuffle(element_len, input, out),
        Move::BitShuffle => chunk.element_len,
    };
    let count = input.len() / element_len;
    if chunk.is_first_format() && !count.is_multiple_of(8) {
        return out.copy_from_slice(input);
    }
    let whole_len = count / 8 * 8 * element_len;
    lanes.resize(whole_len, 0);
    untranspose(element_len, &input[..whole_len], lanes, &mut out[..whole_len]);
    out[whole_len..].copy_from_slice(&input[whole_len..]);
}
