//! What x86-64 has instructions for that the compiler does not choose by itself.
#![expect(unsafe_code, reason = "instructions that not every processor has, used where they are there")]

use std::arch::x86_64::{
    __m256, _MM_FROUND_TO_NEAREST_INT, _mm_loadl_epi64, _mm_loadu_si128, _mm_sfence, _mm_storeu_si128,
    _mm_stream_si128, _mm256_castsi256_ps, _mm256_cvtepi8_epi32, _mm256_cvtepi16_epi32, _mm256_cvtepi32_ps,
    _mm256_cvtepu8_epi32, _mm256_cvtepu16_epi32, _mm256_cvtpd_ps, _mm256_cvtph_ps, _mm256_cvtps_ph,
    _mm256_div_ps, _mm256_loadu_pd, _mm256_loadu_ps, _mm256_loadu_si256, _mm256_set_m128, _mm256_set1_ps,
    _mm256_slli_epi32, _mm256_storeu_ps, _mm256_stream_ps, _mm256_sub_ps,
};

use forebay_container::Number;
use half::f16;

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

/// Numbers less `mean` and by `std`, as 16-bit floats where they are halves and else as 32-bit ones.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Normalized {
    pub(crate) mean: f32,
    pub(crate) std: f32,
    pub(crate) is_half: bool,
}

impl Normalized {
    /// Bytes of a number.
    fn size(self) -> usize {
        if self.is_half { 2 } else { 4 }
    }
}

/// Normalises the elements of `from`, of type `number`, by non-temporal stores, which do not first read what they overwrite; false,
/// and nothing done, where the processor has no instruction for the type or `to` is not aligned. [`store_fence`] has to follow.
///
/// A picture of 3 x 256 x 256 bytes cropped to 224 x 224 and normalised took 39 us in a bare loop, 69 by stores through the caches.
/// The loops are of instructions alone: closures in them were not inlined in builds without link-time optimisation.
#[target_feature(enable = "avx2,f16c")]
pub(crate) fn stream_normalized(number: Number, from: &[u8], to: &mut [u8], by: Normalized) -> bool {
    if to.as_ptr().align_offset(by.size()) != 0 {
        return false;
    }
    match number {
        Number::U8 => stream_u8(from, to, by),
        Number::I8 => stream_i8(from, to, by),
        Number::U16 => stream_u16(from, to, by),
        Number::I16 => stream_i16(from, to, by),
        Number::I32 => stream_i32(from, to, by),
        Number::F16 => stream_f16(from, to, by),
        Number::Bf16 => stream_bf16(from, to, by),
        Number::F32 => stream_f32(from, to, by),
        Number::F64 => stream_f64(from, to, by),
        Number::U32 | Number::I64 | Number::U64 => return false,
    }
    true
}

/// Orders non-temporal stores of this thread before all that it stores next.
pub(crate) fn store_fence() {
    // SAFETY: every x86-64 processor has the instruction.
    unsafe { _mm_sfence() }
}

/// A function that streams elements of one type: `$load` makes 32-bit floats of eight of them at a pointer, each rounded once.
macro_rules! stream_from {
    ($name:ident, $len:literal, $eight:ident => $load:expr) => {
        #[target_feature(enable = "avx2,f16c")]
        fn $name(from: &[u8], to: &mut [u8], by: Normalized) {
            let (mean, std) = (_mm256_set1_ps(by.mean), _mm256_set1_ps(by.std));
            let size = by.size();
            let before = (to.as_ptr().align_offset(LANES * size) / size).min(from.len() / $len);
            let (first, from) = from.split_at($len * before);
            let (first_slots, to) = to.split_at_mut(size * before);
            let (eights, last) = from.as_chunks::<{ $len * LANES }>();
            let (slots, last_slots) = to.split_at_mut(eights.len() * LANES * size);
            for (few, slots) in [(first, first_slots), (last, last_slots)] {
                let mut eight = [0; $len * LANES];
                eight[..few.len()].copy_from_slice(few);
                let $eight = eight.as_ptr();
                // SAFETY: eight elements are read, which is what the array holds.
                let values = unsafe { _mm256_div_ps(_mm256_sub_ps($load, mean), std) };
                slots.copy_from_slice(&in_memory(values, by.is_half)[..slots.len()]);
            }
            if by.is_half {
                for (eight, slot) in eights.iter().zip(slots.as_chunks_mut::<{ 2 * LANES }>().0) {
                    let $eight = eight.as_ptr();
                    // SAFETY: eight elements are read; sixteen bytes are written at a multiple of sixteen.
                    unsafe {
                        let values = _mm256_div_ps(_mm256_sub_ps($load, mean), std);
                        let halves = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(values);
                        _mm_stream_si128(slot.as_mut_ptr().cast(), halves);
                    }
                }
            } else {
                for (eight, slot) in eights.iter().zip(slots.as_chunks_mut::<{ 4 * LANES }>().0) {
                    let $eight = eight.as_ptr();
                    // SAFETY: eight elements are read; 32 bytes are written at a multiple of 32.
                    unsafe {
                        let values = _mm256_div_ps(_mm256_sub_ps($load, mean), std);
                        _mm256_stream_ps(slot.as_mut_ptr().cast(), values);
                    }
                }
            }
        }
    };
}

stream_from!(stream_u8, 1, eight => _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64(eight.cast()))));
stream_from!(stream_i8, 1, eight => _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(eight.cast()))));
stream_from!(stream_u16, 2, eight => _mm256_cvtepi32_ps(_mm256_cvtepu16_epi32(_mm_loadu_si128(eight.cast()))));
stream_from!(stream_i16, 2, eight => _mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(_mm_loadu_si128(eight.cast()))));
stream_from!(stream_i32, 4, eight => _mm256_cvtepi32_ps(_mm256_loadu_si256(eight.cast())));
stream_from!(stream_f16, 2, eight => _mm256_cvtph_ps(_mm_loadu_si128(eight.cast())));
stream_from!(stream_bf16, 2, eight => _mm256_castsi256_ps(_mm256_slli_epi32::<16>(
    _mm256_cvtepu16_epi32(_mm_loadu_si128(eight.cast()))
)));
stream_from!(stream_f32, 4, eight => _mm256_loadu_ps(eight.cast()));
stream_from!(stream_f64, 8, eight => _mm256_set_m128(
    _mm256_cvtpd_ps(_mm256_loadu_pd(eight.add(32).cast())),
    _mm256_cvtpd_ps(_mm256_loadu_pd(eight.cast()))
));

/// Eight numbers as they lie in memory; halves are the first sixteen bytes.
#[target_feature(enable = "avx2,f16c")]
fn in_memory(values: __m256, is_half: bool) -> [u8; 4 * LANES] {
    let mut bytes = [0; 4 * LANES];
    // SAFETY: the array has room for both; neither need be aligned.
    unsafe {
        if is_half {
            _mm_storeu_si128(bytes.as_mut_ptr().cast(), _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(values));
        } else {
            _mm256_storeu_ps(bytes.as_mut_ptr().cast(), values);
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streamed_numbers_are_those_that_are_made_one_by_one_wherever_a_row_begins() {
        if !std::arch::is_x86_feature_detected!("avx2") || !std::arch::is_x86_feature_detected!("f16c") {
            return;
        }
        use Number::{Bf16, F16, F32, F64, I8, I16, I32, U8, U16};
        let by = |is_half| Normalized { mean: 3.5, std: 1.75, is_half };
        for number in [U8, I8, U16, I16, I32, F16, Bf16, F32, F64] {
            let from = floats_as(number, 101);
            for (is_half, start, count) in (0..2).flat_map(|half| {
                (0..8).flat_map(move |start| [0, 1, 7, 30, 101].map(|count| (half == 1, start, count)))
            }) {
                let size = if is_half { 2 } else { 4 };
                let from = &from[..count * number.size()];
                // Memory whose beginning is aligned, as that of batches is.
                let mut to = vec![0u64; 64];
                let to = bytes_of(&mut to)[start * size..(start + count) * size].as_mut();
                // SAFETY: the processor has what the function is compiled for.
                assert!(unsafe { stream_normalized(number, from, to, by(is_half)) });
                store_fence();
                let mut values = vec![0; 4 * count];
                crate::rows::single::normalize(number, from, &mut values, (3.5, 1.75));
                let one_by_one: Vec<u8> = if is_half {
                    let floats = values.as_chunks::<4>().0.iter().map(|bytes| f32::from_ne_bytes(*bytes));
                    floats.flat_map(|float| f16::from_f32(float).to_ne_bytes()).collect()
                } else {
                    values
                };
                assert!(*to == one_by_one, "{number:?} {is_half} {start} {count}");
            }
        }
    }

    /// `count` numbers of type `number`, negative ones and parts of one among them where the type has any.
    fn floats_as(number: Number, count: usize) -> Vec<u8> {
        let floats: Vec<f32> = (0..count).map(|at| (at * 37 % 251) as f32 * 0.75 - 60.0).collect();
        let mut bytes = vec![0; count * number.size()];
        crate::rows::single::store(
            number,
            &floats,
            &mut bytes,
            &mut [f16::ZERO; crate::rows::single::STRETCH],
        );
        bytes
    }

    fn bytes_of(words: &mut [u64]) -> &mut [u8] {
        let len = words.len() * 8;
        // SAFETY: words are bytes, eight each.
        unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), len) }
    }

    #[test]
    fn a_row_that_lies_between_numbers_is_left_to_others() {
        if !std::arch::is_x86_feature_detected!("avx2") || !std::arch::is_x86_feature_detected!("f16c") {
            return;
        }
        let by = Normalized { mean: 0.0, std: 1.0, is_half: false };
        let mut to = vec![7u64; 8];
        let to = &mut bytes_of(&mut to)[1..33];
        let before = to.to_vec();
        // SAFETY: the processor has what the function is compiled for.
        assert!(!unsafe { stream_normalized(Number::U8, &[1; 8], to, by) });
        assert_eq!(*to, before);
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
