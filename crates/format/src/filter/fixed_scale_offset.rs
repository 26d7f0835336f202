//! Numbers stored as `(number - offset) * scale`. Parameters: type, stored type, then the bits
//! of scale and offset, each the lower half first.

use forebay_source::Result;

use super::corrupt;
use super::element::{Element, Value, map};

pub(super) fn decode(params: &[u32], input: &[u8], out: &mut [u8]) -> Result<usize> {
    let (to, from) = (Element::from(params, 0)?, Element::from(params, 1)?);
    let [_, _, scale @ .., offset_low, offset_high] = params else {
        return Err(corrupt("scale or offset is missing"));
    };
    let [scale_low, scale_high] = scale else { return Err(corrupt("scale or offset is missing")) };
    let scale = double(*scale_low, *scale_high);
    let offset = double(*offset_low, *offset_high);
    map((from, to), input, out, |stored| restore(stored, scale, offset))
}

fn double(low: u32, high: u32) -> f64 {
    f64::from_bits(u64::from(high) << 32 | u64::from(low))
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "single numbers are reckoned with as such, as NumPy does"
)]
fn restore(stored: Value, scale: f64, offset: f64) -> Value {
    match stored {
        Value::Single(stored) => Value::Single(stored / scale as f32 + offset as f32),
        stored => Value::Double(stored.as_f64() / scale + offset),
    }
}
