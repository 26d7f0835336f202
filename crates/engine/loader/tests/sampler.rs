//! Subsets and draws as loaders, schedules and estimates see them.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot be set up has failed")]

mod made;

use std::{collections::HashSet, sync::Arc};

use forebay_batch::LoaderStats;
use forebay_loader::{Estimate, IndexAccess, Loader, Options, SampleSet, Schedule};
use forebay_plan::{BucketDraws, Draws, RoundDraws, Sampler, Shuffle, StateCheck, Subset, WeightedDraws};
use made::{Rows, make, set, without_spill};

const ROWS: Rows = Rows { count: 1000, row_len: 64, chunk: 10 };

fn samples() -> Arc<SampleSet> {
    set(&[make(ROWS)])
}

/// Memory for a few chunks of the hundred.
fn options(shuffle: Shuffle, sampler: Sampler) -> Options {
    let memory = Some(300 << 10);
    let options =
        Options { batch_size: 8, shuffle, seed: 5, read_threads: Some(1), memory, ..Options::default() };
    without_spill(Options { prefetch: 1, sampler, ..options })
}

fn subset(subset: Subset) -> Sampler {
    Sampler { subset: Some(Arc::new(subset)), draws: None }
}

fn drawn(draws: Draws) -> Sampler {
    Sampler { subset: None, draws: Some(Arc::new(draws)) }
}

/// Every kind of sampler, with whether each of its epochs has the same samples.
fn samplers() -> Vec<(&'static str, Sampler)> {
    let weights: Vec<f64> = (0..1000u32).map(|number| f64::from(number % 7)).collect();
    let lens: Vec<u64> = (0..1000).map(|number| number * 31 % 50).collect();
    vec![
        ("a slice", subset(Subset::slice(1000, 300, 1, 400).unwrap())),
        ("a list", subset(Subset::listed(1000, (0..300).map(|number| number * 37 % 700).collect()).unwrap())),
        ("a split", subset(Subset::split(1000, 9, 0..800).unwrap())),
        ("weights", drawn(Draws::Weighted(WeightedDraws::new(&weights, 700, true).unwrap()))),
        ("weights, each once", drawn(Draws::Weighted(WeightedDraws::new(&weights, 500, false).unwrap()))),
        ("rounds", drawn(Draws::Rounds(RoundDraws::of_sources(&[600, 400], &[3, 1], 700).unwrap()))),
        ("buckets", drawn(Draws::Buckets(BucketDraws::new(lens, 8).unwrap()))),
    ]
}

fn shuffles(sampler: &Sampler) -> Vec<Shuffle> {
    match sampler.draws {
        Some(_) => vec![Shuffle::Full],
        None => vec![Shuffle::None, Shuffle::Full, Shuffle::Block { lanes: 4, window: 1 }],
    }
}

fn ran(loader: &Loader) -> (LoaderStats, Vec<u64>) {
    let before = loader.stats();
    let mut numbers = Vec::new();
    for batch in loader.batches().unwrap() {
        let batch = batch.unwrap();
        let samples = batch.samples.iter().flatten().copied();
        let bytes = batch.field("x").unwrap().bytes.chunks_exact(256);
        for (number, bytes) in samples.zip(bytes) {
            let sample = loader.options().sampler.sample(number);
            let expected: Vec<u8> = ROWS.row(sample).into_iter().flat_map(u32::to_le_bytes).collect();
            assert!(bytes == expected, "number {number} is not sample {sample}");
            numbers.push(number);
        }
    }
    (loader.stats().since(&before), numbers)
}

#[test]
fn an_estimate_is_what_a_run_of_one_thread_counts() {
    let set = samples();
    for (name, sampler) in samplers() {
        for shuffle in shuffles(&sampler) {
            let options = options(shuffle, sampler.clone());
            let estimate = Estimate::of(&set, &options).unwrap();
            let loader = Loader::new(Arc::clone(&set), options).unwrap();
            for cost in [estimate.first, estimate.later] {
                let (stats, _) = ran(&loader);
                let predicted = (cost.batches, cost.samples, cost.decoded_units, cost.read_bytes);
                let counted = (stats.batches, stats.samples, stats.decoded_units, stats.read_bytes);
                assert_eq!(predicted, counted, "{name}, {shuffle:?}");
            }
        }
    }
}

#[test]
fn a_block_shuffle_of_a_split_decodes_each_chunk_once() {
    let set = samples();
    for (name, sampler) in samplers().into_iter().take(3) {
        let shuffle = Shuffle::Block { lanes: 4, window: 1 };
        let touched: HashSet<u64> =
            (0..1000).filter(|sample| sampler.has(*sample)).map(|sample| sample / 10).collect();
        let loader = Loader::new(Arc::clone(&set), options(shuffle, sampler)).unwrap();
        assert_eq!(ran(&loader).0.decoded_units, touched.len() as u64, "{name}");
    }
}

#[test]
fn a_schedule_names_the_chunks_of_the_samples_that_come() {
    let set = samples();
    for (name, sampler) in samplers() {
        for shuffle in shuffles(&sampler) {
            let loader = Loader::new(Arc::clone(&set), options(shuffle, sampler.clone())).unwrap();
            let schedule = Schedule::new(&set, loader.options()).unwrap();
            let (_, numbers) = ran(&loader);
            assert_eq!(schedule.walked_samples(), numbers.len() as u64, "{name}");
            let wanted: Vec<u64> = numbers.iter().map(|number| sampler.sample(*number)).collect();
            let (epoch, mut slots, mut reads) = (schedule.epoch(0, 0).unwrap(), Vec::new(), Vec::new());
            let (mut planned, mut units) = (Vec::<u64>::new(), HashSet::new());
            for step in 0..epoch.step_count() {
                epoch.batch(step, &mut slots);
                planned.extend(slots.iter().flatten());
                schedule.batch(&slots, IndexAccess::Read, &mut reads);
                units.extend(reads.iter().filter_map(|read| read.unit));
            }
            assert_eq!(planned, wanted, "{name}, {shuffle:?}");
            let chunks: HashSet<u64> = wanted.iter().map(|sample| sample / 10).collect();
            assert_eq!(units, chunks, "{name}, {shuffle:?}");
        }
    }
}

#[test]
fn a_state_of_another_subset_is_refused_and_one_of_the_same_goes_on() {
    let set = samples();
    let part = |seed| subset(Subset::split(1000, seed, 0..500).unwrap());
    let loader = |seed| Loader::new(Arc::clone(&set), options(Shuffle::Full, part(seed))).unwrap();
    let first = loader(1);
    let mut seen: Vec<u64> =
        first.batches().unwrap().take(5).flat_map(|batch| batch.unwrap().samples).flatten().collect();
    let state = first.state();
    assert!(loader(2).load_state(&state, StateCheck::Strict).is_err());
    let again = loader(1);
    let _ = again.load_state(&state, StateCheck::Strict).unwrap();
    seen.extend(ran(&again).1);
    seen.sort_unstable();
    assert_eq!(seen, (0..500).collect::<Vec<_>>());
}

#[test]
fn a_vast_subset_is_estimated_by_its_first_samples() {
    let set = samples();
    let options = options(Shuffle::Full, subset(Subset::split(1000, 9, 0..800).unwrap()));
    let part = Estimate::within(&set, &options, 200).unwrap();
    let all = Estimate::of(&set, &options).unwrap();
    assert!(!part.exact && all.exact);
    assert_eq!((part.first.batches, part.first.samples), (all.first.batches, all.first.samples));
}
