//! How many elements a shape has.

/// The product of `sizes`, `u64::MAX` when it is greater.
pub fn product(sizes: &[u64]) -> u64 {
    if sizes.contains(&0) {
        return 0;
    }
    sizes.iter().fold(1, |all, n| all.saturating_mul(*n))
}
