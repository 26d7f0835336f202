//! BloscLZ, the codec Blosc brings along.

use crate::error::too_long;
use forebay_process::Result;

use crate::byte_cursor::ByteCursor;
use crate::lzf::repeat;

/// Distances from here on are written out in 16 bits.
const FAR: usize = 8191;

/// Decodes `input` into the front of `out` and gives the length written.
pub(crate) fn decode(input: &[u8], out: &mut [u8]) -> Result<usize> {
    let mut cursor = ByteCursor::new(input, crate::ByteOrder::Big);
    let mut len = 0;
    // The first control byte has a version in its upper bits and is always a run of literals.
    let mut mask = 31;
    while !cursor.is_empty() {
        let control = usize::from(cursor.u8()? & mask);
        mask = u8::MAX;
        if control < 32 {
            let literals = cursor.take(control + 1)?;
            out.get_mut(len..len + literals.len()).ok_or_else(too_long)?.copy_from_slice(literals);
            len += literals.len();
            continue;
        }
        let (distance, match_len) = read_match(control, &mut cursor)?;
        len = repeat(out, len, distance, match_len)?;
    }
    Ok(len)
}

fn read_match(control: usize, cursor: &mut ByteCursor<'_>) -> Result<(usize, usize)> {
    let mut match_len = (control >> 5) + 2;
    if control >> 5 == 7 {
        loop {
            let more = usize::from(cursor.u8()?);
            match_len += more;
            if more != 255 {
                break;
            }
        }
    }
    let (high, low) = (control & 31, usize::from(cursor.u8()?));
    if high == 31 && low == 255 {
        return Ok((usize::from(cursor.u16()?) + FAR + 1, match_len));
    }
    Ok(((high << 8) + low + 1, match_len))
}
