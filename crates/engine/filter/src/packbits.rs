//! Booleans as bits, the highest first, behind a byte that says how many bits at the end mean
//! nothing.

use forebay_process::{Error, Result};

use crate::error::{ended_early, too_long};

pub(crate) fn decode(input: &[u8], out: &mut [u8]) -> Result<usize> {
    let (unused, packed) = input.split_first().ok_or_else(ended_early)?;
    let count = packed.len().checked_mul(8).and_then(|bits| bits.checked_sub(usize::from(*unused)));
    let count = count
        .filter(|_| *unused < 8)
        .ok_or_else(|| Error::corrupt("says that more bits are unused than it has"))?;
    let out = out.get_mut(..count).ok_or_else(too_long)?;
    for (places, byte) in out.chunks_mut(8).zip(packed) {
        for (index, place) in places.iter_mut().enumerate() {
            *place = byte >> (7 - index) & 1;
        }
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_unpacked_and_the_unused_dropped() {
        let mut out = [9; 11];
        assert_eq!(decode(&[5, 0b1010_0001, 0b1100_0000], &mut out).unwrap(), 11);
        assert_eq!(out, [1, 0, 1, 0, 0, 0, 0, 1, 1, 1, 0]);
        assert!(decode(&[9, 0], &mut out).is_err());
        assert!(decode(&[], &mut out).is_err());
    }
}
