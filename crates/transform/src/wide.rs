//! What x86-64 has instructions for that the compiler does not choose by itself.
#![expect(unsafe_code, reason = "instructions that not every processor has, used where they are there")]

use std::arch::x86_64::{
    _MM_FROUND_TO_NEAREST_INT, _mm_sfence, _mm_storeu_si128, _mm_stream_si128, _mm256_cvtps_ph,
    _mm256_loadu_ps, _mm256_stream_ps,
};

use forebay_container::Number;
use half::{bf16, f16};

use crate::single::with_plain;

/// Numbers that go by one instruction.
const LANES: usize = 8;

/// `from` as 16-bit floats, each rounded to the nearest, of two to the even one.
#[target_feature(enable = "avx2,f16c")]
#[inline]
pub(crate) fn store_halves(from: &[f32], to: &mut [u8]) {
    let (eights, rest) = from.as_chunks::<LANES>();
    let (slots, slots_left) = to.as_chunks_mut::<{ 2 * LANES }>();
    for (eight, slot) in eights.iter().zip(slots) {
        // SAFETY: eight floats are read and sixteen bytes written, which is what both arrays hold; neither need be aligned.
        unsafe {
            let halves = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(_mm256_loadu_ps(eight.as_ptr()));
            _mm_storeu_si128(slot.as_mut_ptr().cast(), halves);
        }
    }
    let (slots, _) = slots_left.as_chunks_mut::<2>();
    for (float, slot) in rest.iter().zip(slots) {
        *slot = f16::from_f32(*float).to_ne_bytes();
    }
}

/// How the numbers of a row are made: less `mean`, by `std`, as 16-bit floats where they are halves and else as 32-bit ones.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Normalized {
    pub(crate) mean: f32,
    pub(crate) std: f32,
    pub(crate) is_half: bool,
}

/// Normalises the elements of `from`, of type `number`, in one pass, past the caches: a store that is not kept in them does not
/// first read what it overwrites. [`let_others_see`] has to follow.
#[expect(
    clippy::cast_possible_truncation,
    clippy::unnecessary_cast,
    reason = "a cast to fewer bits rounds, as said; one of the types is that of the result"
)]
#[target_feature(enable = "avx2,f16c")]
pub(crate) fn stream_normalized(number: Number, from: &[u8], to: &mut [u8], by: Normalized) {
    let Normalized { mean, std, is_half } = by;
    with_plain!(number, T => stream(from, to, is_half, |bytes| (T::from_ne_bytes(bytes) as f32 - mean) / std),
        stream(from, to, is_half, |bytes| (f16::from_ne_bytes(bytes).to_f32() - mean) / std),
        stream(from, to, is_half, |bytes| (bf16::from_ne_bytes(bytes).to_f32() - mean) / std));
}

/// Has all that was streamed be seen by whoever sees what this thread writes next.
pub(crate) fn let_others_see() {
    // SAFETY: every x86-64 processor has the instruction.
    unsafe { _mm_sfence() }
}

#[target_feature(enable = "avx2,f16c")]
#[inline]
fn stream<const LEN: usize>(from: &[u8], to: &mut [u8], is_half: bool, value: impl Fn([u8; LEN]) -> f32) {
    let (elements, _) = from.as_chunks::<LEN>();
    if is_half {
        stream_halves(elements, to, value);
    } else {
        stream_floats(elements, to, value);
    }
}

/// Bytes that one store of eight numbers needs to be a multiple of.
const FLOATS_LEN: usize = 4 * LANES;

#[target_feature(enable = "avx2,f16c")]
#[inline]
fn stream_floats<const LEN: usize>(elements: &[[u8; LEN]], to: &mut [u8], value: impl Fn([u8; LEN]) -> f32) {
    let before = (to.as_ptr().align_offset(FLOATS_LEN) / 4).min(elements.len());
    let (first, elements) = elements.split_at(before);
    let (first_slots, to) = to.split_at_mut(4 * before);
    let one_by_one = |elements: &[[u8; LEN]], slots: &mut [u8]| {
        for (element, slot) in elements.iter().zip(slots.as_chunks_mut::<4>().0) {
            *slot = value(*element).to_ne_bytes();
        }
    };
    one_by_one(first, first_slots);
    let is_aligned = to.as_ptr().align_offset(FLOATS_LEN) == 0;
    let (eights, rest) = if is_aligned { elements.as_chunks::<LANES>() } else { (&[][..], elements) };
    let (slots, rest_slots) = to.split_at_mut(eights.len() * FLOATS_LEN);
    for (eight, slot) in eights.iter().zip(slots.as_chunks_mut::<FLOATS_LEN>().0) {
        let values = eight.map(&value);
        // SAFETY: eight floats are read, and 32 bytes written at an address that is a multiple of 32.
        unsafe { _mm256_stream_ps(slot.as_mut_ptr().cast(), _mm256_loadu_ps(values.as_ptr())) }
    }
    one_by_one(rest, rest_slots);
}

/// Bytes of eight 16-bit floats.
const HALVES_LEN: usize = 2 * LANES;

#[target_feature(enable = "avx2,f16c")]
#[inline]
fn stream_halves<const LEN: usize>(elements: &[[u8; LEN]], to: &mut [u8], value: impl Fn([u8; LEN]) -> f32) {
    let before = (to.as_ptr().align_offset(HALVES_LEN) / 2).min(elements.len());
    let (first, elements) = elements.split_at(before);
    let (first_slots, to) = to.split_at_mut(2 * before);
    let one_by_one = |elements: &[[u8; LEN]], slots: &mut [u8]| {
        for (element, slot) in elements.iter().zip(slots.as_chunks_mut::<2>().0) {
            *slot = f16::from_f32(value(*element)).to_ne_bytes();
        }
    };
    one_by_one(first, first_slots);
    let is_aligned = to.as_ptr().align_offset(HALVES_LEN) == 0;
    let (eights, rest) = if is_aligned { elements.as_chunks::<LANES>() } else { (&[][..], elements) };
    let (slots, rest_slots) = to.split_at_mut(eights.len() * HALVES_LEN);
    for (eight, slot) in eights.iter().zip(slots.as_chunks_mut::<HALVES_LEN>().0) {
        let values = eight.map(&value);
        // SAFETY: eight floats are read, and 16 bytes written at an address that is a multiple of 16.
        unsafe {
            let halves = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(_mm256_loadu_ps(values.as_ptr()));
            _mm_stream_si128(slot.as_mut_ptr().cast(), halves);
        }
    }
    one_by_one(rest, rest_slots);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streamed_numbers_are_those_that_are_made_one_by_one_wherever_a_row_begins() {
        if !std::arch::is_x86_feature_detected!("avx2") || !std::arch::is_x86_feature_detected!("f16c") {
            return;
        }
        let from: Vec<u8> = (0..4 * 101).map(|number| (number * 37 % 251) as u8).collect();
        for (is_half, start, count) in (0..2).flat_map(|half| {
            (0..9).flat_map(move |start| [0, 1, 7, 30, 101].map(|count| (half == 1, start, count)))
        }) {
            let size = if is_half { 2 } else { 4 };
            // Rows begin at every multiple of their element, and once beside one.
            let start = if start == 8 { 3 } else { start * size };
            for number in [Number::U8, Number::I16, Number::F32] {
                let by = Normalized { mean: 3.5, std: 1.75, is_half };
                let mut to = vec![0; start + count * size];
                let from = &from[..count * number.size()];
                // SAFETY: the processor has what the function is compiled for.
                unsafe { stream_normalized(number, from, &mut to[start..], by) };
                let_others_see();
                let mut values = vec![0; 4 * count];
                crate::single::normalize(number, from, &mut values, (3.5, 1.75));
                let one_by_one: Vec<u8> = if is_half {
                    let floats = values.as_chunks::<4>().0.iter().map(|bytes| f32::from_ne_bytes(*bytes));
                    floats.flat_map(|float| f16::from_f32(float).to_ne_bytes()).collect()
                } else {
                    values
                };
                assert!(to[start..] == one_by_one, "{number:?} {is_half} {start} {count}");
            }
        }
    }

    #[test]
    fn halves_are_those_that_are_made_one_by_one() {
        if !std::arch::is_x86_feature_detected!("avx2") || !std::arch::is_x86_feature_detected!("f16c") {
            return;
        }
        let mut floats: Vec<f32> = (0..=u16::MAX).map(|bits| f16::from_bits(bits).to_f32()).collect();
        floats.extend((0..4099u32).map(|number| f32::from_bits(number.wrapping_mul(2_654_435_761))));
        floats.retain(|float| !float.is_nan());
        let mut bytes = vec![0; 2 * floats.len()];
        // SAFETY: the processor has what the function is compiled for.
        unsafe { store_halves(&floats, &mut bytes) };
        let one_by_one: Vec<u8> =
            floats.iter().flat_map(|float| f16::from_f32(*float).to_ne_bytes()).collect();
        assert!(bytes == one_by_one);
    }
}
