//! A checksum behind the bytes, or before them.

use forebay_process::{Error, Result};

use crate::error::{copy_whole, ended_early};

pub(crate) fn crc32c(at_start: bool, input: &[u8], out: &mut [u8]) -> Result<usize> {
    verify(at_start, input, out, crc32c::crc32c)
}

pub(crate) fn crc32(at_start: bool, input: &[u8], out: &mut [u8]) -> Result<usize> {
    verify(at_start, input, out, libdeflater::crc32)
}

pub(crate) fn adler32(at_start: bool, input: &[u8], out: &mut [u8]) -> Result<usize> {
    verify(at_start, input, out, libdeflater::adler32)
}

fn verify(at_start: bool, input: &[u8], out: &mut [u8], sum: fn(&[u8]) -> u32) -> Result<usize> {
    let split = match at_start {
        true => input.split_first_chunk().map(|(stored, body)| (body, stored)),
        false => input.split_last_chunk(),
    };
    let (body, stored) = split.ok_or_else(ended_early)?;
    let (stored, found) = (u32::from_le_bytes(*stored), sum(body));
    // A fuzzer cannot guess checksums.
    if stored != found && !cfg!(fuzzing) {
        return Err(Error::corrupt(format!("bad checksum: stored {stored:#010x}, found {found:#010x}")));
    }
    copy_whole(body, out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_stands_at_either_end_and_must_be_right() {
        let sum = crc32c::crc32c(b"abc").to_le_bytes();
        let mut out = [0; 3];
        assert_eq!(crc32c(false, &[&b"abc"[..], &sum].concat(), &mut out).unwrap(), 3);
        assert_eq!(crc32c(true, &[&sum[..], b"abc"].concat(), &mut out).unwrap(), 3);
        assert_eq!(&out, b"abc");
        assert!(crc32c(false, &[&b"abd"[..], &sum].concat(), &mut out).is_err());
        assert!(crc32c(false, b"abc", &mut out).is_err());
    }
}
