//! From one kind of number to another, with the rules of the HDF5 library: to integers by cutting the fraction off
//! and stopping at the ends of the range, to floats by rounding to the nearest.

use std::collections::{HashMap, HashSet};

use crate::{
    Number,
    dtype::{Dtype, Member},
    values::{native::is_native, scalar::Scalar},
};

/// True when `convert` knows both types.
pub fn can_convert(from: &Dtype, to: &Dtype) -> bool {
    if let (Dtype::Enum { base: from_base, .. }, Dtype::Enum { base: to_base, .. }) = (from, to) {
        let is_integer = |base: &Dtype| matches!(base, Dtype::Number { number, .. } | Dtype::Bits { number, .. } if number.is_integer());
        return is_integer(from_base) && is_integer(to_base) && missing_name(from, to).is_none();
    }
    let plain = |dtype: &Dtype| match dtype {
        Dtype::Number { number, .. } | Dtype::Bits { number, .. } => {
            !matches!(number, Number::F16 | Number::Bf16)
        }
        _ => false,
    };
    plain(from) && plain(to)
}

/// The first name that the enumeration `from` has and the enumeration `to` has not.
pub fn missing_name<'a>(from: &'a Dtype, to: &Dtype) -> Option<&'a str> {
    let (Dtype::Enum { members: from, .. }, Dtype::Enum { members: to, .. }) = (from, to) else {
        return None;
    };
    let names: HashSet<&str> = to.iter().map(|member| &*member.name).collect();
    from.iter().map(|member| &*member.name).find(|name| !names.contains(name))
}

/// Values of one enumeration as those of the same name in another; a value without a name becomes all ones.
fn convert_by_name(
    (from_len, from_members): (usize, &[Member]),
    (to_len, to_members): (usize, &[Member]),
    from: &[u8],
) -> Vec<u8> {
    let by_name: HashMap<&str, i64> = to_members.iter().map(|member| (&*member.name, member.value)).collect();
    let by_value: HashMap<Vec<u8>, [u8; 8]> = from_members
        .iter()
        .filter_map(|member| {
            let stored = member.value.to_le_bytes().get(..from_len)?.to_vec();
            Some((stored, by_name.get(&*member.name)?.to_le_bytes()))
        })
        .collect();
    let converted = from.chunks_exact(from_len).map(|value| by_value.get(value).unwrap_or(&[0xff; 8]));
    converted.flat_map(|value| &value[..to_len]).copied().collect()
}

/// The native numbers `from` of type `from_type` as numbers of `to_type`, enumerations by name; both were accepted by [`can_convert`].
pub fn convert(from_type: &Dtype, to_type: &Dtype, from: &[u8]) -> Vec<u8> {
    if let (Dtype::Enum { members: from_members, .. }, Dtype::Enum { members: to_members, .. }) =
        (from_type, to_type)
    {
        let source = (from_type.stored_len(), &**from_members);
        return convert_by_name(source, (to_type.stored_len(), to_members), from);
    }
    let number = |dtype: &Dtype| match dtype {
        Dtype::Number { number, .. } | Dtype::Bits { number, .. } => *number,
        _ => Number::U8,
    };
    let (source, target) = (number(from_type), number(to_type));
    let mut out = Vec::with_capacity(from.len() / source.size() * target.size());
    for element in from.chunks_exact(source.size()) {
        put(target, Scalar::of(source, element), &mut out);
    }
    if !(is_native(from_type) && is_native(to_type)) {
        mark_nans(target, &mut out);
    }
    out
}

/// Between numbers of foreign byte order the library converts bit by bit, and makes every NaN one of all ones.
fn mark_nans(number: Number, out: &mut [u8]) {
    match number {
        Number::F32 => {
            for element in out.as_chunks_mut::<4>().0 {
                if f32::from_le_bytes(*element).is_nan() {
                    *element = (u32::from_le_bytes(*element) | 0x7fff_ffff).to_le_bytes();
                }
            }
        }
        Number::F64 => {
            for element in out.as_chunks_mut::<8>().0 {
                if f64::from_le_bytes(*element).is_nan() {
                    *element = (u64::from_le_bytes(*element) | u64::MAX >> 1).to_le_bytes();
                }
            }
        }
        _ => {}
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the library rounds to the nearest float")]
fn put(number: Number, value: Scalar, out: &mut Vec<u8>) {
    let float = value.to_f64();
    match number {
        // An integer goes to f32 in one step: by way of f64 it would be rounded twice.
        Number::F32 => out.extend_from_slice(
            &match value {
                Scalar::Integer(value) => value as f32,
                Scalar::Float(value) => value as f32,
            }
            .to_le_bytes(),
        ),
        Number::F64 => out.extend_from_slice(&float.to_le_bytes()),
        _ => {
            let bits = 8 * u32::try_from(number.size()).unwrap_or(8);
            let (low, high) = match number.is_signed_integer() {
                true => (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1),
                false => (0, (1i128 << bits) - 1),
            };
            let whole = match value {
                Scalar::Integer(value) => value,
                Scalar::Float(value) => value as i128,
            };
            out.extend_from_slice(&whole.clamp(low, high).to_le_bytes()[..number.size()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_outside_the_range_stops_at_its_end() {
        let [f64_type, u8_type, i16_type] = [Number::F64, Number::U8, Number::I16].map(Dtype::native);
        let values: Vec<u8> = [300.0f64, -7.9, 2.9].iter().flat_map(|value| value.to_le_bytes()).collect();
        assert_eq!(convert(&f64_type, &u8_type, &values), [255, 0, 2]);
        let negative = (-2i16).to_le_bytes();
        assert_eq!(convert(&i16_type, &f64_type, &negative), (-2.0f64).to_le_bytes());
        assert_eq!(convert(&i16_type, &u8_type, &negative), [0]);
    }
}
