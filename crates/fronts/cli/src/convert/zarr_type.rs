//! Types and fill values as Zarr writes them.

use forebay::container::{Dtype, Number, native};
use serde_json::{Value, json};

/// What Zarr calls a type, and what it reads as what was never written.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ZarrType {
    pub(super) name: Value,
    pub(super) fill: Value,
    /// Axes that an element has within itself.
    pub(super) inner: Vec<u64>,
    /// Bytes of one item; nothing for text of any length.
    pub(super) item_len: Option<usize>,
    /// The fill value of one item.
    pub(super) fill_bytes: Vec<u8>,
}

impl ZarrType {
    /// The type for elements of `dtype` whose fill value is `fill`, as stored; nothing where Zarr has none.
    pub(super) fn of(dtype: &Dtype, fill: &[u8]) -> Option<Self> {
        if let Dtype::VarText { .. } = dtype {
            return Some(Self {
                name: "string".into(),
                fill: "".into(),
                inner: Vec::new(),
                item_len: None,
                fill_bytes: Vec::new(),
            });
        }
        let (mut item, mut inner) = (dtype, Vec::new());
        while let Dtype::Array { shape, item: within } = item {
            inner.extend(shape);
            item = within;
        }
        let len = item.native_len();
        let mut first = fill.get(..len).map_or_else(|| vec![0; len], <[u8]>::to_vec);
        // An element that is widened when it is read has no fill value of its own length.
        if !matches!(item, Dtype::Nonstandard { .. }) {
            native::make_native(item, &mut first);
        }
        // An array of different fill values has no word in Zarr; its zeros have.
        if !inner.is_empty() && !fill.iter().all(|byte| *byte == 0) {
            return None;
        }
        let (name, fill) = name_and_fill(item, &first)?;
        Some(Self { name, fill, inner, item_len: Some(len), fill_bytes: first })
    }
}

fn name_and_fill(dtype: &Dtype, fill: &[u8]) -> Option<(Value, Value)> {
    Some(match dtype {
        dtype if dtype.is_bool() => ("bool".into(), (fill != [0]).into()),
        Dtype::Number { number, .. } | Dtype::Bits { number, .. } | Dtype::Nonstandard { number, .. } => {
            (number_name(*number).into(), number_value(*number, fill)?)
        }
        Dtype::Enum { base, .. } => return name_and_fill(base, fill),
        Dtype::Complex { part: part @ (Number::F32 | Number::F64), .. } => {
            let (real, imaginary) = fill.split_at_checked(part.size())?;
            let name = if *part == Number::F32 { "complex64" } else { "complex128" };
            (name.into(), json!([number_value(*part, real)?, number_value(*part, imaginary)?]))
        }
        Dtype::Text { len, .. } if fill.iter().all(|byte| *byte == 0) => {
            (json!({ "name": "null_terminated_bytes", "configuration": { "length_bytes": len } }), "".into())
        }
        _ => return None,
    })
}

fn number_name(number: Number) -> &'static str {
    match number {
        Number::I8 => "int8",
        Number::I16 => "int16",
        Number::I32 => "int32",
        Number::I64 => "int64",
        Number::U8 => "uint8",
        Number::U16 => "uint16",
        Number::U32 => "uint32",
        Number::U64 => "uint64",
        Number::F16 => "float16",
        Number::Bf16 => "bfloat16",
        Number::F32 => "float32",
        Number::F64 => "float64",
    }
}

/// The number of `bytes`, in this machine's order. Floats that JSON has no number for are words or their bits.
fn number_value(number: Number, bytes: &[u8]) -> Option<Value> {
    let mut wide = [0; 8];
    wide.get_mut(..bytes.len())?.copy_from_slice(bytes);
    let bits = u64::from_le_bytes(wide);
    let unused = 64 - 8 * bytes.len();
    Some(match number {
        Number::I8 | Number::I16 | Number::I32 | Number::I64 => {
            (bits.cast_signed() << unused >> unused).into()
        }
        Number::U8 | Number::U16 | Number::U32 | Number::U64 => bits.into(),
        Number::F32 => {
            float(f64::from(f32::from_bits(u32::try_from(bits).ok()?)), bits == 0x7fc0_0000, bytes)
        }
        Number::F64 => float(f64::from_bits(bits), bits == 0x7ff8_0000_0000_0000, bytes),
        Number::F16 | Number::Bf16 if bits == 0 => 0.0.into(),
        Number::F16 | Number::Bf16 => hex(bytes),
    })
}

fn float(value: f64, is_plain_nan: bool, bytes: &[u8]) -> Value {
    match value {
        value if value.is_finite() => value.into(),
        value if value == f64::INFINITY => "Infinity".into(),
        value if value == f64::NEG_INFINITY => "-Infinity".into(),
        _ if is_plain_nan => "NaN".into(),
        _ => hex(bytes),
    }
}

fn hex(bytes: &[u8]) -> Value {
    let digits: String = bytes.iter().rev().map(|byte| format!("{byte:02x}")).collect();
    format!("0x{digits}").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(number: Number, bytes: &[u8]) -> Value {
        ZarrType::of(&Dtype::native(number), bytes).unwrap().fill
    }

    #[test]
    fn fill_values_keep_their_bits() {
        assert_eq!(fill(Number::I16, &(-9i16).to_le_bytes()), json!(-9));
        assert_eq!(fill(Number::U64, &u64::MAX.to_le_bytes()), json!(u64::MAX));
        assert_eq!(fill(Number::F32, &0.1f32.to_le_bytes()), json!(f64::from(0.1f32)));
        assert_eq!(fill(Number::F64, &f64::NEG_INFINITY.to_le_bytes()), json!("-Infinity"));
        assert_eq!(fill(Number::F32, &0x7fc0_0001u32.to_le_bytes()), json!("0x7fc00001"));
        assert_eq!(fill(Number::F16, &0x3c00u16.to_le_bytes()), json!("0x3c00"));
        assert_eq!(fill(Number::F64, &[]), json!(0.0));
    }
}
