//! Counts and lengths of 64 bits as indexes.

const _: () = assert!(usize::BITS >= u64::BITS, "lengths of files are 64 bits, and so are addresses");

/// `n` as an index: no number is lost, as the crate builds for 64-bit machines only.
#[expect(clippy::cast_possible_truncation, reason = "the assertion above says that nothing is cut off")]
pub(crate) const fn to_usize(n: u64) -> usize {
    n as usize
}
