//! Filter 4: the extended Rice coding of CCSDS 121.0, as libaec frames it for HDF5.
//!
//! ```text
//!   length u32 LE │ interval: block │ block │ … │ interval …
//! ```
//! A scanline is an interval, padded to whole blocks. Pixels of 32 and 64 bits are coded as bytes, all the first
//! bytes before all the second ones.

use crate::error::too_long;
use forebay_process::{Error, Result};

use super::bit_reader::Bits;
use super::byte_cursor::ByteCursor;
use super::shuffle::unshuffle;

const HIGH_BYTE_FIRST: u32 = 16;
const NEAREST_NEIGHBOUR: u32 = 32;

const MOST_BLOCK_PIXELS: u32 = 32;
const MOST_INTERVAL_BLOCKS: u32 = 4096;

/// The run code that means all blocks up to the end of the segment.
const REST_OF_SEGMENT: u64 = 5;
/// Runs of zero blocks end at each multiple of this many blocks.
const SEGMENT_BLOCKS: usize = 64;
/// Pairs coded together sum to less than this.
const PAIR_SUM_END: u32 = 13;

/// What the filter's parameters say.
struct SzipCoding {
    high_byte_first: bool,
    has_reference: bool,
    block_len: usize,
    line_len: usize,
    sample_bits: u32,
    /// Bytes of a pixel of which each is a sample, or one.
    plane_count: usize,
}

impl SzipCoding {
    fn parse(client_values: &[u32]) -> Result<Self> {
        let &[options, block_len, pixel_bits, line_len, ..] = client_values else {
            return Err(Error::corrupt("parameters are missing"));
        };
        let is_sound = (1..=MOST_BLOCK_PIXELS).contains(&block_len)
            && line_len > 0
            && line_len.div_ceil(block_len) <= MOST_INTERVAL_BLOCKS
            && matches!(pixel_bits, 1..=32 | 64);
        if !is_sound {
            return Err(Error::corrupt(format!(
                "scanlines of {line_len} pixels of {pixel_bits} bits in blocks of {block_len} cannot be"
            )));
        }
        let (sample_bits, plane_count) = match pixel_bits {
            32 => (8, 4),
            64 => (8, 8),
            _ => (pixel_bits, 1),
        };
        Ok(Self {
            high_byte_first: options & HIGH_BYTE_FIRST != 0,
            has_reference: options & NEAREST_NEIGHBOUR != 0,
            block_len: block_len as usize,
            line_len: line_len as usize,
            sample_bits,
            plane_count,
        })
    }

    fn sample_len(&self) -> usize {
        match self.sample_bits {
            ..=8 => 1,
            9..=16 => 2,
            _ => 4,
        }
    }

    fn interval_blocks(&self) -> usize {
        self.line_len.div_ceil(self.block_len)
    }
}

pub(crate) fn decode(client_values: &[u32], input: &[u8], out: &mut [u8]) -> Result<usize> {
    let coding = SzipCoding::parse(client_values)?;
    let mut cursor = ByteCursor::new(input, crate::ByteOrder::Little);
    let total_len = cursor.u32()? as usize;
    let out = out.get_mut(..total_len).ok_or_else(too_long)?;
    if !total_len.is_multiple_of(coding.sample_len() * coding.plane_count) {
        return Err(Error::corrupt(format!("{total_len} bytes are not a whole number of pixels")));
    }
    if coding.plane_count == 1 {
        Decoder::new(&coding, cursor.rest(), total_len).decode(out)?;
    } else {
        let mut planes = vec![0; total_len];
        Decoder::new(&coding, cursor.rest(), total_len).decode(&mut planes)?;
        unshuffle(coding.plane_count, &planes, out);
    }
    Ok(total_len)
}

struct Decoder<'a> {
    coding: &'a SzipCoding,
    bits: Bits<'a>,
    /// The samples of one interval.
    samples: Vec<u32>,
}

impl<'a> Decoder<'a> {
    fn new(coding: &'a SzipCoding, stream: &'a [u8], total_len: usize) -> Self {
        // The last run of zero blocks may reach up to a segment past the samples there are.
        let most_blocks = (total_len / coding.sample_len()).div_ceil(coding.block_len) + SEGMENT_BLOCKS;
        let sample_count = coding.interval_blocks().min(most_blocks) * coding.block_len;
        Self { coding, bits: Bits::new(stream), samples: vec![0; sample_count] }
    }

    fn decode(&mut self, out: &mut [u8]) -> Result<()> {
        let sample_len = self.coding.sample_len();
        let line_bytes = self.coding.line_len * sample_len;
        for line in out.chunks_mut(line_bytes) {
            // A whole scanline is followed by its padding; the last may end anywhere.
            let whole = self.coding.interval_blocks() * self.coding.block_len;
            let wanted = if line.len() == line_bytes { whole } else { line.len() / sample_len };
            let filled = self.decode_interval(wanted)?;
            if self.coding.has_reference {
                let sample_max = self.sample_max();
                undo_prediction(&mut self.samples[..filled], sample_max);
            }
            for (place, &sample) in line.chunks_exact_mut(sample_len).zip(&self.samples) {
                if self.coding.high_byte_first {
                    place.copy_from_slice(&sample.to_be_bytes()[4 - sample_len..]);
                } else {
                    place.copy_from_slice(&sample.to_le_bytes()[..sample_len]);
                }
            }
        }
        Ok(())
    }

    fn sample_max(&self) -> u32 {
        u32::MAX >> (32 - self.coding.sample_bits)
    }

    /// Decodes blocks until `wanted` samples are there, and gives how many are.
    fn decode_interval(&mut self, wanted: usize) -> Result<usize> {
        let option_bits = match self.coding.sample_bits {
            ..=8 => 3,
            9..=16 => 4,
            _ => 5,
        };
        let raw = (1 << option_bits) - 1;
        let mut filled = 0;
        while filled < wanted {
            let has_reference = self.coding.has_reference && filled == 0;
            let option = self.bits.take(option_bits)?;
            filled = match option {
                0 if self.bits.take(1)? == 1 => self.decode_pairs(filled, has_reference)?,
                0 => self.decode_zeros(filled, has_reference)?,
                option if option == raw => self.decode_raw(filled, self.coding.block_len)?,
                option => self.decode_split(filled, option - 1, has_reference)?,
            };
        }
        Ok(filled)
    }

    fn block(&mut self, start: usize, len: usize) -> Result<&mut [u32]> {
        let block = self.samples.get_mut(start..).and_then(|rest| rest.get_mut(..len));
        block.ok_or_else(|| Error::corrupt("block runs past its interval"))
    }

    fn decode_raw(&mut self, start: usize, len: usize) -> Result<usize> {
        self.block(start, len)?;
        for sample in &mut self.samples[start..start + len] {
            *sample = low32(self.bits.take(self.coding.sample_bits)?);
        }
        Ok(start + len)
    }

    fn decode_reference(&mut self, start: usize, has_reference: bool) -> Result<usize> {
        self.decode_raw(start, usize::from(has_reference))
    }

    /// Each sample has its high part in unary, then each its `low_bits` lowest bits.
    fn decode_split(&mut self, start: usize, low_bits: u64, has_reference: bool) -> Result<usize> {
        let low_bits = low32(low_bits);
        if low_bits >= self.coding.sample_bits {
            return Err(Error::corrupt(format!("samples cannot be split at bit {low_bits}")));
        }
        let sample_max = u64::from(self.sample_max());
        let end = start + self.coding.block_len;
        let first = self.decode_reference(start, has_reference)?;
        self.block(start, self.coding.block_len)?;
        let block = &mut self.samples[first..end];
        for sample in block.iter_mut() {
            *sample = low32(self.bits.zeros()?.unbounded_shl(low_bits) & sample_max);
        }
        if low_bits > 0 {
            for sample in block {
                *sample |= low32(self.bits.take(low_bits)?);
            }
        }
        Ok(end)
    }

    /// Two small samples share one unary code; the reference takes the place of a first one.
    fn decode_pairs(&mut self, start: usize, has_reference: bool) -> Result<usize> {
        let len = self.coding.block_len;
        let mut index = self.decode_reference(start, has_reference)? - start;
        while index < len {
            let (first, second) = pair_of(self.bits.zeros()?)?;
            let block = self.block(start, len)?;
            if index.is_multiple_of(2) {
                block[index] = first;
                index += 1;
            }
            if let Some(place) = block.get_mut(index) {
                *place = second;
            }
            index += 1;
        }
        Ok(start + len)
    }

    fn decode_zeros(&mut self, start: usize, has_reference: bool) -> Result<usize> {
        let first = self.decode_reference(start, has_reference)?;
        let block = start / self.coding.block_len;
        let count = match self.bits.zeros()? + 1 {
            REST_OF_SEGMENT => {
                let in_interval = self.coding.interval_blocks().saturating_sub(block);
                in_interval.min(SEGMENT_BLOCKS - block % SEGMENT_BLOCKS)
            }
            code => usize::try_from(if code > REST_OF_SEGMENT { code - 1 } else { code })
                .map_err(|_| too_long())?,
        };
        let len = count.checked_mul(self.coding.block_len).ok_or_else(too_long)?;
        let zeros = self.block(start, len)?;
        zeros[first - start..].fill(0);
        Ok(start + len)
    }
}

/// The pair a code stands for: pairs are numbered by their sum, and within a sum by the second.
fn pair_of(code: u64) -> Result<(u32, u32)> {
    let mut rest = code;
    for sum in 0..PAIR_SUM_END {
        if rest <= u64::from(sum) {
            let second = low32(rest);
            return Ok((sum - second, second));
        }
        rest -= u64::from(sum) + 1;
    }
    Err(Error::corrupt(format!("pair code {code} is not known")))
}

/// Turns mapped differences from the sample before back into samples; the first is one already.
fn undo_prediction(samples: &mut [u32], sample_max: u32) {
    let Some((&mut first, differences)) = samples.split_first_mut() else { return };
    let mut before = first;
    for sample in differences {
        // A pair may be too great for samples of a few bits.
        let mapped = *sample & sample_max;
        // Differences of both signs alternate while both are possible; beyond that only one sign is left.
        let room = before.min(sample_max - before);
        let half = mapped / 2 + mapped % 2;
        before = if half <= room {
            if mapped.is_multiple_of(2) { before + half } else { before - half }
        } else if before <= sample_max / 2 {
            mapped
        } else {
            sample_max - mapped
        };
        *sample = before;
    }
}

/// The low half, for numbers that have no other.
fn low32(bits: u64) -> u32 {
    u32::try_from(bits & u64::from(u32::MAX)).unwrap_or(0)
}
