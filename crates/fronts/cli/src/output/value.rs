//! One element of an array, taken apart as its type says.

use forebay::{
    Array, Error, ErrorKind, Result, Values,
    container::{Dtype, Number, native},
};

use half::{bf16, f16};

use crate::output::shortest::shortest;

/// One element, or a part of one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ElementValue<'a> {
    Signed(i64),
    Unsigned(u64),
    Single(f32),
    Double(f64),
    Complex(f64, f64),
    Bool(bool),
    /// A named value of an enumeration.
    Name(&'a str),
    /// Text without its padding; not always UTF-8.
    Text(&'a [u8]),
    Bytes(&'a [u8]),
    List(Vec<ElementValue<'a>>),
    Record(Vec<(&'a str, ElementValue<'a>)>),
}

/// Hands every element of `array` to `take`, in C order.
pub(crate) fn each(array: &Array, mut take: impl FnMut(ElementValue<'_>) -> Result<()>) -> Result<()> {
    match &array.values {
        Values::Fixed(stored) => {
            let mut packed = Vec::new();
            native::pack(&array.dtype, stored, &mut packed);
            let len = native::packed_len(&array.dtype).filter(|len| *len > 0);
            let elements = len.map(|len| packed.chunks_exact(len)).into_iter().flatten();
            elements.into_iter().try_for_each(|element| take(top(&array.dtype, element)?))
        }
        Values::Variable { offsets, bytes } => offsets.windows(2).try_for_each(|two| {
            let [from, to] = [two[0], two[1]].map(|at| usize::try_from(at).unwrap_or(usize::MAX));
            let element = bytes.get(from..to).ok_or_else(too_short)?;
            take(top(&array.dtype, element)?)
        }),
    }
}

fn too_short() -> Error {
    Error::new(ErrorKind::Corrupt, "a value is shorter than its type")
}

/// An element by itself: one text or sequence goes to the end of its bytes.
fn top<'a>(dtype: &'a Dtype, element: &'a [u8]) -> Result<ElementValue<'a>> {
    let mut packed = Packed { rest: element };
    match dtype {
        Dtype::VarText { .. } => Ok(ElementValue::Text(element)),
        Dtype::Sequence { item, .. } => {
            let mut items = Vec::new();
            while !packed.rest.is_empty() {
                let before = packed.rest.len();
                items.push(packed.value(item)?);
                if packed.rest.len() == before {
                    break;
                }
            }
            Ok(ElementValue::List(items))
        }
        _ => packed.value(dtype),
    }
}

/// Packed native elements, taken from the front.
struct Packed<'a> {
    rest: &'a [u8],
}

impl<'a> Packed<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        let (front, rest) = self.rest.split_at_checked(len).ok_or_else(too_short)?;
        self.rest = rest;
        Ok(front)
    }

    fn value(&mut self, dtype: &'a Dtype) -> Result<ElementValue<'a>> {
        match dtype {
            Dtype::Number { number, .. } | Dtype::Bits { number, .. } => self.number(*number),
            Dtype::Complex { part, .. } => {
                let [real, imaginary] =
                    [self.number(*part)?, self.number(*part)?].map(|part| as_double(&part));
                Ok(ElementValue::Complex(real, imaginary))
            }
            Dtype::Enum { base, members } => {
                let value = self.value(base)?;
                let Some(number) = as_integer(&value) else { return Ok(value) };
                if dtype.is_bool() && (0..=1).contains(&number) {
                    return Ok(ElementValue::Bool(number == 1));
                }
                let named = members.iter().find(|member| member.value == number);
                Ok(named.map_or(value, |member| ElementValue::Name(&member.name)))
            }
            Dtype::Text { len, .. } => {
                let padded = self.take(*len)?;
                let end = padded.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
                Ok(ElementValue::Text(&padded[..end]))
            }
            Dtype::VarText { .. } => {
                let len = self.count()?;
                self.take(usize::try_from(len).map_err(|_| too_short())?).map(ElementValue::Text)
            }
            Dtype::Sequence { item, .. } => {
                let count = self.count()?;
                self.list(item, count)
            }
            Dtype::Array { shape, item } => {
                let count = shape.iter().fold(1u64, |all, n| all.saturating_mul(*n));
                self.list(item, count)
            }
            Dtype::Compound { fields, .. } => {
                let members = fields.iter().map(|field| Ok((field.name.as_str(), self.value(&field.dtype)?)));
                Ok(ElementValue::Record(members.collect::<Result<_>>()?))
            }
            _ => self.take(dtype.stored_len()).map(ElementValue::Bytes),
        }
    }

    fn list(&mut self, item: &'a Dtype, count: u64) -> Result<ElementValue<'a>> {
        // Items without bytes would let a file claim any number of them.
        let most = if native::packed_len(item) == Some(0) { 0 } else { count };
        Ok(ElementValue::List((0..most).map(|_| self.value(item)).collect::<Result<_>>()?))
    }

    fn count(&mut self) -> Result<u64> {
        self.bytes().map(u64::from_ne_bytes)
    }

    fn bytes<const N: usize>(&mut self) -> Result<[u8; N]> {
        self.take(N)?.try_into().map_err(|_| too_short())
    }

    fn number(&mut self, number: Number) -> Result<ElementValue<'a>> {
        Ok(match number {
            Number::I8 => ElementValue::Signed(i8::from_ne_bytes(self.bytes()?).into()),
            Number::I16 => ElementValue::Signed(i16::from_ne_bytes(self.bytes()?).into()),
            Number::I32 => ElementValue::Signed(i32::from_ne_bytes(self.bytes()?).into()),
            Number::I64 => ElementValue::Signed(i64::from_ne_bytes(self.bytes()?)),
            Number::U8 => ElementValue::Unsigned(u8::from_ne_bytes(self.bytes()?).into()),
            Number::U16 => ElementValue::Unsigned(u16::from_ne_bytes(self.bytes()?).into()),
            Number::U32 => ElementValue::Unsigned(u32::from_ne_bytes(self.bytes()?).into()),
            Number::U64 => ElementValue::Unsigned(u64::from_ne_bytes(self.bytes()?)),
            Number::F16 => ElementValue::Double(shortest(u16::from_ne_bytes(self.bytes()?), |bits| {
                f16::from_bits(bits).into()
            })),
            Number::Bf16 => ElementValue::Double(shortest(u16::from_ne_bytes(self.bytes()?), |bits| {
                bf16::from_bits(bits).into()
            })),
            Number::F32 => ElementValue::Single(f32::from_ne_bytes(self.bytes()?)),
            Number::F64 => ElementValue::Double(f64::from_ne_bytes(self.bytes()?)),
        })
    }
}

/// The double-precision number whose shortest decimal is that of `number`.
pub(crate) fn widened(number: f32) -> f64 {
    format!("{number:?}").parse().unwrap_or(f64::from(number))
}

fn as_double(value: &ElementValue<'_>) -> f64 {
    match value {
        ElementValue::Single(number) => widened(*number),
        ElementValue::Double(number) => *number,
        ElementValue::Signed(number) => *number as f64,
        ElementValue::Unsigned(number) => *number as f64,
        _ => f64::NAN,
    }
}

fn as_integer(value: &ElementValue<'_>) -> Option<i64> {
    match value {
        ElementValue::Signed(number) => Some(*number),
        ElementValue::Unsigned(number) => Some(number.cast_signed()),
        _ => None,
    }
}
