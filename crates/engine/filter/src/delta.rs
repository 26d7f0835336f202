//! Numbers stored as their distance from the one before.

use forebay_process::Result;

use crate::stored_number::{NumberValue, StoredNumber, map};

pub(crate) fn decode(
    decoded: StoredNumber,
    encoded: StoredNumber,
    input: &[u8],
    out: &mut [u8],
) -> Result<usize> {
    let mut last = None;
    map((encoded, decoded), input, out, |step: NumberValue| {
        let sum = last.map_or(step, |last: NumberValue| last.plus(step, decoded));
        last = Some(sum);
        sum
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ByteOrder, Number};

    #[test]
    fn distances_add_up_and_wrap() {
        let byte = StoredNumber::new(Number::U8, ByteOrder::Little).unwrap();
        let mut out = [0; 4];
        assert_eq!(decode(byte, byte, &[250, 10, 1, 255], &mut out).unwrap(), 4);
        assert_eq!(out, [250, 4, 5, 4]);
    }
}
