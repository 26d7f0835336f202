//! What an observer of a loader is given, and when.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot be set up has failed")]

mod made;

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use forebay_loader::{EpochObserver, FollowedRun, Loader, Next, Options, Run, SampleSet, Schedule};
use forebay_plan::{Resumed, Shuffle, StateCheck};
use forebay_process::{Error, Result};
use forebay_source::FaultSchedule;
use made::{Rows, make, set, set_on, without_spill};

const ROWS: Rows = Rows { count: 20, row_len: 16, chunk: 4 };
/// Batches of an epoch.
const STEPS: u64 = 5;

/// What an observer was called with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    /// The address of the schedule, the epoch, and the position in it.
    Begin(usize, u64, u64),
    Deliver(u64, u64),
    End,
    Forget,
}

/// An observer that records its calls, for tests that outlive its loader too.
#[derive(Clone, Debug, Default)]
struct Recorder {
    calls: Arc<Mutex<Vec<Call>>>,
    schedules: Arc<Mutex<Vec<Arc<Schedule>>>>,
    refuses: Arc<AtomicBool>,
}

impl EpochObserver for Recorder {
    fn begin(&self, schedule: &Arc<Schedule>, epoch: u64, position: u64) -> Result<()> {
        self.add(Call::Begin(Arc::as_ptr(schedule).addr(), epoch, position));
        // Kept, so that another schedule has another address.
        self.schedules.lock().unwrap().push(Arc::clone(schedule));
        if self.refuses.load(Relaxed) { Err(Error::invalid("refused")) } else { Ok(()) }
    }

    fn deliver(&self, epoch: u64, step: u64) {
        self.add(Call::Deliver(epoch, step));
    }

    fn end(&self) {
        self.add(Call::End);
    }

    fn forget(&self) {
        self.add(Call::Forget);
    }
}

impl Recorder {
    fn add(&self, call: Call) {
        self.calls.lock().unwrap().push(call);
    }

    /// The calls since this was last asked.
    fn take(&self) -> Vec<Call> {
        std::mem::take(&mut self.calls.lock().unwrap())
    }
}

fn options(seed: u64) -> Options {
    let options = Options { batch_size: 4, shuffle: Shuffle::Full, seed, ..Options::default() };
    without_spill(Options { read_threads: Some(1), memory: Some(64 << 20), ..options })
}

fn observed(set: Arc<SampleSet>) -> (Loader, Recorder) {
    let (mut loader, recorder) = (Loader::new(set, options(1)).unwrap(), Recorder::default());
    loader.observe(Box::new(recorder.clone())).unwrap();
    (loader, recorder)
}

/// The batches of `run`, at most `count`, committed.
fn take(loader: &Loader, run: &mut Run, mut count: u64) {
    while count > 0 {
        match loader.next(run, Duration::from_secs(1)).unwrap() {
            Next::Batch(_) => count -= 1,
            Next::Waiting => {}
            Next::End => return,
        }
    }
}

fn whole_epoch(schedule: usize, epoch: u64) -> Vec<Call> {
    let delivered = (0..STEPS).map(|step| Call::Deliver(epoch, step));
    [Call::Begin(schedule, epoch, 0)].into_iter().chain(delivered).chain([Call::End]).collect()
}

/// The address of the schedule of the first of `calls`.
fn schedule_of(calls: &[Call]) -> usize {
    match calls.first() {
        Some(Call::Begin(schedule, ..)) => *schedule,
        other => panic!("an epoch that begins, got {other:?}"),
    }
}

#[test]
fn each_epoch_begins_once_before_its_first_batch_and_ends_once_after_its_last() {
    let (loader, recorder) = observed(set(&[make(ROWS)]));
    let mut run = loader.start().unwrap();
    take(&loader, &mut run, u64::MAX);
    let first = recorder.take();
    let schedule = schedule_of(&first);
    assert_eq!(first, whole_epoch(schedule, 0));
    take(&loader, &mut run, 1);
    assert_eq!(recorder.take(), [], "an end that is asked for again");
    let mut run = loader.start_next(&run).unwrap();
    take(&loader, &mut run, u64::MAX);
    assert_eq!(recorder.take(), whole_epoch(schedule, 1), "the same schedule serves every epoch");
    drop(loader);
    assert_eq!(recorder.take(), []);
}

#[test]
fn an_epoch_that_is_left_ends_before_the_next_begins() {
    let (loader, recorder) = observed(set(&[make(ROWS)]));
    take(&loader, &mut loader.start().unwrap(), 2);
    let left = recorder.take();
    let schedule = schedule_of(&left);
    assert_eq!(left, [Call::Begin(schedule, 0, 0), Call::Deliver(0, 0), Call::Deliver(0, 1)]);
    loader.set_epoch(7);
    take(&loader, &mut loader.start().unwrap(), 1);
    assert_eq!(recorder.take(), [Call::End, Call::Begin(schedule, 7, 0), Call::Deliver(7, 0)]);
    drop(loader);
    assert_eq!(recorder.take(), [Call::End], "the loader is dropped");
}

#[test]
fn an_observer_is_told_of_an_epoch_before_any_byte_of_it_is_read() {
    let (set, origin) = set_on(&[make(ROWS)], FaultSchedule::default());
    let before = origin.counters().operations;
    let (loader, recorder) = observed(set);
    recorder.refuses.store(true, Relaxed);
    assert!(loader.start().is_err());
    assert_eq!(origin.counters().operations, before, "nothing was read");
    assert_eq!(loader.upcoming(), (0, 0), "the epoch did not start");
    recorder.refuses.store(false, Relaxed);
    take(&loader, &mut loader.start().unwrap(), u64::MAX);
    assert!(origin.counters().operations > before);
    let calls = recorder.take();
    let schedule = schedule_of(&calls);
    assert_eq!(calls[..2], [Call::Begin(schedule, 0, 0), Call::End], "one that failed ends too");
    assert_eq!(calls[2..], whole_epoch(schedule, 0));
}

#[test]
fn a_state_goes_on_where_it_was_taken_and_one_of_another_order_brings_another_schedule() {
    let set = set(&[make(ROWS)]);
    let (loader, recorder) = observed(Arc::clone(&set));
    take(&loader, &mut loader.start().unwrap(), 2);
    let schedule = schedule_of(&recorder.take());
    let resumed = loader.load_state(&loader.state(), StateCheck::Strict);
    assert_eq!(resumed.unwrap(), Resumed::SameFiles);
    take(&loader, &mut loader.start().unwrap(), 1);
    assert_eq!(recorder.take(), [Call::End, Call::Begin(schedule, 0, 8), Call::Deliver(0, 0)]);
    let other = Loader::new(set, options(2)).unwrap();
    let resumed = loader.load_state(&other.state(), StateCheck::Strict);
    assert_eq!(resumed.unwrap(), Resumed::SameFiles);
    assert_eq!(recorder.take(), [Call::Forget]);
    take(&loader, &mut loader.start().unwrap(), 1);
    let calls = recorder.take();
    let another = schedule_of(&calls[1..]);
    assert_ne!(another, schedule);
    assert_eq!(calls, [Call::End, Call::Begin(another, 0, 0), Call::Deliver(0, 0)]);
}

#[test]
fn an_observer_has_one_epoch_at_a_time() {
    let (loader, recorder) = observed(set(&[make(ROWS)]));
    let mut run = FollowedRun::new(loader.start().unwrap(), true);
    for epoch in 0..3 {
        let mut steps = 0;
        loop {
            match run.next(&loader, Duration::from_secs(1)).unwrap() {
                Next::Batch(batch) => loader.commit(batch.receipt()),
                Next::Waiting => continue,
                Next::End => break,
            }
            steps += 1;
        }
        assert_eq!(steps, STEPS);
        let calls = recorder.take();
        assert_eq!(calls, whole_epoch(schedule_of(&calls), epoch));
        run.go_on(&loader, true).unwrap();
    }
}

#[test]
fn an_observer_is_found_by_its_type() {
    #[derive(Debug)]
    struct Other;
    impl EpochObserver for Other {
        fn begin(&self, _: &Arc<Schedule>, _: u64, _: u64) -> Result<()> {
            Ok(())
        }
        fn deliver(&self, _: u64, _: u64) {}
        fn end(&self) {}
        fn forget(&self) {}
    }

    let set = set(&[make(ROWS)]);
    assert!(Loader::new(Arc::clone(&set), options(1)).unwrap().observer::<Recorder>().is_none());
    let (loader, recorder) = observed(set);
    assert!(loader.observer::<Other>().is_none());
    assert!(Arc::ptr_eq(&loader.observer::<Recorder>().unwrap().calls, &recorder.calls));
}
