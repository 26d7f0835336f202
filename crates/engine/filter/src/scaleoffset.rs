//! Filter 6: numbers stored as their distance from the least of the chunk, in as few bits as that takes.
//!
//! ```text
//!   bits per number u32 LE │ length of the least u8 │ the least, u64 LE │ 8 unused │ packed distances
//! ```

use crate::error::{copy_whole, ended_early, too_long, unsupported};
use forebay_process::{Error, Result};

use super::bit_reader::Bits;
use super::byte_cursor::ByteCursor;

const HEADER_LEN: usize = 21;

const SCALE_DECIMAL: u32 = 0;
const SCALE_INTEGER: u32 = 2;
const CLASS_INTEGER: u32 = 0;
const CLASS_FLOAT: u32 = 1;

#[derive(Clone, Copy)]
enum Class {
    Integer,
    /// Decimal digits kept after the point.
    Float(f64),
}

/// What the filter's parameters say.
#[derive(Clone, Copy)]
struct Params {
    class: Class,
    count: usize,
    len: usize,
    is_big_endian: bool,
    /// The bits of the fill value, which stands for the highest distance.
    fill: Option<u64>,
    is_unpacked: bool,
}

impl Params {
    fn parse(client_values: &[u32]) -> Result<Self> {
        let &[scale, factor, count, class, len, _sign, order, has_fill, fill_low, fill_high, ..] =
            client_values
        else {
            return Err(Error::corrupt("parameters are missing"));
        };
        let class = match (class, scale) {
            (CLASS_INTEGER, SCALE_INTEGER) if matches!(len, 1 | 2 | 4 | 8) => Class::Integer,
            (CLASS_FLOAT, SCALE_DECIMAL) if matches!(len, 4 | 8) => {
                Class::Float(f64::from(factor.cast_signed()))
            }
            (CLASS_INTEGER | CLASS_FLOAT, _) => {
                return Err(unsupported(format!(
                    "scale type {scale} for numbers of {len} bytes is not supported"
                )));
            }
            _ => return Err(Error::corrupt(format!("number class {class} is not known"))),
        };
        Ok(Self {
            class,
            count: count as usize,
            len: len as usize,
            is_big_endian: order == 1,
            fill: (has_fill != 0).then_some(u64::from(fill_high) << 32 | u64::from(fill_low)),
            is_unpacked: matches!(class, Class::Integer) && factor == len * 8,
        })
    }
}

pub(crate) fn decode(client_values: &[u32], input: &[u8], out: &mut [u8]) -> Result<usize> {
    let params = Params::parse(client_values)?;
    if params.is_unpacked {
        return copy_whole(input, out);
    }
    let total_len =
        params.count.checked_mul(params.len).filter(|&len| len <= out.len()).ok_or_else(too_long)?;
    let out = &mut out[..total_len];

    let (header, packed) = input.split_at_checked(HEADER_LEN).ok_or_else(ended_early)?;
    let mut header = ByteCursor::new(header, crate::ByteOrder::Little);
    let bit_count = header.u32()?;
    let least_len = header.u8()?;
    let least = match least_len {
        8.. => header.u64()?,
        shorter => header.u64()? & !(u64::MAX << (u32::from(shorter) * 8)),
    };
    let full_bits = params.len * 8;
    if bit_count as usize > full_bits {
        return Err(Error::corrupt(format!("{bit_count} bits do not fit a number of {} bytes", params.len)));
    }
    if bit_count as usize == full_bits {
        out.copy_from_slice(packed.get(..total_len).ok_or_else(ended_early)?);
        if params.is_big_endian {
            out.chunks_exact_mut(params.len).for_each(<[u8]>::reverse);
        }
        return Ok(total_len);
    }
    restore(params, ScaleOffsetHeader { bit_count, least }, packed, out)?;
    Ok(total_len)
}

/// What the chunk's header says.
#[derive(Clone, Copy)]
struct ScaleOffsetHeader {
    bit_count: u32,
    least: u64,
}

fn restore(params: Params, packing: ScaleOffsetHeader, packed: &[u8], out: &mut [u8]) -> Result<()> {
    let ScaleOffsetHeader { bit_count, least } = packing;
    match (params.class, params.len) {
        (Class::Integer, _) => fill(params, bit_count, packed, out, |distance| distance.wrapping_add(least)),
        (Class::Float(digits), 4) => {
            let single = |bits: u64| u32::try_from(bits & u64::from(u32::MAX)).unwrap_or(0);
            #[expect(clippy::cast_possible_truncation, reason = "the writer scales in single precision")]
            let scale = 10f64.powf(digits) as f32;
            let least = f32::from_bits(single(least));
            #[expect(clippy::cast_precision_loss, reason = "the writer rounds the same way")]
            fill(params, bit_count, packed, out, |distance| {
                u64::from((single(distance).cast_signed() as f32 / scale + least).to_bits())
            })
        }
        (Class::Float(digits), _) => {
            let (scale, least) = (10f64.powf(digits), f64::from_bits(least));
            #[expect(clippy::cast_precision_loss, reason = "the writer rounds the same way")]
            fill(params, bit_count, packed, out, |distance| {
                (distance.cast_signed() as f64 / scale + least).to_bits()
            })
        }
    }
}

/// Writes a number for each packed distance.
fn fill(
    params: Params,
    bit_count: u32,
    packed: &[u8],
    out: &mut [u8],
    number: impl Fn(u64) -> u64,
) -> Result<()> {
    let mut bits = Bits::new(packed);
    let highest = !(u64::MAX << bit_count);
    for place in out.chunks_exact_mut(params.len) {
        let distance = bits.take(bit_count)?;
        let number = match params.fill {
            Some(fill) if distance == highest => fill,
            _ => number(distance),
        };
        place.copy_from_slice(&number.to_le_bytes()[..params.len]);
        if params.is_big_endian {
            place.reverse();
        }
    }
    Ok(())
}
