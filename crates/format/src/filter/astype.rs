//! Numbers stored as another type. Parameters: type, stored type.

use forebay_source::Result;

use super::element::{Element, map};

pub(super) fn decode(params: &[u32], input: &[u8], out: &mut [u8]) -> Result<usize> {
    let (to, from) = (Element::from(params, 0)?, Element::from(params, 1)?);
    map((from, to), input, out, |number| number)
}
