//! Numbers that the CF conventions pack, on their way into a batch. Each file has factors of its own.

use forebay_format::{
    Number, Scalar, Variable,
    cf::{Missing, NOT_A_TIME, Packing, TimeUnits},
};
use forebay_source::{Error, ErrorKind, Result};

use crate::{
    convert::{Element, pass, with_element},
    spec::{Unpack, UnpackKind},
};

/// How the stored numbers of one variable of one file become values.
#[derive(Clone, Debug)]
pub(crate) struct Unpacker {
    packing: Packing,
    missing: Missing,
    /// True when numbers outside the valid range are missing.
    valid: bool,
    /// True when a mask tells what is missing, of which NaN is one.
    is_masked: bool,
    /// What the values count, where they are times.
    time: Option<TimeUnits>,
    /// The type they become.
    to: Number,
}

/// What a field's values are once they are unpacked, in all files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unpacked {
    pub(crate) number: Number,
    /// True when they are nanoseconds since 1970.
    pub(crate) is_time: bool,
    /// True when a field of its own tells which are missing.
    pub(crate) has_mask: bool,
}

impl Unpacker {
    /// How `variable` is unpacked as `unpack` asks; `None` when it holds no plain numbers.
    pub(crate) fn of(variable: &Variable, unpack: Unpack) -> Result<Option<Self>> {
        let Some(packing) = Packing::of(variable)? else {
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
                .hint("it ought to be of the stored type; leave it unheeded with mask_valid=False"));
        }
        let time = match unpack.kind {
            UnpackKind::Values => None,
            _ => TimeUnits::of(variable)?,
        };
        if unpack.kind == UnpackKind::Time && time.is_none() {
            let what = "no units of time";
            return Err(Error::new(ErrorKind::Invalid, what)
                .hint("times have an attribute 'units', such as 'hours since 2000-01-01'"));
        }
        let missing = if unpack.kind == UnpackKind::Masked { Missing::Zero } else { Missing::Nan };
        let to = if time.is_some() { Number::I64 } else { packing.unpacks_to(missing, unpack.valid) };
        Ok(Some(Self { packing, missing, valid: unpack.valid, is_masked: false, time, to }))
    }

    /// The type values become.
    pub(crate) fn to(&self) -> Number {
        self.to
    }

    pub(crate) fn is_time(&self) -> bool {
        self.time.is_some()
    }

    /// True when a mask has something to tell.
    pub(crate) fn has_mask(&self) -> bool {
        self.missing == Missing::Zero && self.packing.has_missing(self.valid)
    }

    /// Has a mask tell what is missing, as some file of the field asks for.
    pub(crate) fn set_masked(&mut self) {
        self.is_masked = true;
    }

    /// True when values are the stored numbers of type `stored`, none of them missing.
    pub(crate) fn is_idle(&self, stored: Number) -> bool {
        let has_gaps = !self.packing.fills.is_empty() || (self.valid && self.packing.has_missing(true));
        self.time.is_none() && !self.packing.is_scaled() && !has_gaps && !self.has_mask() && self.to == stored
    }

    /// Makes values of the stored numbers `from`.
    pub(crate) fn run(&self, from: &[u8], to: &mut [u8]) -> Result<()> {
        with_element!(self.packing.number, A => self.run_from::<A>(from, to))
    }

    fn run_from<A: Element>(&self, from: &[u8], to: &mut [u8]) -> Result<()> {
        let gaps = Gaps::<A>::of(self);
        if let Some(units) = self.time {
            return self.times(&gaps, units, from, to);
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

    fn gap(&self) -> f64 {
        match self.missing {
            Missing::Nan => f64::NAN,
            Missing::Zero => 0.0,
        }
    }

    /// The factors: where there is none, one that changes nothing. A sum with -0.0 keeps the sign of a zero.
    fn factors(&self) -> (f64, f64) {
        let value = |factor: Option<forebay_format::cf::Factor>, none| factor.map_or(none, |one| one.value);
        (value(self.packing.scale_factor, 1.0), value(self.packing.add_offset, -0.0))
    }

    /// Values that become 32-bit floats, mostly with factors of 32 bits: reckoned in as many.
    fn singles<A: Element>(&self, gaps: &Gaps<A>, from: &[u8], to: &mut [u8]) {
        let (scale, offset) = self.factors();
        let (narrow_scale, narrow_offset) =
            (<f32 as Element>::from_f64(scale), <f32 as Element>::from_f64(offset));
        if f64::from(narrow_scale) != scale || f64::from(narrow_offset) != offset {
            return self.floats::<A, f32>(gaps, from, to);
        }
        let unpack = |value: A| pass::<A, f32>(value) * narrow_scale + narrow_offset;
        gaps.each(from, to, unpack, <f32 as Element>::from_f64(self.gap()));
    }

    /// Values that become `B`, rounded to it after each step, as NumPy does.
    fn floats<A: Element, B: Element>(&self, gaps: &Gaps<A>, from: &[u8], to: &mut [u8]) {
        let (scale, offset) = self.factors();
        let unpack = |value: A| {
            let scaled = B::from_f64(pass::<A, B>(value).to_f64() * scale);
            B::from_f64(scaled.to_f64() + offset)
        };
        gaps.each(from, to, unpack, B::from_f64(self.gap()));
    }

    fn times<A: Element>(&self, gaps: &Gaps<A>, units: TimeUnits, from: &[u8], to: &mut [u8]) -> Result<()> {
        let (scale, offset) = self.factors();
        let number = self.packing.unpacks_to(Missing::Nan, self.valid);
        let is_unsigned = !self.packing.number.is_signed_integer();
        let scaled = |value: A| match number {
            Number::F32 => {
                let scaled = <f32 as Element>::from_f64(f64::from(value.to_f32()) * scale);
                f64::from(<f32 as Element>::from_f64(f64::from(scaled) + offset))
            }
            _ => value.to_f64() * scale + offset,
        };
        for (from, to) in from.chunks_exact(size_of::<A>()).zip(to.chunks_exact_mut(8)) {
            let value = A::read(from);
            let time = if gaps.has(value) {
                Some(NOT_A_TIME)
            } else if self.packing.is_scaled() {
                units.at_fraction(scaled(value))
            } else if A::IS_FLOAT {
                units.at_fraction(value.to_f64())
            } else {
                let bits = value.to_bits();
                units.at(if is_unsigned { i128::from(bits.cast_unsigned()) } else { i128::from(bits) })
            };
            let Some(time) = time else {
                let what = format!("the time {} is not between the years 1678 and 2261", value.to_f64());
                return Err(Error::new(ErrorKind::Unsupported, what).hint(
                    "read numbers with cf='values', and let the Python package cftime make dates of them",
                ));
            };
            to.copy_from_slice(&time.to_ne_bytes());
        }
        Ok(())
    }

    /// Puts 1 where one of the stored numbers `from` is missing, else 0.
    pub(crate) fn mask(&self, from: &[u8], to: &mut [u8]) {
        fn mask<A: Element>(unpacker: &Unpacker, from: &[u8], to: &mut [u8]) {
            let gaps = Gaps::<A>::of(unpacker);
            for (from, to) in from.chunks_exact(size_of::<A>()).zip(to) {
                *to = u8::from(gaps.has(A::read(from)));
            }
        }
        with_element!(self.packing.number, A => mask::<A>(self, from, to));
    }
}

/// Numbers that are unpacked at once: what is read and written stays in the nearest cache.
const BLOCK: usize = 512;

/// Stored numbers that are no values.
struct Gaps<A> {
    fills: Vec<A>,
    /// The least and the greatest value.
    valid: Option<(A, A)>,
    /// True when NaN is no value either.
    nan: bool,
}

impl<A: Element> Gaps<A> {
    fn of(unpacker: &Unpacker) -> Self {
        let number = unpacker.packing.number;
        // A number the stored type cannot hold is never met.
        let fills = unpacker.packing.fills.iter().filter_map(|fill| exact::<A>(number, *fill)).collect();
        let [least, greatest] = unpacker.packing.valid;
        let has_bounds = unpacker.valid && (least.is_some() || greatest.is_some());
        let valid = has_bounds.then(|| bounds(number, least, greatest));
        Self { fills, valid, nan: unpacker.is_masked && A::IS_FLOAT }
    }

    fn has(&self, value: A) -> bool {
        let is_outside = self.valid.is_some_and(|(least, greatest)| !(value >= least && value <= greatest));
        is_outside || self.fills.contains(&value) || (self.nan && value.is_nan())
    }

    /// Unpacks all of `from`, putting `gap` where there is no value.
    ///
    /// All are unpacked first, then gaps are looked for and put right: loops without a branch, which the compiler makes
    /// vectors of (0.4 ns a number, and 0.7 with a choice for each).
    fn each<B: Element>(&self, from: &[u8], to: &mut [u8], unpack: impl Fn(A) -> B, gap: B) {
        let (own, other) = (size_of::<A>(), size_of::<B>());
        for (from, to) in from.chunks(BLOCK * own).zip(to.chunks_mut(BLOCK * other)) {
            let pairs = from.chunks_exact(own).zip(to.chunks_exact_mut(other));
            pairs.for_each(|(from, to)| unpack(A::read(from)).write(to));
            if self.are_among(from) {
                let pairs = from.chunks_exact(own).zip(to.chunks_exact_mut(other));
                pairs.filter(|(from, _)| self.has(A::read(from))).for_each(|(_, to)| gap.write(to));
            }
        }
    }

    /// True when one of `from` is no value.
    fn are_among(&self, from: &[u8]) -> bool {
        let numbers = || from.chunks_exact(size_of::<A>()).map(A::read);
        let is_fill = |fill: &A| numbers().fold(false, |any, value| any | (value == *fill));
        let is_outside = |(least, greatest): (A, A)| {
            numbers().fold(false, |any, value| any | !(value >= least && value <= greatest))
        };
        let has_nan = || numbers().fold(false, |any, value| any | value.is_nan());
        self.fills.iter().any(is_fill) || self.valid.is_some_and(is_outside) || (self.nan && has_nan())
    }
}

/// `value` as a number of type `A`, which is `number`, if it is one.
fn exact<A: Element>(number: Number, value: Scalar) -> Option<A> {
    let whole = match value {
        Scalar::Integer(whole) => Some(whole),
        Scalar::Float(float) => whole_of(float),
    };
    if A::IS_FLOAT {
        let float = value.to_f64();
        return Some(A::from_f64(float)).filter(|one| one.to_f64() == float);
    }
    let (least, greatest) = range(number);
    whole.filter(|whole| (least..=greatest).contains(whole)).map(from_whole)
}

#[expect(clippy::cast_possible_truncation, reason = "floats beyond 128 bits stop at their ends")]
fn whole_of(float: f64) -> Option<i128> {
    (float.fract() == 0.0).then_some(float as i128)
}

/// A whole number within the range of `A`.
#[expect(clippy::cast_possible_truncation, reason = "the low 64 bits are all that an integer in range has")]
fn from_whole<A: Element>(whole: i128) -> A {
    A::from_bits(whole as i64)
}

/// The least and the greatest integer of type `number`.
fn range(number: Number) -> (i128, i128) {
    let bits = 8 * u32::try_from(number.size()).unwrap_or(8);
    match number.is_signed_integer() {
        true => (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1),
        false => (0, (1i128 << bits) - 1),
    }
}

/// The valid range as numbers of type `A`; where nothing is valid, one that holds nothing.
fn bounds<A: Element>(number: Number, least: Option<Scalar>, greatest: Option<Scalar>) -> (A, A) {
    if A::IS_FLOAT {
        let float = |bound: Option<Scalar>, none| A::from_f64(bound.map_or(none, Scalar::to_f64));
        return (float(least, f64::NEG_INFINITY), float(greatest, f64::INFINITY));
    }
    let (first, last) = range(number);
    // Bounds that are floats are refused for integers.
    let whole = |bound: Option<Scalar>, none| match bound {
        Some(Scalar::Integer(whole)) => whole,
        _ => none,
    };
    let (least, greatest) = (whole(least, first).max(first), whole(greatest, last).min(last));
    if least > greatest {
        return (from_whole(last), from_whole(first));
    }
    (from_whole(least), from_whole(greatest))
}

/// The type that holds numbers of both types, as NumPy's `result_type` says.
pub(crate) fn widest(one: Number, other: Number) -> Number {
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

    #[test]
    fn a_missing_value_the_type_cannot_hold_is_never_met() {
        assert_eq!(exact::<i8>(Number::I8, Scalar::Integer(200)), None);
        assert_eq!(exact::<i8>(Number::I8, Scalar::Float(-5.0)), Some(-5));
        assert_eq!(exact::<i8>(Number::I8, Scalar::Float(0.5)), None);
        assert_eq!(exact::<u64>(Number::U64, Scalar::Integer(u64::MAX.into())), Some(u64::MAX));
        assert_eq!(exact::<f32>(Number::F32, Scalar::Float(1e20)), None);
        assert_eq!(exact::<f32>(Number::F32, Scalar::Float(f64::from(1e20f32))), Some(1e20));
    }

    #[test]
    fn a_valid_range_outside_the_type_leaves_nothing() {
        let (least, greatest) = bounds::<u8>(Number::U8, Some(Scalar::Integer(300)), None);
        assert!(least > greatest);
        assert_eq!(bounds::<u8>(Number::U8, Some(Scalar::Integer(-4)), None), (0, 255));
    }
}
