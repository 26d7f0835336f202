//! Numbers cast as NumPy's `astype` casts them, scaled, and their axes put in another order.

use half::{bf16, f16};

use crate::Number;

/// Evaluates an expression with the Rust type of a number.
macro_rules! with_element {
    ($number:expr, $kind:ident => $body:expr) => {
        with_element!(@ $number, $kind, $body, I8 i8, I16 i16, I32 i32, I64 i64, U8 u8, U16 u16, U32 u32, U64 u64,
            F16 half::f16, Bf16 half::bf16, F32 f32, F64 f64)
    };
    (@ $number:expr, $kind:ident, $body:expr, $($name:ident $type:ty),*) => {
        match $number {
            $($crate::Number::$name => {
                type $kind = $type;
                $body
            })*
        }
    };
}
pub(crate) use with_element;

/// A change of number type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cast {
    /// The type before.
    pub from: Number,
    /// The type after.
    pub to: Number,
    /// The factor, and the summand that is added to the product, both applied in 64 bits.
    pub scale: Option<(f64, f64)>,
}

impl Cast {
    /// Converts all of `from` into `to`, as NumPy's `astype` does: integers wrap, floats round.
    ///
    /// A float beyond an integer's range becomes the nearest one there is.
    pub fn run(&self, from: &[u8], to: &mut [u8]) {
        with_element!(self.from, A => self.run_from::<A>(from, to));
    }

    fn run_from<A: CastNumber>(&self, from: &[u8], to: &mut [u8]) {
        with_element!(self.to, B => self.run_pair::<A, B>(from, to));
    }

    fn run_pair<A: CastNumber, B: CastNumber>(&self, from: &[u8], to: &mut [u8]) {
        let pairs = from.chunks_exact(size_of::<A>()).zip(to.chunks_exact_mut(size_of::<B>()));
        match self.scale {
            None => pairs.for_each(|(from, to)| pass::<A, B>(A::read(from)).write(to)),
            Some((factor, add)) => {
                pairs.for_each(|(from, to)| B::from_f64(A::read(from).to_f64() * factor + add).write(to));
            }
        }
    }
}

/// One number type.
pub(crate) trait CastNumber: Copy + PartialOrd {
    const IS_FLOAT: bool;
    const IS_DOUBLE: bool;
    fn read(from: &[u8]) -> Self;
    fn write(self, to: &mut [u8]);
    fn to_bits(self) -> i64;
    fn from_bits(bits: i64) -> Self;
    fn to_f32(self) -> f32;
    fn from_f32(value: f32) -> Self;
    fn to_f64(self) -> f64;
    fn from_f64(value: f64) -> Self;
    fn is_nan(self) -> bool {
        Self::IS_FLOAT && self.to_f64().is_nan()
    }
}

/// One number as another, by the way that rounds once.
pub(crate) fn pass<A: CastNumber, B: CastNumber>(value: A) -> B {
    if B::IS_DOUBLE || A::IS_DOUBLE || (A::IS_FLOAT && !B::IS_FLOAT) {
        B::from_f64(value.to_f64())
    } else if B::IS_FLOAT {
        B::from_f32(value.to_f32())
    } else {
        B::from_bits(value.to_bits())
    }
}

macro_rules! integer {
    ($($kind:ty),*) => {$(
        #[expect(clippy::cast_possible_truncation, reason = "integers wrap when they are cast, as NumPy's do")]
        impl CastNumber for $kind {
            const IS_FLOAT: bool = false;
            const IS_DOUBLE: bool = false;
            fn read(from: &[u8]) -> Self { Self::from_ne_bytes(from.try_into().expect("as many bytes as it has")) }
            fn write(self, to: &mut [u8]) { to.copy_from_slice(&self.to_ne_bytes()); }
            fn to_bits(self) -> i64 { self as i64 }
            fn from_bits(bits: i64) -> Self { bits as Self }
            fn to_f32(self) -> f32 { self as f32 }
            fn from_f32(value: f32) -> Self { value as Self }
            fn to_f64(self) -> f64 { self as f64 }
            fn from_f64(value: f64) -> Self { value as Self }
        }
    )*};
}

macro_rules! float {
    ($($kind:ty, $double:literal, $to_f32:expr, $from_f32:expr, $to_f64:expr, $from_f64:expr;)*) => {$(
        #[expect(clippy::cast_possible_truncation, reason = "a cast to fewer bits rounds")]
        impl CastNumber for $kind {
            const IS_FLOAT: bool = true;
            const IS_DOUBLE: bool = $double;
            fn read(from: &[u8]) -> Self { Self::from_ne_bytes(from.try_into().expect("as many bytes as it has")) }
            fn write(self, to: &mut [u8]) { to.copy_from_slice(&self.to_ne_bytes()); }
            fn to_bits(self) -> i64 { self.to_f64() as i64 }
            fn from_bits(bits: i64) -> Self { Self::from_f64(bits as f64) }
            fn to_f32(self) -> f32 { $to_f32(self) }
            fn from_f32(value: f32) -> Self { $from_f32(value) }
            fn to_f64(self) -> f64 { $to_f64(self) }
            fn from_f64(value: f64) -> Self { $from_f64(value) }
        }
    )*};
}

integer!(i8, i16, i32, i64, u8, u16, u32, u64);
float!(
    f16, false, f16::to_f32, f16::from_f32, f16::to_f64, |value: f64| f16::from_f32(to_odd_f32(value));
    bf16, false, bf16::to_f32, bf16::from_f32, bf16::to_f64, |value: f64| bf16::from_f32(to_odd_f32(value));
    f32, false, |value: f32| value, |value: f32| value, f64::from, |value: f64| value as f32;
    f64, true, |value: f64| value as f32, f64::from, |value: f64| value, |value: f64| value;
);

/// The 32-bit float next to `value` towards zero, its last bit set when that is not `value` itself: rounded once more,
/// to at most half as many bits, it gives what rounding `value` at once would. Crate `half` rounds twice.
#[expect(clippy::cast_possible_truncation, reason = "a cast to fewer bits rounds, which is put right below")]
fn to_odd_f32(value: f64) -> f32 {
    let near = value as f32;
    if !near.is_finite() || f64::from(near) == value {
        return near;
    }
    let is_past = f64::from(near).abs() > value.abs();
    f32::from_bits((near.to_bits() - u32::from(is_past)) | 1)
}

/// Integers of any type as unsigned ones; `None` when one is negative, or the type is a float.
pub fn to_unsigned(number: Number, bytes: &[u8]) -> Option<Vec<u64>> {
    fn all<A: CastNumber>(bytes: &[u8], signed: bool) -> Option<Vec<u64>> {
        let values = bytes.chunks_exact(size_of::<A>()).map(|one| A::read(one).to_bits());
        values
            .map(|bits| if signed { u64::try_from(bits).ok() } else { Some(bits.cast_unsigned()) })
            .collect()
    }
    match number {
        Number::I8 => all::<i8>(bytes, true),
        Number::I16 => all::<i16>(bytes, true),
        Number::I32 => all::<i32>(bytes, true),
        Number::I64 => all::<i64>(bytes, true),
        Number::U8 => all::<u8>(bytes, false),
        Number::U16 => all::<u16>(bytes, false),
        Number::U32 => all::<u32>(bytes, false),
        Number::U64 => all::<u64>(bytes, false),
        Number::F16 | Number::Bf16 | Number::F32 | Number::F64 => None,
    }
}

/// Puts the axes of an array into another order: axis `i` of `to` is axis `axes[i]` of `from`.
pub fn transpose(from: &[u8], shape: &[u64], axes: &[usize], element_len: usize, to: &mut [u8]) {
    let lens: Vec<usize> = shape.iter().map(|len| usize::try_from(*len).unwrap_or(usize::MAX)).collect();
    let mut strides = vec![element_len; lens.len()];
    for axis in (0..lens.len().saturating_sub(1)).rev() {
        strides[axis] = strides[axis + 1] * lens[axis + 1];
    }
    let Some((inner, outer)) = axes.split_last() else { return to.copy_from_slice(from) };
    let (inner_len, inner_stride) = (lens[*inner], strides[*inner]);
    let mut at = vec![0usize; outer.len()];
    for row in to.chunks_exact_mut((inner_len * element_len).max(1)) {
        let start: usize = at.iter().zip(outer).map(|(index, axis)| index * strides[*axis]).sum();
        if inner_stride == element_len {
            row.copy_from_slice(&from[start..start + row.len()]);
        } else {
            for (index, element) in row.chunks_exact_mut(element_len).enumerate() {
                let from_at = start + index * inner_stride;
                element.copy_from_slice(&from[from_at..from_at + element_len]);
            }
        }
        for (index, axis) in at.iter_mut().zip(outer).rev() {
            *index += 1;
            if *index < lens[*axis] {
                break;
            }
            *index = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes<const N: usize>(values: &[[u8; N]]) -> Vec<u8> {
        values.concat()
    }

    #[test]
    fn integers_wrap_and_floats_round_once() {
        let cast = |from, to, bytes: &[u8]| {
            let mut out = vec![0; bytes.len() / Number::size(from) * Number::size(to)];
            Cast { from, to, scale: None }.run(bytes, &mut out);
            out
        };
        assert_eq!(
            cast(Number::I16, Number::U8, &bytes(&[(-1i16).to_ne_bytes(), 257i16.to_ne_bytes()])),
            [255, 1]
        );
        let big = u64::MAX - 1;
        assert_eq!(cast(Number::U64, Number::F32, &big.to_ne_bytes()), (big as f32).to_ne_bytes());
        // Just above the middle between two halves: rounded to 32 bits first, it would fall back to the even one.
        let above = 1.0 + 2f64.powi(-11) + 2f64.powi(-40);
        let expected = f16::from_bits(f16::ONE.to_bits() + 1);
        assert_eq!(cast(Number::F64, Number::F16, &above.to_ne_bytes()), expected.to_ne_bytes());
        assert_eq!(cast(Number::F32, Number::I32, &(-2.9f32).to_ne_bytes()), (-2i32).to_ne_bytes());
        assert_eq!(cast(Number::U64, Number::U32, &(5 + (7u64 << 32)).to_ne_bytes()), 5u32.to_ne_bytes());
    }

    #[test]
    fn scaling_comes_before_rounding() {
        let mut out = [0; 4];
        Cast { from: Number::U8, to: Number::F32, scale: Some((1.0 / 255.0, -0.5)) }.run(&[51], &mut out);
        let expected = 51.0f64 * (1.0 / 255.0) - 0.5;
        assert!((f64::from(f32::from_ne_bytes(out)) - expected).abs() < 1e-7);
    }

    #[test]
    fn axes_change_places() {
        let from: Vec<u8> = (0..24).collect();
        let mut to = vec![0; 24];
        transpose(&from, &[2, 3, 4], &[2, 0, 1], 1, &mut to);
        let expected: Vec<u8> =
            (0..4).flat_map(|c| (0..2).flat_map(move |a| (0..3).map(move |b| a * 12 + b * 4 + c))).collect();
        assert_eq!(to, expected);
    }
}
