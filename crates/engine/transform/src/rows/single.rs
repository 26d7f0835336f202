//! Numbers of any type to and from 32-bit floats, a stretch at a time: simple loops, which the compiler makes vectors of.

use forebay_container::Number;
use half::{bf16, f16, slice::HalfFloatSliceExt};

/// Elements of a stretch: they and what they become stay in the first cache.
pub(crate) const STRETCH: usize = 1024;

/// Evaluates an expression with the Rust type of a number.
macro_rules! with_plain {
    ($number:expr, $kind:ident => $body:expr, $f16:expr, $bf16:expr) => {
        with_plain!(@ $number, $kind, $body, $f16, $bf16, I8 i8, I16 i16, I32 i32, I64 i64, U8 u8, U16 u16, U32 u32,
            U64 u64, F32 f32, F64 f64)
    };
    (@ $number:expr, $kind:ident, $body:expr, $f16:expr, $bf16:expr, $($name:ident $type:ty),*) => {
        match $number {
            $(Number::$name => {
                type $kind = $type;
                $body
            })*
            Number::F16 => $f16,
            Number::Bf16 => $bf16,
        }
    };
}

/// The elements of `from`, at most a stretch of type `number`, as 32-bit floats: each rounded once.
#[expect(
    clippy::cast_possible_truncation,
    clippy::unnecessary_cast,
    reason = "a cast to fewer bits rounds, as said; one of the types is that of the result"
)]
#[inline(always)]
pub(crate) fn load(number: Number, from: &[u8], to: &mut [f32], halves: &mut [f16; STRETCH]) {
    with_plain!(number, T => load_plain(from, to, |bytes| T::from_ne_bytes(bytes) as f32),
        load_halves(from, to, halves), load_plain(from, to, |bytes| bf16::from_ne_bytes(bytes).to_f32()));
}

/// `from` as elements of type `number`: floats round, integers are cut off and stay within their range.
#[expect(clippy::cast_possible_truncation, reason = "a cast to fewer bits rounds or cuts off, as said")]
#[inline(always)]
pub(crate) fn store(number: Number, from: &[f32], to: &mut [u8], halves: &mut [f16; STRETCH]) {
    with_plain!(number, T => store_plain(from, to, |value| (value as T).to_ne_bytes()),
        store_halves(from, to, halves), store_plain(from, to, |value| bf16::from_f32(value).to_ne_bytes()));
}

/// The elements of `from`, of type `number`, less `mean` and by `std`, as 32-bit floats in one pass.
#[expect(
    clippy::cast_possible_truncation,
    clippy::unnecessary_cast,
    reason = "a cast to fewer bits rounds, as said; one of the types is that of the result"
)]
#[inline(always)]
pub(crate) fn normalize(number: Number, from: &[u8], to: &mut [u8], (mean, std): (f32, f32)) {
    with_plain!(number, T => normalize_plain(from, to, |bytes| (T::from_ne_bytes(bytes) as f32 - mean) / std),
        normalize_plain(from, to, |bytes| (f16::from_ne_bytes(bytes).to_f32() - mean) / std),
        normalize_plain(from, to, |bytes| (bf16::from_ne_bytes(bytes).to_f32() - mean) / std));
}

#[inline(always)]
fn normalize_plain<const LEN: usize>(from: &[u8], to: &mut [u8], value: impl Fn([u8; LEN]) -> f32) {
    let (elements, _) = from.as_chunks::<LEN>();
    let (floats, _) = to.as_chunks_mut::<4>();
    for (element, float) in elements.iter().zip(floats) {
        *float = value(*element).to_ne_bytes();
    }
}

#[inline(always)]
fn load_plain<const LEN: usize>(from: &[u8], to: &mut [f32], read: impl Fn([u8; LEN]) -> f32) {
    let (elements, _) = from.as_chunks::<LEN>();
    for (element, to) in elements.iter().zip(to) {
        *to = read(*element);
    }
}

#[inline(always)]
fn store_plain<const LEN: usize>(from: &[f32], to: &mut [u8], write: impl Fn(f32) -> [u8; LEN]) {
    let (elements, _) = to.as_chunks_mut::<LEN>();
    for (element, from) in elements.iter_mut().zip(from) {
        *element = write(*from);
    }
}

/// By the processor's own instruction, where it has one.
fn load_halves(from: &[u8], to: &mut [f32], halves: &mut [f16; STRETCH]) {
    let halves = &mut halves[..to.len()];
    let (elements, _) = from.as_chunks::<2>();
    for (half, element) in halves.iter_mut().zip(elements) {
        *half = f16::from_ne_bytes(*element);
    }
    halves.convert_to_f32_slice(to);
}

fn store_halves(from: &[f32], to: &mut [u8], halves: &mut [f16; STRETCH]) {
    let halves = &mut halves[..from.len()];
    halves.convert_from_f32_slice(from);
    let (elements, _) = to.as_chunks_mut::<2>();
    for (element, half) in elements.iter_mut().zip(halves) {
        *element = half.to_ne_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Number; 12] = [
        Number::I8,
        Number::I16,
        Number::I32,
        Number::I64,
        Number::U8,
        Number::U16,
        Number::U32,
        Number::U64,
        Number::F16,
        Number::Bf16,
        Number::F32,
        Number::F64,
    ];

    #[test]
    fn small_whole_numbers_survive_every_type() {
        let values: Vec<f32> = (0..100u8).map(f32::from).collect();
        let mut halves = [f16::ZERO; STRETCH];
        for number in ALL {
            let mut bytes = vec![0; values.len() * number.size()];
            store(number, &values, &mut bytes, &mut halves);
            let mut back = vec![0.0; values.len()];
            load(number, &bytes, &mut back, &mut halves);
            assert_eq!(back, values, "{number:?}");
        }
    }

    #[test]
    fn halves_round_to_the_nearest_even() {
        let values = [1.0 + 0.5 / 1024.0, 1.0 + 1.5 / 1024.0, 65519.0, 65520.0];
        let (mut bytes, mut halves) = ([0; 8], [f16::ZERO; STRETCH]);
        store(Number::F16, &values, &mut bytes, &mut halves);
        let mut back = [0.0; 4];
        load(Number::F16, &bytes, &mut back, &mut halves);
        assert_eq!(back, [1.0, 1.0 + 2.0 / 1024.0, 65504.0, f32::INFINITY]);
    }
}
