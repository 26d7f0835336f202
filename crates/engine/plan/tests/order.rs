//! Orders: every sample once, by a formula that can be turned round, evenly shuffled and for ever the same.
#![expect(clippy::unwrap_used, reason = "what the tests share is part of the tests")]
#![expect(clippy::cast_possible_truncation, reason = "the sets are small")]

use std::sync::Arc;

use forebay_plan::{
    DEFAULT_LANES, DEFAULT_WINDOW, Groups, ORDER_VERSION, Order, Permutation, Shuffle, sample_seed,
};
use forebay_process::ErrorKind;
use proptest::prelude::*;

fn groups(part_lens: &[u64], group_len: u64) -> Arc<Groups> {
    Arc::new(Groups::new(part_lens, group_len).unwrap())
}

fn order(shuffle: Shuffle, seed: u64, epoch: u64, groups: &Arc<Groups>) -> Order {
    Order::new(shuffle, seed, epoch, Arc::clone(groups)).unwrap()
}

fn samples(order: &Order) -> Vec<u64> {
    (0..order.len()).map(|position| order.sample(position)).collect()
}

/// How many deviations the chi-squared of `counts` lies above what even chances give.
fn excess(counts: &[u64]) -> f64 {
    let expected = counts.iter().sum::<u64>() as f64 / counts.len() as f64;
    let chi_squared: f64 = counts.iter().map(|count| (*count as f64 - expected).powi(2) / expected).sum();
    let freedom = counts.len() as f64 - 1.0;
    (chi_squared - freedom) / (2.0 * freedom).sqrt()
}

/// With even chances and the number of statistics below, 5 deviations would be seen once in some ten
/// thousand choices of keys. The keys are fixed: a test that passes always passes.
const EXCESS_LIMIT: f64 = 5.0;

#[test]
fn a_permutation_up_to_4096_has_every_number_once_and_finds_it_again() {
    for len in 0..=4096 {
        for key in [[0, 0], [1, len], [u64::MAX, 0x0123_4567_89ab_cdef]] {
            let permutation = Permutation::new(len, key);
            let mut seen = vec![false; usize::try_from(len).unwrap()];
            for position in 0..len {
                let value = permutation.at(position);
                assert!(value < len && !seen[value as usize], "{len}: {value} at {position}");
                seen[value as usize] = true;
                assert_eq!(permutation.position(value), position);
            }
        }
    }
}

fn large_len() -> impl Strategy<Value = u64> {
    let near_a_power =
        (12u32..64, -3i64..=3).prop_map(|(bits, off)| (1u64 << bits).saturating_add_signed(off));
    prop_oneof![any::<u64>(), near_a_power, 4097u64..10_000_000, Just(1 << 63), Just(u64::MAX)]
}

proptest! {
    #[test]
    fn a_large_permutation_stays_within_its_length_and_can_be_turned_round(
        len in large_len(), key in any::<[u64; 2]>(), picks in proptest::collection::vec(any::<u64>(), 32)
    ) {
        let permutation = Permutation::new(len, key);
        prop_assert_eq!(permutation.len(), len);
        for pick in picks {
            let position = if len == 0 { pick } else { pick % len };
            let value = permutation.at(position);
            prop_assert!(value < len || len == 0);
            prop_assert_eq!(permutation.position(value), position);
            prop_assert_eq!(permutation.at(permutation.position(position)), position);
        }
    }
}

#[test]
fn a_number_outside_stands_for_itself() {
    for len in [0, 1, 5, 1000] {
        let permutation = Permutation::new(len, [3, 4]);
        assert_eq!((permutation.at(len), permutation.position(len)), (len, len));
        assert_eq!(permutation.at(u64::MAX), u64::MAX);
        assert_eq!(permutation.is_empty(), len == 0);
        let groups = groups(&[len], 2);
        for shuffle in [Shuffle::None, Shuffle::Full, Shuffle::Block { lanes: 2, window: 1 }] {
            let order = order(shuffle, 1, 1, &groups);
            assert_eq!((order.sample(len), order.position(len)), (len, len));
            assert_eq!((order.sample(u64::MAX), order.position(u64::MAX)), (u64::MAX, u64::MAX));
        }
    }
}

#[test]
fn over_many_keys_a_value_is_as_often_at_each_position() {
    for len in [2, 3, 5, 8, 13, 37, 63, 64, 65, 100, 257] {
        for value in [0, 1, len / 2, len - 1] {
            let mut counts = vec![0; len as usize];
            for key in 0..len * 200 {
                counts[Permutation::new(len, [key, 0]).position(value) as usize] += 1;
            }
            let excess = excess(&counts);
            assert!(excess < EXCESS_LIMIT, "{value} of {len}: {excess}");
        }
    }
}

#[test]
fn over_many_keys_neighbours_are_as_often_any_distance_apart() {
    for len in [3, 5, 8, 13, 37, 63, 64, 65, 100, 257] {
        for (first, gap) in [(0, 1), (1, 1), (len / 2, 1), (0, 2), (0, len / 2)] {
            let mut counts = vec![0; len as usize - 1];
            for key in 0..len * 200 {
                let permutation = Permutation::new(len, [key, 1]);
                let (one, other) = (permutation.at(first), permutation.at((first + gap) % len));
                counts[((other + len - one) % len) as usize - 1] += 1;
            }
            let excess = excess(&counts);
            assert!(excess < EXCESS_LIMIT, "{first} and {gap} on, of {len}: {excess}");
        }
    }
}

#[test]
fn within_a_permutation_distances_are_spread_evenly() {
    for len in [1000u64, 4096, 131_072, 1_000_003] {
        for gap in [1, 2, 64, len / 64, len / 2] {
            for key in 0..3 {
                let permutation = Permutation::new(len, [key, 2]);
                let mut counts = [0; 64];
                for position in 0..(len - gap).min(100_000) {
                    let (one, other) = (permutation.at(position), permutation.at(position + gap));
                    counts[((other + len - one) % len * 64 / len) as usize] += 1;
                }
                let excess = excess(&counts);
                assert!(excess < EXCESS_LIMIT, "{gap} apart, of {len}, key {key}: {excess}");
            }
        }
    }
}

#[test]
fn of_few_numbers_every_permutation_is_as_likely() {
    for len in 2..=6u64 {
        let count = (1..=len).product::<u64>();
        let mut counts = vec![0; count as usize];
        for key in 0..count * 100 {
            let permutation = Permutation::new(len, [key, 3]);
            let mut left: Vec<u64> = (0..len).collect();
            let number = (0..len).fold(0, |number, position| {
                let place = left.iter().position(|value| *value == permutation.at(position)).unwrap();
                let number = number * left.len() + place;
                left.remove(place);
                number
            });
            counts[number] += 1;
        }
        let excess = excess(&counts);
        assert!(excess < EXCESS_LIMIT, "{len}: {excess}");
    }
}

#[test]
fn samples_lie_in_groups_that_never_cross_parts() {
    let groups = groups(&[5, 0, 4, 1, 0], 2);
    let ranges = [0..2, 2..4, 4..5, 5..7, 7..9, 9..10];
    assert_eq!((groups.len(), groups.group_count(), groups.group_len()), (10, 6, 2));
    for (group, range) in (0..).zip(ranges) {
        assert_eq!(groups.range(group), range);
        assert!(range.into_iter().all(|sample| groups.group(sample) == Some(group)));
    }
    assert_eq!((groups.group(10), groups.range(6)), (None, 10..10));
}

#[test]
fn a_group_longer_than_any_part_is_the_part() {
    let groups = groups(&[3, 7], u64::MAX);
    assert_eq!((groups.group_count(), groups.group_len()), (2, 7));
    assert_eq!((groups.range(0), groups.range(1)), (0..3, 3..10));
}

#[test]
fn no_groups_and_more_than_can_be_counted_are_refused_or_empty_but_never_a_panic() {
    assert_eq!(Groups::new(&[4], 0).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(Groups::new(&[u64::MAX, 1], 1).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(Groups::new(&[u64::MAX, 1], u64::MAX).unwrap_err().kind(), ErrorKind::Invalid);
    for shuffle in [Shuffle::None, Shuffle::Full, Shuffle::BLOCK] {
        let empty = order(shuffle, 0, 0, &groups(&[], 5));
        assert!(empty.is_empty());
        assert_eq!((empty.sample(0), empty.position(0)), (0, 0));
    }
    for (lanes, window) in [(1, 1), (7, u32::MAX), (u32::MAX, 1), (u32::MAX, u32::MAX)] {
        for group_len in [1, 1000, 1 << 40] {
            let groups = groups(&[u64::MAX - (1 << 41)], group_len);
            let order = order(Shuffle::Block { lanes, window }, 1, 2, &groups);
            for position in [0, 1, 1 << 33, order.len() / 2, order.len() - 1] {
                let sample = order.sample(position);
                assert!(sample < order.len());
                assert_eq!(order.position(sample), position);
            }
        }
    }
    for (lanes, window) in [(1, 0), (0, 0)] {
        let shuffle = Shuffle::Block { lanes, window };
        let error = Order::new(shuffle, 0, 0, groups(&[9], 1)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }
}

fn any_groups() -> impl Strategy<Value = Arc<Groups>> {
    let parts = proptest::collection::vec(0u64..70, 0..12);
    (parts, 1u64..20).prop_map(|(parts, group_len)| groups(&parts, group_len))
}

fn any_shuffle() -> impl Strategy<Value = Shuffle> {
    let block = (1u32..12, 1u32..5).prop_map(|(lanes, window)| Shuffle::Block { lanes, window });
    prop_oneof![Just(Shuffle::None), Just(Shuffle::Full), Just(Shuffle::BLOCK), block.clone(), block]
}

/// The most groups that have been used and will be used again, or are being used, at any position.
fn most_open(order: &Order, groups: &Groups) -> u64 {
    let mut uses = vec![None; groups.group_count() as usize];
    for position in 0..order.len() {
        let group = groups.group(order.sample(position)).unwrap() as usize;
        uses[group] = Some((uses[group].map_or(position, |(first, _)| first), position));
    }
    let mut changes = vec![0i64; order.len() as usize + 1];
    for (first, last) in uses.into_iter().flatten() {
        changes[first as usize] += 1;
        changes[last as usize + 1] -= 1;
    }
    let open = changes.iter().scan(0, |open, change| {
        *open += change;
        Some(*open as u64)
    });
    open.max().unwrap_or(0)
}

proptest! {
    #[test]
    fn an_order_has_every_sample_once_and_finds_it_again(
        groups in any_groups(), shuffle in any_shuffle(), seed in any::<u64>(), epoch in 0u64..100
    ) {
        let order = order(shuffle, seed, epoch, &groups);
        prop_assert_eq!(order.len(), groups.len());
        let samples = samples(&order);
        for (position, sample) in (0..).zip(&samples) {
            prop_assert_eq!(order.position(*sample), position);
        }
        let mut sorted = samples;
        sorted.sort_unstable();
        prop_assert!(sorted.into_iter().eq(0..groups.len()));
    }

    #[test]
    fn a_block_shuffle_keeps_few_groups_open(
        groups in any_groups(), lanes in 1u32..12, window in 1u32..5, seed in any::<u64>()
    ) {
        let order = order(Shuffle::Block { lanes, window }, seed, 3, &groups);
        let most = u64::from(lanes) * u64::from(window);
        let open = most_open(&order, &groups);
        prop_assert!(open <= most, "{} open, {} lanes, windows of {}", open, lanes, window);
    }
}

#[test]
fn a_block_shuffle_uses_a_group_within_one_window() {
    let groups = groups(&[100; 64], 10);
    for (lanes, window) in [(1, 1), (4, 1), (8, 2), (64, 1), (16, 5)] {
        let order = order(Shuffle::Block { lanes, window }, 1, 1, &groups);
        let (lanes, window) = (u64::from(lanes), u64::from(window));
        assert!(most_open(&order, &groups) <= lanes * window);
        for group in 0..groups.group_count() {
            let positions: Vec<u64> = groups.range(group).map(|sample| order.position(sample)).collect();
            let (first, last) = (positions.iter().min().unwrap(), positions.iter().max().unwrap());
            assert!(last - first < lanes * window * 10, "{lanes} lanes, windows of {window}");
            // No short groups and lanes that come out even: each group belongs to one lane, so to one rank.
            assert!(positions.iter().all(|position| position % lanes == first % lanes));
        }
    }
}

#[test]
fn at_most_one_window_per_border_of_lanes_is_shared_by_ranks() {
    let groups = groups(&[105; 67], 10);
    let order = order(Shuffle::Block { lanes: 16, window: 1 }, 1, 1, &groups);
    let shared = (0..groups.group_count()).filter(|group| {
        let mut lanes: Vec<u64> = groups.range(*group).map(|sample| order.position(sample) % 16).collect();
        lanes.sort_unstable();
        lanes.dedup();
        lanes.len() > 1
    });
    // Joined to a ring, the line of groups has as many borders as lanes.
    assert!(shared.count() <= 16);
}

/// How far the positions of each sample are from even over ten parts of the epoch: the largest chi-squared, of 9 degrees
/// of freedom, and the least count.
fn unevenness(part_lens: &[u64], group_len: u64, lanes: u32, window: u32) -> (f64, u64) {
    const SEEDS: u64 = 20_000;
    let groups = groups(part_lens, group_len);
    let len = groups.len();
    let decile = |position: u64| (position * 10 / len) as usize;
    let mut widths = [0u64; 10];
    (0..len).for_each(|position| widths[decile(position)] += 1);
    let mut counts = vec![[0u64; 10]; len as usize];
    for seed in 0..SEEDS {
        let order = order(Shuffle::Block { lanes, window }, seed, 0, &groups);
        for (sample, counts) in (0..len).zip(&mut counts) {
            counts[decile(order.position(sample))] += 1;
        }
    }
    let chi_squared = |counts: &[u64; 10]| -> f64 {
        let cells = counts.iter().zip(widths).map(|(count, width)| {
            let expected = (SEEDS * width) as f64 / len as f64;
            (*count as f64 - expected).powi(2) / expected
        });
        cells.sum()
    };
    let worst = counts.iter().map(chi_squared).fold(0.0, f64::max);
    (worst, counts.iter().flatten().copied().min().unwrap_or(0))
}

#[test]
fn in_a_block_shuffle_of_few_groups_every_sample_comes_as_often_in_every_part_of_an_epoch() {
    // Of 9 degrees of freedom, one in ten thousand is above.
    const LIMIT: f64 = 33.72;
    let layouts: [(&[u64], u64, u32, u32); 5] =
        [(&[50], 8, 4, 1), (&[50], 8, 4, 2), (&[37, 5, 20], 6, 2, 1), (&[41], 5, 6, 1), (&[64], 8, 4, 1)];
    for (part_lens, group_len, lanes, window) in layouts {
        let (worst, least) = unevenness(part_lens, group_len, lanes, window);
        let case = format!("{part_lens:?} in groups of {group_len}, {lanes} lanes, windows of {window}");
        assert!(least > 0, "{case}: a sample never comes in some tenth");
        assert!(worst < LIMIT, "{case}: chi-squared {worst}");
    }
}

#[test]
fn the_default_number_of_lanes_is_one_that_ranks_divide_and_comes_from_the_groups_alone() {
    for (group_count, lanes) in
        [(0, 48), (1, 48), (11, 48), (12, 12), (23, 12), (24, 24), (47, 24), (48, 48), (1_000_000, 48)]
    {
        let groups = groups(&[group_count], 1);
        assert_eq!(groups.default_lanes(), lanes, "{group_count} groups");
        assert_eq!(Shuffle::BLOCK.decided(&groups), Shuffle::Block { lanes, window: DEFAULT_WINDOW });
        let said = Shuffle::Block { lanes, window: DEFAULT_WINDOW };
        assert_eq!(
            samples(&order(Shuffle::BLOCK, 3, 1, &groups))[..group_count.min(99) as usize],
            samples(&order(said, 3, 1, &groups))[..group_count.min(99) as usize]
        );
    }
    for world in [1, 2, 3, 4, 6, 8, 12, 16] {
        assert!(DEFAULT_LANES.is_multiple_of(world), "{world}");
    }
}

#[test]
fn with_fewer_groups_than_lanes_a_block_shuffle_is_a_full_one() {
    let groups = groups(&[100; 7], 50);
    let block = order(Shuffle::Block { lanes: 15, window: 1 }, 8, 2, &groups);
    assert_eq!(samples(&block), samples(&order(Shuffle::Full, 8, 2, &groups)));
    let block = order(Shuffle::Block { lanes: 14, window: 1 }, 8, 2, &groups);
    assert_ne!(samples(&block), samples(&order(Shuffle::Full, 8, 2, &groups)));
}

#[test]
fn epochs_and_seeds_give_other_orders_and_none_gives_the_same() {
    let groups = groups(&[40, 37], 3);
    for shuffle in [Shuffle::Full, Shuffle::Block { lanes: 4, window: 1 }, Shuffle::BLOCK] {
        let mut orders = Vec::new();
        for seed in 0..8 {
            orders.extend((0..8).map(|epoch| samples(&order(shuffle, seed, epoch, &groups))));
        }
        orders.sort_unstable();
        orders.dedup();
        assert_eq!(orders.len(), 64, "{shuffle:?}");
    }
    assert!(samples(&order(Shuffle::None, 5, 6, &groups)).into_iter().eq(0..77));
}

#[test]
fn samples_seeds_and_epochs_give_other_sample_seeds() {
    let mut seeds = Vec::new();
    for seed in 0..16 {
        for epoch in 0..16 {
            seeds.extend((0..256).map(|sample| sample_seed(seed, epoch, sample)));
        }
    }
    // Each of the upper and lower bits is set half of the time: 32768 of 65536, deviation 128.
    for bit in 0..64 {
        let set = seeds.iter().filter(|seed| **seed >> bit & 1 == 1).count();
        assert!(set.abs_diff(32768) < 5 * 128, "bit {bit}: {set}");
    }
    seeds.sort_unstable();
    seeds.dedup();
    assert_eq!(seeds.len(), 65536);
}

// Golden vectors. States saved by users rely on them: a change of one gives ORDER_VERSION a new number.
const PERMUTATION_10: [u64; 10] = [8, 6, 0, 3, 2, 7, 4, 5, 1, 9];
const PERMUTATION_131072: [u64; 10] =
    [45096, 119861, 20175, 4301, 76150, 102075, 32132, 44967, 119500, 115611];
const PERMUTATION_2_TO_63: [u64; 10] = [
    570897689095170392,
    5870038161590110017,
    264727196508044498,
    2505984363671993596,
    2789740084606178983,
    4159745934928280624,
    6421539992580803297,
    4047699874253358287,
    3719321386171143282,
    2606664307678981468,
];
const ORDER_NONE: [u64; 20] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19];
const ORDER_FULL: [u64; 20] = [5, 11, 7, 19, 3, 2, 0, 8, 17, 18, 6, 10, 12, 14, 13, 1, 15, 16, 4, 9];
const ORDER_BLOCK_EVEN: [u64; 20] = [19, 10, 11, 18, 16, 12, 8, 17, 15, 2, 7, 6, 13, 0, 9, 3, 14, 1, 4, 5];
const ORDER_BLOCK_ODD: [u64; 20] = [17, 10, 11, 16, 9, 12, 19, 8, 6, 18, 7, 3, 14, 13, 5, 15, 0, 4, 2, 1];
const SAMPLE_SEEDS: [u64; 3] = [0x0ef6_a53c_f6f8_8117, 0xb487_b6f8_8a40_a890, 0xb226_65a8_340f_69d0];

#[test]
fn the_orders_of_version_2_stay_as_they_are() {
    assert_eq!((ORDER_VERSION, DEFAULT_LANES, DEFAULT_WINDOW), (2, 48, 1));
    let permutation = |len, key| {
        let permutation = Permutation::new(len, key);
        (0..10).map(|position| permutation.at(position)).collect::<Vec<u64>>()
    };
    assert_eq!(permutation(10, [0, 0]), PERMUTATION_10);
    assert_eq!(permutation(131_072, [1, 2]), PERMUTATION_131072);
    assert_eq!(permutation(1 << 63, [u64::MAX, 7]), PERMUTATION_2_TO_63);
    let groups = groups(&[7, 0, 10, 3], 3);
    assert_eq!(samples(&order(Shuffle::None, 42, 1, &groups)), ORDER_NONE);
    assert_eq!(samples(&order(Shuffle::Full, 42, 1, &groups)), ORDER_FULL);
    assert_eq!(samples(&order(Shuffle::Block { lanes: 4, window: 1 }, 42, 1, &groups)), ORDER_BLOCK_EVEN);
    assert_eq!(samples(&order(Shuffle::Block { lanes: 3, window: 2 }, 42, 1, &groups)), ORDER_BLOCK_ODD);
    let seeds = [sample_seed(0, 0, 0), sample_seed(42, 1, 7), sample_seed(u64::MAX, u64::MAX, u64::MAX)];
    assert_eq!(seeds, SAMPLE_SEEDS);
}
