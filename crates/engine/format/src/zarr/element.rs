//! What an element is, in the words of either version.

use forebay_process::{Error, Result};
use serde_json::Value;

use super::json::Named;
use forebay_container::{ByteOrder, Dtype, Field, Member, Number, Padding};

/// An element's type, and what it means beyond its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ZarrElement {
    pub(super) dtype: Dtype,
    pub(super) meaning: Meaning,
}

/// What an element means beyond its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// What its type says.
    Itself,
    /// A time, or a distance between two, as a number of units.
    Time,
    /// Text as numbers of letters.
    Letters,
    /// An object whose codec says what it is.
    Object,
}

/// Types nest; a document that nests them deeper than this is not meant to be read.
const MOST_DEPTH: usize = 16;

impl ZarrElement {
    fn plain(dtype: Dtype) -> Self {
        Self { dtype, meaning: Meaning::Itself }
    }

    /// The type that version 2 calls `value`.
    pub(super) fn of_v2(value: &Value) -> Result<Self> {
        Self::of_v2_at(value, 0)
    }

    fn of_v2_at(value: &Value, depth: usize) -> Result<Self> {
        match value {
            Value::String(text) => Self::of_numpy(text),
            Value::Array(fields) if depth < MOST_DEPTH => {
                let fields = fields.iter().map(|field| v2_field(field, depth)).collect::<Result<Vec<_>>>()?;
                compound(fields)
            }
            _ => Err(Error::corrupt(format!("no type: {value}"))),
        }
    }

    /// The type that NumPy calls `text`: `<f4`, `|S5`, `<M8[ns]`.
    fn of_numpy(text: &str) -> Result<Self> {
        let unknown = || Error::unsupported(format!("elements of type '{text}'"));
        let mut letters = text.chars();
        let order = match letters.next() {
            Some('<' | '|') => ByteOrder::Little,
            Some('>') => ByteOrder::Big,
            _ => return Err(unknown()),
        };
        let kind = letters.next().ok_or_else(unknown)?;
        let rest = letters.as_str();
        if kind == 'O' {
            return Ok(object());
        }
        let digits = rest.split('[').next().unwrap_or_default();
        let len: usize = digits.parse().map_err(|_| unknown())?;
        let number = |number| Ok(Self::plain(Dtype::Number { number, order }));
        match (kind, len) {
            ('b', 1) => Ok(Self::plain(boolean())),
            ('i' | 'u', _) => number(Number::integer(len, kind == 'i').ok_or_else(unknown)?),
            ('f', 2) => number(Number::F16),
            ('f', 4) => number(Number::F32),
            ('f', 8) => number(Number::F64),
            ('c', 8) => Ok(Self::plain(Dtype::Complex { part: Number::F32, order })),
            ('c', 16) => Ok(Self::plain(Dtype::Complex { part: Number::F64, order })),
            ('M' | 'm', 8) => Ok(time(order)),
            ('S', _) => text_of(len),
            ('U', _) => letters_of(len, order),
            ('V', _) => raw(len),
            _ => Err(unknown()),
        }
    }

    /// The type that version 3 calls `value`, whose numbers are stored in `order`.
    pub(super) fn of_v3(value: &Value, order: ByteOrder) -> Result<Self> {
        Self::of_v3_at(value, order, 0)
    }

    fn of_v3_at(value: &Value, order: ByteOrder, depth: usize) -> Result<Self> {
        let Named { name, settings } = Named::of(value, "a type")?;
        let unknown = || Error::unsupported(format!("elements of type '{name}'"));
        let number = |number| Ok(Self::plain(Dtype::Number { number, order }));
        let len_of = |setting: &str| {
            let len = settings.get(setting).and_then(Value::as_u64).and_then(|len| usize::try_from(len).ok());
            len.ok_or_else(|| Error::corrupt(format!("type '{name}' without '{setting}'")))
        };
        match name {
            "bool" => Ok(Self::plain(boolean())),
            "int8" => number(Number::I8),
            "int16" => number(Number::I16),
            "int32" => number(Number::I32),
            "int64" => number(Number::I64),
            "uint8" => number(Number::U8),
            "uint16" => number(Number::U16),
            "uint32" => number(Number::U32),
            "uint64" => number(Number::U64),
            "float16" => number(Number::F16),
            "bfloat16" => number(Number::Bf16),
            "float32" => number(Number::F32),
            "float64" => number(Number::F64),
            "complex64" | "complex_float32" => Ok(Self::plain(Dtype::Complex { part: Number::F32, order })),
            "complex128" | "complex_float64" => Ok(Self::plain(Dtype::Complex { part: Number::F64, order })),
            "numpy.datetime64" | "numpy.timedelta64" => Ok(time(order)),
            "string" | "bytes" | "variable_length_bytes" | "variable_length_utf8" => Ok(object()),
            "null_terminated_bytes" => text_of(len_of("length_bytes")?),
            "raw_bytes" => raw(len_of("length_bytes")?),
            "fixed_length_utf32" => letters_of(len_of("length_bytes")? / 4, order),
            "structured" | "struct" if depth < MOST_DEPTH => {
                let fields = settings.get("fields").and_then(Value::as_array).ok_or_else(unknown)?;
                let fields =
                    fields.iter().map(|field| v3_field(field, order, depth)).collect::<Result<Vec<_>>>()?;
                compound(fields)
            }
            _ => match name.strip_prefix('r').and_then(|bits| bits.parse::<usize>().ok()) {
                Some(bits) if bits.is_multiple_of(8) => raw(bits / 8),
                _ => Err(unknown()),
            },
        }
    }
}

/// `["name", type]` or `["name", type, [shape]]`.
fn v2_field(field: &Value, depth: usize) -> Result<(String, Dtype)> {
    let parts = field.as_array().map(Vec::as_slice).unwrap_or_default();
    let (Some(Value::String(name)), Some(dtype)) = (parts.first(), parts.get(1)) else {
        return Err(Error::corrupt(format!("no member of a type: {field}")));
    };
    let item = ZarrElement::of_v2_at(dtype, depth + 1)?;
    if item.meaning == Meaning::Object {
        return Err(Error::unsupported("objects inside another type"));
    }
    let Some(shape) = parts.get(2) else { return Ok((name.clone(), item.dtype)) };
    let shape: Option<Vec<u64>> = match shape {
        Value::Array(lens) => lens.iter().map(Value::as_u64).collect(),
        len => len.as_u64().map(|len| vec![len]),
    };
    let shape = shape.ok_or_else(|| Error::corrupt(format!("no shape: {field}")))?;
    Ok((name.clone(), Dtype::Array { shape, item: Box::new(item.dtype) }))
}

/// `["name", type]` or `{"name": …, "data_type": …}`.
fn v3_field(field: &Value, order: ByteOrder, depth: usize) -> Result<(String, Dtype)> {
    let (name, dtype) = match field {
        Value::Array(parts) => (parts.first(), parts.get(1)),
        _ => (field.get("name"), field.get("data_type")),
    };
    let (Some(Value::String(name)), Some(dtype)) = (name, dtype) else {
        return Err(Error::corrupt(format!("no member of a type: {field}")));
    };
    let item = ZarrElement::of_v3_at(dtype, order, depth + 1)?;
    if item.meaning == Meaning::Object {
        return Err(Error::unsupported("values of variable length inside another type"));
    }
    Ok((name.clone(), item.dtype))
}

fn compound(members: Vec<(String, Dtype)>) -> Result<ZarrElement> {
    let mut fields = Vec::with_capacity(members.len());
    let mut len = 0usize;
    for (name, dtype) in members {
        let end = len.checked_add(dtype.stored_len()).filter(|end| *end < usize::MAX / 2);
        fields.push(Field { name, offset: len, dtype });
        len = end.ok_or_else(|| Error::corrupt("a type longer than any memory"))?;
    }
    not_empty(Dtype::Compound { len, fields })
}

fn not_empty(dtype: Dtype) -> Result<ZarrElement> {
    if dtype.is_sound() {
        Ok(ZarrElement::plain(dtype))
    } else {
        Err(Error::unsupported("elements of no bytes"))
    }
}

/// The two-valued byte that booleans are.
fn boolean() -> Dtype {
    let member = |name: &str, value| Member { name: name.into(), value };
    let base = Box::new(Dtype::native(Number::U8));
    Dtype::Enum { base, members: vec![member("FALSE", 0), member("TRUE", 1)] }
}

fn time(order: ByteOrder) -> ZarrElement {
    ZarrElement { dtype: Dtype::Number { number: Number::I64, order }, meaning: Meaning::Time }
}

fn text_of(len: usize) -> Result<ZarrElement> {
    not_empty(Dtype::Text { len, padding: Padding::NulPadded, utf8: false })
}

fn raw(len: usize) -> Result<ZarrElement> {
    not_empty(Dtype::Opaque { len, tag: String::new() })
}

/// UTF-32 is no text of bytes: each letter is a number.
fn letters_of(len: usize, order: ByteOrder) -> Result<ZarrElement> {
    let item = Box::new(Dtype::Number { number: Number::U32, order });
    let element = not_empty(Dtype::Array { shape: vec![len as u64], item })?;
    Ok(ZarrElement { meaning: Meaning::Letters, ..element })
}

fn object() -> ZarrElement {
    ZarrElement { dtype: var_text(), meaning: Meaning::Object }
}

/// Objects of any length have no references: chunks hold them. This stands for the length of one.
const REFERENCE_LEN: usize = 16;

/// Text of any length.
pub(super) fn var_text() -> Dtype {
    Dtype::VarText { reference_len: REFERENCE_LEN, utf8: true }
}

/// Any number of `item`.
pub(super) fn sequence(item: Dtype) -> Dtype {
    Dtype::Sequence { reference_len: REFERENCE_LEN, item: Box::new(item) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn both_versions_name_the_same_types() {
        for (v2, v3) in [
            ("<f4", json!("float32")),
            ("|u1", json!("uint8")),
            ("|b1", json!("bool")),
            ("<c16", json!("complex128")),
            (
                "<M8[ns]",
                json!({"name": "numpy.datetime64", "configuration": {"unit": "ns", "scale_factor": 1}}),
            ),
            ("|S5", json!({"name": "null_terminated_bytes", "configuration": {"length_bytes": 5}})),
            ("<U3", json!({"name": "fixed_length_utf32", "configuration": {"length_bytes": 12}})),
            ("|V2", json!("r16")),
        ] {
            let of_v2 = ZarrElement::of_v2(&json!(v2)).unwrap();
            assert_eq!(of_v2, ZarrElement::of_v3(&v3, ByteOrder::Little).unwrap(), "{v2}");
        }
    }

    #[test]
    fn structures_lie_packed() {
        let element =
            ZarrElement::of_v2(&json!([["a", "|u1"], ["b", ">i4", [2]], ["c", [["d", "<f8"]]]])).unwrap();
        let Dtype::Compound { len, fields } = element.dtype else { panic!("no compound") };
        assert_eq!(len, 17);
        assert_eq!(fields.iter().map(|field| field.offset).collect::<Vec<_>>(), [0, 1, 9]);
    }

    #[test]
    fn what_is_no_type_is_refused() {
        for value in [
            json!("f4"),
            json!("<f16"),
            json!("<i3"),
            json!("|S0"),
            json!(""),
            json!("<"),
            json!([]),
            json!(4),
        ] {
            assert!(ZarrElement::of_v2(&value).is_err(), "{value}");
        }
        for name in ["int4", "r7", "r0", "float8_e4m3", ""] {
            assert!(ZarrElement::of_v3(&json!(name), ByteOrder::Little).is_err(), "{name}");
        }
        let deep = (0..40).fold(json!("|u1"), |inner, _| json!([["a", inner]]));
        assert!(ZarrElement::of_v2(&deep).is_err());
    }
}
