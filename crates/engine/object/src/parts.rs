//! Which requests bring the ranges asked for.

use forebay_source::{ByteRange, coalesce_within};

/// Ranges this near are read as one: a request costs 20 to 50 ms before its first byte, and at 100 MB/s the gap
/// takes 2.6 ms.
const GAP_BYTES: u64 = 256 << 10;

/// Ranges are joined up to this length: a caller that keeps one small part of what was read together keeps all of it.
const RUN_BYTES: u64 = 64 << 20;

/// Longer runs are cut and come side by side: one connection brings 50 to 100 MB/s from the large stores, so a part
/// takes some 0.1 s, and the latency before it is a quarter of that.
const PART_BYTES: u64 = 8 << 20;

/// Runs that cover `ranges`, sorted, each to be held in one piece of memory.
pub(super) fn runs(ranges: &[ByteRange]) -> Vec<ByteRange> {
    coalesce_within(ranges, GAP_BYTES, RUN_BYTES)
}

/// Requests that bring `runs`, none longer than a part ought to be.
pub(super) fn parts(runs: &[ByteRange]) -> Vec<ByteRange> {
    runs.iter().flat_map(|run| cut(*run)).collect()
}

/// Parts of equal length, so that none is left over at the end.
fn cut(run: ByteRange) -> impl Iterator<Item = ByteRange> {
    let count = run.len().div_ceil(PART_BYTES);
    // In 128 bits: a file may say that it is 2^63 bytes long.
    let border = move |index: u64| {
        let offset = u128::from(run.len()) * u128::from(index) / u128::from(count.max(1));
        run.start + u64::try_from(offset).unwrap_or(run.len())
    };
    (0..count).map(move |index| ByteRange { start: border(index), end: border(index + 1) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_their_runs_and_none_is_long() {
        for len in [0, 1, PART_BYTES, PART_BYTES + 1, 3 * PART_BYTES - 1, 64 << 20] {
            let run = ByteRange::at(77, len);
            let parts = parts(&[run]);
            assert_eq!(parts.iter().map(|part| part.len()).sum::<u64>(), len);
            assert!(parts.iter().all(|part| (1..=PART_BYTES).contains(&part.len())), "{len}: {parts:?}");
            assert!(parts.windows(2).all(|pair| pair[0].end == pair[1].start));
            assert_eq!(parts.first().map_or(77, |part| part.start), 77);
        }
    }

    #[test]
    fn near_ranges_share_a_request_and_far_ones_do_not() {
        let ranges = [ByteRange::at(0, 10), ByteRange::at(10 + GAP_BYTES, 5), ByteRange::at(4 << 20, 5)];
        assert_eq!(runs(&ranges), [ByteRange::at(0, 15 + GAP_BYTES), ByteRange::at(4 << 20, 5)]);
    }
}
