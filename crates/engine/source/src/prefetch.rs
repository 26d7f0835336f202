//! Prefetch instructions for memory that is read soon.
#![cfg_attr(
    target_arch = "x86_64",
    expect(unsafe_code, reason = "an instruction that every processor of this kind has")
)]

/// Bytes that memory brings at once.
pub(crate) const LINE: usize = 64;

/// The most lines that are asked for of one run of bytes: by then the processor's own prefetching has begun.
pub(crate) const MOST_LINES: usize = 8;

/// Prefetches the first cache lines of `bytes`.
#[inline]
pub fn prefetch(bytes: &[u8]) {
    for line in bytes.chunks(LINE).take(MOST_LINES) {
        prefetch_line(line.as_ptr());
    }
}

/// Prefetches the cache line at `address`, which may be any.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) fn prefetch_line(address: *const u8) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: a prefetch reads nothing that the program can see and never faults, at any address.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
}

/// No such instruction is known here.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
pub(crate) fn prefetch_line(_: *const u8) {}
