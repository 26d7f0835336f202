//! Attributes and names of axes as xarray reads them from Zarr.

use std::collections::{HashMap, HashSet};

use forebay::{
    Array, Container, Variable,
    container::{Attribute, Dtype, Scalar},
};
use serde_json::{Map, Value};

use crate::output::value;

/// What stands for a missing value. xarray reads it by the type of the array: floats and bytes are in base64.
const FILL_VALUE: &str = "_FillValue";

/// Attributes that are one number by the CF conventions, however many axes the attribute has.
const OF_ONE_NUMBER: [&str; 3] = [FILL_VALUE, "scale_factor", "add_offset"];

/// Attributes of a group of `container` as JSON; one that cannot be read, or is HDF5's own, is left out.
pub(super) fn of_group(container: &Container, given: &[Attribute]) -> Map<String, Value> {
    with(container, given, |attribute, array| plain(container, &attribute.name, array))
}

/// The same of a variable.
pub(super) fn of_variable(container: &Container, variable: &Variable) -> Map<String, Value> {
    with(container, &variable.attributes, |attribute, array| match attribute.name.as_str() {
        FILL_VALUE => missing(&variable.dtype, array),
        name => plain(container, name, array),
    })
}

fn with(
    container: &Container,
    given: &[Attribute],
    json: impl Fn(&Attribute, &Array) -> Option<Value>,
) -> Map<String, Value> {
    let is_zarr = container.format == "zarr";
    let own = given.iter().filter(|attribute| is_zarr || !attribute.is_internal(given));
    own.filter_map(|one| Some((one.name.clone(), json(one, one.value.as_ref().ok()?)?))).collect()
}

/// The value of an attribute. NetCDF has no scalars: what is one number long was meant as one.
fn plain(container: &Container, name: &str, array: &Array) -> Option<Value> {
    let json = json_of(array)?;
    let is_scalar = container.format.starts_with("netcdf") || OF_ONE_NUMBER.contains(&name);
    match json {
        Value::Array(mut list) if is_scalar && list.len() == 1 => list.pop(),
        json => Some(json),
    }
}

/// What stands for a missing element of type `dtype`.
fn missing(dtype: &Dtype, array: &Array) -> Option<Value> {
    let encoded = |float: f64| Value::from(base64(&float.to_le_bytes()));
    match (dtype, array.scalars(), array.texts()) {
        (Dtype::Text { .. }, _, Some(texts)) => Some(base64(texts.first()?.as_bytes()).into()),
        (Dtype::VarText { .. }, _, Some(texts)) => Some(texts.first()?.clone().into()),
        (dtype, Some(scalars), _) if dtype.is_bool() => Some((scalars.first()?.to_f64() != 0.0).into()),
        (dtype, Some(scalars), _) => match (dtype.number()?.is_integer(), *scalars.first()?) {
            (false, scalar) => Some(encoded(scalar.to_f64())),
            (true, Scalar::Float(float)) => number(whole(float)?),
            (true, scalar) => number(scalar),
        },
        _ => None,
    }
}

/// A float without a fraction as an integer: xarray takes no other for an array of integers.
#[expect(
    clippy::cast_possible_truncation,
    reason = "floats beyond 128 bits stop at their ends and are refused"
)]
fn whole(float: f64) -> Option<Scalar> {
    (float.fract() == 0.0).then_some(Scalar::Integer(float as i128))
}

/// The values of `array` as nested lists.
fn json_of(array: &Array) -> Option<Value> {
    let mut flat = match (&array.dtype, array.scalars()) {
        // Exactly: the shortest decimal of a 32-bit float is another number to who reads 64 bits.
        (Dtype::Number { .. } | Dtype::Bits { .. } | Dtype::Nonstandard { .. }, Some(scalars)) => {
            scalars.into_iter().map(number).collect::<Option<Vec<Value>>>()?
        }
        _ => elements(array)?,
    };
    let Some((_, inner)) = array.shape.split_first() else { return flat.pop() };
    for len in inner.iter().rev() {
        let len = usize::try_from(*len).ok().filter(|len| *len > 0)?;
        flat = flat.chunks(len).map(|row| Value::Array(row.to_vec())).collect();
    }
    Some(Value::Array(flat))
}

fn elements(array: &Array) -> Option<Vec<Value>> {
    let mut flat = Vec::new();
    let taken = value::each(array, |value| {
        flat.extend(serde_json::to_value(&value));
        Ok(())
    });
    taken.ok().map(|()| flat)
}

fn number(scalar: Scalar) -> Option<Value> {
    Some(match scalar {
        Scalar::Integer(whole) => match (i64::try_from(whole), u64::try_from(whole)) {
            (Ok(whole), _) => whole.into(),
            (_, Ok(whole)) => whole.into(),
            _ => return None,
        },
        Scalar::Float(float) if float.is_nan() => "NaN".into(),
        Scalar::Float(f64::INFINITY) => "Infinity".into(),
        Scalar::Float(f64::NEG_INFINITY) => "-Infinity".into(),
        Scalar::Float(float) => float.into(),
    })
}

/// Base64 with padding, as Python's `base64.standard_b64encode` writes it.
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |at: usize| u32::from(group.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..4u32 {
            let letter = LETTERS[(bits >> (18 - 6 * at) & 63) as usize];
            text.push(if at as usize <= group.len() { char::from(letter) } else { '=' });
        }
    }
    text
}

/// What the axes of each of `variables`, whose shapes are `shapes`, are called. xarray opens no array without names: an
/// axis that has none gets one, as NetCDF gives it to plain HDF5 files, the same for axes of the same length.
pub(super) fn dimension_names(variables: &[(&Variable, Vec<u64>)]) -> Vec<Vec<String>> {
    let taken: HashSet<&str> =
        variables.iter().flat_map(|(variable, _)| variable.dimensions.iter().map(String::as_str)).collect();
    let mut made: HashMap<(u64, usize), String> = HashMap::new();
    let mut fresh =
        (0u64..).map(|number| format!("phony_dim_{number}")).filter(|name| !taken.contains(&**name));
    let mut names_of = |variable: &Variable, shape: &[u64]| {
        let mut seen: HashMap<u64, usize> = HashMap::new();
        let mut name = |axis: usize, len: u64| {
            if let Some(name) = variable.dimensions.get(axis).filter(|name| !name.is_empty()) {
                return name.clone();
            }
            // Two axes of one variable are two dimensions, even where they are as long.
            let nth = seen.entry(len).or_default();
            *nth += 1;
            made.entry((len, *nth)).or_insert_with(|| fresh.next().unwrap_or_default()).clone()
        };
        shape.iter().enumerate().map(|(axis, len)| name(axis, *len)).collect()
    };
    variables.iter().map(|(variable, shape)| names_of(variable, shape)).collect()
}

#[cfg(test)]
mod tests {
    use forebay::container::{Number, Values};

    use super::*;

    fn array(number: Number, bytes: &[u8]) -> Array {
        let values = Values::Fixed(bytes.to_vec());
        Array { dtype: Dtype::native(number), shape: vec![1], values }
    }

    #[test]
    fn base64_is_as_python_writes_it() {
        for (bytes, text) in [("", ""), ("a", "YQ=="), ("ab", "YWI="), ("abc", "YWJj"), ("abcd", "YWJjZA==")]
        {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
        assert_eq!(base64(&f64::NAN.to_le_bytes()), "AAAAAAAA+H8=");
    }

    #[test]
    fn a_missing_value_is_written_by_the_type_of_the_array() {
        let float = array(Number::F32, &f32::NAN.to_le_bytes());
        assert_eq!(missing(&Dtype::native(Number::F32), &float), Some("AAAAAAAA+H8=".into()));
        let whole = array(Number::F64, &(-5.0f64).to_le_bytes());
        assert_eq!(missing(&Dtype::native(Number::I16), &whole), Some((-5).into()));
        let half = array(Number::F64, &0.5f64.to_le_bytes());
        assert_eq!(missing(&Dtype::native(Number::I16), &half), None);
    }

    #[test]
    fn axes_without_names_get_one_by_length() {
        let mut named = Variable::new("a", Dtype::native(Number::U8), vec![4, 3]);
        named.dimensions = vec!["time".into(), String::new()];
        let plain = Variable::new("b", Dtype::native(Number::U8), vec![3, 3]);
        let names = dimension_names(&[(&named, vec![4, 3]), (&plain, vec![3, 3])]);
        assert_eq!(names, [["time", "phony_dim_0"], ["phony_dim_0", "phony_dim_1"]]);
    }
}
