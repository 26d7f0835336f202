//! What x86-64 has instructions for that the compiler does not choose by itself.
#![expect(unsafe_code, reason = "instructions that not every processor has, used where they are there")]

use std::arch::x86_64::{_MM_FROUND_TO_NEAREST_INT, _mm_storeu_si128, _mm256_cvtps_ph, _mm256_loadu_ps};

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

#[cfg(test)]
mod tests {
    use super::*;

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
