//! An NPY header before the values, which must be the one that was described.

use forebay_process::{Error, ErrorKind, Result};

use crate::error::{copy_whole, ended_early};

pub(crate) fn decode(len: u32, sum: u32, input: &[u8], out: &mut [u8]) -> Result<usize> {
    let (header, values) = input.split_at_checked(len as usize).ok_or_else(ended_early)?;
    if crc32c::crc32c(header) != sum {
        let error = Error::new(ErrorKind::Unsupported, "its type or shape is not that of the first file");
        return Err(error.hint("give all files one shape and type, or name them one by one"));
    }
    copy_whole(values, out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_header_is_refused_and_the_right_one_taken_off() {
        let sum = crc32c::crc32c(b"head");
        let mut out = [0; 3];
        assert_eq!(decode(4, sum, b"headabc", &mut out).unwrap(), 3);
        assert_eq!(&out, b"abc");
        assert!(decode(4, sum, b"Headabc", &mut out).is_err());
        assert!(decode(4, sum, b"hea", &mut out).is_err());
        assert!(decode(4, sum, b"headabcd", &mut out).is_err());
    }
}
