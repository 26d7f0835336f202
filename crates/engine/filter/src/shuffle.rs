//! Filter 2: bytes of equal weight gathered.

use crate::error::too_long;
use forebay_process::{Error, Result};

use super::weave;

pub(crate) fn decode(element_len: u32, input: &[u8], out: &mut [u8]) -> Result<usize> {
    if element_len == 0 {
        return Err(Error::corrupt("element size is missing"));
    }
    let out = out.get_mut(..input.len()).ok_or_else(too_long)?;
    unshuffle(element_len as usize, input, out);
    Ok(input.len())
}

/// Puts the bytes of each element back together; bytes that fill no element stay where they are.
///
/// Both slices have one length.
pub(crate) fn unshuffle(element_len: usize, input: &[u8], out: &mut [u8]) {
    debug_assert_eq!(input.len(), out.len());
    let count = input.len().checked_div(element_len).unwrap_or(0);
    if element_len <= 1 || count <= 1 {
        return out.copy_from_slice(input);
    }
    let whole_len = count * element_len;
    let (lanes, tail) = input.split_at(whole_len);
    let (elements, out_tail) = out.split_at_mut(whole_len);
    if element_len.is_power_of_two() && element_len <= weave::LONGEST {
        weave::weave(element_len, lanes, elements);
    } else {
        gather(element_len, lanes, elements);
    }
    out_tail.copy_from_slice(tail);
}

/// Gathers elements of any length.
fn gather(element_len: usize, lanes: &[u8], elements: &mut [u8]) {
    let count = lanes.len() / element_len;
    // Strips keep the written elements in the nearest cache while every lane passes over them.
    let strip_count = (4096 / element_len).max(1);
    for (number, strip) in elements.chunks_mut(strip_count * element_len).enumerate() {
        for (lane_index, lane) in lanes.chunks_exact(count).enumerate() {
            let bytes = &lane[number * strip_count..];
            for (place, &byte) in strip[lane_index..].iter_mut().step_by(element_len).zip(bytes) {
                *place = byte;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shuffled(element_len: usize, elements: &[u8]) -> Vec<u8> {
        let count = elements.len() / element_len;
        let lanes = (0..element_len)
            .flat_map(|lane| (0..count).map(move |index| elements[index * element_len + lane]));
        lanes.chain(elements[count * element_len..].iter().copied()).collect()
    }

    proptest! {
        #[test]
        fn unshuffling_restores_any_bytes_of_any_element_size(
            element_len in 1usize..40,
            elements in proptest::collection::vec(any::<u8>(), 0..9000),
        ) {
            let mut out = vec![0; elements.len()];
            unshuffle(element_len, &shuffled(element_len, &elements), &mut out);
            prop_assert_eq!(out, elements);
        }
    }

    #[test]
    fn an_element_size_of_zero_is_corrupt_as_libhdf5_has_it() {
        assert!(decode(0, &[1, 2, 3], &mut [0; 3]).is_err());
    }
}
