//! What a loader's foresight tells tiers, held against what its epochs are.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot be set up has failed")]

#[path = "../../../engine/loader/tests/made/mod.rs"]
mod made;

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::{Duration, Instant},
};

use forebay::{
    Loader, LoaderForesight, Options, SampleSet, SampleSpec, TierObserver, TierPlan, TierReport, foresee,
    loader::{FieldSpec, IndexAccess, Next, Schedule},
    plan::{Resumed, Shard, Shuffle, StateCheck, Tail},
    source::{FaultOrigin, Origin, SmallSourceCache},
    tier::{
        BuiltinPolicy, ForecastTier, Foresight, ForesightHandle, MemoryTier, Placement, Ranking,
        SourceBlocks, SourceKey, Tier, Tiered,
    },
};
use made::{Made, Rows, make, memory, opened, without_spill};

const ROWS: Rows = Rows { count: 90, row_len: 32, chunk: 0 };
const BLOCK: u64 = 1 << 9;

fn files(chunk: u64) -> Vec<Made> {
    (0..3).map(|_| make(Rows { chunk, ..ROWS })).collect()
}

fn set_on(files: &[Made], origin: &Arc<dyn Origin>) -> Arc<SampleSet> {
    let spec = SampleSpec { fields: vec![FieldSpec::new("x")] };
    Arc::new(SampleSet::new(spec, &[opened(files, origin)]).unwrap())
}

fn options(shuffle: Shuffle, shard: Shard) -> Options {
    without_spill(Options {
        batch_size: 8,
        shuffle,
        shard,
        tail: Some(if shard.world > 1 { Tail::Pad } else { Tail::Short }),
        read_threads: Some(1),
        memory: Some(64 << 20),
        ..Options::default()
    })
}

const SHUFFLES: [Shuffle; 3] = [Shuffle::None, Shuffle::Full, Shuffle::Block { lanes: 6, window: 1 }];

/// A block of a source, or any of its bytes.
type What = (usize, Option<u64>);

/// The first step from each moment on that uses a block, by walking every batch.
fn walked(schedule: &Schedule, epoch: u64, position: u64) -> Vec<HashSet<What>> {
    let (mut slots, mut asked, mut steps) = (Vec::new(), Vec::new(), Vec::new());
    for number in epoch..=epoch + 8 {
        let walked = schedule.epoch(number, if number == epoch { position } else { 0 }).unwrap();
        for step in 0..walked.step_count() {
            walked.batch(step, &mut slots);
            schedule.batch(&slots, IndexAccess::Read, &mut asked);
            let mut used = HashSet::new();
            for ask in &asked {
                let blocks = SourceBlocks::new(schedule.sources()[ask.source].len, BLOCK);
                used.extend(blocks.covering(ask.range).map(|block| (ask.source, Some(block))));
                used.insert((ask.source, None));
            }
            steps.push(used);
        }
    }
    steps
}

fn ready(foresight: &LoaderForesight) {
    let until = Instant::now() + Duration::from_secs(10);
    while !foresight.is_ready() {
        assert!(Instant::now() < until, "an index of a small set");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn the_next_use_of_every_block_is_what_walking_all_batches_finds() {
    for chunk in [0, 7] {
        let files = files(chunk);
        let origin: Arc<dyn Origin> = Arc::new(memory(&files));
        let set = set_on(&files, &origin);
        for (shuffle, world) in SHUFFLES.into_iter().flat_map(|shuffle| [(shuffle, 1), (shuffle, 3)]) {
            let shard = Shard { rank: world - 1, world };
            let schedule = Arc::new(Schedule::new(&set, &options(shuffle, shard)).unwrap());
            for (epoch, position) in [(0, 0), (3, 96)] {
                let foresight = LoaderForesight::new(Arc::clone(&schedule), BLOCK, epoch, position).unwrap();
                ready(&foresight);
                let steps = walked(&schedule, epoch, position);
                // Moments are counted over all epochs.
                let resumed = schedule.epoch(epoch, position).unwrap().step_count();
                let first = (epoch + 1) * schedule.epoch(epoch, 0).unwrap().step_count() - resumed;
                for now in 0..schedule.epoch(epoch, position).unwrap().step_count() {
                    let mut next: HashMap<What, u64> = HashMap::new();
                    for (step, used) in steps[usize::try_from(now).unwrap()..].iter().enumerate() {
                        for what in used {
                            next.entry(*what).or_insert(first + now + step as u64);
                        }
                    }
                    for (source, id) in schedule.sources().iter().enumerate() {
                        let blocks = SourceBlocks::new(id.len, BLOCK);
                        for block in (0..=blocks.count()).map(Some).chain([None]) {
                            assert_eq!(
                                foresight.next_use(SourceKey::of(id), block),
                                next.get(&(source, block)).copied(),
                                "{shuffle:?}, {world} ranks, epoch {epoch}, step {now}, {source} {block:?}"
                            );
                        }
                    }
                    foresight.reach(epoch, now);
                }
            }
        }
    }
}

/// `files`, each request of which takes `delay`, under a memory tier of `quota`.
fn tiered(files: &[Made], quota: u64, delay: Duration) -> Arc<Tiered> {
    let slow = forebay::source::FaultSchedule { delay, ..forebay::source::FaultSchedule::default() };
    let origin: Arc<dyn Origin> = Arc::new(FaultOrigin::new(Arc::new(memory(files)), slow));
    let foresight = ForesightHandle::default();
    let ranking = Ranking { policy: Arc::new(BuiltinPolicy::Clairvoyant), foresight: foresight.clone() };
    let make = move || Ok(vec![Arc::new(MemoryTier::new(quota, ranking.clone())) as Arc<dyn Tier>]);
    let placement =
        Placement { block_len: BLOCK, evicts_for_prefetch: true, foresight, ..Placement::default() };
    Arc::new(Tiered::new(origin, make, placement).unwrap())
}

/// Runs three epochs over tiers, and gives how often a read found what was fetched ahead.
fn found_ahead(chunk: u64, shuffle: Shuffle, delay: Duration) -> u64 {
    let files = files(chunk);
    let tiered = tiered(&files, 6 * BLOCK, delay);
    let whole: Arc<dyn Origin> = Arc::new(SmallSourceCache::new(Arc::clone(&tiered) as _, 1 << 20));
    let loader = Loader::new(set_on(&files, &whole), options(shuffle, Shard::default())).unwrap();
    let foresight = foresee(&tiered, Arc::new(loader.schedule().unwrap()), 0, 0).unwrap();
    for epoch in 0..3 {
        if epoch > 0 {
            foresight.begin(&tiered, epoch, 0).unwrap();
        }
        let mut seen = HashSet::new();
        for batch in loader.batches().unwrap() {
            let batch = batch.unwrap();
            made::check(&batch, ROWS);
            seen.extend(batch.samples.iter().flatten().copied());
            foresight.reach(batch.epoch, batch.step);
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(seen.len() as u64, 3 * ROWS.count);
    }
    tiered.stats().ahead
}

#[test]
fn a_loader_over_tiers_finds_what_was_fetched_ahead_and_its_samples_are_right() {
    for shuffle in SHUFFLES {
        let rows = found_ahead(0, shuffle, Duration::ZERO);
        assert!(rows > 100, "{rows} rows, {shuffle:?}");
        let chunks = found_ahead(7, shuffle, Duration::ZERO);
        assert!(chunks > 0, "{chunks} chunks, {shuffle:?}");
        // Small, far files come whole, and are near by the time the second of them is asked for.
        found_ahead(0, shuffle, Duration::from_millis(1));
    }
}

#[test]
fn tiers_that_hold_a_foresight_loosely_end_with_their_owner() {
    let files = files(0);
    let tiered = tiered(&files, 6 * BLOCK, Duration::ZERO);
    let set = set_on(&files, &(Arc::clone(&tiered) as _));
    let schedule = Arc::new(Schedule::new(&set, &options(Shuffle::Full, Shard::default())).unwrap());
    let foresight = foresee(&tiered, Arc::clone(&schedule), 0, 0).unwrap();
    ready(&foresight);
    drop((foresight, set));
    let until = Instant::now() + Duration::from_secs(10);
    while Arc::strong_count(&schedule) > 1 {
        assert!(Instant::now() < until, "somebody keeps the schedule");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_forecast_says_what_fits_and_what_each_policy_reads() {
    let files = files(0);
    let origin: Arc<dyn Origin> = Arc::new(memory(&files));
    let set = set_on(&files, &origin);
    let bytes: u64 = files.iter().map(|file| file.bytes.len() as u64).sum();
    let plan = |quota| TierPlan {
        tiers: vec![ForecastTier { quota, evicts_sources: false }],
        block_len: BLOCK,
        whole_file: true,
    };
    let options = options(Shuffle::Full, Shard::default());
    let roomy = plan(bytes).forecast(&set, &options).unwrap();
    assert!(roomy.exact);
    for own in &roomy.policies {
        assert!(own.epochs[0].bytes >= bytes - 3 * 64 && own.epochs[0].bytes <= bytes, "{own:?}");
        assert_eq!(own.sum(), own.epochs[0], "{own:?}");
    }
    let tight = plan(bytes / 2).forecast(&set, &options).unwrap();
    let of = |policy| tight.policies.iter().find(|own| own.policy == policy).unwrap().sum().bytes;
    assert!(of(BuiltinPolicy::Clairvoyant) < of(BuiltinPolicy::Lru), "{tight:?}");
    let part = plan(bytes / 2).forecast_within(&set, &options, 600).unwrap();
    assert!(!part.exact);
    for (own, all) in part.policies.iter().zip(&tight.policies) {
        let (about, exact) = (own.sum().bytes, all.sum().bytes);
        assert!(about.abs_diff(exact) * 2 <= exact, "{own:?}, in truth {all:?}");
    }
}

/// How often reads of one epoch of `loader` found what was fetched ahead.
fn found_by(loader: &Loader) -> u64 {
    let ahead = || TierReport::from_loader(loader).unwrap().total.ahead;
    let before = ahead();
    let mut run = loader.start().unwrap();
    loop {
        match loader.next(&mut run, Duration::from_secs(1)).unwrap() {
            Next::Batch(batch) => made::check(&batch, ROWS),
            Next::Waiting => {}
            Next::End => return ahead() - before,
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_loaded_state_of_another_order_is_the_order_that_is_fetched_ahead() {
    let files = files(0);
    let tiered = tiered(&files, 6 * BLOCK, Duration::ZERO);
    let set = set_on(&files, &(Arc::clone(&tiered) as _));
    let with_seed = |seed| Options { seed, ..options(Shuffle::Full, Shard::default()) };
    let state = Loader::new(Arc::clone(&set), with_seed(2)).unwrap().state();
    let mut loader = Loader::new(set, with_seed(1)).unwrap();
    loader.observe(Box::new(TierObserver::new(tiered))).unwrap();
    let own = found_by(&loader);
    assert_eq!(loader.load_state(&state, StateCheck::Strict).unwrap(), Resumed::SameFiles);
    let loaded = found_by(&loader);
    assert!(
        own > 40 && loaded > own / 2,
        "{own} ahead in its own order, {loaded} in the one that was loaded"
    );
}
