//! Filter 5: numbers stored with only the bits their type uses.
//!
//! The parameters are a length, a flag that nothing was packed, the element count, and a description of the type
//! that is walked anew for each element.

use crate::error::{copy_whole, too_long};
use forebay_process::{Error, Result};

use super::bit_reader::Bits;

/// Where the type description begins.
const TYPE: usize = 3;

const ATOMIC: u32 = 1;
const ARRAY: u32 = 2;
const COMPOUND: u32 = 3;
const PLAIN: u32 = 4;

/// How deep arrays and compounds may lie in each other.
const DEPTH_LIMIT: u32 = 32;

pub(crate) fn decode(client_values: &[u32], input: &[u8], out: &mut [u8]) -> Result<usize> {
    if let [_len, unpacked, ..] = client_values
        && *unpacked != 0
    {
        return copy_whole(input, out);
    }
    let &[_len, _unpacked, count, _class, size, ..] = client_values else {
        return Err(Error::corrupt("type description is missing"));
    };
    let (count, size) = (count as usize, size as usize);
    if size == 0 {
        return Err(Error::corrupt("type has no size"));
    }
    let total_len = count.checked_mul(size).filter(|&len| len <= out.len()).ok_or_else(too_long)?;
    let out = &mut out[..total_len];
    // Only the bits in use are stored, and the rest of each number is zero.
    out.fill(0);
    let mut bits = Bits::new(input);
    for element in out.chunks_exact_mut(size) {
        let mut types = NbitTypes { client_values, index: TYPE };
        decode_one(&mut types, &mut bits, element, DEPTH_LIMIT)?;
    }
    Ok(total_len)
}

/// A place in the type description.
struct NbitTypes<'a> {
    client_values: &'a [u32],
    index: usize,
}

impl NbitTypes<'_> {
    fn next(&mut self) -> Result<usize> {
        let param = self
            .client_values
            .get(self.index)
            .ok_or_else(|| Error::corrupt("type description ends early"))?;
        self.index += 1;
        Ok(*param as usize)
    }

    /// The class and size of the type that follows, without passing over them.
    fn peek(&self) -> Result<(u32, usize)> {
        let Some(&[class, size]) = self.client_values.get(self.index..self.index + 2) else {
            return Err(Error::corrupt("type description ends early"));
        };
        if size == 0 {
            return Err(Error::corrupt("type has no size"));
        }
        Ok((class, size as usize))
    }
}

/// Decodes one value of the type that follows, whose size is the length of `out`.
///
/// Every type takes at least one bit, so the work is bounded by the input.
fn decode_one(types: &mut NbitTypes<'_>, bits: &mut Bits<'_>, out: &mut [u8], depth: u32) -> Result<()> {
    let depth = depth.checked_sub(1).ok_or_else(|| Error::corrupt("type is nested too deeply"))?;
    let (class, _) = types.peek()?;
    types.index += 2;
    match class {
        ATOMIC => Atomic::parse(types, out.len())?.decode(bits, out),
        ARRAY => {
            let (_, base_len) = types.peek()?;
            if !out.len().is_multiple_of(base_len) {
                return Err(Error::corrupt("array is not a whole number of its elements"));
            }
            let base = types.index;
            for element in out.chunks_exact_mut(base_len) {
                types.index = base;
                decode_one(types, bits, element, depth)?;
            }
            Ok(())
        }
        COMPOUND => {
            let member_count = types.next()?;
            if member_count == 0 {
                return Err(Error::corrupt("compound has no members"));
            }
            for _ in 0..member_count {
                let offset = types.next()?;
                let (_, len) = types.peek()?;
                let member = out.get_mut(offset..).and_then(|rest| rest.get_mut(..len));
                decode_one(
                    types,
                    bits,
                    member.ok_or_else(|| Error::corrupt("member lies outside its compound"))?,
                    depth,
                )?;
            }
            Ok(())
        }
        PLAIN => {
            for byte in out {
                *byte = byte_of(bits.take(8)?);
            }
            Ok(())
        }
        other => Err(Error::corrupt(format!("type class {other} is not known"))),
    }
}

/// A number: which of its bits are in use, and in which order its bytes stand.
struct Atomic {
    is_big_endian: bool,
    precision: usize,
    offset: usize,
}

impl Atomic {
    fn parse(types: &mut NbitTypes<'_>, len: usize) -> Result<Self> {
        let (order, precision, offset) = (types.next()?, types.next()?, types.next()?);
        let end = precision.checked_add(offset).filter(|&end| end <= len.saturating_mul(8));
        if end.is_none() || precision == 0 || order > 1 {
            return Err(Error::corrupt(format!("{precision} bits from bit {offset} do not fit {len} bytes")));
        }
        Ok(Self { is_big_endian: order == 1, precision, offset })
    }

    fn decode(&self, bits: &mut Bits<'_>, out: &mut [u8]) -> Result<()> {
        let last = out.len() - 1;
        let end = self.offset + self.precision;
        for weight in (self.offset / 8..=(end - 1) / 8).rev() {
            let low = self.offset.max(weight * 8);
            let high = end.min(weight * 8 + 8);
            let count = if high - low == 8 { 8 } else { u32::from(byte_of((high - low) as u64)) };
            let place = if self.is_big_endian { last - weight } else { weight };
            out[place] = byte_of(bits.take(count)? << (low - weight * 8));
        }
        Ok(())
    }
}

/// The lowest byte.
fn byte_of(bits: u64) -> u8 {
    bits.to_le_bytes()[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twelve_bit_numbers_come_back_in_either_byte_order() {
        let packed = [0x12, 0x34, 0x56];
        let mut out = [0xff; 4];
        assert_eq!(decode(&[8, 0, 2, ATOMIC, 2, 0, 12, 4], &packed, &mut out).unwrap(), 4);
        assert_eq!(out, [0x30, 0x12, 0x60, 0x45]);
        assert_eq!(decode(&[8, 0, 2, ATOMIC, 2, 1, 12, 0], &packed, &mut out).unwrap(), 4);
        assert_eq!(out, [0x01, 0x23, 0x04, 0x56]);
    }

    #[test]
    fn what_was_not_packed_needs_no_description() {
        let mut out = [0; 4];
        assert_eq!(decode(&[3, 1, 2], b"abcd", &mut out).unwrap(), 4);
        assert_eq!(&out, b"abcd");
    }

    #[test]
    fn a_type_nested_without_end_is_corrupt() {
        let mut params = vec![0, 0, 1];
        params.extend([ARRAY, 4].repeat(60_000));
        assert!(decode(&params, &[0; 64], &mut [0; 4]).is_err());
    }

    #[test]
    fn a_member_count_beyond_the_description_is_corrupt() {
        let params = [0, 0, 1, COMPOUND, 4, u32::MAX, 0, ATOMIC, 4, 0, 32, 0];
        assert!(decode(&params, &[0; 64], &mut [0; 4]).is_err());
    }
}
