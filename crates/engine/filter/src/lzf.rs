//! Filter 32000: LZF.

use crate::error::too_long;
use forebay_process::{Error, Result};

use super::byte_cursor::ByteCursor;

pub(crate) fn decode(input: &[u8], out: &mut [u8]) -> Result<usize> {
    let mut cursor = ByteCursor::new(input, crate::ByteOrder::Little);
    let mut len = 0;
    while !cursor.is_empty() {
        let control = usize::from(cursor.u8()?);
        if control < 32 {
            let literals = cursor.take(control + 1)?;
            out.get_mut(len..len + literals.len()).ok_or_else(too_long)?.copy_from_slice(literals);
            len += literals.len();
            continue;
        }
        let mut match_len = control >> 5;
        if match_len == 7 {
            match_len += usize::from(cursor.u8()?);
        }
        let distance = ((control & 31) << 8) + usize::from(cursor.u8()?) + 1;
        len = repeat(out, len, distance, match_len + 2)?;
    }
    Ok(len)
}

/// Appends to the first `len` bytes of `out` the `match_len` bytes that begin `distance` before their end, and
/// gives the new length; the copy may run into what it has just written.
pub(crate) fn repeat(out: &mut [u8], len: usize, distance: usize, match_len: usize) -> Result<usize> {
    let start = len.checked_sub(distance).ok_or_else(|| Error::corrupt("refers to before its beginning"))?;
    let end = len.checked_add(match_len).filter(|&end| end <= out.len()).ok_or_else(too_long)?;
    // What lies between `start` and `at` is whole periods of the repeated bytes, so each copy may double.
    let mut at = len;
    while at < end && at > start {
        let step = (at - start).min(end - at);
        out.copy_within(start..start + step, at);
        at += step;
    }
    Ok(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_match_may_overlap_what_it_writes() {
        let mut out = [0; 16];
        let len = decode(&[1, b'a', b'b', 0xe0, 3, 1], &mut out).unwrap();
        assert_eq!(&out[..len], b"abababababababab"[..len].as_ref());
        assert_eq!(len, 14);
    }

    #[test]
    fn a_match_before_the_beginning_is_corrupt() {
        assert!(decode(&[0, b'a', 0x20, 1], &mut [0; 16]).is_err());
    }
}
