//! Filter 3: a checksum behind the bytes.

use forebay_process::{Error, Result};

use crate::error::{copy_whole, ended_early};

pub(crate) fn decode(input: &[u8], out: &mut [u8]) -> Result<usize> {
    let (body, stored) = input.split_last_chunk().ok_or_else(ended_early)?;
    let stored = u32::from_le_bytes(*stored);
    let sum = checksum(body);
    // HDF5 before 1.6.3 wrote the two halves with their bytes swapped on little-endian machines.
    let swapped = (sum & 0x00ff_00ff) << 8 | (sum & 0xff00_ff00) >> 8;
    if stored != sum && stored != swapped {
        return Err(Error::corrupt(format!("bad checksum: stored {stored:#010x}, found {sum:#010x}")));
    }
    copy_whole(body, out)
}

/// Words summed before the sums are brought back below 2^16: the second sum stays within 64 bits.
const RUN_BYTES: usize = 2048;

/// The Fletcher-32 checksum of `bytes`, as HDF5 computes it.
pub fn checksum(bytes: &[u8]) -> u32 {
    let (mut first, mut second) = (0u64, 0u64);
    for run in bytes.chunks(RUN_BYTES) {
        let word_count = run.len().div_ceil(2) as u64;
        let (words, last) = run.as_chunks::<2>();
        let words = words.iter().map(|word| u16::from_be_bytes(*word));
        let last = last.iter().map(|&byte| u16::from_be_bytes([byte, 0]));
        second += word_count * first;
        let (mut run_first, mut run_second) = (0u32, 0u64);
        for word in words.chain(last) {
            run_first += u32::from(word);
            run_second += u64::from(run_first);
        }
        first = fold(first + u64::from(run_first));
        second = fold(second + run_second);
    }
    let half = |sum: u64| u32::try_from(sum).expect("a folded sum is below 2^16");
    half(second) << 16 | half(first)
}

/// The sum modulo 65535, but 65535 for a multiple that is not nothing.
fn fold(sum: u64) -> u64 {
    if sum == 0 { 0 } else { (sum - 1) % 65535 + 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_old_byte_swapped_form_is_accepted_and_others_are_not() {
        let body = [1, 2, 3, 4, 5];
        let sum = checksum(&body);
        let with = |sum: u32| [&body[..], &sum.to_le_bytes()].concat();
        let mut out = [0; 5];
        let [a, b, c, d] = sum.to_le_bytes();
        assert_eq!(decode(&with(sum), &mut out).unwrap(), 5);
        assert_eq!(decode(&with(u32::from_le_bytes([b, a, d, c])), &mut out).unwrap(), 5);
        assert_eq!(out, body);
        assert!(decode(&with(sum ^ 1), &mut out).unwrap_err().to_string().contains("bad checksum"));
    }
}
