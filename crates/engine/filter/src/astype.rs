//! Numbers stored as another type.

use forebay_process::Result;

use crate::stored_number::{StoredNumber, map};

pub(crate) fn decode(
    decoded: StoredNumber,
    encoded: StoredNumber,
    input: &[u8],
    out: &mut [u8],
) -> Result<usize> {
    map((encoded, decoded), input, out, |number| number)
}
