//! Subsets and draws: each sample comes exactly as often as said, on every world, after every resume.
#![expect(clippy::unwrap_used, reason = "what the tests share is part of the tests")]
#![expect(clippy::cast_possible_truncation, reason = "the sets are small")]

use std::{collections::BTreeMap, sync::Arc};

use forebay_plan::{
    BucketDraws, Draws, Epoch, Groups, LoaderState, ORDER_VERSION, Plan, PlanSpec, RoundDraws, STATE_VERSION,
    Sampler, SetIdentity, Shard, Shuffle, StateCheck, Subset, Tail, WeightedDraws,
};
use forebay_process::ErrorKind;
use proptest::prelude::*;

/// A set of `len` samples in files of 37 and groups of 8.
fn set_of(len: u64) -> SetIdentity {
    let part_lens = (0..len.div_ceil(37)).map(|part| (len - part * 37).min(37)).collect();
    SetIdentity {
        part_lens,
        group_len: 8,
        numbering: None,
        content: "content".into(),
        version: "version".into(),
    }
}

fn plan(set: &SetIdentity, sampler: &Sampler, shuffle: Shuffle, shard: Shard, batch: u64) -> Plan {
    let seen = sampler.identity(set).unwrap();
    let groups = Arc::new(Groups::new(&seen.part_lens, seen.group_len).unwrap());
    let spec = PlanSpec { shuffle, seed: 7, batch, shard, tail: Some(Tail::Pad) };
    Plan::of_sampler(spec, groups, sampler.clone()).unwrap()
}

/// The samples of all ranks of an epoch from `start` on, and the steps of rank 0's epoch.
fn all_ranks(
    (set, sampler, shuffle): (&SetIdentity, &Sampler, Shuffle),
    (world, batch): (u32, u64),
    (start, steps): (u64, u64),
) -> (Vec<u64>, u64) {
    let (mut samples, mut consumed) = (Vec::new(), start);
    for rank in 0..world {
        let epoch = plan(set, sampler, shuffle, Shard { rank, world }, batch).epoch(3, start).unwrap();
        let mut slots = Vec::new();
        for step in 0..epoch.step_count().min(steps) {
            epoch.batch(step, &mut slots);
            samples.extend(slots.iter().flatten());
            consumed = epoch.consumed_after(step);
        }
        assert_used_where_it_says(&epoch, set.sample_count());
    }
    (samples, consumed)
}

/// Every use of a sample is in a step that `each_step_of` names, and the other way round.
fn assert_used_where_it_says(epoch: &Epoch, sample_count: u64) {
    let (mut uses, mut named) = (BTreeMap::<u64, Vec<u64>>::new(), BTreeMap::new());
    let mut slots = Vec::new();
    for step in 0..epoch.step_count() {
        epoch.batch(step, &mut slots);
        slots.iter().flatten().for_each(|sample| uses.entry(*sample).or_default().push(step));
    }
    for sample in 0..sample_count {
        let mut steps = Vec::new();
        epoch.each_step_of(sample, |step| steps.push(step));
        steps.sort_unstable();
        assert_eq!(epoch.step_of(sample), steps.first().copied());
        if !steps.is_empty() {
            named.insert(sample, steps);
        }
    }
    assert_eq!(uses, named);
}

fn counts(samples: impl IntoIterator<Item = u64>) -> BTreeMap<u64, u64> {
    let mut counts = BTreeMap::new();
    samples.into_iter().for_each(|sample| *counts.entry(sample).or_default() += 1);
    counts
}

/// What `sampler` gives on worlds of 1 to 5, interrupted after some steps and gone on by another world: as often as `wanted`.
fn assert_comes(set: &SetIdentity, sampler: &Sampler, shuffle: Shuffle, wanted: &BTreeMap<u64, u64>) {
    for world in 1..=5u32 {
        let other = 1 + world % 5;
        let what = (set, sampler, shuffle);
        let (mut samples, consumed) = all_ranks(what, (world, 3), (0, 2));
        samples.extend(all_ranks(what, (other, 4), (consumed, u64::MAX)).0);
        assert_eq!(&counts(samples), wanted, "{world} ranks, then {other}");
    }
}

/// Of 60 lanes, whole ones fall to each of 1 to 5 ranks.
const LANES: Shuffle = Shuffle::Block { lanes: 60, window: 1 };
/// A block shuffle of few enough lanes that sets of a few groups have one.
const FEW_LANES: Shuffle = Shuffle::Block { lanes: 2, window: 2 };

fn of(subset: Subset) -> Sampler {
    Sampler { subset: Some(Arc::new(subset)), draws: None }
}

fn drawn(draws: Draws) -> Sampler {
    Sampler { subset: None, draws: Some(Arc::new(draws)) }
}

fn any_subset() -> impl Strategy<Value = (u64, Subset)> {
    (1u64..300).prop_flat_map(|len| {
        let slice = (0..len, -7i64..7, 0u64..50).prop_map(move |(start, step, count)| {
            let step = if step == 0 { 1 } else { step };
            let room =
                if step > 0 { (len - 1 - start) / step.unsigned_abs() } else { start / step.unsigned_abs() };
            (len, Subset::slice(len, start, step, count.min(room + 1)).unwrap())
        });
        let listed = proptest::collection::vec(0..len, 0..200)
            .prop_map(move |samples| (len, Subset::listed(len, samples).unwrap()));
        let mask = proptest::collection::vec(any::<bool>(), len as usize).prop_map(move |mask| {
            let samples = (0..len).zip(mask).filter(|(_, is_in)| *is_in).map(|(sample, _)| sample);
            (len, Subset::listed(len, samples.collect()).unwrap())
        });
        prop_oneof![slice, listed, mask]
    })
}

proptest! {
    #[test]
    fn a_subset_finds_its_samples_again((len, subset) in any_subset()) {
        let samples: Vec<u64> = (0..subset.len()).map(|number| subset.sample(number).unwrap()).collect();
        prop_assert_eq!(subset.sample(subset.len()), None);
        let wanted = counts(samples.iter().copied());
        for sample in 0..len {
            let numbers: Vec<u64> = subset.ranks(sample).map(|rank| subset.by_rank(rank)).collect();
            prop_assert_eq!(numbers.len() as u64, wanted.get(&sample).copied().unwrap_or(0));
            prop_assert!(numbers.iter().all(|number| samples[*number as usize] == sample));
            prop_assert_eq!(subset.has(sample), !numbers.is_empty());
        }
        let again = Subset::listed(len, samples).unwrap();
        prop_assert_eq!(again.digest(), subset.digest());
    }

    #[test]
    fn a_subset_of_a_subset_is_one_of_the_whole((_, outer) in any_subset(), picks in proptest::collection::vec(any::<u64>(), 0..40)) {
        prop_assume!(!outer.is_empty());
        let picks: Vec<u64> = picks.into_iter().map(|pick| pick % outer.len()).collect();
        let inner = Subset::listed(outer.len(), picks.clone()).unwrap();
        let both = outer.then(&inner).unwrap();
        let samples: Vec<_> = (0..both.len()).map(|number| both.sample(number)).collect();
        prop_assert_eq!(samples, picks.iter().map(|pick| outer.sample(*pick)).collect::<Vec<_>>());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn the_samples_of_a_subset_come_as_often_as_they_are_listed((len, subset) in any_subset()) {
        let set = set_of(len);
        let wanted = counts((0..subset.len()).map(|number| subset.sample(number).unwrap()));
        let sampler = of(subset);
        for shuffle in [Shuffle::None, Shuffle::Full, LANES] {
            assert_comes(&set, &sampler, shuffle, &wanted);
        }
        let (samples, _) = all_ranks((&set, &sampler, FEW_LANES), (2, 5), (0, u64::MAX));
        prop_assert_eq!(counts(samples), wanted);
    }

    #[test]
    fn the_parts_of_a_split_share_nothing_and_lack_nothing(len in 0u64..500, cuts in (0.0f64..1.0, 0.0f64..1.0), seed in any::<u64>()) {
        let mut bounds = [0, (cuts.0 * len as f64) as u64, (cuts.1 * len as f64) as u64, len];
        bounds.sort_unstable();
        let parts: Vec<Subset> =
            bounds.windows(2).map(|cut| Subset::split(len, seed, cut[0]..cut[1]).unwrap()).collect();
        let all = parts.iter().flat_map(|part| (0..part.len()).map(|number| part.sample(number).unwrap()));
        prop_assert_eq!(counts(all), counts(0..len));
        for part in &parts {
            prop_assert!((1..part.len()).all(|number| part.sample(number - 1) < part.sample(number)));
        }
    }

    #[test]
    fn draws_without_replacement_take_each_sample_of_weight_once(weights in proptest::collection::vec(0u8..4, 1..120)) {
        let drawable: Vec<u64> = (0..).zip(&weights).filter(|(_, weight)| **weight > 0).map(|(number, _)| number).collect();
        prop_assume!(!drawable.is_empty());
        let floats: Vec<f64> = weights.iter().map(|weight| f64::from(*weight)).collect();
        let draws = WeightedDraws::new(&floats, drawable.len() as u64, false).unwrap();
        let set = set_of(weights.len() as u64);
        assert_comes(&set, &drawn(Draws::Weighted(draws)), Shuffle::Full, &counts(drawable));
    }

    #[test]
    fn draws_with_replacement_are_the_same_on_every_world(weights in proptest::collection::vec(0u8..4, 1..80), len in 1u64..150) {
        prop_assume!(weights.iter().any(|weight| *weight > 0));
        let floats: Vec<f64> = weights.iter().map(|weight| f64::from(*weight)).collect();
        let draws = WeightedDraws::new(&floats, len, true).unwrap();
        let (set, sampler) = (set_of(weights.len() as u64), drawn(Draws::Weighted(draws)));
        let (alone, _) = all_ranks((&set, &sampler, Shuffle::Full), (1, 1), (0, u64::MAX));
        prop_assert_eq!(alone.len() as u64, len);
        prop_assert!(alone.iter().all(|sample| weights[*sample as usize] > 0));
        assert_comes(&set, &sampler, Shuffle::Full, &counts(alone));
    }

    #[test]
    fn rounds_have_the_share_of_each_source_and_no_sample_again_before_all_came(
        sources in proptest::collection::vec((1u64..40, 1u64..4), 1..5), len in 1u64..200,
    ) {
        let (lens, shares): (Vec<u64>, Vec<u64>) = sources.iter().copied().unzip();
        let draws = RoundDraws::of_sources(&lens, &shares, len).unwrap();
        let (set, sampler) = (set_of(lens.iter().sum()), drawn(Draws::Rounds(draws)));
        let (alone, _) = all_ranks((&set, &sampler, Shuffle::Full), (1, 1), (0, u64::MAX));
        let round_len = shares.iter().sum::<u64>() as usize;
        let mut start = 0;
        for (source_len, share) in &sources {
            let source = start..start + source_len;
            for round in alone.chunks_exact(round_len) {
                prop_assert_eq!(round.iter().filter(|sample| source.contains(sample)).count() as u64, *share);
            }
            // Draw k of a source is known only within its round: whole rounds count.
            let whole = alone.len() / round_len * round_len;
            let counted = counts(alone[..whole].iter().copied().filter(|sample| source.contains(sample)));
            let drawn_count = (alone.len() / round_len) as u64 * share;
            for sample in source {
                let count = counted.get(&sample).copied().unwrap_or(0);
                prop_assert!((drawn_count / source_len..=drawn_count.div_ceil(*source_len)).contains(&count));
            }
            start += source_len;
        }
        assert_comes(&set, &sampler, Shuffle::Full, &counts(alone));
    }

    #[test]
    fn balanced_draws_have_each_class_once_in_a_round(classes in proptest::collection::vec(0u32..5, 1..80), rounds in 1u64..30) {
        let mut present = classes.clone();
        present.sort_unstable();
        present.dedup();
        let draws = RoundDraws::balanced(&classes, rounds * present.len() as u64).unwrap();
        let (set, sampler) = (set_of(classes.len() as u64), drawn(Draws::Rounds(draws)));
        let (alone, _) = all_ranks((&set, &sampler, Shuffle::Full), (1, 1), (0, u64::MAX));
        for round in alone.chunks(present.len()) {
            let mut drawn: Vec<u32> = round.iter().map(|sample| classes[*sample as usize]).collect();
            drawn.sort_unstable();
            prop_assert_eq!(&drawn, &present);
        }
        assert_comes(&set, &sampler, Shuffle::Full, &counts(alone));
    }

    #[test]
    fn buckets_have_each_sample_once(lens in proptest::collection::vec(0u64..1000, 0..200), batch in 1u64..9) {
        let (set, len) = (set_of(lens.len() as u64), lens.len() as u64);
        let sampler = drawn(Draws::Buckets(BucketDraws::new(lens, batch).unwrap()));
        assert_comes(&set, &sampler, Shuffle::Full, &counts(0..len));
    }
}

#[test]
fn a_large_part_of_a_split_is_the_list_of_its_samples() {
    for places in [0..8000, 8000..10_000, 0..10_000, 9000..9100] {
        let part = Subset::split(10_000, 3, places.clone()).unwrap();
        let samples: Vec<u64> = (0..part.len()).map(|number| part.sample(number).unwrap()).collect();
        assert_eq!(samples.len() as u64, places.end - places.start);
        assert!(samples.is_sorted_by(|one, next| one < next));
        assert_eq!(Subset::listed(10_000, samples).unwrap(), part);
    }
}

#[test]
fn samples_of_a_batch_from_buckets_are_similar_in_length() {
    let lens: Vec<u64> = (0..6400).map(|number| number * 7919 % 6400).collect();
    let draws = BucketDraws::new(lens.clone(), 10).unwrap();
    let plan = plan(&set_of(6400), &drawn(Draws::Buckets(draws)), Shuffle::Full, Shard::default(), 10);
    let epoch = plan.epoch(0, 0).unwrap();
    let (mut slots, mut spread) = (Vec::new(), 0);
    for step in 0..epoch.step_count() {
        epoch.batch(step, &mut slots);
        let batch = || slots.iter().flatten().map(|sample| lens[*sample as usize]);
        spread += batch().max().unwrap() - batch().min().unwrap();
    }
    // Ten neighbours of a sorted pool of 640 lie 90 apart; ten samples at random lie 5200 apart.
    assert!(spread / epoch.step_count() < 200, "{}", spread / epoch.step_count());
}

#[test]
fn weights_are_the_chances_of_draws() {
    let draws = WeightedDraws::new(&[1.0, 0.0, 3.0, 6.0], 100_000, true).unwrap();
    let plan = plan(&set_of(4), &drawn(Draws::Weighted(draws)), Shuffle::Full, Shard::default(), 1000);
    let epoch = plan.epoch(0, 0).unwrap();
    let (mut slots, mut seen) = (Vec::new(), [0i64; 4]);
    for step in 0..epoch.step_count() {
        epoch.batch(step, &mut slots);
        slots.iter().flatten().for_each(|sample| seen[*sample as usize] += 1);
    }
    // Three deviations of 60,000 of 100,000 are 465.
    for (seen, wanted) in seen.into_iter().zip([10_000, 0, 30_000, 60_000]) {
        assert!((seen - wanted).abs() < 465, "{seen} and {wanted}");
    }
}

#[test]
fn a_block_shuffle_of_a_subset_still_uses_each_group_within_a_short_time() {
    // 80 of 100 samples of 500 groups of 8; with 10 lanes at most 10 groups are open, and 20 where two meet.
    let set = SetIdentity { part_lens: vec![4000], ..set_of(4000) };
    let part = Subset::split(4000, 5, 0..3200).unwrap();
    let shuffle = Shuffle::Block { lanes: 10, window: 1 };
    let plan = plan(&set, &of(part), shuffle, Shard::default(), 1);
    let epoch = plan.epoch(0, 0).unwrap();
    let (mut slots, mut uses) = (Vec::new(), BTreeMap::<u64, Vec<u64>>::new());
    for step in 0..epoch.step_count() {
        epoch.batch(step, &mut slots);
        slots.iter().flatten().for_each(|sample| uses.entry(*sample / 8).or_default().push(step));
    }
    let opened =
        |step: u64| uses.values().filter(|steps| steps[0] <= step && steps[steps.len() - 1] >= step).count();
    let most = (0..epoch.step_count()).map(opened).max().unwrap();
    assert!(most <= 20, "{most}");
}

#[test]
fn another_subset_or_other_draws_are_another_set() {
    let set = set_of(100);
    let part = |seed| of(Subset::split(100, seed, 0..80).unwrap()).identity(&set).unwrap().content;
    assert_ne!(part(1), part(2));
    assert_eq!(part(1), part(1));
    let whole = of(Subset::slice(100, 0, 1, 100).unwrap());
    assert_eq!(whole.identity(&set).unwrap(), set);
    let weighted = |weight| {
        let mut weights = vec![1.0; 100];
        weights[3] = weight;
        drawn(Draws::Weighted(WeightedDraws::new(&weights, 100, true).unwrap()))
            .identity(&set)
            .unwrap()
            .content
    };
    assert_ne!(weighted(1.0), weighted(2.0));
}

#[test]
fn what_makes_no_sense_is_invalid() {
    let kind = |error: forebay_process::Error| error.kind();
    assert_eq!(Subset::listed(3, vec![3]).map_err(kind), Err(ErrorKind::Invalid));
    assert_eq!(Subset::slice(3, 2, 1, 2).map_err(kind), Err(ErrorKind::Invalid));
    for weights in [vec![], vec![0.0], vec![1.0, f64::NAN], vec![-1.0, 2.0], vec![f64::INFINITY]] {
        assert_eq!(WeightedDraws::new(&weights, 1, true).map_err(kind), Err(ErrorKind::Invalid));
    }
    assert_eq!(WeightedDraws::new(&[1.0, 0.0], 2, false).map_err(kind), Err(ErrorKind::Invalid));
    assert_eq!(RoundDraws::of_sources(&[1, 0], &[1, 1], 5).map_err(kind), Err(ErrorKind::Invalid));
    let of_other = of(Subset::slice(5, 0, 1, 2).unwrap());
    assert_eq!(of_other.identity(&set_of(6)).map_err(kind), Err(ErrorKind::Invalid));
}

/// All orders of `left`, each after `taken`.
fn permutations(taken: &mut Vec<u64>, left: &[u64], all: &mut Vec<Vec<u64>>) {
    if left.is_empty() {
        all.push(taken.clone());
    }
    for (at, sample) in left.iter().enumerate() {
        taken.push(*sample);
        permutations(taken, &[&left[..at], &left[at + 1..]].concat(), all);
        taken.pop();
    }
}

/// Numbers of the first epoch, of a block shuffle of groups of one sample.
fn block_order(set: &SetIdentity, sampler: &Sampler) -> Vec<u64> {
    let epoch =
        plan(set, sampler, Shuffle::Block { lanes: 2, window: 1 }, Shard::default(), 1).epoch(0, 0).unwrap();
    let mut order = Vec::new();
    for step in 0..epoch.step_count() {
        let mut numbers = Vec::new();
        epoch.numbers(step, &mut numbers);
        order.extend(numbers.into_iter().flatten());
    }
    order
}

#[test]
fn subsets_whose_parts_have_one_digest_have_one_block_order() {
    let set = SetIdentity { part_lens: vec![5], group_len: 1, ..set_of(5) };
    let mut all = Vec::new();
    permutations(&mut Vec::new(), &[0, 1, 2, 3, 4], &mut all);
    assert_eq!(all.len(), 120);
    let mut orders: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for samples in all {
        let subset = Arc::new(Subset::listed(5, samples).unwrap());
        let sampler = Sampler { subset: Some(subset), draws: None };
        let (digest, order) = (sampler.identity(&set).unwrap().parts_digest(), block_order(&set, &sampler));
        assert_eq!(orders.entry(digest).or_insert_with(|| order.clone()), &order);
    }
    assert_eq!(orders.len(), 120);
    // A list that falls by uneven steps is numbered as one that falls by even steps, and one that rises as the set itself.
    let digest = |samples: &[u64]| {
        let subset = Arc::new(Subset::listed(9, samples.to_vec()).unwrap());
        let whole = SetIdentity { part_lens: vec![9], group_len: 1, ..set_of(9) };
        Sampler { subset: Some(subset), draws: None }.identity(&whole).unwrap().parts_digest()
    };
    assert_eq!(digest(&[8, 6, 1]), digest(&[4, 3, 2]));
    assert_eq!(digest(&[0, 1, 7]), SetIdentity { part_lens: vec![1; 3], ..set_of(3) }.parts_digest());
}

#[test]
fn a_state_of_a_block_shuffle_is_refused_where_samples_are_numbered_in_another_order() {
    let set = SetIdentity { part_lens: vec![5], group_len: 1, ..set_of(5) };
    let identity = |samples: &[u64]| {
        let subset = Arc::new(Subset::listed(5, samples.to_vec()).unwrap());
        Sampler { subset: Some(subset), draws: None }.identity(&set).unwrap()
    };
    let state = |identity: &SetIdentity, parts: String| LoaderState {
        version: STATE_VERSION,
        order_version: ORDER_VERSION,
        fingerprint: identity.content.clone(),
        files: identity.version.clone(),
        samples: 5,
        shuffle: Shuffle::Block { lanes: 2, window: 1 },
        group_len: 1,
        parts,
        seed: 7,
        epoch: 0,
        position: 2,
    };
    let (turned, mixed, rising) =
        (identity(&[4, 3, 2, 1, 0]), identity(&[3, 0, 4, 1, 2]), identity(&[0, 1, 2, 3, 4]));
    for from in [&turned, &mixed, &rising] {
        for to in [&turned, &mixed, &rising] {
            let found = state(from, from.parts_digest()).check(to, StateCheck::CountOnly);
            assert_eq!(found.is_ok(), from == to, "{found:?}");
        }
    }
    // States that were written before the numbering was part of them hold of the very same subset.
    let lens = SetIdentity { numbering: None, ..turned.clone() }.parts_digest();
    assert_eq!(lens, "00026c99bfe39e6f7afdfa71a85dfec6", "the format of states does not change");
    let old = state(&turned, lens);
    old.check(&turned, StateCheck::Strict).unwrap();
    let error = old.check(&mixed, StateCheck::CountOnly).unwrap_err();
    assert!(error.to_string().contains("numbered in another order"), "{error}");
}
