//! Ranks and steps: each position is one rank's, and another number of ranks goes on where one stopped.
#![expect(clippy::unwrap_used, reason = "what the tests share is part of the tests")]
#![expect(clippy::cast_possible_truncation, reason = "the sets are small")]

use std::{collections::BTreeMap, sync::Arc};

use forebay_plan::{Groups, Order, Shard, Shuffle, Steps, StepsSpec, Tail};
use forebay_process::ErrorKind;
use proptest::prelude::*;

const BLOCK: Shuffle = Shuffle::Block { lanes: 840, window: 1 };

fn spec(len: u64, batch: u64) -> StepsSpec {
    StepsSpec { len, start: 0, batch, shard: Shard::default(), tail: Tail::Drop, shuffle: Shuffle::Full }
}

/// The steps of every rank of `world`.
fn ranks(spec: StepsSpec, world: u32) -> Vec<Steps> {
    (0..world).map(|rank| Steps::new(StepsSpec { shard: Shard { rank, world }, ..spec }).unwrap()).collect()
}

fn batch(steps: &Steps, step: u64) -> Vec<Option<u64>> {
    let mut positions = vec![Some(99)];
    steps.positions(step, &mut positions);
    positions
}

/// What all ranks use in `step`, in order of positions.
fn used(ranks: &[Steps], step: u64) -> Vec<u64> {
    let mut used: Vec<u64> = ranks.iter().flat_map(|steps| batch(steps, step)).flatten().collect();
    used.sort_unstable();
    used
}

fn any_shuffle() -> impl Strategy<Value = Shuffle> {
    prop_oneof![Just(Shuffle::None), Just(Shuffle::Full), Just(BLOCK)]
}

fn any_spec() -> impl Strategy<Value = (StepsSpec, u32)> {
    let tail = prop_oneof![Just(Tail::Short), Just(Tail::Drop), Just(Tail::Pad), Just(Tail::Wrap)];
    let counts = (0u64..300, 0u64..300, 1u64..20, 1u32..=8);
    (counts, tail, any_shuffle()).prop_map(|((len, start, batch, world), tail, shuffle)| {
        let world = if tail == Tail::Short { 1 } else { world };
        (StepsSpec { start: start.min(len), tail, shuffle, ..spec(len, batch) }, world)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn together_the_ranks_use_every_position_as_the_tail_says((spec, world) in any_spec()) {
        let ranks = ranks(spec, world);
        let width = u64::from(world) * spec.batch;
        let remaining = spec.len - spec.start;
        let whole = remaining - remaining % width;
        let step_count = if spec.tail == Tail::Drop { whole / width } else { remaining.div_ceil(width) };
        let mut uses = BTreeMap::new();
        for step in 0..step_count {
            for position in used(&ranks, step) {
                *uses.entry(position).or_insert(0) += 1;
            }
        }
        let missing = step_count * width - remaining.min(step_count * width);
        let mut expected: BTreeMap<u64, u64> = match spec.tail {
            Tail::Drop => (spec.start..spec.start + whole).map(|position| (position, 1)).collect(),
            _ => (spec.start..spec.len).map(|position| (position, 1)).collect(),
        };
        if spec.tail == Tail::Wrap {
            for filler in 0..missing {
                *expected.entry(filler % spec.len).or_insert(0) += 1;
            }
        }
        prop_assert_eq!(uses, expected);
        for steps in &ranks {
            prop_assert_eq!(steps.step_count(), step_count);
            prop_assert!(batch(steps, step_count).is_empty());
        }
    }

    #[test]
    fn batches_are_whole_but_for_the_last_and_its_empty_slots_come_last((spec, world) in any_spec()) {
        let ranks = ranks(spec, world);
        for steps in &ranks {
            for step in 0..steps.step_count() {
                let batch = batch(steps, step);
                let valid = batch.iter().take_while(|position| position.is_some()).count() as u64;
                let last = step + 1 == steps.step_count();
                prop_assert_eq!(batch.iter().flatten().count() as u64, valid);
                match spec.tail {
                    Tail::Short if last => prop_assert!(batch.len() as u64 == valid && valid <= spec.batch),
                    Tail::Pad if last => prop_assert_eq!(batch.len() as u64, spec.batch),
                    _ => prop_assert!(batch.len() as u64 == valid && valid == spec.batch),
                }
            }
        }
        // Dealt one by one, no rank has two more than another.
        if let Some(last) = ranks[0].step_count().checked_sub(1) {
            let counts = ranks.iter().map(|steps| batch(steps, last).iter().flatten().count());
            prop_assert!(counts.clone().max().unwrap() - counts.min().unwrap() <= 1);
        }
    }

    #[test]
    fn the_step_of_a_position_is_the_one_that_has_it((spec, world) in any_spec()) {
        // A padded tail deals as a wrapped one does, and repeats nothing.
        let tail = if spec.tail == Tail::Wrap { Tail::Pad } else { spec.tail };
        for (steps, unwrapped) in ranks(spec, world).into_iter().zip(ranks(StepsSpec { tail, ..spec }, world)) {
            let mut step_of = BTreeMap::new();
            for step in 0..steps.step_count() {
                let (batch, fresh) = (batch(&steps, step), batch(&unwrapped, step));
                let fresh: Vec<u64> = fresh.into_iter().flatten().collect();
                prop_assert!(batch.iter().flatten().zip(&fresh).all(|(one, other)| one == other));
                step_of.extend(fresh.into_iter().map(|position| (position, step)));
            }
            for position in 0..spec.len + 3 {
                prop_assert_eq!(steps.step_of(position), step_of.get(&position).copied());
            }
        }
    }

    #[test]
    fn what_is_consumed_grows_by_a_step_up_to_the_length((spec, world) in any_spec()) {
        let width = u64::from(world) * spec.batch;
        for steps in ranks(spec, world) {
            for step in 0..steps.step_count() {
                prop_assert_eq!(steps.consumed_after(step), (spec.start + (step + 1) * width).min(spec.len));
            }
            let end = steps.step_count().checked_sub(1).map_or(spec.start, |last| steps.consumed_after(last));
            prop_assert_eq!(steps.consumed_after(u64::MAX), end);
        }
    }

    #[test]
    fn another_number_of_ranks_goes_on_with_the_same_sequence(
        worlds in proptest::array::uniform3(1u32..=8), stops in proptest::array::uniform2(0u64..6),
        len in 0u64..500, batches in proptest::array::uniform3(1u64..9), shuffle in any_shuffle()
    ) {
        let (sequence, _) = run(len, shuffle, worlds, batches, stops);
        prop_assert!(sequence.into_iter().eq(0..len));
    }

    #[test]
    fn in_a_block_shuffle_a_rank_keeps_to_its_lanes(
        world in 1u32..=8, len in 0u64..300, start in 0u64..300, size in 1u64..20
    ) {
        let spec = StepsSpec { start: start.min(len), tail: Tail::Pad, shuffle: BLOCK, ..spec(len, size) };
        for (rank, steps) in (0..).zip(ranks(spec, world)) {
            for step in 0..steps.step_count() {
                prop_assert!(batch(&steps, step).into_iter().flatten().all(|at| at % u64::from(world) == rank));
            }
        }
    }
}

/// Goes through an epoch with three worlds, the first two for `stops` steps: the positions in the order of
/// the steps, within a step in their own order, and where each step ended.
fn run(
    len: u64,
    shuffle: Shuffle,
    worlds: [u32; 3],
    batches: [u64; 3],
    stops: [u64; 2],
) -> (Vec<u64>, Vec<u64>) {
    let (mut sequence, mut ends) = (Vec::new(), Vec::new());
    let mut consumed = 0;
    for part in 0..3 {
        let ranks = ranks(
            StepsSpec { start: consumed, tail: Tail::Pad, shuffle, ..spec(len, batches[part]) },
            worlds[part],
        );
        let step_count = ranks[0].step_count().min(stops.get(part).copied().unwrap_or(u64::MAX));
        for step in 0..step_count {
            sequence.extend(used(&ranks, step));
            consumed = ranks[0].consumed_after(step);
            ends.push(consumed);
            assert_eq!(sequence.len() as u64, consumed);
        }
    }
    (sequence, ends)
}

#[test]
fn one_then_three_then_two_ranks_see_the_samples_one_alone_sees() {
    let groups = Arc::new(Groups::new(&[61, 47, 93], 4).unwrap());
    for shuffle in [Shuffle::None, Shuffle::Full, Shuffle::Block { lanes: 12, window: 2 }] {
        let order = Order::new(shuffle, 5, 6, Arc::clone(&groups)).unwrap();
        let samples = |positions: &[u64]| positions.iter().map(|at| order.sample(*at)).collect::<Vec<u64>>();
        let (alone, _) = run(201, shuffle, [1, 1, 1], [7, 7, 7], [0, 0]);
        let (shared, ends) = run(201, shuffle, [1, 3, 2], [7, 5, 8], [4, 5]);
        assert_eq!(samples(&alone), samples(&shared));
        assert_eq!(ends[..9], [7, 14, 21, 28, 43, 58, 73, 88, 103]);
        let mut start = 0;
        for end in ends {
            let window = start as usize..end as usize;
            let (mut one, mut other) = (samples(&alone[window.clone()]), samples(&shared[window]));
            one.sort_unstable();
            other.sort_unstable();
            assert_eq!(one, other);
            start = end;
        }
        let mut all = samples(&shared);
        all.sort_unstable();
        assert!(all.into_iter().eq(0..201));
    }
}

#[test]
fn ranks_take_runs_or_under_a_block_shuffle_remainders() {
    let spec = StepsSpec { start: 1, tail: Tail::Pad, ..spec(17, 3) };
    let runs = ranks(spec, 2);
    assert_eq!(batch(&runs[1], 0), [Some(4), Some(5), Some(6)]);
    assert_eq!(batch(&runs[0], 2), [Some(13), Some(15), None]);
    assert_eq!(batch(&runs[1], 2), [Some(14), Some(16), None]);
    let remainders = ranks(StepsSpec { shuffle: BLOCK, ..spec }, 2);
    assert_eq!(batch(&remainders[1], 0), [Some(1), Some(3), Some(5)]);
    assert_eq!(batch(&remainders[0], 2), [Some(14), Some(16), None]);
}

#[test]
fn a_wrapped_tail_begins_the_epoch_again_as_often_as_it_must() {
    let ranks = ranks(StepsSpec { tail: Tail::Wrap, ..spec(3, 4) }, 2);
    assert_eq!(batch(&ranks[0], 0), [0, 2, 1, 0].map(Some));
    assert_eq!(batch(&ranks[1], 0), [1, 0, 2, 1].map(Some));
}

#[test]
fn what_makes_no_sense_is_refused_with_a_remedy() {
    let shard = |rank, world| Shard { rank, world };
    let good = spec(10, 2);
    let block = |lanes| Shuffle::Block { lanes, window: 1 };
    let cases = [
        (StepsSpec { shard: shard(0, 0), ..good }, "world=1"),
        (StepsSpec { shard: shard(2, 2), ..good }, "0 to 1"),
        (StepsSpec { batch: 0, ..good }, "at least 1"),
        (StepsSpec { batch: u64::MAX, ..good }, "at most"),
        (StepsSpec { start: 11, ..good }, "resume with the data set"),
        (StepsSpec { tail: Tail::Short, shard: shard(1, 2), ..good }, "'drop', 'pad' or 'wrap'"),
        (StepsSpec { shuffle: block(48), shard: shard(1, 5), ..good }, "a multiple of 5, such as 50"),
        (StepsSpec { shuffle: block(0), ..good }, "set lanes"),
    ];
    for (spec, remedy) in cases {
        let error = Steps::new(spec).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains(remedy), "{error}");
    }
}

#[test]
fn numbers_at_their_limits_do_not_panic() {
    let shard = Shard { rank: u32::MAX - 1, world: u32::MAX };
    for (len, start) in [(0, 0), (u64::MAX, 0), (u64::MAX, u64::MAX - 1), (u64::MAX, u64::MAX)] {
        for (batch, shuffle) in
            [(1, Shuffle::Full), (1, Shuffle::Block { lanes: u32::MAX, window: 1 }), (1 << 32, Shuffle::None)]
        {
            for tail in [Tail::Drop, Tail::Pad, Tail::Wrap] {
                let steps = Steps::new(StepsSpec { len, start, batch, shard, tail, shuffle }).unwrap();
                let last = steps.step_count().saturating_sub(1);
                assert!(steps.consumed_after(last) <= len && steps.consumed_after(u64::MAX) <= len);
                let _ = (steps.step_of(0), steps.step_of(u64::MAX), steps.step_of(u64::MAX - 1));
                if batch == 1 {
                    let mut positions = Vec::new();
                    steps.positions(last, &mut positions);
                    steps.positions(u64::MAX, &mut positions);
                }
            }
        }
    }
}
