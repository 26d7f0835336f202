//! What the attributes of a variable say of its values, by the CF conventions: how numbers are packed, and times.
//!
//! | attribute | what it means |
//! |---|---|
//! | `scale_factor`, `add_offset` | a value is the stored number times the one plus the other |
//! | `_FillValue`, `missing_value` | stored numbers that stand for no value |
//! | `valid_min`, `valid_max`, `valid_range` | stored numbers outside stand for no value |
//! | `_Unsigned` | the stored integers have a sign, or have none, whatever their type says |
//! | `units`, `calendar` | numbers that are times |
//! | `dtype` | what xarray wrote as integers: `bool`, `timedelta64[ns]` |

mod calendar;
mod time;

use forebay_process::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use crate::{
    Number,
    container::variable::Variable,
    values::{array::Array, scalar::Scalar},
};
pub use calendar::Calendar;
pub use time::{NOT_A_TIME, TimeUnits, iso_time};

/// How the numbers of a variable are packed. Types are chosen as xarray's `decode_cf` chooses them, with these
/// differences: missing values are compared as they are stored, so that none slips through because it was rounded
/// first, and factors that are integers count as 64-bit floats.
#[derive(Clone, Debug, PartialEq)]
pub struct Packing {
    /// What stored numbers are: their own type, or the one of the other sign where `_Unsigned` says so.
    pub number: Number,
    /// What they are multiplied by.
    pub scale_factor: Option<Factor>,
    /// What is then added.
    pub add_offset: Option<Factor>,
    /// Stored numbers that stand for no value.
    pub fills: Vec<Scalar>,
    /// True when a missing value is declared, be it NaN, which `fills` leaves out.
    pub declares_fill: bool,
    /// The least and the greatest stored number that is a value. xarray ignores them, netCDF4-python does not.
    pub valid: [Option<Scalar>; 2],
    /// True when the numbers stand for truth values, which xarray writes as integers.
    pub is_bool: bool,
}

/// What values in memory stand for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ValueKind {
    /// Numbers.
    #[default]
    Number,
    /// Truth values, a byte each.
    Bool,
    /// Nanoseconds since 1970, [`NOT_A_TIME`] for none: NumPy's `datetime64[ns]`.
    Datetime,
    /// Nanoseconds, [`NOT_A_TIME`] for none: NumPy's `timedelta64[ns]`.
    Timedelta,
    /// Days since 1970-01-01 of a calendar, with fractions; NaN for none.
    Days(Calendar),
    /// Bytes of texts, UTF-8: each sample is one text, as long as it is.
    Text,
    /// Bytes of texts, UTF-8: each sample is any number of texts, each of which is ended by a NUL.
    Texts,
}

/// A number that values are multiplied by, or that is added.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Factor {
    /// The number.
    pub value: f64,
    /// The type it is stored as, which has a say in the type of unpacked values.
    pub number: Number,
}

/// What becomes of missing values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// They become NaN: integers become floats for it.
    Nan,
    /// They become 0 and are listed in the mask: integers stay what they are.
    Zero,
}

impl Packing {
    /// How `variable` is packed; `None` when it holds neither numbers nor named integers. Its valid range is read, and
    /// must make sense, only where `valid` says that it counts.
    pub fn of(variable: &Variable, valid: bool) -> Result<Option<Self>> {
        let Some(stored) = variable.dtype.number().filter(|_| !variable.dtype.is_bool()) else {
            return Ok(None);
        };
        let turned_to = is_unsigned(variable).filter(|_| stored.is_integer());
        let number =
            turned_to.and_then(|unsigned| Number::integer(stored.size(), !unsigned)).unwrap_or(stored);
        let bounds = if valid { valid_range(variable)? } else { [None; 2] };
        let mut packing = Self {
            number,
            scale_factor: factor(variable, "scale_factor")?,
            add_offset: factor(variable, "add_offset")?,
            fills: Vec::new(),
            declares_fill: false,
            valid: bounds.map(|bound| bound.map(|bound| turned(bound, stored, number))),
            is_bool: variable.text_attribute("dtype").as_deref() == Some("bool"),
        };
        packing.is_bool &= !packing.is_scaled();
        let fills = numbers(variable, "_FillValue")?.unwrap_or_default().into_iter();
        packing.add_fills(fills.map(|(fill, _)| turned(fill, stored, number)).collect());
        let others = numbers(variable, "missing_value")?.unwrap_or_default().into_iter();
        packing.add_fills(others.map(|(value, _)| value).collect());
        Ok(Some(packing))
    }

    fn add_fills(&mut self, fills: Vec<Scalar>) {
        let is_nan = |fill: &Scalar| matches!(fill, Scalar::Float(value) if value.is_nan());
        // No integer is NaN: a file that says so says nothing.
        self.declares_fill |= fills.iter().any(|fill| !is_nan(fill) || !self.number.is_integer());
        let new = fills.into_iter().filter(|fill| !is_nan(fill));
        self.fills.extend(new);
    }

    /// True when some values may be missing; `valid` says whether those outside the valid range are.
    pub fn has_missing(&self, valid: bool) -> bool {
        self.declares_fill || (valid && self.has_bounds())
    }

    fn has_bounds(&self) -> bool {
        self.valid.iter().any(Option::is_some)
    }

    /// True when values are not the stored numbers themselves.
    pub fn is_scaled(&self) -> bool {
        self.scale_factor.is_some() || self.add_offset.is_some()
    }

    /// The type of unpacked values.
    pub fn unpacks_to(&self, missing: Missing, valid: bool) -> Number {
        let can_be_nan = !self.fills.is_empty() || (valid && self.has_bounds());
        if self.is_scaled() {
            // Floats whose missing value is NaN need no other type to hold it.
            let stays = self.declares_fill && !can_be_nan;
            return if stays { self.number } else { self.scaled_number() };
        }
        match self.number.size() {
            _ if !self.number.is_integer() || !can_be_nan || missing == Missing::Zero => self.number,
            1 | 2 => Number::F32,
            _ => Number::F64,
        }
    }

    /// A float that holds scaled values: what the factors are, or more where they and the stored type call for it.
    fn scaled_number(&self) -> Number {
        let float = |factor: Factor| if factor.number.is_integer() { Number::F64 } else { factor.number };
        match (self.scale_factor.map(float), self.add_offset.map(float)) {
            (Some(_), Some(_)) if self.number.is_integer() && self.number.size() == 4 => Number::F64,
            (Some(scale), Some(offset)) if scale == offset && scale.size() >= 4 => scale,
            (Some(scale), None) => scale,
            _ => Number::F64,
        }
    }
}

/// A stored number of type `from` as one of `to`, which differs from it by its sign alone.
fn turned(value: Scalar, from: Number, to: Number) -> Scalar {
    let Scalar::Integer(integer) = value else { return value };
    if from == to {
        return value;
    }
    let span = 1i128 << (8 * from.size());
    let bits = integer.rem_euclid(span);
    Scalar::Integer(if to.is_signed_integer() && bits >= span / 2 { bits - span } else { bits })
}

/// What `_Unsigned` says, as the conventions spell it, as netCDF4-python does, and as a number.
fn is_unsigned(variable: &Variable) -> Option<bool> {
    if let Some(text) = variable.text_attribute("_Unsigned") {
        let is = |word: &str| text.trim().eq_ignore_ascii_case(word);
        return is("true").then_some(true).or_else(|| is("false").then_some(false));
    }
    let found = numbers(variable, "_Unsigned").ok()??;
    found.first().map(|(value, _)| value.to_f64() != 0.0)
}

/// The numbers of the attribute `name`, each with the type it is stored as.
fn numbers(variable: &Variable, name: &str) -> Result<Option<Vec<(Scalar, Number)>>> {
    let Some(attribute) = variable.attributes.iter().find(|attribute| attribute.name == name) else {
        return Ok(None);
    };
    let refuse = |kind, what: String| {
        let error = Error::new(kind, what).at(format!("attribute '{name}'"));
        Err(error.hint("without CF the values are read as they are stored"))
    };
    let array: &Array = match &attribute.value {
        Ok(array) => array,
        Err(why) => return refuse(ErrorKind::Unsupported, why.clone()),
    };
    // JSON has no number for these.
    if let Some(words) = array.texts().and_then(|texts| texts.iter().map(|text| word(text)).collect()) {
        return Ok(Some(words));
    }
    let (Some(number), Some(scalars)) = (array.dtype.number(), array.scalars()) else {
        return refuse(ErrorKind::Invalid, format!("holds {}, not numbers", array.dtype));
    };
    Ok(Some(scalars.into_iter().map(|scalar| (scalar, number)).collect()))
}

/// The float that `text` names where a format has no number for it, as JSON has none.
fn word(text: &str) -> Option<(Scalar, Number)> {
    let float = match text {
        "NaN" => f64::NAN,
        "Infinity" => f64::INFINITY,
        "-Infinity" => f64::NEG_INFINITY,
        _ => return None,
    };
    Some((Scalar::Float(float), Number::F64))
}

fn factor(variable: &Variable, name: &str) -> Result<Option<Factor>> {
    let Some(found) = numbers(variable, name)? else { return Ok(None) };
    let [(value, number)] = found[..] else {
        let what = format!("holds {} numbers instead of one", found.len());
        return Err(Error::new(ErrorKind::Invalid, what).at(format!("attribute '{name}'")));
    };
    Ok(Some(Factor { value: value.to_f64(), number }))
}

fn valid_range(variable: &Variable) -> Result<[Option<Scalar>; 2]> {
    let one = |name: &str| -> Result<Option<Scalar>> {
        Ok(numbers(variable, name)?.and_then(|found| Some(found.first()?.0)))
    };
    let Some(range) = numbers(variable, "valid_range")? else {
        return Ok([one("valid_min")?, one("valid_max")?]);
    };
    let [(least, _), (greatest, _)] = range[..] else {
        let what = format!("holds {} numbers instead of two", range.len());
        return Err(Error::new(ErrorKind::Invalid, what).at("attribute 'valid_range'"));
    };
    Ok([Some(least), Some(greatest)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        container::variable::Attribute,
        dtype::Dtype,
        values::{array::Values, convert},
    };

    fn variable(stored: Number, attributes: &[(&str, Number, &[f64])]) -> Variable {
        let mut variable = Variable::new("t2m", Dtype::native(stored), vec![4]);
        for (name, number, values) in attributes {
            let all = values.iter().flat_map(|value| value.to_ne_bytes()).collect::<Vec<u8>>();
            let bytes = convert::convert(&Dtype::native(Number::F64), &Dtype::native(*number), &all);
            let (dtype, shape) = (Dtype::native(*number), vec![values.len() as u64]);
            let value = Ok(Array { dtype, shape, values: Values::Fixed(bytes) });
            variable.attributes.push(Attribute { name: (*name).to_owned(), value });
        }
        variable
    }

    fn unpacked(stored: Number, attributes: &[(&str, Number, &[f64])]) -> Number {
        let packing = Packing::of(&variable(stored, attributes), false).unwrap().unwrap();
        packing.unpacks_to(Missing::Nan, false)
    }

    #[test]
    fn the_type_follows_the_factors_and_grows_where_they_do_not_agree() {
        use Number::{F32, F64, I16, I32, I64, U8};
        let scale = |number| ("scale_factor", number, &[0.5][..]);
        let offset = |number| ("add_offset", number, &[1.0][..]);
        assert_eq!(unpacked(I16, &[scale(F32), offset(F32)]), F32);
        assert_eq!(unpacked(I32, &[scale(F32), offset(F32)]), F64);
        assert_eq!(unpacked(I16, &[scale(F32), offset(F64)]), F64);
        assert_eq!(unpacked(I16, &[offset(F32)]), F64);
        assert_eq!(unpacked(I32, &[scale(F32)]), F32);
        assert_eq!(unpacked(U8, &[("_FillValue", U8, &[255.0])]), F32);
        assert_eq!(unpacked(I64, &[("missing_value", I64, &[-1.0])]), F64);
        assert_eq!(unpacked(F32, &[("_FillValue", F32, &[f64::NAN]), scale(F64)]), F32);
        assert_eq!(unpacked(I64, &[]), I64);
    }

    #[test]
    fn masked_integers_stay_integers() {
        let packing = Packing::of(&variable(Number::I16, &[("_FillValue", Number::I16, &[-9.0])]), false);
        let packing = packing.unwrap().unwrap();
        assert_eq!(packing.unpacks_to(Missing::Zero, false), Number::I16);
        assert!(packing.has_missing(false));
    }

    #[test]
    fn a_fill_value_of_the_other_sign_has_the_same_bits() {
        assert_eq!(turned(Scalar::Integer(-1), Number::I8, Number::U8), Scalar::Integer(255));
        assert_eq!(turned(Scalar::Integer(200), Number::U8, Number::I8), Scalar::Integer(-56));
        assert_eq!(turned(Scalar::Integer(-1), Number::I64, Number::U64), Scalar::Integer(u64::MAX.into()));
    }

    #[test]
    fn two_factors_for_one_and_a_text_are_refused() {
        let two = variable(Number::I16, &[("scale_factor", Number::F32, &[1.0, 2.0])]);
        assert!(Packing::of(&two, false).unwrap_err().to_string().contains("scale_factor"));
        let mut text = variable(Number::I16, &[]);
        let dtype = Dtype::Text { len: 3, padding: crate::Padding::NulPadded, utf8: false };
        let value = Ok(Array { dtype, shape: vec![], values: Values::Fixed(b"0.1".to_vec()) });
        text.attributes.push(Attribute { name: "add_offset".into(), value });
        assert!(Packing::of(&text, false).unwrap_err().to_string().contains("not numbers"));
    }

    #[test]
    fn a_valid_range_that_makes_no_sense_is_an_error_only_where_it_counts() {
        let three = variable(Number::I16, &[("valid_range", Number::I16, &[1.0, 2.0, 3.0])]);
        assert!(Packing::of(&three, false).unwrap().is_some());
        assert!(Packing::of(&three, true).unwrap_err().to_string().contains("valid_range"));
    }
}
