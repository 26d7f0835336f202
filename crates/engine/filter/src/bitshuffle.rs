//! Filter 32008: bits of equal weight gathered, block by block, then perhaps LZ4 or Zstandard.
//!
//! ```text
//!   with a codec:  total length u64 BE │ block length u32 BE │ { stored length u32 BE │ bytes } … │ tail
//!   without:       blocks │ tail
//! ```
//! The tail is the last elements that make no group of eight, as they are.

use crate::error::{too_long, unsupported};
use forebay_process::{Error, Result};

use super::byte_cursor::ByteCursor;
use super::shuffle::unshuffle;
use super::{lz4_blocks, zstd};

const ELEMENT_LEN: usize = 2;
const BLOCK_COUNT: usize = 3;
const CODEC: usize = 4;

/// Elements are taken eight at a time: one byte of each bit plane.
const GROUP: usize = 8;
/// Block length where none is given, and the least number of elements in such a block.
const DEFAULT_BLOCK_BYTES: usize = 8192;
const LEAST_BLOCK_COUNT: usize = 128;

#[derive(Clone, Copy)]
enum BitshuffleCodec {
    None,
    Lz4,
    Zstd,
}

pub(crate) fn decode(client_values: &[u32], input: &[u8], out: &mut [u8]) -> Result<usize> {
    let param = |index: usize| client_values.get(index).copied().unwrap_or(0);
    let element_len = param(ELEMENT_LEN) as usize;
    if element_len == 0 {
        return Err(Error::corrupt("element size is missing"));
    }
    let codec = match param(CODEC) {
        0 => BitshuffleCodec::None,
        2 => BitshuffleCodec::Lz4,
        3 => BitshuffleCodec::Zstd,
        other => return Err(unsupported(format!("codec {other} is not supported"))),
    };
    let mut cursor = ByteCursor::new(input, crate::ByteOrder::Big);
    let (total_len, block_count) = match codec {
        BitshuffleCodec::None => (input.len(), param(BLOCK_COUNT) as usize),
        BitshuffleCodec::Lz4 | BitshuffleCodec::Zstd => {
            let total_len = usize::try_from(cursor.u64()?).map_err(|_| too_long())?;
            (total_len, cursor.u32()? as usize / element_len)
        }
    };
    let out = out.get_mut(..total_len).ok_or_else(too_long)?;
    let block_count = if block_count == 0 { default_block_count(element_len) } else { block_count };
    if !block_count.is_multiple_of(GROUP) || !total_len.is_multiple_of(element_len) {
        return Err(Error::corrupt(format!(
            "{total_len} bytes do not make blocks of {block_count} elements"
        )));
    }
    decode_blocks(&mut cursor, codec, BlockShape { element_len, block_count }, out)?;
    Ok(total_len)
}

fn default_block_count(element_len: usize) -> usize {
    (DEFAULT_BLOCK_BYTES / element_len / GROUP * GROUP).max(LEAST_BLOCK_COUNT)
}

struct BlockShape {
    element_len: usize,
    block_count: usize,
}

fn decode_blocks(
    cursor: &mut ByteCursor<'_>,
    codec: BitshuffleCodec,
    shape: BlockShape,
    out: &mut [u8],
) -> Result<()> {
    let BlockShape { element_len, block_count } = shape;
    let tail_len = out.len() / element_len % GROUP * element_len;
    let (body, tail) = out.split_at_mut(out.len() - tail_len);
    // A block longer than the chunk is the chunk.
    let block_len = block_count.saturating_mul(element_len).min(body.len()).max(1);
    let mut planes = vec![0; if matches!(codec, BitshuffleCodec::None) { 0 } else { block_len }];
    let mut lanes = vec![0; block_len];
    for block in body.chunks_mut(block_len) {
        let planes: &[u8] = match codec {
            BitshuffleCodec::None => cursor.take(block.len())?,
            BitshuffleCodec::Lz4 | BitshuffleCodec::Zstd => {
                let stored_len = cursor.u32()? as usize;
                let stored = cursor.take(stored_len)?;
                let planes = &mut planes[..block.len()];
                inflate(codec, stored, planes)?;
                planes
            }
        };
        untranspose(element_len, planes, &mut lanes[..block.len()], block);
    }
    tail.copy_from_slice(cursor.take(tail_len)?);
    Ok(())
}

fn inflate(codec: BitshuffleCodec, stored: &[u8], planes: &mut [u8]) -> Result<()> {
    if !matches!(codec, BitshuffleCodec::Zstd) {
        return lz4_blocks::decode_block(stored, planes);
    }
    let written = zstd::decode(stored, planes)?;
    if written != planes.len() {
        return Err(Error::corrupt(format!("block holds {written} bytes where {} belong", planes.len())));
    }
    Ok(())
}

/// Turns bit planes back into elements by way of `lanes`; all three have one length, a multiple of eight elements.
pub(crate) fn untranspose(element_len: usize, planes: &[u8], lanes: &mut [u8], out: &mut [u8]) {
    debug_assert!(planes.len() == lanes.len() && planes.len() == out.len());
    let count = planes.len() / element_len;
    if count == 0 {
        return;
    }
    for (planes, lane) in planes.chunks_exact(count).zip(lanes.chunks_exact_mut(count)) {
        planes_to_bytes(planes, lane);
    }
    unshuffle(element_len, lanes, out);
}

/// Turns eight bit planes, the least bit first, into the bytes they make up.
fn planes_to_bytes(planes: &[u8], bytes: &mut [u8]) {
    let plane_len = planes.len() / 8;
    let planes: [&[u8]; 8] = std::array::from_fn(|bit| &planes[bit * plane_len..(bit + 1) * plane_len]);
    let rows: [&[[u8; 8]]; 8] = planes.map(|plane| plane.as_chunks().0);
    let (blocks, _) = bytes.as_chunks_mut::<64>();
    for (index, block) in blocks.iter_mut().enumerate() {
        let squares = transpose_bytes(std::array::from_fn(|bit| u64::from_le_bytes(rows[bit][index])));
        let (block, _) = block.as_chunks_mut::<8>();
        for (bytes, square) in block.iter_mut().zip(squares) {
            *bytes = transpose_bits(square).to_le_bytes();
        }
    }
    let done = plane_len / 8 * 8;
    let (groups, _) = bytes.as_chunks_mut::<8>();
    for (index, group) in groups.iter_mut().enumerate().skip(done) {
        let square = u64::from_le_bytes(std::array::from_fn(|bit| planes[bit][index]));
        *group = transpose_bits(square).to_le_bytes();
    }
}

/// Transposes eight rows of eight bytes.
#[inline]
fn transpose_bytes(mut rows: [u64; 8]) -> [u64; 8] {
    for (distance, mask) in
        [(4, 0x0000_0000_ffff_ffff), (2, 0x0000_ffff_0000_ffff), (1, 0x00ff_00ff_00ff_00ff)]
    {
        let shift = distance * 8;
        for low in (0..8).filter(|row| row & distance == 0) {
            let high = low + distance;
            let swap = (rows[low] >> shift ^ rows[high]) & mask;
            rows[high] ^= swap;
            rows[low] ^= swap << shift;
        }
    }
    rows
}

/// Transposes a square of eight bytes of eight bits.
fn transpose_bits(mut square: u64) -> u64 {
    for (shift, mask) in
        [(7, 0x00aa_00aa_00aa_00aa), (14, 0x0000_cccc_0000_cccc), (28, 0x0000_0000_f0f0_f0f0)]
    {
        let swap = (square ^ square >> shift) & mask;
        square ^= swap ^ swap << shift;
    }
    square
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn transposed(element_len: usize, elements: &[u8]) -> Vec<u8> {
        let count = elements.len() / element_len;
        let mut planes = vec![0; elements.len()];
        for (place, &byte) in elements.iter().enumerate() {
            let (index, lane) = (place / element_len, place % element_len);
            for bit in 0..8 {
                planes[(lane * 8 + bit) * (count / 8) + index / 8] |= (byte >> bit & 1) << (index % 8);
            }
        }
        planes
    }

    proptest! {
        #[test]
        fn untransposing_restores_any_elements(element_len in 1usize..20, groups in 0usize..40, seed: u64) {
            let bytes = (0..groups * 8 * element_len).map(|i| ((i as u64).wrapping_mul(seed | 1) >> 32).to_le_bytes()[0]);
            let elements: Vec<u8> = bytes.collect();
            let (mut lanes, mut out) = (vec![0; elements.len()], vec![0; elements.len()]);
            untranspose(element_len, &transposed(element_len, &elements), &mut lanes, &mut out);
            prop_assert_eq!(out, elements);
        }
    }
}
