//! What stands for a missing value, `_FillValue` in the words of the CF conventions, as xarray keeps it in Zarr.
//!
//! | version | where it is | who else reads it so |
//! |---|---|---|
//! | 2 | the `fill_value` of the array | xarray, by default |
//! | 3 | the attribute `_FillValue`: integers as they are, floats and bytes in base64 | xarray |

use serde_json::Value;

use super::{
    element::{Meaning, ZarrElement},
    text::from_base64,
};
use forebay_container::{Array, Attribute, Dtype, Number, Padding, Values, native};

const FILL_VALUE: &str = "_FillValue";

/// Gives `attributes` the missing value of an array of version 2: its `fill_value`, which is stored as `stored`.
pub(super) fn of_v2(
    attributes: &mut Vec<Attribute>,
    fill_value: &Value,
    stored: &[u8],
    element: &ZarrElement,
) {
    let is_number = matches!(element.dtype, Dtype::Number { .. }) && element.meaning == Meaning::Itself;
    if fill_value.is_null() || !is_number {
        return;
    }
    // Zeros are no bytes at all.
    let mut bytes = if stored.is_empty() { vec![0; element.dtype.stored_len()] } else { stored.to_vec() };
    native::make_native(&element.dtype, &mut bytes);
    let value = Ok(Array { dtype: element.dtype.clone(), shape: vec![], values: Values::Fixed(bytes) });
    attributes.retain(|attribute| attribute.name != FILL_VALUE);
    attributes.push(Attribute { name: FILL_VALUE.into(), value });
    attributes.sort_by(|left, right| left.name.cmp(&right.name));
}

/// Makes a number, or bytes, of the missing value among `attributes` of an array of version 3, where it is in base64.
pub(super) fn of_v3(attributes: &mut [Attribute], element: &ZarrElement) {
    let Some(found) = attributes.iter_mut().find(|attribute| attribute.name == FILL_VALUE) else { return };
    let text = found.value.as_ref().ok().and_then(Array::texts).filter(|texts| texts.len() == 1);
    let Some(bytes) = text.and_then(|texts| from_base64(texts.first()?)) else { return };
    let dtype = match &element.dtype {
        Dtype::Number { number, .. } if !number.is_integer() && bytes.len() == 8 => {
            Dtype::native(Number::F64)
        }
        Dtype::Text { .. } if !bytes.is_empty() => {
            Dtype::Text { len: bytes.len(), padding: Padding::NulPadded, utf8: false }
        }
        _ => return,
    };
    found.value = Ok(Array { dtype, shape: vec![], values: Values::Fixed(bytes) });
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::zarr::attributes;
    use forebay_container::ByteOrder;

    fn of(dtype: &str, given: &Value) -> Option<Array> {
        let element = ZarrElement::of_v3(&json!(dtype), ByteOrder::Little).unwrap();
        let mut all = attributes::of(Some(given), &[]);
        of_v3(&mut all, &element);
        all.pop()?.value.ok()
    }

    #[test]
    fn floats_in_base64_are_numbers() {
        let nan = of("float32", &json!({"_FillValue": "AAAAAAAA+H8="})).unwrap();
        assert_eq!(nan.dtype, Dtype::native(Number::F64));
        let Values::Fixed(bytes) = nan.values else { panic!("not fixed") };
        assert!(f64::from_le_bytes(bytes.try_into().unwrap()).is_nan());
    }

    #[test]
    fn what_is_no_base64_of_a_float_stays_as_it_is() {
        for (dtype, given) in [
            ("float32", json!({"_FillValue": "NaN"})),
            ("float32", json!({"_FillValue": 3.5})),
            ("int16", json!({"_FillValue": -5})),
            ("int16", json!({"_FillValue": "AAAAAAAA+H8="})),
            ("float64", json!({"_FillValue": ["AAAAAAAA+H8=", "AAAAAAAA+H8="]})),
            ("float64", json!({"other": "AAAAAAAA+H8="})),
        ] {
            let untouched = attributes::of(Some(&given), &[]).pop().unwrap().value.unwrap();
            assert_eq!(of(dtype, &given), Some(untouched), "{dtype} {given}");
        }
    }

    #[test]
    fn the_fill_value_of_version_2_stands_before_the_attribute() {
        let element = ZarrElement::of_v2(&json!(">i2")).unwrap();
        let mut all = attributes::of(Some(&json!({"_FillValue": 9, "units": "K"})), &[]);
        of_v2(&mut all, &json!(258), &[1, 2], &element);
        let names: Vec<&str> = all.iter().map(|attribute| attribute.name.as_str()).collect();
        assert_eq!(names, ["_FillValue", "units"]);
        let Values::Fixed(bytes) = &all[0].value.as_ref().unwrap().values else { panic!("not fixed") };
        assert_eq!(*bytes, 258i16.to_ne_bytes());
        let mut none = Vec::new();
        of_v2(&mut none, &Value::Null, &[], &element);
        assert!(none.is_empty());
        of_v2(&mut none, &json!(0), &[], &element);
        assert_eq!(none.len(), 1);
    }
}
