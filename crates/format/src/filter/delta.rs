//! Numbers stored as their distance from the one before. Parameters: type, stored type.

use forebay_source::Result;

use super::element::{Element, Value, map};

pub(super) fn decode(params: &[u32], input: &[u8], out: &mut [u8]) -> Result<usize> {
    let (to, from) = (Element::from(params, 0)?, Element::from(params, 1)?);
    let mut last = None;
    map((from, to), input, out, |step: Value| {
        let sum = last.map_or(step, |last: Value| last.plus(step, to));
        last = Some(sum);
        sum
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ByteOrder, Number, filter::element::code};

    #[test]
    fn distances_add_up_and_wrap() {
        let byte = code(Number::U8, ByteOrder::Little).unwrap();
        let mut out = [0; 4];
        assert_eq!(decode(&[byte, byte], &[250, 10, 1, 255], &mut out).unwrap(), 4);
        assert_eq!(out, [250, 4, 5, 4]);
    }
}
