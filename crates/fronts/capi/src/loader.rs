//! Epochs of batches.

use std::{
    ffi::c_char,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use forebay::{
    Error, Loader, Result, TierObserver, TierReport,
    loader::{FollowedRun, Next},
    plan::{LoaderState, StateCheck},
};

use crate::{
    batch::BatchHandle,
    border::{OutArg, handle, list, owned_text, place, put, versioned},
    dataset::DatasetHandle,
    loader_arguments::LoaderArguments,
    status::{END, OK, TIMEOUT, free, give, guard},
    turns::Turns,
};

/// `forebay_loader`: gives batches, epoch after epoch.
pub(crate) struct LoaderHandle {
    loader: Loader,
    /// Epochs from one start to the end.
    epochs: u64,
    /// True where batches count in the state as they are given out.
    commits: bool,
    /// What asking for a batch waits at least.
    least_patience: Duration,
    /// Threads that wait for a batch.
    turns: Turns,
    /// Held by the thread that has its turn, or by one that interrupts.
    progress: Mutex<LoaderProgress>,
}

/// How far the epochs of a start are.
#[derive(Default)]
struct LoaderProgress {
    /// The one under way; after the last epoch of a start, that one.
    run: Option<FollowedRun>,
    /// Epochs that were begun.
    begun: u64,
    /// True from a stop to the next start: there are no more batches.
    is_stopped: bool,
}

/// What asking for a batch gives.
enum NextBatch {
    Batch(BatchHandle),
    End,
    Timeout,
}

/// A thread that waits for a batch looks so often for one that starts anew or stops meanwhile.
const SLICE: Duration = Duration::from_millis(50);

/// Where nothing is made ahead a batch is made while somebody waits for it: one who never waits would never get any.
const LEAST_WITHOUT_PREFETCH: Duration = Duration::from_millis(1);

impl LoaderHandle {
    fn open(dataset: &DatasetHandle, given: &LoaderArguments) -> Result<Self> {
        let mut loader = Loader::new(Arc::clone(dataset.set()), given.options()?)?;
        if let Some(tiers) = dataset.tiers() {
            loader.observe(Box::new(TierObserver::new(Arc::clone(tiers))))?;
        }
        Ok(Self::new(loader, given))
    }

    /// Wraps `loader`, for as many epochs as are `given`.
    pub(crate) fn new(loader: Loader, given: &LoaderArguments) -> Self {
        let (epochs, commits) = (given.epochs(), given.commits());
        let least_patience =
            if loader.options().prefetch == 0 { LEAST_WITHOUT_PREFETCH } else { Duration::ZERO };
        let (turns, progress) = (Turns::default(), Mutex::default());
        Self { loader, epochs, commits, least_patience, turns, progress }
    }

    fn progress(&self) -> MutexGuard<'_, LoaderProgress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next batch, waiting at most `patience` for it, behind the threads that have asked before.
    fn next(&self, patience: Option<Duration>) -> Result<NextBatch> {
        let until =
            patience.and_then(|patience| Instant::now().checked_add(patience.max(self.least_patience)));
        let Some(turn) = self.turns.wait(until) else { return Ok(NextBatch::Timeout) };
        loop {
            turn.let_pass();
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            match self.advance(left.unwrap_or(SLICE).min(SLICE))? {
                Next::Batch(batch) => return Ok(NextBatch::Batch(BatchHandle::new(*batch))),
                Next::End => return Ok(NextBatch::End),
                Next::Waiting if left.is_some_and(|left| left.is_zero()) => return Ok(NextBatch::Timeout),
                Next::Waiting => {}
            }
        }
    }

    /// One look for the next batch, which goes from epoch to epoch; the end is that of the last of them.
    fn advance(&self, patience: Duration) -> Result<Next> {
        let mut progress = self.progress();
        loop {
            let LoaderProgress { run, begun, is_stopped } = &mut *progress;
            let Some(current) = run else {
                if *is_stopped {
                    return Ok(Next::End);
                }
                *run = Some(FollowedRun::new(self.loader.start()?, self.epochs > 1));
                *begun = 1;
                continue;
            };
            match current.next(&self.loader, patience)? {
                Next::End if *begun < self.epochs && !*is_stopped => {
                    current.go_on(&self.loader, *begun + 1 < self.epochs)?;
                    *begun += 1;
                }
                Next::Batch(batch) => {
                    if self.commits {
                        self.loader.commit(batch.receipt());
                    }
                    return Ok(Next::Batch(batch));
                }
                next => return Ok(next),
            }
        }
    }

    /// Ends what is under way: the next batch is the first of another start. Batches of an epoch that is over can still be committed.
    fn restart(&self, then: impl FnOnce(&Loader) -> Result<()>) -> Result<()> {
        let _interruption = self.turns.interrupt();
        let mut progress = self.progress();
        then(&self.loader)?;
        let mut run = progress.run.take_if(|run| run.is_finished());
        drop(run.as_mut().and_then(FollowedRun::take_follower));
        *progress = LoaderProgress { run, ..LoaderProgress::default() };
        Ok(())
    }

    /// Ends what is under way: there are no more batches until another start. Those that were given out can still be committed.
    fn stop(&self) {
        let interruption = self.turns.interrupt();
        let mut progress = self.progress();
        progress.is_stopped = true;
        let follower = progress.run.as_mut().and_then(FollowedRun::take_follower);
        let left = (follower, progress.run.take_if(|run| !run.is_finished()));
        drop(progress);
        drop(interruption);
        // Its threads end after what they are at; those that wait for a batch need not wait for that.
        drop(left);
    }
}

/// A loader of the samples of a set.
#[unsafe(no_mangle)]
extern "C" fn forebay_loader_new(
    dataset: Option<&DatasetHandle>,
    options: *const LoaderArguments,
    loader: OutArg<'_, Option<Box<LoaderHandle>>>,
) -> i32 {
    give(loader, "loader", || {
        let options = versioned(options, "forebay_loader_options")?;
        LoaderHandle::open(handle(dataset, "dataset")?, &options)
    })
}

/// The next batch, waiting at most so many milliseconds for it, or as long as it takes where they are negative.
#[unsafe(no_mangle)]
extern "C" fn forebay_loader_next(
    loader: Option<&LoaderHandle>,
    timeout_ms: i64,
    batch: OutArg<'_, Option<Box<BatchHandle>>>,
) -> i32 {
    guard(|| {
        let batch = place(batch, "batch")?.write(None);
        let patience = u64::try_from(timeout_ms).ok().map(Duration::from_millis);
        match handle(loader, "loader")?.next(patience)? {
            NextBatch::Batch(next) => *batch = Some(Box::new(next)),
            NextBatch::End => return Ok(END),
            NextBatch::Timeout => return Ok(TIMEOUT),
        }
        Ok(OK)
    })
}

/// Calls a `verb` of the loader behind a handle.
fn call(loader: Option<&LoaderHandle>, verb: impl FnOnce(&LoaderHandle) -> Result<()>) -> i32 {
    guard(|| verb(handle(loader, "loader")?).map(|()| OK))
}

/// Begins anew, with the next epoch; one that is under way is left.
#[unsafe(no_mangle)]
extern "C" fn forebay_loader_start(loader: Option<&LoaderHandle>) -> i32 {
    call(loader, |loader| loader.restart(|_| Ok(())))
}

/// The same, with epoch `epoch`.
#[unsafe(no_mangle)]
extern "C" fn forebay_loader_set_epoch(loader: Option<&LoaderHandle>, epoch: u64) -> i32 {
    let set = |loader: &Loader| {
        loader.set_epoch(epoch);
        Ok(())
    };
    call(loader, |loader| loader.restart(set))
}

/// Ends what is under way: all threads that wait for a batch, and all that ask later, get the end.
#[unsafe(no_mangle)]
extern "C" fn forebay_loader_stop(loader: Option<&LoaderHandle>) -> i32 {
    call(loader, |loader| {
        loader.stop();
        Ok(())
    })
}

/// Batches of a whole epoch.
#[unsafe(no_mangle)]
extern "C" fn forebay_loader_length(loader: Option<&LoaderHandle>, length: OutArg<'_, u64>) -> i32 {
    call(loader, |loader| put(length, "length", loader.loader.step_count()?))
}

/// Where the consumer is: the epoch, and the positions of its order that all ranks have used.
#[unsafe(no_mangle)]
extern "C" fn forebay_loader_position(
    loader: Option<&LoaderHandle>,
    epoch: OutArg<'_, u64>,
    position: OutArg<'_, u64>,
) -> i32 {
    call(loader, |loader| {
        let state = loader.loader.state();
        put(epoch, "epoch", state.epoch)?;
        put(position, "position", state.position)
    })
}

/// Where the consumer is, as text to go on from.
#[unsafe(no_mangle)]
extern "C" fn forebay_loader_save(
    loader: Option<&LoaderHandle>,
    state: OutArg<'_, *mut c_char>,
    len: OutArg<'_, usize>,
) -> i32 {
    call(loader, |loader| {
        let (state, len) = (place(state, "state")?, place(len, "len")?);
        let text = serde_json::to_string(&loader.loader.state())
            .map_err(|error| Error::invalid(error.to_string()))?;
        len.write(text.len());
        state.write(owned_text(text));
        Ok(())
    })
}

/// Goes on from a state.
#[unsafe(no_mangle)]
extern "C" fn forebay_loader_load(
    loader: Option<&LoaderHandle>,
    state: *const c_char,
    len: usize,
    strict: i32,
) -> i32 {
    guard(|| {
        let text = std::str::from_utf8(list(state.cast::<u8>(), len, "state")?);
        let text =
            text.map_err(|error| Error::invalid("is not the state of a run").at("state").because(error))?;
        let state = LoaderState::from_json(text)?;
        let check = if strict == 0 { StateCheck::CountOnly } else { StateCheck::Strict };
        handle(loader, "loader")?.restart(|loader| loader.load_state(&state, check).map(drop))?;
        Ok(OK)
    })
}

/// Counts a batch, and those before it, as used.
#[unsafe(no_mangle)]
extern "C" fn forebay_loader_commit(loader: Option<&LoaderHandle>, batch: Option<&BatchHandle>) -> i32 {
    call(loader, |loader| match handle(batch, "batch")?.receipt() {
        Some(receipt) => {
            loader.loader.commit(receipt);
            Ok(())
        }
        None => Err(Error::invalid("is of no loader").at("batch")),
    })
}

/// What the loader did so far, as JSON.
#[unsafe(no_mangle)]
extern "C" fn forebay_loader_stats(loader: Option<&LoaderHandle>, json: OutArg<'_, *mut c_char>) -> i32 {
    call(loader, |LoaderHandle { loader, .. }| {
        let json = place(json, "json")?;
        let value = |value: serde_json::Result<serde_json::Value>| {
            value.map_err(|error| Error::invalid(error.to_string()))
        };
        let stats = loader.stats();
        let mut all = value(serde_json::to_value(stats))?;
        all["verdict"] = value(serde_json::to_value(stats.bottleneck()))?;
        all["tiers"] = value(serde_json::to_value(TierReport::from_loader(loader)))?;
        all["in_force"] = value(serde_json::to_value(loader.in_force()))?;
        json.write(owned_text(all));
        Ok(())
    })
}

/// Ends the loader and its threads; batches and tensors stay. NULL is left alone.
#[unsafe(no_mangle)]
extern "C" fn forebay_loader_free(loader: Option<Box<LoaderHandle>>) {
    free(loader);
}

#[cfg(test)]
mod tests {
    use std::{sync::Condvar, thread};

    use forebay::{
        Batch, Options,
        batch::{BatchMaker, BatchRequest, LoaderStats, MadeFields, MakerThreads},
        plan::{SetIdentity, Shuffle},
    };

    use super::*;

    /// Ten samples without fields, made while the gate is open.
    #[derive(Debug)]
    struct Numbers(SetIdentity, Arc<Gate>);

    #[derive(Debug, Default)]
    struct Gate {
        is_shut: Mutex<bool>,
        opened: Condvar,
    }

    impl Gate {
        fn shut() -> Arc<Self> {
            Arc::new(Self { is_shut: Mutex::new(true), opened: Condvar::new() })
        }

        fn open(&self) {
            *self.is_shut.lock().unwrap() = false;
            self.opened.notify_all();
        }

        fn pass(&self) {
            drop(self.opened.wait_while(self.is_shut.lock().unwrap(), |is_shut| *is_shut));
        }
    }

    impl BatchMaker for Numbers {
        fn set(&self) -> &SetIdentity {
            &self.0
        }

        fn threads(&self) -> MakerThreads {
            MakerThreads::Any
        }

        fn make(&self, _: &BatchRequest<'_>) -> Result<MadeFields> {
            self.1.pass();
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

    const EPOCHS: u64 = 3;

    /// A loader of four batches an epoch, `epochs` of which come from one start.
    fn loader(epochs: u64) -> LoaderHandle {
        loader_behind(Arc::default(), epochs)
    }

    /// The same, whose batches are made while `gate` is open.
    fn loader_behind(gate: Arc<Gate>, epochs: u64) -> LoaderHandle {
        let (content, version) = ("numbers".to_owned(), "1".to_owned());
        let set = SetIdentity { part_lens: vec![10], group_len: 5, numbering: None, content, version };
        let options = Options { shuffle: Shuffle::Full, batch_size: 3, ..Options::default() };
        let maker = Arc::new(Numbers(set, gate));
        let loader = Loader::of_maker(maker, Options { read_threads: Some(2), ..options }).unwrap();
        let (least_patience, turns, progress) = (Duration::ZERO, Turns::default(), Mutex::default());
        LoaderHandle { loader, epochs, commits: false, least_patience, turns, progress }
    }

    /// The next batches, `count` at the most; after the end of all epochs of a start, those of another where there are to be more.
    fn take(loader: &LoaderHandle, count: usize, mut starts: u64) -> Vec<Batch> {
        let mut batches = Vec::new();
        while batches.len() < count {
            match loader.advance(SLICE).unwrap() {
                Next::Batch(batch) => batches.push(*batch),
                Next::Waiting => {}
                Next::End if starts == 0 => break,
                Next::End => {
                    starts -= 1;
                    loader.restart(|_| Ok(())).unwrap();
                }
            }
        }
        batches
    }

    fn samples(batches: &[Batch]) -> Vec<u64> {
        batches.iter().flat_map(|batch| batch.samples.iter().flatten().copied()).collect()
    }

    #[test]
    fn whatever_was_committed_of_several_epochs_each_sample_comes_once_in_each() {
        let whole = samples(&take(&loader(EPOCHS), usize::MAX, 0));
        assert_eq!(whole.len(), 30);
        for (epochs, starts) in [(EPOCHS, 0), (1, 2)] {
            for (taken, committed) in (0..=12).flat_map(|taken| (0..=taken).map(move |used| (taken, used))) {
                let before = loader(epochs);
                let batches = take(&before, taken, starts);
                if let Some(last) = committed.checked_sub(1) {
                    before.loader.commit(batches[last].receipt());
                }
                let state = before.loader.state();
                let after = loader(EPOCHS - state.epoch);
                after.restart(|loader| loader.load_state(&state, StateCheck::Strict).map(drop)).unwrap();
                let mut seen = samples(&batches[..committed]);
                if state.epoch < EPOCHS {
                    seen.extend(samples(&take(&after, usize::MAX, 0)));
                }
                assert_eq!(seen, whole, "{committed} of {taken}, {epochs} epochs of a start");
            }
        }
    }

    fn until_waiting(loader: &LoaderHandle, count: usize) {
        while loader.turns.waiting_count() < count {
            thread::yield_now();
        }
    }

    fn batch_of(next: Result<NextBatch>) -> (u64, u64) {
        match next.unwrap() {
            NextBatch::Batch(batch) => (batch.epoch, batch.step),
            NextBatch::End | NextBatch::Timeout => panic!("no batch"),
        }
    }

    #[test]
    fn threads_that_wait_get_the_batches_in_the_order_of_their_calls() {
        for _ in 0..20 {
            let gate = Gate::shut();
            let loader = loader_behind(Arc::clone(&gate), EPOCHS);
            let given: Vec<_> = thread::scope(|scope| {
                let threads: Vec<_> = (1..=6)
                    .map(|count| {
                        let thread = scope.spawn(|| batch_of(loader.next(None)));
                        until_waiting(&loader, count);
                        thread
                    })
                    .collect();
                gate.open();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            assert_eq!(given, [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 1)]);
        }
    }

    #[test]
    fn a_call_that_gives_up_does_not_wait_for_another_and_costs_no_batch() {
        let gate = Gate::shut();
        let loader = loader_behind(Arc::clone(&gate), 1);
        thread::scope(|scope| {
            let waits = scope.spawn(|| batch_of(loader.next(None)));
            until_waiting(&loader, 1);
            let began = Instant::now();
            for _ in 0..20 {
                assert!(matches!(loader.next(Some(Duration::ZERO)).unwrap(), NextBatch::Timeout));
            }
            // Behind a lock that the other holds while it waits, they would take half a slice each.
            assert!(began.elapsed() < 4 * SLICE, "{:?}", began.elapsed());
            assert!(matches!(loader.next(Some(Duration::from_millis(5))).unwrap(), NextBatch::Timeout));
            gate.open();
            assert_eq!(waits.join().unwrap(), (0, 0));
        });
        assert_eq!(batch_of(loader.next(None)), (0, 1));
    }

    #[test]
    fn a_stop_ends_all_calls_that_wait_and_what_was_given_out_can_be_committed() {
        let gate = Arc::new(Gate::default());
        let loader = loader_behind(Arc::clone(&gate), u64::MAX);
        let NextBatch::Batch(first) = loader.next(None).unwrap() else { panic!("no batch") };
        // What was made ahead is taken.
        *gate.is_shut.lock().unwrap() = true;
        while let NextBatch::Batch(_) = loader.next(Some(SLICE)).unwrap() {}
        thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| loader.next(None).unwrap())).collect();
            until_waiting(&loader, 4);
            loader.stop();
            for thread in threads {
                assert!(matches!(thread.join().unwrap(), NextBatch::End));
            }
            gate.open();
        });
        assert!(matches!(loader.next(Some(Duration::ZERO)).unwrap(), NextBatch::End));
        loader.loader.commit(first.receipt().unwrap());
        assert_eq!((loader.loader.state().epoch, loader.loader.state().position), (0, 3));
        loader.restart(|_| Ok(())).unwrap();
        assert_eq!(batch_of(loader.next(None)), (1, 0));
    }

    #[test]
    fn a_loader_that_is_stopped_before_its_first_batch_gives_none() {
        let loader = loader(1);
        loader.stop();
        assert!(matches!(loader.next(None).unwrap(), NextBatch::End));
        loader.restart(|_| Ok(())).unwrap();
        assert_eq!(batch_of(loader.next(None)), (0, 0));
    }

    #[test]
    fn another_start_goes_before_the_calls_that_wait() {
        let gate = Gate::shut();
        let loader = loader_behind(Arc::clone(&gate), EPOCHS);
        thread::scope(|scope| {
            let waits = scope.spawn(|| batch_of(loader.next(None)));
            until_waiting(&loader, 1);
            let set = |loader: &Loader| {
                loader.set_epoch(7);
                Ok(())
            };
            loader.restart(set).unwrap();
            gate.open();
            assert_eq!(waits.join().unwrap(), (7, 0));
        });
    }
}
