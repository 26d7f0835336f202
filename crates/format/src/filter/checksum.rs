//! A checksum behind the bytes, or before them where the first parameter is 1.

use forebay_source::Result;

use super::{copy_whole, corrupt, ended_early};

pub(super) fn crc32c(params: &[u32], input: &[u8], out: &mut [u8]) -> Result<usize> {
    verify(params, input, out, crc32c::crc32c)
}

pub(super) fn crc32(params: &[u32], input: &[u8], out: &mut [u8]) -> Result<usize> {
    verify(params, input, out, libdeflater::crc32)
}

pub(super) fn adler32(params: &[u32], input: &[u8], out: &mut [u8]) -> Result<usize> {
    verify(params, input, out, libdeflater::adler32)
}

fn verify(params: &[u32], input: &[u8], out: &mut [u8], sum: fn(&[u8]) -> u32) -> Result<usize> {
    let split = match params.first() {
        Some(1) => input.split_first_chunk().map(|(stored, body)| (body, stored)),
        _ => input.split_last_chunk(),
    };
    let (body, stored) = split.ok_or_else(ended_early)?;
    let (stored, found) = (u32::from_le_bytes(*stored), sum(body));
    // A fuzzer cannot guess checksums.
    if stored != found && !cfg!(fuzzing) {
        return Err(corrupt(format!("bad checksum: stored {stored:#010x}, found {found:#010x}")));
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
        assert_eq!(crc32c(&[], &[&b"abc"[..], &sum].concat(), &mut out).unwrap(), 3);
        assert_eq!(crc32c(&[1], &[&sum[..], b"abc"].concat(), &mut out).unwrap(), 3);
        assert_eq!(&out, b"abc");
        assert!(crc32c(&[], &[&b"abd"[..], &sum].concat(), &mut out).is_err());
        assert!(crc32c(&[], b"abc", &mut out).is_err());
    }
}
