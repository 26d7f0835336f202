//! Batches from something else than files: what a maker is asked, on which threads, and what counts as used.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::{
    collections::HashSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread::{self, ThreadId},
    time::Duration,
};

use forebay_batch::{
    Arena, BatchMaker, BatchRequest, FieldArray, LoaderStats, MadeFields, MakerThreads, Verify,
};
use forebay_container::{Dtype, Number, cf::ValueKind};
use forebay_loader::{Batch, Loader, Next, OnError, Options, Run};
use forebay_plan::{LoaderState, SetIdentity, Shuffle, StateCheck};
use forebay_process::{Error, ErrorKind, Result};

const COUNT: u64 = 100;

/// Samples that are their own numbers, from memory.
#[derive(Debug)]
struct MemoryMaker {
    set: SetIdentity,
    arena: Arc<Arena>,
    threads: MakerThreads,
    /// The samples that cannot be made.
    broken: HashSet<u64>,
    /// So many batches are given with something to verify, which then fails.
    changing: Arc<AtomicU64>,
    called_on: Mutex<HashSet<ThreadId>>,
}

#[derive(Debug)]
struct Changed;

impl Verify for Changed {
    fn verify(&self) -> Result<()> {
        Err(Error::new(ErrorKind::Unavailable, "was written to"))
    }
}

impl MemoryMaker {
    fn new(threads: MakerThreads) -> Self {
        let (content, version) = ("numbers".to_owned(), "1".to_owned());
        Self {
            set: SetIdentity { part_lens: vec![COUNT], group_len: 10, numbering: None, content, version },
            arena: Arena::new(1 << 20),
            threads,
            broken: HashSet::new(),
            changing: Arc::default(),
            called_on: Mutex::default(),
        }
    }
}

impl BatchMaker for MemoryMaker {
    fn set(&self) -> &SetIdentity {
        &self.set
    }

    fn threads(&self) -> MakerThreads {
        self.threads
    }

    fn make(&self, request: &BatchRequest<'_>) -> Result<MadeFields> {
        self.called_on.lock().unwrap().insert(thread::current().id());
        let mut bytes = self.arena.take(request.samples.len() * 8)?;
        for (sample, bytes) in request.samples.iter().zip(bytes.chunks_exact_mut(8)) {
            if sample.is_some_and(|sample| self.broken.contains(&sample)) {
                return Err(Error::new(ErrorKind::Corrupt, "a broken sample"));
            }
            bytes.copy_from_slice(&sample.unwrap_or(0).to_ne_bytes());
        }
        let is_changed = self.changing.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok();
        let field = FieldArray {
            name: "x".into(),
            dtype: Dtype::native(Number::U64),
            kind: ValueKind::Number,
            shape: vec![request.samples.len() as u64],
            bytes,
            offsets: None,
        };
        let unverified = is_changed.then(|| Box::new(Changed) as Box<dyn Verify>);
        Ok(MadeFields { fields: vec![field], unverified })
    }

    fn is_too_long(&self, _: u64) -> bool {
        false
    }

    fn release_idle_memory(&self) {}

    fn stats(&self) -> LoaderStats {
        LoaderStats::default()
    }
}

fn options() -> Options {
    Options { batch_size: 10, shuffle: Shuffle::Full, seed: 3, read_threads: Some(2), ..Options::default() }
}

fn loader(maker: MemoryMaker) -> (Loader, Arc<MemoryMaker>) {
    let maker = Arc::new(maker);
    (Loader::of_maker(Arc::clone(&maker) as _, options()).unwrap(), maker)
}

/// The samples of `batch`, which its values say too.
fn samples(batch: &Batch) -> Vec<u64> {
    let values = batch.field("x").unwrap().bytes.chunks_exact(8);
    let values: Vec<u64> = values.map(|value| u64::from_ne_bytes(value.try_into().unwrap())).collect();
    assert_eq!(values, batch.samples.iter().flatten().copied().collect::<Vec<_>>());
    values
}

fn epoch(loader: &Loader) -> Vec<u64> {
    loader.batches().unwrap().flat_map(|batch| samples(&batch.unwrap())).collect()
}

fn take(loader: &Loader, run: &mut Run) -> Option<Batch> {
    loop {
        match loader.next_uncommitted(run, Duration::from_secs(10)).unwrap() {
            Next::Batch(batch) => return Some(*batch),
            Next::Waiting => {}
            Next::End => return None,
        }
    }
}

fn resumed(state: &LoaderState) -> Vec<u64> {
    let (loader, _) = loader(MemoryMaker::new(MakerThreads::Any));
    let _ = loader.load_state(state, StateCheck::Strict).unwrap();
    epoch(&loader)
}

#[test]
fn batches_of_any_maker_come_in_the_order_of_the_plan_on_any_threads() {
    let (threaded, maker) = loader(MemoryMaker::new(MakerThreads::Any));
    let whole = epoch(&threaded);
    let mut sorted = whole.clone();
    sorted.sort_unstable();
    assert!(sorted.into_iter().eq(0..COUNT) && !whole.is_sorted());
    assert!(!maker.called_on.lock().unwrap().contains(&thread::current().id()));
    assert_eq!((threaded.stats().batches, threaded.stats().samples), (10, COUNT));
    let (on_caller, maker) = loader(MemoryMaker::new(MakerThreads::Caller));
    assert_eq!(epoch(&on_caller), whole);
    assert_eq!(*maker.called_on.lock().unwrap(), HashSet::from([thread::current().id()]));
    assert_ne!(epoch(&on_caller), whole, "the next epoch");
}

#[test]
fn a_run_on_the_callers_thread_can_be_closed_and_ends_with_the_error_of_its_maker() {
    let (closing, _) = loader(MemoryMaker::new(MakerThreads::Caller));
    let mut run = closing.start().unwrap();
    take(&closing, &mut run).unwrap();
    run.close();
    assert!(take(&closing, &mut run).is_none());
    let broken = MemoryMaker { broken: HashSet::from([42]), ..MemoryMaker::new(MakerThreads::Caller) };
    let (failing, _) = loader(broken);
    let error = failing.batches().unwrap().find_map(Result::err).unwrap();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
}

#[test]
fn samples_that_a_maker_cannot_make_are_left_out_where_that_is_wanted() {
    for threads in [MakerThreads::Any, MakerThreads::Caller] {
        let maker = MemoryMaker { broken: HashSet::from([7, 42]), ..MemoryMaker::new(threads) };
        let skipping = Options { on_error: OnError::Skip, ..options() };
        let loader = Loader::of_maker(Arc::new(maker), skipping).unwrap();
        let mut seen = epoch(&loader);
        seen.sort_unstable();
        assert!(seen.into_iter().eq((0..COUNT).filter(|sample| ![7, 42].contains(sample))));
        assert_eq!(loader.stats().skipped, 2);
    }
}

#[test]
fn a_batch_whose_source_changed_meanwhile_is_made_anew() {
    for (threads, prefetch) in [(MakerThreads::Any, 4), (MakerThreads::Any, 0), (MakerThreads::Caller, 4)] {
        let maker = Arc::new(MemoryMaker::new(threads));
        // Each is made once more on the way that finds the change; the run ends where that fails too.
        let skipping = Options { on_error: OnError::Skip, prefetch, ..options() };
        let loader = Loader::of_maker(Arc::clone(&maker) as _, skipping).unwrap();
        maker.changing.store(1, Relaxed);
        let mut seen = epoch(&loader);
        seen.sort_unstable();
        assert!(seen.into_iter().eq(0..COUNT), "{threads:?}");
    }
}

#[test]
fn batches_that_are_taken_ahead_count_in_the_state_once_they_are_committed() {
    let whole = epoch(&loader(MemoryMaker::new(MakerThreads::Any)).0);
    let (ahead, _) = loader(MemoryMaker::new(MakerThreads::Any));
    let mut run = ahead.start().unwrap();
    let start = ahead.state();
    let taken: Vec<Batch> = (0..3).map(|_| take(&ahead, &mut run).unwrap()).collect();
    assert_eq!(ahead.state(), start, "nothing is used yet");
    ahead.commit(taken[0].receipt());
    assert_eq!(resumed(&ahead.state()), whole[10..]);
    assert_eq!(ahead.remaining().unwrap(), 9);
    // Later ones stand for those before, and what is committed stays so.
    ahead.commit(taken[2].receipt());
    ahead.commit(taken[1].receipt());
    assert_eq!(resumed(&ahead.state()), whole[30..]);
}

#[test]
fn an_epoch_is_over_once_its_last_batch_is_committed() {
    let whole = epoch(&loader(MemoryMaker::new(MakerThreads::Any)).0);
    let broken = whole[90..].iter().copied().collect();
    let without_last = MemoryMaker { broken, ..MemoryMaker::new(MakerThreads::Any) };
    for (maker, batch_count) in [(MemoryMaker::new(MakerThreads::Any), 10), (without_last, 9)] {
        let skipping = Options { on_error: OnError::Skip, ..options() };
        let ahead = Loader::of_maker(Arc::new(maker), skipping).unwrap();
        let mut run = ahead.start().unwrap();
        let mut receipts = Vec::new();
        while let Some(batch) = take(&ahead, &mut run) {
            receipts.push(batch.receipt());
        }
        assert_eq!(receipts.len(), batch_count);
        assert_eq!((ahead.state().epoch, ahead.state().position), (0, 0));
        receipts.iter().for_each(|receipt| ahead.commit(*receipt));
        assert_eq!((ahead.state().epoch, ahead.state().position), (1, 0));
        ahead.commit(receipts[0]);
        assert_eq!((ahead.state().epoch, ahead.state().position), (1, 0), "a run that is over");
    }
}

#[test]
fn a_loader_without_files_has_no_schedule_and_says_so() {
    let (loader, _) = loader(MemoryMaker::new(MakerThreads::Any));
    assert_eq!(loader.schedule().unwrap_err().kind(), ErrorKind::Unsupported);
    assert_eq!(loader.estimate().unwrap_err().kind(), ErrorKind::Unsupported);
    let Next::Batch(batch) = loader.next(&mut loader.start().unwrap(), Duration::from_secs(10)).unwrap()
    else {
        panic!("a batch")
    };
    assert_eq!((batch.epoch, loader.in_force().threads), (0, 2));
}
