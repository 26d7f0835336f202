//! Training and evaluation: epochs of steps, each a wait for a batch, simulated computation and a barrier.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::{self, Thread},
    time::{Duration, Instant},
};

use forebay::{
    Error, Loader, Options, Result,
    loader::{Next, Run},
    plan::{Shuffle, Tail},
    store::Wait,
    tier::Tiered,
};
use forebay_workload::{
    BlockTimings, EpochOrder, EpochTimings, Framework, Split, StepTimings, TimeDistribution, order,
};
use serde_json::json;

use crate::{
    dataset_files,
    engine::{
        EngineName, StepReader, forebay_files::open_reader, hdf5::Hdf5StepReader, synthetic::SyntheticReader,
    },
    interruption::{GLANCE, interrupted, is_interruption},
    phases::{rank_orders::RankOrders, step_maker::StepMaker, tier_counts},
    ranks::rank_run::RankRun,
    reading::parallel_access::MpiIo,
    workers::worker::BatchTimes,
};

/// What reads training and evaluation, while it lives.
#[derive(Debug, Default)]
pub(crate) struct SplitReaders {
    train: SplitReader,
    eval: SplitReader,
}

/// What reads one split.
#[derive(Debug, Default)]
struct SplitReader {
    reader: Option<Arc<dyn StepReader>>,
    /// The steps that are in memory since the first epoch, where all samples are read before it.
    held: Vec<BatchTimes>,
}

impl SplitReaders {
    fn of(&mut self, split: Split) -> &mut SplitReader {
        match split {
            Split::Train => &mut self.train,
            Split::Eval => &mut self.eval,
        }
    }
}

/// The batches of one epoch on their way.
struct EpochSteps {
    maker: Arc<StepMaker>,
    loader: Loader,
    run: Run,
    /// Steps of this rank.
    count: u64,
    /// What it knows of the others.
    of_ranks: Arc<RankOrders>,
    reader: Arc<dyn StepReader>,
    /// Steps that are in memory.
    held: Vec<BatchTimes>,
}

impl EpochSteps {
    /// Steps that this rank has a part in, if only by waiting: those of the rank that has most.
    fn of_any_rank(&self) -> u64 {
        self.count.max(self.of_ranks.steps)
    }
}

/// Ends the watch over a training when it goes, however that ended.
struct TrainingEnd {
    is_over: Arc<AtomicBool>,
    watch: Thread,
}

impl Drop for TrainingEnd {
    fn drop(&mut self) {
        self.is_over.store(true, Relaxed);
        self.watch.unpark();
    }
}

/// Where in an epoch a step is.
#[derive(Clone, Copy)]
pub(crate) struct StepPlace {
    pub(crate) split: Split,
    pub(crate) epoch: u32,
    pub(crate) step: u64,
}

impl RankRun<'_> {
    /// All epochs, with evaluation and checkpoints between them; an interrupt ends them early, and is no error.
    pub(crate) fn train(&mut self) -> Result<()> {
        self.check_files()?;
        let (is_interrupted, is_over) = (self.is_interrupted, Arc::clone(&self.is_training_over));
        thread::scope(|scope| {
            // This thread interrupts the readers, some of which are other processes: the rank may be waiting for one of them.
            let watch = scope.spawn(move || {
                while !is_over.load(Relaxed) {
                    is_over.fetch_or(is_interrupted(), Relaxed);
                    thread::park_timeout(GLANCE);
                }
            });
            let _end =
                TrainingEnd { is_over: Arc::clone(&self.is_training_over), watch: watch.thread().clone() };
            self.epochs()
        })
    }

    fn epochs(&mut self) -> Result<()> {
        let mut readers = SplitReaders::default();
        for epoch in 1..=self.workload.train.epochs {
            let mut timings = EpochTimings { epoch, start_s: self.clock.now_s(), ..EpochTimings::default() };
            let before = self.tiers.map(Tiered::stats);
            let done = self.epoch(epoch, &mut readers, &mut timings);
            timings.end_s = self.clock.now_s();
            let served = self.tiers.zip(before).map(|(tiers, before)| tiers.stats().since(&before));
            timings.tiers = served.as_ref().map(tier_counts::counts).unwrap_or_default();
            self.trace_span("epoch", "train", timings.start_s, json!({ "epoch": epoch }));
            self.timings.epochs.push(timings);
            match done {
                Err(error) if is_interruption(&error) || self.is_over() => return Ok(()),
                done => done?,
            }
        }
        Ok(())
    }

    fn epoch(&mut self, epoch: u32, readers: &mut SplitReaders, timings: &mut EpochTimings) -> Result<()> {
        self.prepare_cache()?;
        timings.start_s = self.clock.now_s();
        self.train_epoch(epoch, readers, timings)?;
        let evaluation = self.workload.evaluation;
        let is_due = epoch >= evaluation.after_epoch
            && (epoch - evaluation.after_epoch).is_multiple_of(evaluation.epochs_between.max(1));
        if self.workload.phases.evaluate && is_due {
            let mut block = BlockTimings::default();
            let done = self.eval_epoch(epoch, readers, &mut block);
            timings.evaluation = Some(block);
            done?;
        }
        if !order::workers_persist(self.workload) {
            *readers = SplitReaders::default();
        }
        Ok(())
    }

    fn train_epoch(
        &mut self,
        epoch: u32,
        readers: &mut SplitReaders,
        timings: &mut EpochTimings,
    ) -> Result<()> {
        let between = self.workload.checkpoint.steps_between.filter(|_| self.workload.phases.checkpoint);
        // Of a shuffle of many samples the time is none of the storage's.
        let batches = self.epoch_order(Split::Train, epoch)?;
        let mut block = BlockTimings { start_s: self.clock.now_s(), ..BlockTimings::default() };
        let begun = self.begin(Split::Train, epoch, batches, readers);
        let mut steps = begun.inspect_err(|_| {
            block.end_s = self.clock.now_s();
            timings.blocks.push(std::mem::take(&mut block));
        })?;
        let bar = self.progress.steps(steps.of_any_rank(), "train", epoch, self.workload.train.epochs);
        for step in 0..steps.of_any_rank() {
            let place = StepPlace { split: Split::Train, epoch, step };
            let done = self.step(&mut steps, place, self.workload.train.compute, &mut block);
            block.end_s = self.clock.now_s();
            let is_due = between.is_some_and(|between| (step + 1).is_multiple_of(between.max(1)));
            if is_due || done.is_err() {
                timings.blocks.push(std::mem::take(&mut block));
            }
            done?;
            bar.add(1);
            if is_due {
                self.checkpoint(epoch, step + 1, &mut timings.checkpoints)?;
                block.start_s = self.clock.now_s();
                block.end_s = block.start_s;
            }
        }
        if !block.steps.is_empty() || timings.blocks.is_empty() {
            timings.blocks.push(block);
        }
        readers.train.held = std::mem::take(&mut steps.held);
        let spec = &self.workload.checkpoint;
        let is_due = epoch >= spec.after_epoch
            && (epoch - spec.after_epoch).is_multiple_of(spec.epochs_between.max(1));
        if self.workload.phases.checkpoint && between.is_none() && is_due {
            self.checkpoint(epoch, steps.of_any_rank(), &mut timings.checkpoints)?;
        }
        Ok(())
    }

    fn eval_epoch(&mut self, epoch: u32, readers: &mut SplitReaders, block: &mut BlockTimings) -> Result<()> {
        let batches = self.epoch_order(Split::Eval, epoch)?;
        block.start_s = self.clock.now_s();
        block.end_s = block.start_s;
        let mut steps = self.begin(Split::Eval, epoch, batches, readers)?;
        let bar = self.progress.steps(steps.of_any_rank(), "evaluate", epoch, self.workload.train.epochs);
        for step in 0..steps.of_any_rank() {
            let place = StepPlace { split: Split::Eval, epoch, step };
            let done = self.step(&mut steps, place, self.workload.evaluation.compute, block);
            block.end_s = self.clock.now_s();
            done?;
            bar.add(1);
        }
        readers.eval.held = steps.held;
        Ok(())
    }

    /// Begins to read `batches`, which are those of an epoch.
    fn begin(
        &mut self,
        split: Split,
        epoch: u32,
        batches: EpochOrder,
        readers: &mut SplitReaders,
    ) -> Result<EpochSteps> {
        let count = batches.len();
        let reader = self.reader(split, readers)?;
        let of_ranks = Arc::new(self.rank_orders(split, &batches, reader.is_together())?);
        let (preprocess, seed) = (self.workload.reader.preprocess, self.workload.train.seed);
        let of_samples = (preprocess, seed.wrapping_add(epoch));
        let is_over = Arc::clone(&self.is_training_over);
        let maker = StepMaker::new(Arc::clone(&reader), batches, Arc::clone(&of_ranks), of_samples, is_over);
        let maker = Arc::new(maker);
        let threads = self.workload.reader.read_threads.max(1) as usize;
        let ahead = usize::try_from(order::read_ahead(self.workload)).unwrap_or(usize::MAX);
        let options = Options {
            batch_size: 1,
            shuffle: Shuffle::None,
            tail: Some(Tail::Short),
            read_threads: Some(threads),
            prefetch: ahead.saturating_sub(threads).max(1),
            ..Options::default()
        };
        let loader = Loader::of_maker(Arc::clone(&maker) as _, options)?;
        let run = loader.start()?;
        let held = std::mem::take(&mut readers.of(split).held);
        Ok(EpochSteps { maker, loader, run, count, of_ranks, reader, held })
    }

    /// What this rank has to know of the steps of others: they wait for each other in training, and wherever they read together.
    fn rank_orders(&self, split: Split, batches: &EpochOrder, is_together: bool) -> Result<RankOrders> {
        if !is_together && (self.comm.size() == 1 || split == Split::Eval) {
            return Ok(RankOrders::alone(batches.len()));
        }
        let stop = || self.check();
        let wait = Wait::while_ranks_live();
        let wait = if is_together { wait } else { wait.interrupted_by(&stop) };
        RankOrders::gather(self.comm, batches, is_together, &wait)
    }

    fn reader(&mut self, split: Split, readers: &mut SplitReaders) -> Result<Arc<dyn StepReader>> {
        let slot = &mut readers.of(split).reader;
        if let Some(reader) = slot {
            return Ok(Arc::clone(reader));
        }
        let reader: Arc<dyn StepReader> = match self.options.engine {
            _ if !self.has_input() => {
                let plan = dataset_files::forebay_plan(self.workload, split);
                Arc::new(SyntheticReader::new(plan.sample_len, plan.threads, plan.memory))
            }
            EngineName::Hdf5 => {
                let mut plan = dataset_files::hdf5_plan(self.workload, split)?;
                plan.setup.mpi_io = self.mpi_io()?;
                plan.setup.keeps_open &= !plan.setup.mpi_io.is_some_and(MpiIo::is_together);
                let environment = self.options.environment.of_rank(self.at().rank, plan.workers);
                Arc::new(Hdf5StepReader::start(plan, &self.options.worker, &environment)?)
            }
            EngineName::Forebay if self.workload.hdf5.subfiling => {
                let error = Error::unsupported("engine forebay reads no files of HDF5's subfiling driver");
                return Err(error.hint("use --engine hdf5"));
            }
            EngineName::Forebay => {
                let plan = dataset_files::forebay_plan(self.workload, split);
                // Its threads are of one process, and share a file.
                let environment = self.options.environment.of_rank(self.at().rank, 1).of_worker(0);
                open_reader(&plan, self.origins, environment.log_vfd.as_deref())?
            }
        };
        *slot = Some(Arc::clone(&reader));
        self.reads_with = reader.describe();
        Ok(reader)
    }

    /// One step: the batch, the computation, and in training the barrier that stands for the all-reduce.
    fn step(
        &mut self,
        steps: &mut EpochSteps,
        place: StepPlace,
        compute: TimeDistribution,
        block: &mut BlockTimings,
    ) -> Result<()> {
        let is_together = steps.reader.is_together();
        self.agree_to_go_on(is_together)?;
        if place.step >= steps.count {
            steps.reader.take_part(&steps.of_ranks.of_step(place.step))?;
            return self.end_step(place.split, is_together).map(drop);
        }
        let (began, start_s) = (Instant::now(), self.clock.now_s());
        let Some(times) = self.times_of(steps, place.step, is_together)? else { return Ok(()) };
        let load_s = began.elapsed().as_secs_f64();
        let compute_s = self.compute(compute);
        let barrier_s = self.end_step(place.split, is_together)?;
        // Of a step that was interrupted the times are too short.
        if !is_together {
            self.check()?;
        }
        for took_ns in times.samples.iter().map(|sample| sample.metadata_ns + sample.read_ns) {
            // What is in memory was not read.
            if took_ns > 0 {
                block.latency.record(Duration::from_nanos(took_ns));
            }
        }
        let sum = |of: fn(&crate::reading::sample_reader::SampleTimes) -> u64| {
            times.samples.iter().map(of).sum::<u64>()
        };
        let timings = StepTimings {
            load_s,
            compute_s,
            barrier_s,
            metadata_s: sum(|times| times.metadata_ns) as f64 / 1e9,
            read_s: sum(|times| times.read_ns) as f64 / 1e9,
            preprocess_s: times.preprocess_s,
            samples: u32::try_from(times.samples.len()).unwrap_or(u32::MAX),
            bytes: sum(|times| times.bytes),
        };
        block.steps.push(timings);
        self.trace_step(place, start_s, &timings, &times);
        Ok(())
    }

    /// What the batch of `step` took, once it is there; nothing where there is none.
    ///
    /// scikit-learn has all samples in memory before the first step, and reads none again.
    fn times_of(
        &mut self,
        steps: &mut EpochSteps,
        step: u64,
        is_together: bool,
    ) -> Result<Option<BatchTimes>> {
        // Ranks that read together take part in each other's steps.
        if self.workload.framework != Framework::SkLearn || is_together {
            return self.next_batch(steps, step, is_together);
        }
        for step in steps.held.len() as u64..steps.count {
            let Some(times) = self.next_batch(steps, step, is_together)? else { break };
            steps.held.push(times);
        }
        let held = usize::try_from(step).ok().and_then(|step| steps.held.get_mut(step));
        Ok(held.map(|times| {
            let again = times.in_memory();
            std::mem::replace(times, again)
        }))
    }

    /// Waits for the batch of `step`.
    fn next_batch(
        &mut self,
        steps: &mut EpochSteps,
        step: u64,
        is_together: bool,
    ) -> Result<Option<BatchTimes>> {
        let batch = loop {
            if !is_together {
                self.check()?;
            }
            match steps.loader.next(&mut steps.run, GLANCE)? {
                Next::Batch(batch) => break batch,
                Next::Waiting => {}
                Next::End => return Ok(None),
            }
        };
        if let Some(digest) = &mut self.digest {
            digest.add(&batch);
        }
        Ok(Some(steps.maker.take_times(step)))
    }

    /// An error on every rank when the user wants an end of ranks that read together: one of them alone would be waited for.
    fn agree_to_go_on(&self, is_together: bool) -> Result<()> {
        if !is_together || self.comm.size() == 1 {
            return self.check();
        }
        let interrupted_ranks =
            self.comm.all_gather(vec![u8::from(self.is_over())], &Wait::while_ranks_live())?;
        if interrupted_ranks.iter().all(|is_over| *is_over == [0]) {
            return Ok(());
        }
        self.has_agreed_to_end.store(true, Relaxed);
        Err(interrupted())
    }

    /// The wait for all ranks after a training step, in seconds.
    fn end_step(&self, split: Split, is_together: bool) -> Result<f64> {
        match (split, is_together) {
            (Split::Train, false) => self.barrier(),
            (Split::Train, true) => self.barrier_to_the_end(),
            (Split::Eval, _) => Ok(0.0),
        }
    }
}
