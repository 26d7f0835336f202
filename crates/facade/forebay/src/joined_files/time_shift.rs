//! Times that count from one date, counted from another.

use forebay_container::{
    Array, Number, Scalar, Values, Variable,
    cf::{Packing, TimeUnits},
};
use forebay_process::{Error, ErrorKind, Result};

/// A number that is added to times, so that they count from another date.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TimeShift {
    count: i128,
    /// Numbers that stand for no time, and stay.
    missing: Vec<Scalar>,
}

impl TimeShift {
    /// What makes times of `variable` count from the date of `first`; nothing where they do, and where they are no times.
    pub(super) fn of(variable: &Variable, first: &Variable) -> Result<Option<Self>> {
        if TimeUnits::text_of(variable) == TimeUnits::text_of(first) {
            return Ok(None);
        }
        let (Some(own), Some(of_first)) = (TimeUnits::of(variable)?, TimeUnits::of(first)?) else {
            return Ok(None);
        };
        let count = own.units_since(of_first).ok_or_else(|| {
            let units = [variable, first].map(|one| TimeUnits::text_of(one).unwrap_or_default());
            let what = format!("counts {}, the first file {}", units[0], units[1]);
            let error = Error::new(ErrorKind::Unsupported, what);
            error.hint(
                "times are joined that count the same unit of one calendar, from dates whole units apart",
            )
        })?;
        if count == 0 {
            return Ok(None);
        }
        let packing = Packing::of(variable, false)?;
        if packing.as_ref().is_some_and(Packing::is_scaled) {
            let what = "packed times that count from another date than those of the first file";
            return Err(Error::new(ErrorKind::Unsupported, what));
        }
        Ok(Some(Self { count, missing: packing.map_or_else(Vec::new, |packing| packing.fills) }))
    }

    /// True when `variable` and `first` are times of one unit and calendar, from dates whole units apart, however these are written.
    pub(super) fn is_between(variable: &Variable, first: &Variable) -> bool {
        let units = [variable, first].map(|one| TimeUnits::of(one).ok().flatten());
        units[0].zip(units[1]).is_some_and(|(own, of_first)| own.units_since(of_first).is_some())
    }

    /// Moves all times of `array`.
    pub(super) fn apply(&self, array: &mut Array) -> Result<()> {
        let (Some(number), Values::Fixed(bytes)) = (array.dtype.number(), &mut array.values) else {
            return Err(Error::new(ErrorKind::Unsupported, "times that are no numbers"));
        };
        for element in bytes.chunks_exact_mut(number.size()) {
            let value = Scalar::of(number, element);
            if self.missing.contains(&value) {
                continue;
            }
            let moved = match value {
                Scalar::Integer(value) => integer(number, value + self.count),
                Scalar::Float(value) => float(number, value, self.count),
            };
            let moved = moved.ok_or_else(|| {
                let what = format!("a time cannot be counted from the first file's date in {number:?}");
                Error::new(ErrorKind::Unsupported, what)
            })?;
            element.copy_from_slice(&moved[..element.len()]);
        }
        Ok(())
    }
}

/// The bytes of `value` as `number`, little-endian, where it fits.
fn integer(number: Number, value: i128) -> Option<[u8; 8]> {
    let bits = 8 * u32::try_from(number.size()).ok()?;
    let range = match number.is_signed_integer() {
        true => -(1i128 << (bits - 1))..1i128 << (bits - 1),
        false => 0..1i128 << bits,
    };
    let bytes = value.to_le_bytes();
    range.contains(&value).then(|| [0, 1, 2, 3, 4, 5, 6, 7].map(|at| bytes[at]))
}

/// The bytes of `value` and `count` as `number`; nothing where a narrow float would have to be rounded.
#[expect(clippy::cast_possible_truncation, reason = "what does not stay the same is refused")]
fn float(number: Number, value: f64, count: i128) -> Option<[u8; 8]> {
    let moved = value + count as f64;
    match number {
        Number::F64 => Some(moved.to_le_bytes()),
        Number::F32 => {
            let narrow = moved as f32;
            let is_same = f64::from(narrow) == moved || moved.is_nan();
            let [a, b, c, d] = narrow.to_le_bytes();
            is_same.then_some([a, b, c, d, 0, 0, 0, 0])
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use forebay_container::Dtype;

    use super::*;

    fn moved(number: Number, bytes: &[u8], count: i128) -> Result<Vec<u8>> {
        let shape = vec![(bytes.len() / number.size()) as u64];
        let mut array = Array { dtype: Dtype::native(number), shape, values: Values::Fixed(bytes.to_vec()) };
        TimeShift { count, missing: vec![Scalar::Integer(-1)] }.apply(&mut array)?;
        let Values::Fixed(bytes) = array.values else { return Ok(Vec::new()) };
        Ok(bytes)
    }

    #[test]
    fn times_are_moved_and_missing_ones_stay() {
        let counts = |values: [i16; 3]| values.map(i16::to_le_bytes).concat();
        assert_eq!(moved(Number::I16, &counts([5, -1, 0]), 744).unwrap(), counts([749, -1, 744]));
        let floats = |values: [f64; 2]| values.map(f64::to_le_bytes).concat();
        assert_eq!(moved(Number::F64, &floats([0.5, 6.0]), -24).unwrap(), floats([-23.5, -18.0]));
    }

    #[test]
    fn a_time_that_does_not_fit_its_type_is_refused() {
        assert!(moved(Number::I8, &[120], 10).is_err() && moved(Number::U8, &[3], -4).is_err());
        assert!(moved(Number::F32, &0.1f32.to_le_bytes(), 1 << 40).is_err());
    }
}
