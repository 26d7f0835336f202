//! How often values occur, in buckets whose width is a part of the value: for quantiles of known relative error.

/// Bits of a value's mantissa that tell buckets apart.
const KEPT_BITS: u32 = 11;
/// Bits that they leave out of a 32-bit float.
const LOST_BITS: u32 = 23 - KEPT_BITS;
/// Buckets of a page, of which there are only those that are used.
const PAGE: usize = 256;

/// Counts of values by the upper bits of their 32-bit float: whole numbers below 4096 have a bucket each, and others one that is
/// 1/2048 of them wide. Counts add up to the same in any order.
#[derive(Clone, Debug, Default)]
pub(crate) struct ValueHistogram {
    pages: Vec<Option<Box<[u64; PAGE]>>>,
}

impl ValueHistogram {
    /// Counts `value`, unless it is NaN.
    pub(crate) fn add(&mut self, value: f32) {
        if !value.is_nan() {
            *self.bucket(place(value)) += 1;
        }
    }

    /// Counts what `other` counted.
    pub(crate) fn merge(&mut self, other: &Self) {
        for (number, page) in other.pages.iter().enumerate() {
            for (at, count) in
                page.iter().flat_map(|page| page.iter().enumerate()).filter(|(_, count)| **count > 0)
            {
                *self.bucket(number * PAGE + at) += count;
            }
        }
    }

    /// The least value that `part` of all values do not exceed, rounded towards zero by at most 1/2048 of it; NaN where there is
    /// none.
    pub(crate) fn quantile(&self, part: f64) -> f64 {
        let counts =
            || self.pages.iter().enumerate().filter_map(|(number, page)| Some((number, page.as_ref()?)));
        let total: u64 = counts().map(|(_, page)| page.iter().sum::<u64>()).sum();
        let rank = (part * total as f64).ceil().max(1.0);
        let mut before = 0u64;
        for (number, page) in counts() {
            for (at, count) in page.iter().enumerate() {
                before += count;
                if *count > 0 && before as f64 >= rank {
                    return f64::from(value_at(number * PAGE + at));
                }
            }
        }
        f64::NAN
    }

    fn bucket(&mut self, place: usize) -> &mut u64 {
        let (number, at) = (place / PAGE, place % PAGE);
        if self.pages.len() <= number {
            self.pages.resize(number + 1, None);
        }
        &mut self.pages[number].get_or_insert_with(|| Box::new([0; PAGE]))[at]
    }
}

/// The bucket of `value`: buckets are in the order of their values.
fn place(value: f32) -> usize {
    // Zeros of both signs are one value.
    let bits = (value + 0.0).to_bits();
    let magnitude = (bits & 0x7fff_ffff) >> LOST_BITS;
    let middle = 1 << (31 - LOST_BITS);
    let place = if bits >> 31 == 1 { middle - magnitude } else { middle + magnitude };
    place as usize
}

/// The value of the bucket at `place` that is nearest to zero.
fn value_at(place: usize) -> f32 {
    let middle = 1usize << (31 - LOST_BITS);
    let magnitude = u32::try_from(place.abs_diff(middle)).unwrap_or(0);
    let value = f32::from_bits(magnitude << LOST_BITS);
    if place < middle { -value } else { value }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_in_the_order_of_values_and_small_whole_numbers_are_exact() {
        let values =
            [f32::NEG_INFINITY, -1e30, -3.0, -1e-20, 0.0, 1e-20, 0.5, 1.0, 4095.0, 1e30, f32::INFINITY];
        assert!(values.windows(2).all(|pair| place(pair[0]) < place(pair[1])));
        for whole in -4095i16..4096 {
            assert_eq!(value_at(place(f32::from(whole))), f32::from(whole));
        }
        assert_eq!(place(-0.0), place(0.0));
    }

    #[test]
    fn quantiles_are_those_of_the_sorted_values_but_for_the_width_of_a_bucket() {
        let mut values: Vec<f32> = (0..5000u16).map(|n| (f32::from(n) * 0.7).sin() * 250.0).collect();
        let mut parts = [ValueHistogram::default(), ValueHistogram::default()];
        for (n, value) in values.iter().enumerate() {
            parts[n % 2].add(*value);
        }
        let [mut all, other] = parts;
        all.merge(&other);
        values.sort_by(f32::total_cmp);
        for (part, rank) in [(0.0, 1), (0.01, 50), (0.25, 1250), (0.5, 2500), (0.99, 4950), (1.0, 5000)] {
            let (found, right) = (all.quantile(part), f64::from(values[rank - 1]));
            assert!((found - right).abs() <= right.abs() / 2048.0, "{part}: {found} for {right}");
        }
        assert!(ValueHistogram::default().quantile(0.5).is_nan());
    }
}
