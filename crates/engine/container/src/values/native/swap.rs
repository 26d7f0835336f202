//! The bytes of numbers turned round, as fast as the processor can.
#![cfg_attr(
    target_arch = "x86_64",
    expect(unsafe_code, reason = "instructions that not every processor has, used where they are there")
)]

/// Turns the bytes of each number of `size` bytes round.
pub(super) fn swap(size: usize, elements: &mut [u8]) {
    // Rows of a classic NetCDF file are swapped after each copy: without these instructions at 9 GB/s, which is as slow as
    // the copy itself, with them at memory speed.
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has what the function is compiled for.
        return unsafe { swap_wide(size, elements) };
    }
    swap_plain(size, elements);
}

/// The same, compiled for processors that move single bytes within wide registers.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn swap_wide(size: usize, elements: &mut [u8]) {
    swap_plain(size, elements);
}

#[inline(always)]
fn swap_plain(size: usize, elements: &mut [u8]) {
    macro_rules! each {
        ($number:ty) => {
            for element in elements.as_chunks_mut().0 {
                *element = <$number>::from_le_bytes(*element).to_be_bytes();
            }
        };
    }
    match size {
        2 => each!(u16),
        4 => each!(u32),
        8 => each!(u64),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_every_size_are_turned_round_whatever_the_processor() {
        for size in [1, 2, 4, 8] {
            let numbers: Vec<u8> = (0..=255).cycle().take(size * 77).collect();
            let wanted: Vec<u8> = numbers.chunks(size).flat_map(|one| one.iter().rev().copied()).collect();
            for turn in [swap, swap_plain] {
                let mut turned = numbers.clone();
                turn(size, &mut turned);
                assert_eq!(turned, wanted, "{size}");
            }
        }
    }
}
