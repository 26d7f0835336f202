//! Threads, order and state: whatever happens, batches come in order or not at all.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot be set up has failed")]

mod made;

use std::{
    num::NonZeroU64,
    sync::Arc,
    time::{Duration, Instant},
};

use forebay_loader::{Batch, Loader, Next, Options, SampleSet};
use forebay_plan::{LoaderState, Resumed, Shard, Shuffle, StateCheck, Tail};
use forebay_process::ErrorKind;
use forebay_source::FaultSchedule;
use made::{Rows, check, epoch, make, set, set_on, without_spill};

const ROWS: Rows = Rows { count: 203, row_len: 16, chunk: 8 };

fn options(shuffle: Shuffle) -> Options {
    let options = Options { batch_size: 8, shuffle, seed: 11, read_threads: Some(2), ..Options::default() };
    without_spill(Options { memory: Some(64 << 20), ..options })
}

fn all_shuffles() -> [Shuffle; 3] {
    [Shuffle::None, Shuffle::Full, Shuffle::Block { lanes: 6, window: 1 }]
}

fn samples(batches: &[Batch]) -> Vec<u64> {
    batches.iter().flat_map(|batch| batch.samples.iter().flatten().copied()).collect()
}

fn take(loader: &Loader, count: usize) -> Vec<Batch> {
    loader.batches().unwrap().take(count).map(Result::unwrap).inspect(|batch| check(batch, ROWS)).collect()
}

fn rest(loader: &Loader) -> Vec<Batch> {
    take(loader, usize::MAX)
}

#[test]
fn the_order_does_not_depend_on_the_number_of_threads() {
    for shuffle in all_shuffles() {
        let orders: Vec<_> = [1, 2, 5]
            .map(|threads| {
                let options = Options { read_threads: Some(threads), ..options(shuffle) };
                epoch(&Loader::new(set(&[make(ROWS)]), options).unwrap(), ROWS)
            })
            .into();
        assert_eq!(orders[0], orders[1]);
        assert_eq!(orders[0], orders[2]);
    }
}

#[test]
fn a_run_resumed_after_any_batch_and_once_more_goes_on_as_if_nothing_had_happened() {
    for shuffle in all_shuffles() {
        let set = set(&[make(ROWS)]);
        let new = || Loader::new(Arc::clone(&set), options(shuffle)).unwrap();
        let whole = new();
        let first = rest(&whole);
        let second = rest(&whole);
        assert_ne!(
            samples(&first) == samples(&second),
            shuffle != Shuffle::None,
            "epochs differ when shuffled"
        );
        for stop in 0..=first.len() {
            let loader = new();
            let mut got = samples(&take(&loader, stop));
            let state = loader.state();
            let loader = new();
            let _ = loader.load_state(&state, StateCheck::Strict).unwrap();
            let again = take(&loader, 3);
            // After the last batch a state is at the start of the next epoch.
            let epoch = u64::from(stop == first.len());
            assert!(again.iter().all(|batch| batch.epoch == epoch), "{stop}");
            got.extend(samples(&again));
            let state = loader.state();
            let loader = new();
            let _ = loader.load_state(&state, StateCheck::Strict).unwrap();
            got.extend(samples(&rest(&loader)));
            let mut expected = samples(&first);
            if stop + 3 >= first.len() {
                expected.extend(samples(&second));
            }
            assert!(got == expected, "{shuffle:?} after {stop}: another sequence");
        }
    }
}

/// Takes `steps` batches on every rank of a world, and gives the samples of all in the order of the epoch.
fn on_ranks(
    set: &Arc<SampleSet>,
    shuffle: Shuffle,
    world: u32,
    from: &LoaderState,
    steps: usize,
) -> (Vec<u64>, LoaderState) {
    let mut seen = Vec::new();
    let mut states = Vec::new();
    for rank in 0..world {
        let shard = Shard { rank, world };
        let options = Options { shard, tail: Some(Tail::Pad), ..options(shuffle) };
        let loader = Loader::new(Arc::clone(set), options).unwrap();
        let _ = loader.load_state(from, StateCheck::Strict).unwrap();
        seen.extend(samples(&take(&loader, steps)));
        states.push(loader.state());
    }
    assert!(states.iter().all(|state| *state == states[0]), "the state is the same on every rank");
    (seen, states.remove(0))
}

#[test]
fn one_then_three_then_two_ranks_go_on_with_the_same_sequence() {
    for shuffle in all_shuffles() {
        let set = set(&[make(ROWS)]);
        let start = Loader::new(Arc::clone(&set), options(shuffle)).unwrap().state();
        let (whole, _) = on_ranks(&set, shuffle, 1, &start, usize::MAX);
        let (mut first, state) = on_ranks(&set, shuffle, 1, &start, 4);
        let (mut second, state) = on_ranks(&set, shuffle, 3, &state, 2);
        let (mut third, _) = on_ranks(&set, shuffle, 2, &state, usize::MAX);
        assert_eq!((first.len(), second.len()), (32, 48));
        let mut expected = [whole[..32].to_vec(), whole[32..80].to_vec(), whole[80..].to_vec()];
        // Which rank has which is its own affair: what is consumed between two common steps is the same.
        for part in expected.iter_mut().chain([&mut first, &mut second, &mut third]) {
            part.sort_unstable();
        }
        assert_eq!([first, second, third], expected, "{shuffle:?}");
    }
}

#[test]
fn a_changed_set_is_refused() {
    let loader = Loader::new(set(&[make(ROWS)]), options(Shuffle::Full)).unwrap();
    let state = loader.state();
    let more = Loader::new(set(&[make(ROWS), make(ROWS)]), options(Shuffle::Full)).unwrap();
    assert_eq!(more.load_state(&state, StateCheck::CountOnly).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(loader.load_state(&state, StateCheck::Strict).unwrap(), Resumed::SameFiles);
    let copied = LoaderState { files: "other".into(), ..state.clone() };
    assert_eq!(loader.load_state(&copied, StateCheck::Strict).unwrap(), Resumed::OtherFiles);
    let other = LoaderState { fingerprint: "other".into(), ..copied };
    assert_eq!(loader.load_state(&other, StateCheck::Strict).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(loader.load_state(&other, StateCheck::CountOnly).unwrap(), Resumed::OtherFiles);
    let split = LoaderState { parts: "other".into(), ..other };
    assert_eq!(loader.load_state(&split, StateCheck::CountOnly).unwrap(), Resumed::OtherFiles);
    let block = LoaderState { shuffle: Shuffle::Block { lanes: 6, window: 1 }, ..split };
    assert_eq!(loader.load_state(&block, StateCheck::CountOnly).unwrap_err().kind(), ErrorKind::Invalid);
}

#[test]
fn a_state_of_another_order_version_is_refused_and_says_so() {
    let loader = Loader::new(set(&[make(ROWS)]), options(Shuffle::Full)).unwrap();
    let state = serde_json::to_value(loader.state()).unwrap();
    assert_eq!(LoaderState::from_json(&state.to_string()).unwrap(), loader.state());
    let mut old = state;
    (old["version"], old["order_version"], old["epoch"]) = (1.into(), 1.into(), 5.into());
    old.as_object_mut().unwrap().remove("files");
    let error = LoaderState::from_json(&old.to_string()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(
        error.to_string().contains("order version 1") && error.to_string().contains("set_epoch(5)"),
        "{error}"
    );
    assert_eq!(LoaderState::from_json("{}").unwrap_err().kind(), ErrorKind::Invalid);
}

#[test]
fn the_number_of_batches_is_that_of_a_whole_epoch_wherever_the_consumer_is() {
    let loader = Loader::new(set(&[make(ROWS)]), options(Shuffle::Full)).unwrap();
    let count = loader.step_count().unwrap();
    for taken in [1, 5] {
        take(&loader, taken);
        assert_eq!(
            (loader.step_count().unwrap(), loader.remaining().unwrap()),
            (count, count - taken as u64)
        );
        let resumed = Loader::new(set(&[make(ROWS)]), options(Shuffle::Full)).unwrap();
        let _ = resumed.load_state(&loader.state(), StateCheck::CountOnly).unwrap();
        assert_eq!(
            (resumed.step_count().unwrap(), resumed.remaining().unwrap()),
            (count, count - taken as u64)
        );
    }
}

#[test]
fn a_sample_has_the_same_seed_wherever_it_is_drawn() {
    let set = set(&[make(ROWS)]);
    let seeds = |options: Options| {
        let loader = Loader::new(Arc::clone(&set), options).unwrap();
        let batches = rest(&loader);
        let mut pairs: Vec<_> = batches
            .iter()
            .flat_map(|batch| batch.samples.iter().flatten().copied().zip(batch.seeds.iter().copied()))
            .collect();
        pairs.sort_unstable();
        pairs
    };
    let one = seeds(options(Shuffle::Full));
    assert_eq!(one, seeds(Options { batch_size: 5, read_threads: Some(1), ..options(Shuffle::None) }));
    assert_ne!(one, seeds(Options { seed: 12, ..options(Shuffle::Full) }));
}

#[test]
fn an_epoch_that_was_left_is_followed_by_the_next_and_an_epoch_can_be_chosen() {
    let loader = Loader::new(set(&[make(ROWS)]), options(Shuffle::Full)).unwrap();
    assert_eq!(take(&loader, 2)[0].epoch, 0);
    assert_eq!(take(&loader, 2)[0].epoch, 1);
    loader.set_epoch(7);
    assert_eq!(rest(&loader)[0].epoch, 7);
    assert_eq!(rest(&loader)[0].epoch, 8);
}

#[test]
fn more_batches_are_never_made_ahead_than_asked() {
    let (set, origin) = set_on(&[make(Rows { chunk: 0, ..ROWS })], FaultSchedule::default());
    let options = Options { prefetch: 2, read_threads: Some(1), ..options(Shuffle::None) };
    let loader = Loader::new(set, options).unwrap();
    let mut run = loader.start().unwrap();
    let Next::Batch(_) = loader.next(&mut run, Duration::from_secs(10)).unwrap() else { panic!("a batch") };
    std::thread::sleep(Duration::from_millis(100));
    // One was taken, two wait, one may be under way.
    assert!(origin.counters().operations <= 4 * 8, "{:?}", origin.counters());
}

#[test]
fn a_run_that_is_dropped_half_way_ends_its_threads() {
    let set = set(&[make(ROWS)]);
    for taken in 0..6 {
        let loader = Loader::new(Arc::clone(&set), options(Shuffle::Full)).unwrap();
        drop(take(&loader, taken));
        drop(loader);
    }
    // The set is held by nobody else: no thread has outlived its run.
    assert_eq!(Arc::strong_count(&set), 1);
}

#[test]
fn closing_does_not_wait_for_a_read_that_hangs_and_may_be_done_twice() {
    let slow = FaultSchedule { delay: Duration::from_secs(3), ..FaultSchedule::default() };
    let (set, _) = set_on(&[make(ROWS)], slow);
    // Opening the source takes its three seconds too.
    let loader = Loader::new(set, options(Shuffle::Full)).unwrap();
    let mut run = loader.start().unwrap();
    let Next::Waiting = loader.next(&mut run, Duration::from_millis(50)).unwrap() else { panic!("too fast") };
    let began = Instant::now();
    run.close();
    run.close();
    assert!(began.elapsed() < Duration::from_millis(2500));
    assert!(matches!(loader.next(&mut run, Duration::from_secs(9)).unwrap(), Next::End));
}

#[test]
fn after_a_failed_read_the_error_comes_in_its_turn_and_the_run_is_over() {
    let schedule = FaultSchedule { fail_every: NonZeroU64::new(20), ..FaultSchedule::default() };
    let (set, _) = set_on(&[make(ROWS)], schedule);
    let loader = Loader::new(set, Options { read_threads: Some(1), ..options(Shuffle::None) }).unwrap();
    let mut run = loader.start().unwrap();
    let mut count = 0;
    let error = loop {
        match loader.next(&mut run, Duration::from_secs(10)) {
            Ok(Next::Batch(batch)) => {
                check(&batch, ROWS);
                count += 1;
            }
            Ok(Next::Waiting) => {}
            Ok(Next::End) => panic!("no error"),
            Err(error) => break error,
        }
    };
    assert_eq!(count, 19, "a batch is a chunk here, and the twentieth fails");
    assert_eq!(error.kind(), ErrorKind::Io);
    assert!(matches!(loader.next(&mut run, Duration::from_secs(10)).unwrap(), Next::End));
}

#[test]
fn ranks_without_a_word_about_the_tail_are_refused_when_there_is_one() {
    let shard = Shard { rank: 0, world: 2 };
    let error = Loader::new(set(&[make(ROWS)]), Options { shard, ..options(Shuffle::Full) }).unwrap_err();
    assert!(error.to_string().contains("pad"), "{error}");
    let even = Rows { count: 64, ..ROWS };
    Loader::new(set(&[make(even)]), Options { shard, ..options(Shuffle::Full) }).unwrap();
}

#[test]
fn padding_is_zero_even_in_memory_that_was_used_before() {
    let options =
        Options { shard: Shard { rank: 1, world: 2 }, tail: Some(Tail::Pad), ..options(Shuffle::Full) };
    let loader = Loader::new(set(&[make(ROWS)]), options).unwrap();
    for _ in 0..3 {
        let batches = rest(&loader);
        assert!(batches.last().unwrap().samples.iter().any(Option::is_none));
    }
}

#[test]
fn with_memory_for_two_batches_each_is_made_when_it_is_asked_for() {
    let rows = Rows { count: 64, row_len: 64 << 10, chunk: 0 };
    // A batch is 2 MiB: the consumer's own, and the one that is made.
    let options = Options { memory: Some(5 << 20), ..options(Shuffle::Full) };
    let (set, origin) = set_on(&[make(rows)], FaultSchedule::default());
    let loader = Loader::new(set, options).unwrap();
    let mut run = loader.start().unwrap();
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(origin.counters().operations, 0);
    let mut seen = 0;
    while let Next::Batch(batch) = loader.next(&mut run, Duration::from_secs(10)).unwrap() {
        check(&batch, rows);
        seen += batch.samples.len();
    }
    assert_eq!(seen, 64);
}
