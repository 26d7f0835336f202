//! Runs that follow each other: what is committed over the border of epochs, whose batches count, and which of them waits for memory.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use forebay_batch::{
    Arena, BatchMaker, BatchRequest, Bottleneck, LoaderStats, MadeFields, MakerThreads, MemoryTurn,
};
use forebay_loader::{Batch, Loader, Next, Options, Run};
use forebay_plan::{LoaderState, SetIdentity, Shuffle, StateCheck};
use forebay_process::Result;

const EPOCHS: u64 = 3;
const COUNT: u64 = 10;
const BATCH: u64 = 3;
const STEPS: usize = 4;

/// Makes batches without fields, of which each sets memory aside.
#[derive(Debug)]
struct EmptyMaker {
    set: SetIdentity,
    arena: Arc<Arena>,
    /// Bytes that each batch sets aside.
    len: u64,
    /// How it stood with each batch when it was begun to be made, by epoch and step.
    turns: Mutex<HashMap<(u64, u64), MemoryTurn>>,
}

impl EmptyMaker {
    fn new(len: u64) -> Arc<Self> {
        let (content, version) = ("numbers".to_owned(), "1".to_owned());
        let set = SetIdentity { part_lens: vec![COUNT], group_len: 5, numbering: None, content, version };
        Arc::new(Self { set, arena: Arena::new(1000), len, turns: Mutex::default() })
    }
}

impl BatchMaker for EmptyMaker {
    fn set(&self) -> &SetIdentity {
        &self.set
    }

    fn threads(&self) -> MakerThreads {
        MakerThreads::Any
    }

    fn make(&self, request: &BatchRequest<'_>) -> Result<MadeFields> {
        let place = (request.epoch.number(), request.step);
        self.turns.lock().unwrap().insert(place, request.turn.turn());
        drop(self.arena.reserve(self.len, request.turn)?);
        Ok(MadeFields { fields: Vec::new(), unverified: None })
    }

    fn is_too_long(&self, _: u64) -> bool {
        false
    }

    fn release_idle_memory(&self) {}

    fn stats(&self) -> LoaderStats {
        LoaderStats::default()
    }
}

fn loader(maker: &Arc<EmptyMaker>, prefetch: usize) -> Loader {
    let options =
        Options { shuffle: Shuffle::Full, seed: 7, batch_size: BATCH, prefetch, ..Options::default() };
    Loader::of_maker(Arc::clone(maker) as _, Options { read_threads: Some(2), ..options }).unwrap()
}

fn next(loader: &Loader, run: &mut Run) -> Option<Batch> {
    let began = Instant::now();
    loop {
        match loader.next_uncommitted(run, Duration::from_millis(10)).unwrap() {
            Next::Batch(batch) => return Some(*batch),
            Next::End => return None,
            Next::Waiting => assert!(began.elapsed() < Duration::from_secs(300), "no batch comes"),
        }
    }
}

/// Takes batches over the borders of epochs, none of them committed.
struct Taker<'a> {
    loader: &'a Loader,
    run: Run,
    follower: Option<Run>,
    /// Begins epochs ahead of their turn.
    is_ahead: bool,
}

impl<'a> Taker<'a> {
    fn new(loader: &'a Loader, is_ahead: bool) -> Self {
        Self { loader, run: loader.start().unwrap(), follower: None, is_ahead }
    }

    fn take(&mut self) -> Batch {
        loop {
            if let Some(batch) = next(self.loader, &mut self.run) {
                if self.is_ahead && self.follower.is_none() {
                    self.follower = self.loader.start_after(&self.run).unwrap();
                }
                return batch;
            }
            let ahead = self.follower.take().filter(|ahead| self.loader.follow(ahead));
            self.run = ahead.unwrap_or_else(|| self.loader.start_next(&self.run).unwrap());
        }
    }
}

/// Samples of what comes after `state`, up to the end of the last epoch.
fn rest(maker: &Arc<EmptyMaker>, state: &LoaderState) -> Vec<u64> {
    let loader = loader(maker, 0);
    let _ = loader.load_state(state, StateCheck::Strict).unwrap();
    let mut samples = Vec::new();
    while loader.upcoming().0 < EPOCHS {
        for batch in loader.batches().unwrap() {
            samples.extend(batch.unwrap().samples.into_iter().flatten());
        }
    }
    samples
}

fn samples(batches: &[Batch]) -> Vec<u64> {
    batches.iter().flat_map(|batch| batch.samples.iter().flatten().copied()).collect()
}

#[test]
fn whatever_was_committed_of_batches_of_several_epochs_a_state_goes_on_right_after_it() {
    let maker = EmptyMaker::new(0);
    let all = STEPS * usize::try_from(EPOCHS).unwrap();
    let whole = rest(&maker, &loader(&maker, 0).state());
    assert_eq!(whole.len() as u64, COUNT * EPOCHS);
    for is_ahead in [false, true] {
        for taken in 0..=all {
            for committed in 0..=taken {
                let loader = loader(&maker, 4);
                let mut taker = Taker::new(&loader, is_ahead);
                let batches: Vec<_> = (0..taken).map(|_| taker.take()).collect();
                if let Some(last) = committed.checked_sub(1) {
                    loader.commit(batches[last].receipt());
                }
                assert_eq!(
                    samples(&batches)[..],
                    whole[..samples(&batches).len()],
                    "in the order of the plan"
                );
                let mut seen = samples(&batches[..committed]);
                seen.extend(rest(&maker, &loader.state()));
                assert_eq!(seen, whole, "{committed} of {taken} committed, ahead: {is_ahead}");
            }
        }
    }
}

#[test]
fn batches_that_are_committed_some_time_after_they_were_taken_count_over_the_border_of_epochs() {
    let maker = EmptyMaker::new(0);
    let whole = rest(&maker, &loader(&maker, 0).state());
    for (lag, is_ahead) in [(1, true), (3, true), (5, false), (9, true), (9, false)] {
        let loader = loader(&maker, 4);
        let mut taker = Taker::new(&loader, is_ahead);
        let mut batches = Vec::new();
        for number in 0..STEPS * usize::try_from(EPOCHS).unwrap() {
            batches.push(taker.take());
            let Some(used) = number.checked_sub(lag) else { continue };
            loader.commit(batches[used].receipt());
            // One that comes late, or twice, changes nothing.
            loader.commit(batches[used / 2].receipt());
            let mut seen = samples(&batches[..=used]);
            seen.extend(rest(&maker, &loader.state()));
            assert_eq!(seen, whole, "after {used}, {lag} behind");
        }
    }
}

#[test]
fn a_batch_of_a_run_begun_ahead_and_left_does_not_count_for_the_run_begun_in_its_place() {
    let maker = EmptyMaker::new(0);
    let loader = loader(&maker, 4);
    let mut taker = Taker::new(&loader, true);
    let batch = loop {
        let batch = taker.take();
        loader.commit(batch.receipt());
        if taker.follower.is_some() {
            break batch;
        }
    };
    let mut left = taker.follower.take().unwrap();
    let of_left = next(&loader, &mut left).unwrap();
    assert_eq!(batch.epoch + 1, of_left.epoch);
    let _run = loader.start().unwrap();
    loader.commit(of_left.receipt());
    let state = loader.state();
    assert_eq!((state.epoch, state.position), (1, 0), "nothing of the new run was used");
    assert!(!loader.follow(&left));
}

#[test]
fn a_start_in_the_middle_of_an_epoch_begins_it_once_more_whatever_was_committed_of_those_before() {
    let maker = EmptyMaker::new(0);
    for (committed, next_epoch) in [(None, 2), (Some(0), 2), (Some(2 * STEPS), 3)] {
        let loader = loader(&maker, 4);
        let mut taker = Taker::new(&loader, false);
        let batches: Vec<_> = (0..=2 * STEPS).map(|_| taker.take()).collect();
        if let Some(number) = committed {
            loader.commit(batches[number].receipt());
        }
        let mut run = loader.start().unwrap();
        assert_eq!(next(&loader, &mut run).unwrap().epoch, next_epoch, "{committed:?}");
    }
}

#[test]
fn a_run_begun_ahead_makes_no_more_batches_than_the_rest_of_the_one_before_leaves_room_for() {
    let maker = EmptyMaker::new(0);
    let loader = loader(&maker, 4);
    let ahead = usize::try_from(loader.in_force().batches_ahead).unwrap();
    let mut taker = Taker::new(&loader, true);
    while taker.follower.is_none() {
        taker.take();
    }
    let made = || maker.turns.lock().unwrap().keys().filter(|(epoch, _)| *epoch == 1).count();
    let began = Instant::now();
    while made() < 1 {
        assert!(began.elapsed() < Duration::from_secs(300), "the next epoch is not begun ahead");
        thread::yield_now();
    }
    // Threads that would make more have time to.
    thread::sleep(Duration::from_millis(50));
    assert!(made() <= (ahead / 2).max(1), "{} of {ahead}", made());
    let all: Vec<_> = (0..STEPS).map(|_| taker.take()).collect();
    assert!(all.iter().any(|batch| batch.epoch == 1));
}

#[test]
fn the_first_batch_of_a_run_begun_ahead_waits_for_memory_until_its_epoch_has_come() {
    let maker = EmptyMaker::new(0);
    let loader = loader(&maker, 4);
    let mut taker = Taker::new(&loader, true);
    while taker.follower.is_none() {
        taker.take();
    }
    let began = Instant::now();
    while !maker.turns.lock().unwrap().contains_key(&(1, 0)) {
        assert!(began.elapsed() < Duration::from_secs(300), "the next epoch is not begun ahead");
        thread::yield_now();
    }
    assert_eq!(maker.turns.lock().unwrap()[&(1, 0)], MemoryTurn::Later);
}

#[test]
fn where_memory_is_for_one_batch_at_a_time_all_epochs_come_and_waits_for_memory_are_counted_as_such() {
    let maker = EmptyMaker::new(900);
    let loader = loader(&maker, 4);
    let mut taker = Taker::new(&loader, true);
    let all: Vec<_> = (0..STEPS * usize::try_from(EPOCHS).unwrap()).map(|_| taker.take()).collect();
    assert_eq!(samples(&all), rest(&EmptyMaker::new(0), &self::loader(&maker, 0).state()));
    assert!(loader.stats().memory_ns > 0);
    let stats = loader.stats();
    let limited = [Bottleneck::Memory, Bottleneck::Consumer];
    assert!(limited.contains(&stats.bottleneck()), "{stats:?}");
}

#[test]
fn an_epoch_that_is_set_while_a_run_is_under_way_comes_after_it_and_its_batches_count() {
    let maker = EmptyMaker::new(0);
    for (set, lag, prefetch) in [0, 1, 5].into_iter().flat_map(|set| [(set, 0, 0), (set, 0, 4), (set, 2, 4)])
    {
        for taken in 0..=STEPS {
            let loader = loader(&maker, prefetch);
            let mut run = loader.start().unwrap();
            let mut batches = Vec::new();
            let mut position = 0;
            for number in 0..STEPS {
                if number == taken {
                    loader.set_epoch(set);
                }
                batches.push(next(&loader, &mut run).unwrap());
                let Some(used) = number.checked_sub(lag) else { continue };
                loader.commit(batches[used].receipt());
                position += samples(&batches[used..=used]).len() as u64;
                let state = loader.state();
                let expected = if used + 1 < STEPS {
                    (0, position)
                } else if taken < STEPS {
                    (set, 0)
                } else {
                    (1, 0)
                };
                assert_eq!(
                    (state.epoch, state.position),
                    expected,
                    "{set} set at {taken}, batch {used}, {lag} behind"
                );
            }
            if taken == STEPS {
                loader.set_epoch(set);
            }
            assert!(next(&loader, &mut run).is_none());
            assert!(loader.start_after(&run).unwrap().is_none(), "another is to come");
            let after = loader.start_next(&run).unwrap();
            assert_eq!(after.epoch(), set, "{set} set at {taken}, {lag} behind");
        }
    }
}

#[test]
fn an_epoch_that_is_set_once_a_run_was_closed_is_where_the_state_is() {
    let maker = EmptyMaker::new(0);
    for set in [0, 1, 5] {
        let loader = loader(&maker, 4);
        let mut run = loader.start().unwrap();
        let batches: Vec<_> = (0..2).map(|_| next(&loader, &mut run).unwrap()).collect();
        loader.commit(batches[0].receipt());
        run.close();
        loader.set_epoch(set);
        assert_eq!((loader.state().epoch, loader.state().position), (set, 0));
        loader.commit(batches[1].receipt());
        assert_eq!((loader.state().epoch, loader.state().position), (set, 0), "it was left");
        assert_eq!(loader.start().unwrap().epoch(), set);
    }
}

#[test]
fn the_last_epoch_that_can_be_counted_is_followed_by_the_first() {
    let maker = EmptyMaker::new(0);
    for prefetch in [0, 4] {
        let loader = loader(&maker, prefetch);
        loader.set_epoch(u64::MAX);
        let mut taker = Taker::new(&loader, true);
        for number in 0..=STEPS {
            let batch = taker.take();
            assert_eq!(batch.epoch, if number < STEPS { u64::MAX } else { 0 });
            loader.commit(batch.receipt());
        }
        assert_eq!(loader.state().epoch, 0);
    }
}
