//! How the stored numbers of one variable become values.

use forebay_process::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use super::missing_values::MissingValues;
use crate::{
    Number,
    cf::{Factor, Missing, NOT_A_TIME, Packing, TimeUnits, ValueKind},
    container::variable::Variable,
    values::{
        cast::{CastNumber, pass, with_element},
        scalar::Scalar,
    },
};

/// How values are unpacked that follow the CF conventions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unpack {
    /// What becomes of values, missing ones and times.
    pub kind: UnpackKind,
    /// Whether stored numbers outside `valid_range`, `valid_min` and `valid_max` are missing: netCDF4-python says they
    /// are, xarray ignores them, and so do we by default.
    #[serde(default)]
    pub valid: bool,
}

/// What becomes of values, missing ones and times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnpackKind {
    /// Values, NaN where one is missing; times become nanoseconds since 1970, or days since 1970-01-01 of a calendar
    /// that computers do not keep. As xarray decodes.
    Decoded,
    /// The same, but all times become days since 1970-01-01 of their calendar.
    Days,
    /// The same, but times stay numbers.
    Values,
    /// Values, 0 where one is missing, and one more field, called `NAME_mask`, that is true there.
    Masked,
    /// Times alone: a field that has none is refused.
    Time,
}

/// How the stored numbers of one variable of one file become values.
#[derive(Clone, Debug)]
pub struct Unpacker {
    packing: Packing,
    missing: Missing,
    /// True when numbers outside the valid range are missing.
    valid: bool,
    /// True when a mask tells what is missing, of which NaN is one.
    is_masked: bool,
    /// What the values count, where they are times.
    time: Option<TimeUnits>,
    /// What the values stand for.
    kind: ValueKind,
    /// The type they become.
    to: Number,
    /// The units of times that stay numbers.
    units: Option<StoredUnits>,
}

/// What a field's values are once they are unpacked, in all files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unpacked {
    /// Their type.
    pub number: Number,
    /// What they stand for.
    pub kind: ValueKind,
    /// True when a field of its own says which are missing.
    pub has_mask: bool,
}

/// Units of times as they are written, and what they say where that is understood.
#[derive(Clone, Debug)]
struct StoredUnits {
    text: String,
    parsed: Option<TimeUnits>,
}

/// How many units a time is from its date.
enum TimeCount {
    Whole(i128),
    Fraction(f64),
}

impl Unpacker {
    /// How `variable` is unpacked as `unpack` asks; `None` when it holds no plain numbers.
    pub fn of(variable: &Variable, unpack: Unpack) -> Result<Option<Self>> {
        let Some(packing) = Packing::of(variable, unpack.valid)? else {
            return match unpack.kind {
                UnpackKind::Time => {
                    Err(Error::new(ErrorKind::Invalid, format!("{} is no number of time", variable.dtype)))
                }
                _ => Ok(None),
            };
        };
        let is_float = |bound: &Option<Scalar>| matches!(bound, Some(Scalar::Float(_)));
        if unpack.valid && packing.number.is_integer() && packing.valid.iter().any(is_float) {
            let what = format!("a valid range of floats for {}", variable.dtype);
            return Err(Error::new(ErrorKind::Unsupported, what)
                .hint("it ought to be of the stored type; mask_valid=False ignores it"));
        }
        let missing = if unpack.kind == UnpackKind::Masked { Missing::Zero } else { Missing::Nan };
        let (kind, time) = kind_of(variable, unpack.kind, &packing)?;
        let to = match kind {
            ValueKind::Datetime | ValueKind::Timedelta => Number::I64,
            ValueKind::Days(_) => Number::F64,
            ValueKind::Bool | ValueKind::Text | ValueKind::Texts => Number::U8,
            ValueKind::Number => packing.unpacks_to(missing, unpack.valid),
        };
        let units = if unpack.kind == UnpackKind::Values { StoredUnits::of(variable) } else { None };
        let valid = unpack.valid;
        Ok(Some(Self { packing, missing, valid, is_masked: false, time, kind, to, units }))
    }

    /// The type values become.
    pub fn to(&self) -> Number {
        self.to
    }

    /// What values stand for.
    pub fn kind(&self) -> ValueKind {
        self.kind
    }

    /// True when a mask has something to tell.
    pub fn has_mask(&self) -> bool {
        self.missing == Missing::Zero && self.packing.has_missing(self.valid)
    }

    /// Has a mask tell what is missing, as some file of the field asks for.
    pub fn set_masked(&mut self) {
        self.is_masked = true;
    }

    /// Why values of this file and of `first` cannot stand in one field, if they cannot.
    pub fn conflict(&self, first: &Self) -> Option<Error> {
        if self.kind != first.kind {
            let name = |unpacker: &Self| match unpacker.time {
                Some(units) => format!("times of the calendar '{}'", units.calendar()),
                None if unpacker.kind == ValueKind::Bool => "truth values".to_owned(),
                None => "plain numbers".to_owned(),
            };
            let what = format!("holds {}, the first file {}", name(self), name(first));
            return Some(Error::new(ErrorKind::Invalid, what));
        }
        let (Some(own), Some(others)) = (&self.units, &first.units) else { return None };
        let is_same = own.text == others.text || (own.parsed.is_some() && own.parsed == others.parsed);
        let what = format!("counts '{}', the first file '{}'", own.text, others.text);
        let error = || Error::new(ErrorKind::Invalid, what).hint("cf=True or cf='days' count from one date");
        (!is_same).then(error)
    }

    /// True when some stored numbers stand for missing values.
    pub fn has_gaps(&self) -> bool {
        !self.packing.fills.is_empty() || (self.valid && self.packing.has_missing(true))
    }

    /// True when values are the stored numbers of type `stored`, none of them missing.
    pub fn is_idle(&self, stored: Number) -> bool {
        let is_plain = self.kind == ValueKind::Number && !self.packing.is_scaled();
        is_plain && !self.has_gaps() && !self.has_mask() && self.to == stored
    }

    /// Makes values of the stored numbers `from`.
    pub fn run(&self, from: &[u8], to: &mut [u8]) -> Result<()> {
        with_element!(self.packing.number, A => self.run_from::<A>(from, to))
    }

    fn run_from<A: CastNumber>(&self, from: &[u8], to: &mut [u8]) -> Result<()> {
        let gaps = self.gaps::<A>();
        match (self.kind, self.time) {
            (ValueKind::Days(_), Some(units)) => {
                self.days(&gaps, units, from, to);
                return Ok(());
            }
            (_, Some(units)) => return self.times(&gaps, units, from, to),
            (ValueKind::Bool, None) => {
                // NaN is true to NumPy, so a missing one is.
                gaps.each(
                    from,
                    to,
                    |value: A| u8::from(value.to_f64() != 0.0),
                    u8::from(self.gap().is_nan()),
                );
                return Ok(());
            }
            (_, None) => {}
        }
        if self.to == self.packing.number && !self.packing.is_scaled() {
            let gap = A::from_f64(self.gap());
            gaps.each(from, to, |value| value, gap);
            return Ok(());
        }
        match self.to {
            Number::F32 => self.singles(&gaps, from, to),
            Number::F64 => self.floats::<A, f64>(&gaps, from, to),
            Number::F16 => self.floats::<A, half::f16>(&gaps, from, to),
            Number::Bf16 => self.floats::<A, half::bf16>(&gaps, from, to),
            _ => return Err(Error::new(ErrorKind::Bug, "packed numbers become floats")),
        }
        Ok(())
    }

    fn gaps<A: CastNumber>(&self) -> MissingValues<A> {
        MissingValues::of(&self.packing, self.valid, self.is_masked)
    }

    fn gap(&self) -> f64 {
        match self.missing {
            Missing::Nan => f64::NAN,
            Missing::Zero => 0.0,
        }
    }

    /// The factors: where there is none, one that changes nothing. A sum with -0.0 keeps the sign of a zero.
    fn factors(&self) -> (f64, f64) {
        let value = |factor: Option<Factor>, none| factor.map_or(none, |one| one.value);
        (value(self.packing.scale_factor, 1.0), value(self.packing.add_offset, -0.0))
    }

    /// Values that become 32-bit floats, mostly with factors of 32 bits: computed in as many.
    fn singles<A: CastNumber>(&self, gaps: &MissingValues<A>, from: &[u8], to: &mut [u8]) {
        let (scale, offset) = self.factors();
        let (narrow_scale, narrow_offset) =
            (<f32 as CastNumber>::from_f64(scale), <f32 as CastNumber>::from_f64(offset));
        if f64::from(narrow_scale) != scale || f64::from(narrow_offset) != offset {
            return self.floats::<A, f32>(gaps, from, to);
        }
        let unpack = |value: A| pass::<A, f32>(value) * narrow_scale + narrow_offset;
        gaps.each(from, to, unpack, <f32 as CastNumber>::from_f64(self.gap()));
    }

    /// Values that become `B`, rounded to it after each step, as NumPy does.
    fn floats<A: CastNumber, B: CastNumber>(&self, gaps: &MissingValues<A>, from: &[u8], to: &mut [u8]) {
        let (scale, offset) = self.factors();
        let unpack = |value: A| {
            let scaled = B::from_f64(pass::<A, B>(value).to_f64() * scale);
            B::from_f64(scaled.to_f64() + offset)
        };
        gaps.each(from, to, unpack, B::from_f64(self.gap()));
    }

    /// How many units of time a stored number is.
    fn counter<A: CastNumber>(&self) -> impl Fn(A) -> TimeCount {
        let (scale, offset) = self.factors();
        let number = self.packing.unpacks_to(Missing::Nan, self.valid);
        let is_unsigned = !self.packing.number.is_signed_integer();
        let is_scaled = self.packing.is_scaled();
        let scaled = move |value: A| match number {
            Number::F32 => {
                let scaled = <f32 as CastNumber>::from_f64(f64::from(value.to_f32()) * scale);
                f64::from(<f32 as CastNumber>::from_f64(f64::from(scaled) + offset))
            }
            _ => value.to_f64() * scale + offset,
        };
        move |value: A| {
            if is_scaled {
                return TimeCount::Fraction(scaled(value));
            }
            if A::IS_FLOAT {
                return TimeCount::Fraction(value.to_f64());
            }
            let bits = value.to_bits();
            TimeCount::Whole(if is_unsigned { i128::from(bits.cast_unsigned()) } else { i128::from(bits) })
        }
    }

    fn times<A: CastNumber>(
        &self,
        gaps: &MissingValues<A>,
        units: TimeUnits,
        from: &[u8],
        to: &mut [u8],
    ) -> Result<()> {
        let count = self.counter::<A>();
        for (from, to) in from.chunks_exact(size_of::<A>()).zip(to.chunks_exact_mut(8)) {
            let value = A::read(from);
            let time = match count(value) {
                _ if gaps.has(value) => Some(NOT_A_TIME),
                TimeCount::Whole(count) => units.at(count),
                TimeCount::Fraction(count) => units.at_fraction(count),
            };
            let Some(time) = time else {
                let what = format!("the time {} is not between the years 1678 and 2261", value.to_f64());
                let remedy =
                    "cf='days' counts days of any year, of which the Python package cftime makes dates";
                return Err(Error::new(ErrorKind::Unsupported, what).hint(remedy));
            };
            to.copy_from_slice(&time.to_ne_bytes());
        }
        Ok(())
    }

    fn days<A: CastNumber>(&self, gaps: &MissingValues<A>, units: TimeUnits, from: &[u8], to: &mut [u8]) {
        let count = self.counter::<A>();
        let days = |value: A| match count(value) {
            TimeCount::Whole(count) => units.days(count),
            TimeCount::Fraction(count) => units.days_fraction(count),
        };
        gaps.each(from, to, days, self.gap());
    }

    /// Puts 1 where one of the stored numbers `from` is missing, else 0.
    pub fn mask(&self, from: &[u8], to: &mut [u8]) {
        fn mask<A: CastNumber>(unpacker: &Unpacker, from: &[u8], to: &mut [u8]) {
            let gaps = unpacker.gaps::<A>();
            for (from, to) in from.chunks_exact(size_of::<A>()).zip(to) {
                *to = u8::from(gaps.has(A::read(from)));
            }
        }
        with_element!(self.packing.number, A => mask::<A>(self, from, to));
    }
}

impl StoredUnits {
    /// The units of the times in `variable`, if it holds times.
    fn of(variable: &Variable) -> Option<Self> {
        let text = TimeUnits::text_of(variable)?;
        Some(Self { text, parsed: TimeUnits::of(variable).ok().flatten() })
    }
}

/// What the values of `variable` stand for when they are unpacked as `asked`, and what they count where that is time.
fn kind_of(
    variable: &Variable,
    asked: UnpackKind,
    packing: &Packing,
) -> Result<(ValueKind, Option<TimeUnits>)> {
    let plain = if packing.is_bool { ValueKind::Bool } else { ValueKind::Number };
    if asked == UnpackKind::Values {
        return Ok((plain, None));
    }
    if let Some(units) = TimeUnits::of(variable)? {
        let calendar = units.calendar();
        let is_days = asked == UnpackKind::Days || !calendar.is_of_computers();
        return Ok((if is_days { ValueKind::Days(calendar) } else { ValueKind::Datetime }, Some(units)));
    }
    if asked == UnpackKind::Time {
        return Err(Error::new(ErrorKind::Invalid, "no units of time")
            .hint("times have an attribute 'units', such as 'hours since 2000-01-01'"));
    }
    match TimeUnits::of_durations(variable) {
        Some(units) => Ok((ValueKind::Timedelta, Some(units))),
        None => Ok((plain, None)),
    }
}

/// The type that holds numbers of both types, as NumPy's `result_type` says.
pub fn widest(one: Number, other: Number) -> Number {
    if one == other {
        return one;
    }
    let (small, large) = if one.size() <= other.size() { (one, other) } else { (other, one) };
    match (small.is_integer(), large.is_integer()) {
        (false, false) if small.size() == large.size() => Number::F32,
        (false, false) => large,
        (true, false) if small.size() < large.size() => large,
        (true, true) if large.is_signed_integer() && small.size() < large.size() => large,
        (true, true) if !large.is_signed_integer() && !small.is_signed_integer() => large,
        (true, true) => Number::integer(2 * large.size(), true).unwrap_or(Number::F64),
        _ if large.size() <= 2 => Number::F32,
        _ => Number::F64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_widen_as_numpy_widens_them() {
        use Number::{F16, F32, F64, I8, I16, I32, I64, U8, U16, U64};
        let cases = [
            (F32, F64, F64),
            (I16, F32, F32),
            (I32, F32, F64),
            (U8, I8, I16),
            (U8, I16, I16),
            (U16, I8, I32),
            (U64, I64, F64),
            (I16, F16, F32),
            (U8, F16, F16),
            (I64, F16, F64),
        ];
        for (one, other, expected) in cases {
            assert_eq!((widest(one, other), widest(other, one)), (expected, expected), "{one:?} {other:?}");
        }
    }
}
