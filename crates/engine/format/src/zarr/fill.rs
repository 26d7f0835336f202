//! What was never written: fill values in JSON as one stored element.

use forebay_process::{Error, Result};
use half::{bf16, f16};
use serde_json::Value;

use super::{
    element::{Meaning, ZarrElement},
    text::from_base64,
};
use forebay_container::{ByteOrder, Dtype, Number};

/// A longer element would take more memory than a fill value is worth.
const MOST_BYTES: usize = 64 << 20;

/// The stored element that `value` stands for; empty where it is all zeros, as for `null`. A time that nobody gave is no
/// time, as zarr-python has it: zero would be 1970-01-01.
pub(super) fn of(value: &Value, element: &ZarrElement) -> Result<Vec<u8>> {
    let nothing = Value::from("NaT");
    let value = match (value, element.meaning) {
        (Value::Null, Meaning::Time) => &nothing,
        (Value::Null, _) => return Ok(Vec::new()),
        _ => value,
    };
    let len = element.dtype.stored_len();
    if len > MOST_BYTES {
        return Err(Error::corrupt(format!("a fill value of {len} bytes")));
    }
    let bytes = stored(value, element).ok_or_else(|| {
        Error::corrupt(format!("fill value {value} is no element of type {}", element.dtype))
    })?;
    Ok(if bytes.iter().all(|byte| *byte == 0) { Vec::new() } else { bytes })
}

fn stored(value: &Value, element: &ZarrElement) -> Option<Vec<u8>> {
    let len = element.dtype.stored_len();
    match (&element.dtype, element.meaning) {
        (Dtype::Number { order, .. }, Meaning::Time) if value.as_str() == Some("NaT") => {
            Some(ordered(i64::MIN.cast_unsigned(), 8, *order))
        }
        (Dtype::Array { .. }, Meaning::Letters) => letters(value, &element.dtype),
        (Dtype::Number { number, order }, _) => number_of(value, *number, *order),
        (Dtype::Complex { part, order }, _) => complex(value, *part, *order),
        (Dtype::Enum { .. }, _) => {
            let is_true = value.as_bool().or_else(|| Some(value.as_f64()? != 0.0))?;
            Some(vec![u8::from(is_true)])
        }
        // Some writers give 0 whatever the type is.
        _ if value.as_f64() == Some(0.0) => Some(vec![0; len]),
        _ => raw(value, len),
    }
}

/// Bytes in base64, or as a list of numbers.
fn raw(value: &Value, len: usize) -> Option<Vec<u8>> {
    let mut bytes = match value {
        Value::String(text) => from_base64(text)?,
        Value::Array(list) => {
            let byte = |value: &Value| value.as_u64().and_then(|byte| u8::try_from(byte).ok());
            list.iter().map(byte).collect::<Option<Vec<u8>>>()?
        }
        _ => return None,
    };
    if bytes.len() > len {
        return None;
    }
    bytes.resize(len, 0);
    Some(bytes)
}

fn letters(value: &Value, dtype: &Dtype) -> Option<Vec<u8>> {
    let Dtype::Array { item, .. } = dtype else { return None };
    let Dtype::Number { order, .. } = **item else { return None };
    let text = match value {
        Value::String(text) => text.as_str(),
        value if value.as_f64() == Some(0.0) => "",
        _ => return None,
    };
    let mut bytes: Vec<u8> =
        text.chars().flat_map(|letter| ordered(u64::from(u32::from(letter)), 4, order)).collect();
    if bytes.len() > dtype.stored_len() {
        return None;
    }
    bytes.resize(dtype.stored_len(), 0);
    Some(bytes)
}

fn complex(value: &Value, part: Number, order: ByteOrder) -> Option<Vec<u8>> {
    let zero = Value::from(0);
    let (real, imaginary) = match value.as_array().map(Vec::as_slice) {
        Some([real, imaginary]) => (real, imaginary),
        Some(_) => return None,
        None => (value, &zero),
    };
    Some([number_of(real, part, order)?, number_of(imaginary, part, order)?].concat())
}

fn number_of(value: &Value, number: Number, order: ByteOrder) -> Option<Vec<u8>> {
    let bits = match number {
        Number::F16 | Number::Bf16 | Number::F32 | Number::F64 => float_bits(value, number)?,
        _ => whole_bits(value, number)?,
    };
    Some(ordered(bits, number.size(), order))
}

/// The last `len` bytes of `bits` in `order`.
fn ordered(bits: u64, len: usize, order: ByteOrder) -> Vec<u8> {
    let mut bytes = bits.to_le_bytes()[..len].to_vec();
    if order == ByteOrder::Big {
        bytes.reverse();
    }
    bytes
}

fn whole_bits(value: &Value, number: Number) -> Option<u64> {
    let whole = match value {
        Value::Bool(value) => i128::from(*value),
        Value::Number(text) => match (text.as_i64(), text.as_u64(), text.as_f64()) {
            (Some(whole), _, _) => i128::from(whole),
            (_, Some(whole), _) => i128::from(whole),
            (_, _, Some(float)) if float.fract() == 0.0 && float.abs() < 2f64.powi(64) => {
                #[expect(clippy::cast_possible_truncation, reason = "a whole number of at most 64 bits")]
                let whole = float as i128;
                whole
            }
            _ => return None,
        },
        _ => return None,
    };
    let bits = u32::try_from(8 * number.size()).ok()?;
    let (least, most) = if number.is_signed_integer() {
        (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1)
    } else {
        (0, (1i128 << bits) - 1)
    };
    #[expect(clippy::cast_possible_truncation, reason = "the type holds it")]
    (least <= whole && whole <= most).then(|| whole.cast_unsigned() as u64)
}

fn float_bits(value: &Value, number: Number) -> Option<u64> {
    let float = match value {
        Value::String(text) => match text.as_str() {
            "NaN" => f64::NAN,
            "Infinity" => f64::INFINITY,
            "-Infinity" => f64::NEG_INFINITY,
            text => {
                // The bits themselves.
                let digits = text.strip_prefix("0x").filter(|digits| digits.len() == 2 * number.size())?;
                return u64::from_str_radix(digits, 16).ok();
            }
        },
        Value::Bool(value) => f64::from(u8::from(*value)),
        value => value.as_f64()?,
    };
    #[expect(clippy::cast_possible_truncation, reason = "rounded as NumPy does")]
    let single = float as f32;
    Some(match number {
        Number::F64 => float.to_bits(),
        Number::F32 => u64::from(single.to_bits()),
        Number::Bf16 => u64::from(bf16::from_f32(single).to_bits()),
        _ => u64::from(f16::from_f64(float).to_bits()),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fill(dtype: &str, value: Value) -> Option<Vec<u8>> {
        of(&value, &ZarrElement::of_v2(&json!(dtype)).unwrap()).ok()
    }

    #[test]
    fn numbers_are_stored_in_their_order() {
        assert_eq!(fill(">i2", json!(258)), Some(vec![1, 2]));
        assert_eq!(fill("<u8", json!(u64::MAX)), Some(vec![255; 8]));
        assert_eq!(fill("<f4", json!("NaN")), Some(f32::NAN.to_le_bytes().to_vec()));
        assert_eq!(fill("<f4", json!("0x7fc00001")), Some(vec![1, 0, 0xc0, 0x7f]));
        assert_eq!(fill("<c8", json!([0, "-Infinity"])), Some(vec![0, 0, 0, 0, 0, 0, 0x80, 0xff]));
        assert_eq!(fill("|b1", json!(true)), Some(vec![1]));
        assert_eq!(fill("<M8[s]", json!("NaT")), Some(vec![0, 0, 0, 0, 0, 0, 0, 0x80]));
    }

    #[test]
    fn zeros_and_null_are_nothing() {
        for (dtype, value) in [("<f8", json!(0)), ("|S3", json!("")), ("|V4", json!(0)), ("<i4", json!(null))]
        {
            assert_eq!(fill(dtype, value), Some(vec![]), "{dtype}");
        }
        assert_eq!(fill("<f8", json!(-0.0)), Some(vec![0, 0, 0, 0, 0, 0, 0, 0x80]));
    }

    #[test]
    fn a_time_without_a_fill_value_is_no_time() {
        assert_eq!(fill("<M8[s]", json!(null)), Some(i64::MIN.to_le_bytes().to_vec()));
        assert_eq!(fill(">m8[ns]", json!(null)), Some(i64::MIN.to_be_bytes().to_vec()));
    }

    #[test]
    fn texts_are_padded_and_must_fit() {
        assert_eq!(fill("|S3", json!("YWI=")), Some(b"ab\0".to_vec()));
        assert_eq!(fill("|S1", json!("YWI=")), None);
        assert_eq!(fill(">U2", json!("b")), Some(vec![0, 0, 0, b'b', 0, 0, 0, 0]));
        assert_eq!(fill("|u1", json!(256)), None);
        assert_eq!(fill("|u1", json!("a")), None);
    }
}
